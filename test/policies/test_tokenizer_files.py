# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a tokenizer is taken from, and what is said where there is none."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_standin import COMMIT, Hub, serve_hub, use_hub, use_own_cache
from tokenizers import Tokenizer

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.checkpoint_files import Located
from openpi_policy_ros.policies.tokenizer_files import (
    FILE,
    PALIGEMMA,
    TokenizerElsewhere,
    load_tokenizer,
)

ON_HUB = COMMIT
OTHER = 'someone/words'
REVISIONS = pytest.mark.parametrize('revision', ['', ON_HUB])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a hub cache of the test's own, empty."""
    return use_own_cache(monkeypatch, tmp_path)


@pytest.fixture
def hub(golden: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Return a hub that serves a tokenizer as PaliGemma's."""
    with serve_hub(PALIGEMMA, golden / 'tokenizer') as running:
        use_hub(monkeypatch, running.url)
        # The client waits a while before it asks a busy hub again.
        monkeypatch.setattr('time.sleep', lambda seconds: None)
        yield running


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Refuse every connection, and fail where one was tried."""
    attempts: list[object] = []

    def refuse(*args: object, **options: object) -> None:
        attempts.append(args)
        raise OSError('no network in this test')

    for name in ('connect', 'connect_ex'):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, 'getaddrinfo', refuse)
    yield
    assert attempts == []


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the directory of a checkpoint without a tokenizer."""
    folder = tmp_path / 'checkpoint'
    folder.mkdir()
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, an empty one."""
    folder = tmp_path / 'here'
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def put(golden: Path, path: Path) -> Path:
    """Put a tokenizer at ``path``; return it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(golden / 'tokenizer' / FILE, path))


def put_into_cache(cache: Path, golden: Path, repository: str) -> Path:
    """Put a tokenizer where the hub's client keeps what it downloaded; return its path."""
    folder = cache / f'models--{repository.replace("/", "--")}'
    (folder / 'refs').mkdir(parents=True)
    (folder / 'refs' / 'main').write_text(COMMIT)
    return put(golden, folder / 'snapshots' / COMMIT / FILE)


def put_sentencepiece(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b'\n\x0e\n\x05<pad>\x15\x00\x00\x00\x00\x18\x03')
    return path


# Named in the policy file


def test_a_file_that_is_named_is_read_whatever_it_is_called(
    golden: Path, directory: Path, tmp_path: Path
) -> None:
    put(golden, directory / FILE)
    path = put(golden, tmp_path / 'mine' / 'words.json')
    tokenizer, source = load_tokenizer(str(path), Located(directory))
    assert source == str(path)
    reference = Tokenizer.from_file(str(golden / 'tokenizer' / FILE))
    assert tokenizer.to_str() == reference.to_str()


@pytest.mark.parametrize(('named', 'lies'), [('w.json', 'w.json'), ('words', f'words/{FILE}')])
def test_a_relative_name_is_sought_here_and_then_beside_the_policy_file(
    golden: Path, directory: Path, here: Path, tmp_path: Path, named: str, lies: str
) -> None:
    policy_file = str(tmp_path / 'deploy' / 'pi0.yaml')
    beside = put(golden, tmp_path / 'deploy' / lies)
    _, source = load_tokenizer(named, Located(directory), policy_file=policy_file)
    assert source == str(beside)
    with pytest.raises(CheckpointError, match='neither a file nor a directory'):
        load_tokenizer(named, Located(directory))
    put(golden, here / lies)
    _, source = load_tokenizer(named, Located(directory), policy_file=policy_file)
    assert source == lies


@pytest.mark.parametrize('lies', ['words.json', FILE])
def test_the_users_home_may_be_named_by_a_tilde(
    golden: Path, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lies: str
) -> None:
    monkeypatch.setenv('HOME', str(tmp_path))
    path = put(golden, tmp_path / 'words' / lies)
    named = '~/words' if lies == FILE else '~/words/words.json'
    assert load_tokenizer(named, Located(directory))[1] == str(path)
    # As training on this machine may write it into a checkpoint.
    assert load_tokenizer(None, Located(directory), fallback=named)[1] == str(path)


@REVISIONS
def test_a_hub_id_that_is_named_is_fetched_before_the_checkpoints_own(
    golden: Path, directory: Path, here: Path, hub: Hub, cache: Path, revision: str
) -> None:
    put(golden, directory / FILE)
    _, source = load_tokenizer(PALIGEMMA, Located(directory, revision), fallback=OTHER)
    assert Path(source).is_relative_to(cache)
    assert f'/{PALIGEMMA}/resolve/main/{FILE}' in {path for _, path, _ in hub.requests}


@pytest.mark.usefixtures('no_network')
def test_a_directory_that_is_called_like_a_hub_id_is_taken_for_what_it_is(
    golden: Path, directory: Path, here: Path, cache: Path
) -> None:
    put_into_cache(cache, golden, OTHER)
    (here / OTHER).mkdir(parents=True)
    with pytest.raises(CheckpointError, match=f"'{OTHER}' is neither a file nor") as caught:
        load_tokenizer(OTHER, Located(directory))
    assert FILE in caught.value.what
    put(golden, here / OTHER / FILE)
    assert load_tokenizer(OTHER, Located(directory))[1] == f'{OTHER}/{FILE}'


@pytest.mark.usefixtures('no_network')
@pytest.mark.parametrize('named', ['/data/none/tokenizer.json', './none', 'none', 'a/b/c'])
@REVISIONS
def test_a_name_that_nothing_has_is_refused_though_the_checkpoint_has_its_own(
    golden: Path, directory: Path, here: Path, named: str, revision: str
) -> None:
    put(golden, directory / FILE)
    with pytest.raises(CheckpointError, match=f"'{named}' is neither a file nor") as caught:
        load_tokenizer(named, Located(directory, revision))
    assert 'owner/repository' in str(caught.value)
    assert caught.value.remedy == 'correct tokenizer in the policy file'


# The checkpoint's own


@pytest.mark.usefixtures('no_network')
@REVISIONS
def test_the_checkpoints_own_comes_before_what_it_names_its_folder_before_itself(
    golden: Path, directory: Path, cache: Path, revision: str
) -> None:
    put_into_cache(cache, golden, PALIGEMMA)
    located = Located(directory, revision)
    for lies in (FILE, f'tokenizer/{FILE}'):
        path = put(golden, directory / lies)
        for fallback in (None, PALIGEMMA, str(golden / 'tokenizer')):
            assert load_tokenizer(None, located, fallback=fallback)[1] == str(path)


@pytest.mark.parametrize(
    'content', [b'', b'{', b'[]', b'{"version": "1.0"}', b'version https://git-lfs', b'\xff\xfe']
)
def test_a_damaged_tokenizer_is_refused_by_its_path(directory: Path, content: bytes) -> None:
    (directory / FILE).write_bytes(content)
    with pytest.raises(CheckpointError, match=r'cannot be read: \w+') as caught:
        load_tokenizer(None, Located(directory))
    assert str(directory / FILE) in caught.value.what
    assert 'copy or download it again' in caught.value.remedy
    assert 'tokenizer in the policy file' in caught.value.remedy


def test_a_damaged_tokenizer_is_not_replaced_by_the_next(golden: Path, directory: Path) -> None:
    put(golden, directory / FILE)
    content = put(golden, directory / 'tokenizer' / FILE).read_bytes()
    (directory / 'tokenizer' / FILE).write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match=f'tokenizer/{FILE} cannot be read'):
        load_tokenizer(None, Located(directory))


# What the checkpoint names, for want of its own


@pytest.mark.usefixtures('no_network')
@pytest.mark.parametrize(
    ('fallback', 'repository'), [(None, PALIGEMMA), ('', PALIGEMMA), (OTHER, OTHER)]
)
def test_a_local_checkpoint_takes_what_it_names_from_the_hubs_cache_without_asking(
    golden: Path, directory: Path, cache: Path, fallback: str | None, repository: str
) -> None:
    paths = {name: put_into_cache(cache, golden, name) for name in (PALIGEMMA, OTHER)}
    for fetch in (True, False):
        _, source = load_tokenizer(None, Located(directory), fallback=fallback, fetch=fetch)
        assert source == str(paths[repository])


@pytest.mark.parametrize('fetch', [True, False])
def test_a_local_checkpoint_without_a_cached_one_is_refused_with_what_to_do(
    directory: Path, hub: Hub, fetch: bool
) -> None:
    with pytest.raises(CheckpointError, match='hub cache, and a checkpoint in a dir') as caught:
        load_tokenizer(None, Located(directory), fetch=fetch)
    # Loading would not ask the hub either: nothing is left for then.
    assert not isinstance(caught.value, TokenizerElsewhere)
    assert PALIGEMMA in caught.value.what
    assert f'accept the licence on its page, {hub.url}/{PALIGEMMA}' in caught.value.remedy
    assert 'hf auth login' in caught.value.remedy
    assert f'hf download {PALIGEMMA} {FILE}' in caught.value.remedy
    assert 'local copy as tokenizer in the policy file' in caught.value.remedy
    assert hub.requests == []


@REVISIONS
def test_another_hub_id_that_the_checkpoint_names_is_not_replaced_by_paligemma(
    golden: Path, directory: Path, hub: Hub, cache: Path, revision: str
) -> None:
    put_into_cache(cache, golden, PALIGEMMA)
    with pytest.raises(CheckpointError, match=f'tokenizer {OTHER} is not to be had') as caught:
        load_tokenizer(None, Located(directory, revision), fallback=OTHER)
    assert f'hf download {OTHER} {FILE}' in caught.value.remedy


def test_what_is_known_to_be_missing_on_the_hub_is_not_cached(directory: Path, cache: Path) -> None:
    folder = cache / f'models--{OTHER.replace("/", "--")}'
    for name, content in (('refs/main', COMMIT), (f'.no_exist/{COMMIT}/{FILE}', '')):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(content)
    with pytest.raises(CheckpointError, match=OTHER):
        load_tokenizer(None, Located(directory), fallback=OTHER)
    with pytest.raises(TokenizerElsewhere, match=OTHER):
        load_tokenizer(None, Located(directory, ON_HUB), fallback=OTHER, fetch=False)


@pytest.mark.usefixtures('no_network')
@pytest.mark.parametrize('name', ['words', 'words/words.json'])
def test_a_path_that_a_local_checkpoint_names_is_taken(
    golden: Path, directory: Path, tmp_path: Path, cache: Path, name: str
) -> None:
    put_into_cache(cache, golden, PALIGEMMA)
    named = tmp_path / name
    path = put(golden, named if named.suffix else named / FILE)
    assert load_tokenizer(None, Located(directory), fallback=str(named))[1] == str(path)


def test_a_path_that_the_checkpoint_names_and_is_not_here_is_refused_not_replaced(
    golden: Path, directory: Path, cache: Path
) -> None:
    put_into_cache(cache, golden, PALIGEMMA)
    with pytest.raises(CheckpointError, match='/data/other/tokenizer') as caught:
        load_tokenizer(None, Located(directory), fallback='/data/other/tokenizer')
    assert PALIGEMMA in caught.value.remedy
    # A stranger's path is none of this machine's, whatever lies there.
    with pytest.raises(CheckpointError, match='is not here'):
        load_tokenizer(None, Located(directory, ON_HUB), fallback=str(golden / 'tokenizer'))


@pytest.mark.parametrize('named', ['words', f'./words/{FILE}'])
def test_a_relative_path_that_the_checkpoint_names_is_refused_whatever_lies_here(
    golden: Path, directory: Path, here: Path, named: str
) -> None:
    put(golden, here / 'words' / FILE)
    with pytest.raises(CheckpointError, match=f"'{named}', is not here"):
        load_tokenizer(None, Located(directory), fallback=named)


# From the hub


def test_a_checkpoint_of_the_hub_fetches_paligemmas_once_and_then_has_it(
    golden: Path, directory: Path, hub: Hub, cache: Path
) -> None:
    tokenizer, source = load_tokenizer(None, Located(directory, ON_HUB))
    assert Path(source).is_relative_to(cache)
    reference = Tokenizer.from_file(str(golden / 'tokenizer' / FILE))
    assert tokenizer.to_str() == reference.to_str()
    load_tokenizer(None, Located(directory, ON_HUB))
    gets = [path for method, path, _ in hub.requests if method == 'GET']
    assert gets == [f'/{PALIGEMMA}/resolve/main/{FILE}']
    hub.requests.clear()
    for located in (Located(directory), Located(directory, ON_HUB)):
        assert load_tokenizer(None, located, fetch=False)[1] == source
    assert hub.requests == []


def test_a_checkpoint_of_the_hub_fetches_the_one_that_it_names(
    golden: Path, directory: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into_cache(cache, golden, PALIGEMMA)
    with serve_hub(OTHER, golden / 'tokenizer') as hub:
        use_hub(monkeypatch, hub.url)
        _, source = load_tokenizer(None, Located(directory, ON_HUB), fallback=OTHER)
    assert Path(source).is_relative_to(cache / f'models--{OTHER.replace("/", "--")}')


@pytest.mark.parametrize('named', [None, OTHER])
def test_what_must_not_be_fetched_now_is_elsewhere(
    golden: Path, directory: Path, here: Path, hub: Hub, cache: Path, named: str | None
) -> None:
    put_into_cache(cache, golden, PALIGEMMA)
    located = Located(directory, ON_HUB)
    with pytest.raises(TokenizerElsewhere) as caught:
        load_tokenizer(named, located, fallback=OTHER, fetch=False)
    assert caught.value.what == OTHER
    path = put_into_cache(cache, golden, OTHER)
    assert load_tokenizer(named, located, fallback=OTHER, fetch=False)[1] == str(path)
    assert hub.requests == []


# The hub does not give it


@pytest.mark.parametrize(
    ('status', 'code', 'says'),
    [
        (401, 'GatedRepo', 'accept the licence'),
        (403, 'GatedRepo', 'accept the licence'),
        (401, '', 'log in'),
        (404, 'RepoNotFound', 'check the spelling'),
        (404, 'EntryNotFound', 'check the spelling'),
        (500, '', 'try again later'),
    ],
)
def test_a_hub_that_refuses_it_says_what_to_do(
    hub: Hub, directory: Path, status: int, code: str, says: str
) -> None:
    hub.refuses.append((FILE, status, code))
    with pytest.raises(CheckpointError, match=f'{PALIGEMMA} is not to be had') as caught:
        load_tokenizer(None, Located(directory, ON_HUB))
    # What the hub said, not only that nothing was cached.
    assert str(status) in caught.value.what
    assert 'LocalEntryNotFound' not in caught.value.what
    assert says in caught.value.remedy
    assert (f'licence on its page, {hub.url}/{PALIGEMMA}' in caught.value.remedy) == (
        code == 'GatedRepo'
    )
    assert f'hf download {PALIGEMMA} {FILE}' in caught.value.remedy
    assert 'local copy as tokenizer in the policy file' in caught.value.remedy


@pytest.mark.usefixtures('hub')
@pytest.mark.parametrize('offline', [False, True])
def test_where_nobody_answers_what_was_downloaded_serves_or_that_is_told(
    golden: Path, directory: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, offline: bool
) -> None:
    use_hub(monkeypatch, 'http://127.0.0.1:9')
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', offline)
    with pytest.raises(CheckpointError, match=f'{PALIGEMMA} is not to be had') as caught:
        load_tokenizer(None, Located(directory, ON_HUB))
    assert ('OfflineModeIsEnabled' if offline else 'ConnectError') in caught.value.what
    says = 'unset HF_HUB_OFFLINE once' if offline else 'check the network'
    assert says in caught.value.remedy
    path = put_into_cache(cache, golden, PALIGEMMA)
    assert load_tokenizer(None, Located(directory, ON_HUB))[1] == str(path)


def test_a_name_that_no_repository_has_is_refused_by_its_spelling(
    directory: Path, here: Path, hub: Hub
) -> None:
    with pytest.raises(CheckpointError, match='tokenizer a--b/c is not to be had') as caught:
        load_tokenizer('a--b/c', Located(directory))
    assert 'check the spelling' in caught.value.remedy
    assert hub.requests == []


# SentencePiece


@pytest.mark.usefixtures('no_network')
@pytest.mark.parametrize(
    'lies', ['tokenizer.model', 'paligemma_tokenizer.model', 'tokenizer/tokenizer.model']
)
@REVISIONS
def test_a_sentencepiece_model_in_the_checkpoint_is_refused_though_paligemmas_is_cached(
    golden: Path, directory: Path, cache: Path, lies: str, revision: str
) -> None:
    put_into_cache(cache, golden, PALIGEMMA)
    path = put_sentencepiece(directory / lies)
    with pytest.raises(CheckpointError, match='is a SentencePiece model') as caught:
        load_tokenizer(None, Located(directory, revision))
    assert str(path) in caught.value.what
    assert f'name {PALIGEMMA} as tokenizer in the policy file' in caught.value.remedy
    assert f'hf download {PALIGEMMA} {FILE}' in caught.value.remedy
    assert 'save_pretrained' in caught.value.remedy


@pytest.mark.parametrize('named', ['words', 'words/tokenizer.model', 'words/any.model'])
def test_a_sentencepiece_model_that_is_named_is_refused(
    golden: Path, directory: Path, tmp_path: Path, named: str
) -> None:
    put(golden, directory / FILE)
    for name in ('tokenizer.model', 'any.model'):
        put_sentencepiece(tmp_path / 'words' / name)
    path = named if named.endswith('.model') else 'words/tokenizer.model'
    with pytest.raises(CheckpointError, match=f'{path} is a SentencePiece model'):
        load_tokenizer(str(tmp_path / named), Located(directory))


def test_a_sentencepiece_model_where_the_checkpoint_points_is_refused(
    directory: Path, tmp_path: Path
) -> None:
    path = put_sentencepiece(tmp_path / 'words' / 'tokenizer.model')
    with pytest.raises(CheckpointError, match=f'{path} is a SentencePiece model'):
        load_tokenizer(None, Located(directory), fallback=str(path.parent))


def test_a_sentencepiece_model_beside_a_readable_tokenizer_is_no_matter(
    golden: Path, directory: Path
) -> None:
    put_sentencepiece(directory / 'tokenizer' / 'tokenizer.model')
    path = put(golden, directory / FILE)
    assert load_tokenizer(None, Located(directory))[1] == str(path)
    assert load_tokenizer(str(directory), Located(directory))[1] == str(path)


@pytest.mark.parametrize('name', ['a--b/c', 'owner/name.git'])
def test_a_name_that_no_repository_can_have_is_refused_by_name(
    directory: Path, cache: Path, name: str
) -> None:
    with pytest.raises(CheckpointError, match=f'{name} is not to be had') as caught:
        load_tokenizer(None, Located(directory), fallback=name)
    assert 'local copy as tokenizer' in caught.value.remedy


def test_a_sentencepiece_file_that_the_checkpoint_names_is_told_as_one(
    directory: Path, cache: Path, tmp_path: Path
) -> None:
    model = tmp_path / 'paligemma_tokenizer.model'
    model.write_bytes(b'\n\x0e')
    with pytest.raises(CheckpointError, match='is a SentencePiece model'):
        load_tokenizer(None, Located(directory), fallback=str(model))
