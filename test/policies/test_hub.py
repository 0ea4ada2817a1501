# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of a model hub and what is fetched of it, against a stand-in on this machine."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_standin import COMMIT, Hub, serve_hub, use_hub, use_own_cache
from huggingface_hub import hf_hub_download
from safetensors import safe_open
from safetensors.numpy import save_file

from openpi_policy_ros.errors import CheckpointError, PolicyRosError
from openpi_policy_ros.policies.checkpoint_view import view_model
from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.loading import load_policy

REPOSITORY = 'someone/tiny'
NEVER = ('README.md', 'optimizer.pt', 'pytorch_model.bin', 'other.safetensors', 'videos/a.json')


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a hub cache of the test's own, empty."""
    return use_own_cache(monkeypatch, tmp_path)


@pytest.fixture
def repository(copy: Path) -> Path:
    """Return the folder of the repository: a small checkpoint and what else lies in such places."""
    for name in NEVER:
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text('{}')
    return copy


@pytest.fixture
def hub(repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Return a hub that serves ``repository``."""
    with serve_hub(REPOSITORY, repository) as running:
        use_hub(monkeypatch, running.url)
        yield running


def only_asked_by_range(hub: Hub, name: str = WEIGHTS) -> bool:
    ranges = hub.fetched(name)
    return bool(ranges) and all(asked.startswith('bytes=0-') for asked in ranges)


def shard(folder: Path, *names: str) -> dict[str, str]:
    """Spread the weights over files called ``names``; return the index."""
    with safe_open(str(folder / WEIGHTS), framework='np') as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    (folder / WEIGHTS).unlink()
    placed = {tensor: names[i % len(names)] for i, tensor in enumerate(sorted(tensors))}
    for name in names:
        save_file({t: tensors[t] for t, home in placed.items() if home == name}, folder / name)
    write_index(folder, placed)
    return placed


def write_index(folder: Path, placed: dict[str, str]) -> None:
    text = json.dumps({'metadata': {}, 'weight_map': placed})
    (folder / f'{WEIGHTS}.index.json').write_text(text)


# What is fetched


def test_a_hub_checkpoint_is_served_from_what_it_needs_and_no_more(
    hub: Hub, repository: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, 'openpi_policy_ros')
    policy = load_policy(REPOSITORY, policy='pi0')
    here = load_policy(str(repository), policy='pi0')
    assert (policy.spec.model, policy.spec.revision) == (REPOSITORY, COMMIT)
    assert policy.spec.weights_hash == here.spec.weights_hash
    assert hub.fetched(WEIGHTS).count('') == 1
    for name in NEVER:
        assert not any(path.endswith(name) for _, path, _ in hub.requests)
    assert f'revision main is commit {COMMIT} today' in caplog.text
    told = [record.message for record in caplog.records if 'downloading' in record.message]
    assert len(told) == 1
    assert told[0].startswith(f'{REPOSITORY}: downloading 1 file of weights, 1.73 MB, to ')


def test_a_refused_checkpoint_is_never_fetched_whole(hub: Hub, repository: Path) -> None:
    config = json.loads((repository / 'config.json').read_text())
    config['chunk_size'] = 'fifty'
    (repository / 'config.json').write_text(json.dumps(config))
    for policy in (None, 'pi0'):
        with pytest.raises(PolicyRosError, match='fifty'):
            load_policy(REPOSITORY, policy=policy)
    assert not [asked for asked in hub.fetched(WEIGHTS) if not asked]


def test_what_only_the_headers_tell_refuses_without_fetching_the_weights(
    hub: Hub, repository: Path
) -> None:
    with safe_open(str(repository / WEIGHTS), framework='np') as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del tensors[next(name for name in tensors if 'action_in_proj.weight' in name)]
    save_file(tensors, repository / WEIGHTS)
    with pytest.raises(PolicyRosError, match='action_in_proj'):
        load_policy(REPOSITORY, policy='pi0')
    assert only_asked_by_range(hub)


def test_a_second_start_fetches_nothing_again(hub: Hub) -> None:
    view_model(REPOSITORY).fetch(WEIGHTS)
    hub.requests.clear()
    view = view_model(REPOSITORY, COMMIT)
    view.header(WEIGHTS)
    view.fetch(WEIGHTS)
    assert [path for _, path, _ in hub.requests] == [f'/api/models/{REPOSITORY}/revision/{COMMIT}']


@pytest.mark.parametrize('revision', ['main', 'v1.0', 'refs/pr/1', COMMIT])
def test_a_branch_a_tag_and_a_commit_are_the_same_files(hub: Hub, revision: str) -> None:
    hub.revisions |= {'v1.0', 'refs/pr/1'}
    view = view_model(REPOSITORY, revision)
    view.fetch(WEIGHTS)
    assert view.located.revision == COMMIT
    assert (view.located.directory / WEIGHTS).stat().st_size == view.sizes[WEIGHTS]
    # Whatever it was called: it is fetched by its commit.
    assert not any(
        path.endswith(WEIGHTS) and f'/resolve/{COMMIT}/' not in path
        for method, path, _ in hub.requests
        if '/resolve/' in path
    )


def test_a_branch_that_moves_between_choosing_and_loading_changes_nothing(hub: Hub) -> None:
    load_policy(REPOSITORY)
    listings = [path for _, path, _ in hub.requests if path.startswith('/api/models/')]
    assert listings == [
        f'/api/models/{REPOSITORY}',
        f'/api/models/{REPOSITORY}/revision/{COMMIT}',
    ]


def test_an_unknown_revision_is_named(hub: Hub) -> None:
    with pytest.raises(CheckpointError, match=r"revision 'v9': RevisionNotFoundError") as caught:
        load_policy(REPOSITORY, revision='v9')
    assert 'a branch, a tag or a commit' in caught.value.remedy


# Shards


def test_shards_are_found_by_the_index_and_their_headers_are_one(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = view_model(str(repository)).header(WEIGHTS)
    shard(repository, 'part-a.safetensors', 'part-b.safetensors')
    assert view_model(str(repository)).header(WEIGHTS) == whole
    with serve_hub(REPOSITORY, repository) as hub:
        use_hub(monkeypatch, hub.url)
        view = view_model(REPOSITORY)
        assert view.header(WEIGHTS) == whole
        assert view.weight_files(WEIGHTS) == ('part-a.safetensors', 'part-b.safetensors')
        for name in view.weight_files(WEIGHTS):
            assert only_asked_by_range(hub, name)
        view.fetch(WEIGHTS)
        assert view_model(str(view.located.directory)).header(WEIGHTS) == whole
        assert not hub.fetched('other.safetensors')
        spec = load_policy(REPOSITORY, policy='pi0', revision=COMMIT).spec
        assert spec.weights_hash == load_policy(str(repository), policy='pi0').spec.weights_hash


@pytest.mark.parametrize('on_hub', [False, True])
def test_an_index_that_is_wrong_is_refused_by_the_tensor_and_the_shard(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, on_hub: bool
) -> None:
    placed = shard(repository, 'part-a.safetensors', 'part-b.safetensors')
    tensor = next(name for name, home in placed.items() if home == 'part-a.safetensors')
    write_index(repository, {**placed, tensor: 'part-b.safetensors'})
    with serve_hub(REPOSITORY, repository) as hub:
        use_hub(monkeypatch, hub.url)
        with pytest.raises(CheckpointError) as caught:
            view_model(REPOSITORY if on_hub else str(repository)).header(WEIGHTS)
    assert tensor in caught.value.what
    assert 'part-b.safetensors' in caught.value.what


@pytest.mark.parametrize('on_hub', [False, True])
def test_a_shard_that_is_not_there_is_refused_by_its_name(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, on_hub: bool
) -> None:
    shard(repository, 'part-a.safetensors', 'part-b.safetensors')
    (repository / 'part-b.safetensors').unlink()
    with serve_hub(REPOSITORY, repository) as hub:
        use_hub(monkeypatch, hub.url)
        with pytest.raises(CheckpointError, match=r'part-b\.safetensors') as caught:
            view_model(REPOSITORY if on_hub else str(repository)).header(WEIGHTS)
    assert 'copy or download' in caught.value.remedy


# Weights that are damaged on the hub


@pytest.mark.parametrize('kept', [4, 200_000])
def test_weights_that_are_cut_short_on_the_hub_are_refused_unfetched(
    hub: Hub, repository: Path, kept: int
) -> None:
    content = (repository / WEIGHTS).read_bytes()
    (repository / WEIGHTS).write_bytes(content[:kept])
    with pytest.raises(CheckpointError, match=f'{WEIGHTS} of .* cannot be read') as caught:
        view_model(REPOSITORY).header(WEIGHTS)
    assert 'truncated' in caught.value.remedy
    assert only_asked_by_range(hub)


# Who may read it, and whether anyone answers


@pytest.mark.parametrize(
    ('status', 'code', 'says'),
    [
        (401, 'GatedRepo', 'accept the licence'),
        (403, 'GatedRepo', 'accept the licence'),
        (401, '', 'hf auth login'),
        (403, '', 'token that is valid'),
        (404, 'RepoNotFound', 'check the spelling'),
        (429, '', 'wait'),
        (500, '', 'trouble of its own'),
    ],
)
@pytest.mark.parametrize('path', ['/api/', f'/resolve/.*{WEIGHTS}'])
def test_what_the_hub_refuses_says_what_to_do(
    hub: Hub, status: int, code: str, says: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The client waits a while before it asks a busy hub again.
    monkeypatch.setattr('time.sleep', lambda seconds: None)
    hub.refuses.append((path, status, code))
    with pytest.raises(CheckpointError) as caught:
        view_model(REPOSITORY).fetch(WEIGHTS)
    assert REPOSITORY in caught.value.what
    assert str(status) in caught.value.what
    assert says in caught.value.remedy
    if code == 'GatedRepo':
        assert f'{hub.url}/{REPOSITORY}' in caught.value.remedy
        assert 'hf auth login' in caught.value.remedy


def test_a_token_is_sent_with_every_question(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('HF_TOKEN', 'hf_secret')
    view = view_model(REPOSITORY)
    view.header(WEIGHTS)
    view.fetch(WEIGHTS)
    asked = [path for _, path, _ in hub.requests if not path.startswith('/storage/')]
    assert len(hub.tokens) >= len(asked)
    assert set(hub.tokens) == {'Bearer hf_secret'}


@pytest.mark.parametrize('name', ['a--b/c', 'owner/name.git'])
def test_a_name_that_no_repository_has_is_refused_unasked(hub: Hub, name: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        view_model(name)
    assert 'spelling' in caught.value.remedy
    assert not hub.requests


def test_where_the_hub_does_not_answer_what_was_downloaded_is_served(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = load_policy(REPOSITORY)
    use_hub(monkeypatch, 'http://127.0.0.1:9')
    caplog.clear()
    again = load_policy(REPOSITORY)
    assert again.spec.weights_hash == first.spec.weights_hash
    assert again.spec.revision == COMMIT
    assert f'what was downloaded before is served: commit {COMMIT}' in caplog.text
    hub.refuses.append(('.', 503, ''))
    use_hub(monkeypatch, hub.url)
    assert load_policy(REPOSITORY, revision='main').spec.revision == COMMIT
    # Who may no longer read it is told so.
    hub.refuses[:] = [('.', 401, 'GatedRepo')]
    with pytest.raises(CheckpointError, match='GatedRepoError'):
        load_policy(REPOSITORY)


def test_a_hub_that_takes_the_call_and_says_nothing_is_not_waited_for(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_ETAG_TIMEOUT', 0.3)
    with socket.create_server(('127.0.0.1', 0)) as silent:
        use_hub(monkeypatch, f'http://127.0.0.1:{silent.getsockname()[1]}')
        with pytest.raises(CheckpointError, match='Timeout') as caught:
            load_policy(REPOSITORY)
    assert 'check the network' in caught.value.remedy


def test_what_is_no_hub_is_told(hub: Hub) -> None:
    hub.commit = '../../elsewhere'
    with pytest.raises(CheckpointError, match='its commit is') as caught:
        load_policy(REPOSITORY)
    assert 'HF_ENDPOINT' in caught.value.remedy


def test_where_the_hub_does_not_answer_and_nothing_is_here_that_is_told(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_hub(monkeypatch, 'http://127.0.0.1:9')
    with pytest.raises(CheckpointError, match=f'{REPOSITORY}.*ConnectError') as caught:
        load_policy(REPOSITORY)
    assert 'check the network' in caught.value.remedy


def test_offline_a_cached_snapshot_is_served_and_nobody_is_asked(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_policy(REPOSITORY)
    hub.requests.clear()
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    for revision in (None, 'main', COMMIT):
        again = load_policy(REPOSITORY, revision=revision)
        assert again.spec.weights_hash == first.spec.weights_hash
        assert again.spec.revision == COMMIT
    assert hub.requests == []


def test_offline_what_another_program_fetched_by_halves_is_refused(
    hub: Hub, repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ('config.json', WEIGHTS, 'tokenizer/tokenizer.json'):
        hf_hub_download(REPOSITORY, name)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    for policy in (None, 'pi0'):
        with pytest.raises(CheckpointError, match=r'without policy_preprocessor\.json') as caught:
            load_policy(REPOSITORY, policy=policy)
        assert 'HF_HUB_OFFLINE' in caught.value.remedy
    # Once it was asked, it is known what there is.
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', False)
    (repository / 'policy_preprocessor.json').unlink()
    (repository / 'policy_postprocessor.json').unlink()
    with serve_hub(REPOSITORY, repository) as now:
        use_hub(monkeypatch, now.url)
        view_model(REPOSITORY)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    assert WEIGHTS in view_model(REPOSITORY).sizes


def test_offline_a_name_that_no_repository_has_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    with pytest.raises(CheckpointError, match='a--b/c') as caught:
        view_model('a--b/c')
    assert 'spelling' in caught.value.remedy


def test_offline_without_a_snapshot_says_what_to_do(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    for revision in (None, 'v9', COMMIT):
        with pytest.raises(CheckpointError, match='HF_HUB_OFFLINE is set') as caught:
            load_policy(REPOSITORY, revision=revision)
        assert 'unset HF_HUB_OFFLINE once' in caught.value.remedy
    assert hub.requests == []


def test_offline_with_only_the_small_files_says_what_to_do(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    view_model(REPOSITORY)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', True)
    with pytest.raises(CheckpointError, match='holds no weights') as caught:
        load_policy(REPOSITORY, policy='pi0')
    assert 'HF_HUB_OFFLINE' in caught.value.remedy
    assert f'hf download {REPOSITORY} --revision {COMMIT}' in caught.value.remedy


def test_the_variables_that_users_set_are_heeded(
    hub: Hub, repository: Path, tmp_path: Path
) -> None:
    # A process of its own: the hub's client reads them when it is imported.
    program = (
        'from openpi_policy_ros.policies.loading import load_policy\n'
        f'print(load_policy({REPOSITORY!r}, policy="pi0").spec.revision)\n'
    )
    env = {**os.environ, 'HF_ENDPOINT': hub.url, 'HF_HOME': str(tmp_path / 'home')}
    env.pop('HF_HUB_OFFLINE', None)
    for settings in ({}, {'HF_HUB_OFFLINE': '1', 'HF_ENDPOINT': 'http://127.0.0.1:9'}):
        done = subprocess.run(
            [sys.executable, '-c', program],
            env={**env, **settings},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout == f'{COMMIT}\n', done.stderr
    assert (tmp_path / 'home' / 'hub').is_dir()
