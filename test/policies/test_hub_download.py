# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Downloads of weights that meet one another, break, go on, or find no room."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hub_standin import COMMIT, Hub, serve_hub, use_hub, use_own_cache

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import hub_download
from openpi_policy_ros.policies.checkpoint_view import view_model
from openpi_policy_ros.policies.layouts import WEIGHTS

REPOSITORY = 'someone/tiny'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a hub cache of the test's own, empty."""
    return use_own_cache(monkeypatch, tmp_path)


@pytest.fixture
def repository(copy: Path) -> Path:
    """Return the folder of the repository: a small checkpoint."""
    return copy


@pytest.fixture
def hub(repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Return a hub that serves ``repository``."""
    with serve_hub(REPOSITORY, repository) as running:
        use_hub(monkeypatch, running.url)
        yield running


def test_two_starts_at_once_fetch_the_weights_once(hub: Hub, repository: Path) -> None:
    view = view_model(REPOSITORY)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(view.fetch, WEIGHTS) for _ in range(2)]:
            done.result(30)
    assert hub.fetched(WEIGHTS) == ['']
    assert (view.located.directory / WEIGHTS).read_bytes() == (repository / WEIGHTS).read_bytes()


@pytest.mark.parametrize('resets', [False, True])
def test_a_download_that_is_cut_goes_on_where_it_was(
    hub: Hub, repository: Path, resets: bool
) -> None:
    hub.cuts, hub.resets = [700_000, None], resets
    view = view_model(REPOSITORY)
    view.fetch(WEIGHTS)
    content = (view.located.directory / WEIGHTS).read_bytes()
    assert content == (repository / WEIGHTS).read_bytes()
    first, second = hub.fetched(WEIGHTS)
    assert first == ''
    # A reset may lose what was under way; what was stored is not asked for again.
    assert 0 < int(second.removeprefix('bytes=').removesuffix('-')) <= 700_000


def test_the_next_start_goes_on_where_the_last_one_failed(
    hub: Hub, repository: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, 'openpi_policy_ros')
    hub.cuts, hub.resets = [700_000, 0], True
    view = view_model(REPOSITORY)
    with pytest.raises(CheckpointError, match=WEIGHTS) as caught:
        view.fetch(WEIGHTS)
    assert 'check the network' in caught.value.remedy
    (part,) = part_files(cache)
    have = part.stat().st_size
    assert 0 < have <= 700_000
    hub.requests.clear()
    caplog.clear()
    view_model(REPOSITORY, COMMIT).fetch(WEIGHTS)
    assert hub.fetched(WEIGHTS) == [f'bytes={have}-']
    assert (view.located.directory / WEIGHTS).read_bytes() == (repository / WEIGHTS).read_bytes()
    assert f'{WEIGHTS}: {have / 1e6:.2f} MB of 1.73 MB are here from before' in caplog.text
    assert not part_files(cache)


def part_files(cache: Path) -> list[Path]:
    return list(cache.glob('models--*/blobs/*.incomplete'))


def test_a_start_that_is_killed_leaves_what_it_has_to_the_next(
    hub: Hub, repository: Path, cache: Path
) -> None:
    program = (
        'import huggingface_hub.constants as constants\n'
        'constants.DOWNLOAD_CHUNK_SIZE = 1 << 14\n'
        'from openpi_policy_ros.policies.checkpoint_view import view_model\n'
        f'view_model({REPOSITORY!r}).fetch({WEIGHTS!r})\n'
    )
    hub.cuts, hub.holds = [700_000], threading.Event()
    env = {**os.environ, 'HF_ENDPOINT': hub.url, 'HF_HUB_CACHE': str(cache)}
    env.pop('HF_HUB_OFFLINE', None)
    with subprocess.Popen([sys.executable, '-c', program], env=env) as process:
        try:
            deadline = time.monotonic() + 60
            while not (have := sum(part.stat().st_size for part in part_files(cache))) > 600_000:
                assert time.monotonic() < deadline, have
                assert process.poll() is None
                time.sleep(0.01)
        finally:
            process.kill()
            hub.holds.set()
            process.wait(30)
    (part,) = part_files(cache)
    have = part.stat().st_size
    hub.requests.clear()
    view = view_model(REPOSITORY, COMMIT)
    view.fetch(WEIGHTS)
    assert hub.fetched(WEIGHTS) == [f'bytes={have}-']
    assert (view.located.directory / WEIGHTS).read_bytes() == (repository / WEIGHTS).read_bytes()


def test_a_server_that_ignores_ranges_costs_a_whole_download_and_no_damage(
    hub: Hub, repository: Path
) -> None:
    view = view_model(REPOSITORY)
    hub.cuts, hub.resets = [700_000, 0], True
    with pytest.raises(CheckpointError):
        view.fetch(WEIGHTS)
    hub.ignores_ranges = True
    view.fetch(WEIGHTS)
    assert (view.located.directory / WEIGHTS).read_bytes() == (repository / WEIGHTS).read_bytes()


def test_content_that_is_not_the_hubs_is_refused_and_not_kept(
    hub: Hub, repository: Path, cache: Path
) -> None:
    content = (repository / WEIGHTS).read_bytes()
    hub.changes[WEIGHTS] = content[:-1] + bytes([content[-1] ^ 1])
    view = view_model(REPOSITORY)
    with pytest.raises(CheckpointError, match='has the SHA-256') as caught:
        view.fetch(WEIGHTS)
    assert 'start again' in caught.value.remedy
    assert not (view.located.directory / WEIGHTS).exists()
    assert not part_files(cache)
    hub.changes.clear()
    view.fetch(WEIGHTS)
    assert (view.located.directory / WEIGHTS).read_bytes() == content


def test_too_little_room_is_told_before_anything_is_fetched(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = view_model(REPOSITORY)
    usage = SimpleNamespace(free=1_000_000)
    monkeypatch.setattr(hub_download.shutil, 'disk_usage', lambda place: usage)
    with pytest.raises(
        CheckpointError, match=r'need 1\.73 MB more, .* 1\.00 MB are free'
    ) as caught:
        view.fetch(WEIGHTS)
    assert 'HF_HOME' in caught.value.remedy
    assert not hub.fetched(WEIGHTS)
    # What is here already needs no room.
    usage.free = 2_000_000
    hub.cuts, hub.resets = [1_000_000, 0], True
    with pytest.raises(CheckpointError, match='cannot be fetched'):
        view.fetch(WEIGHTS)
    usage.free = 1_000_000
    view.fetch(WEIGHTS)


def test_a_full_disk_in_the_middle_says_where_to_make_room(
    hub: Hub, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **options: Any) -> None:
        raise OSError(28, 'No space left on device')

    view = view_model(REPOSITORY)
    monkeypatch.setattr('huggingface_hub.file_download.http_get', full)
    with pytest.raises(CheckpointError, match='No space left') as caught:
        view.fetch(WEIGHTS)
    assert str(cache) in caught.value.remedy
