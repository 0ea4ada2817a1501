# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM end the WebSocket loop at any moment, and what was done is kept."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openpi_standin import run, standing_in, turning

from openpi_policy_ros_sim.cli import main

pytest.importorskip('mujoco')
pytest.importorskip('cv2')

from openpi_policy_ros_sim import stock_client
from openpi_policy_ros_sim.results import Results
from openpi_policy_ros_sim.video import count_frames

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def deaf() -> Iterator[None]:
    """Ignore signals, as a shell has its background jobs do."""
    before = {kind: signal.signal(kind, signal.SIG_IGN) for kind in SIGNALS}
    yield
    assert {signal.getsignal(kind) for kind in SIGNALS} == {signal.SIG_IGN}
    for kind, handler in before.items():
        signal.signal(kind, handler)


@pytest.mark.usefixtures('deaf')
@pytest.mark.parametrize('kind', SIGNALS)
def test_a_signal_in_mid_episode_leaves_what_was_done(kind, tmp_path, capsys):
    asked = itertools.count()

    def answer(_: object) -> dict[str, Any]:
        if next(asked) == 1:
            os.kill(os.getpid(), kind)
        return {'actions': turning(10)}

    with standing_in({}, answer) as server:
        options = ('--max-steps', '24', '--video', str(tmp_path))
        found = run(server.url, tmp_path / 'r.json', *options, expect=1)
    (episode,) = found['episodes']
    assert episode['error'] == 'stopped by a signal'
    assert count_frames(Path(episode['video'])) == episode['steps'] + 1 >= 9
    assert 'openpi-policy-sim ws: stopped by a signal' in capsys.readouterr().err


@pytest.mark.usefixtures('deaf')
def test_a_signal_between_episodes_leaves_what_was_done(tmp_path, monkeypatch):
    kept = Results.keep

    def keep(results: Results, path: Path | None) -> Any:
        if len(results.records) == 2:
            monkeypatch.setattr(Results, 'keep', kept)
            signal.raise_signal(signal.SIGINT)
        return kept(results, path)

    monkeypatch.setattr(Results, 'keep', keep)
    with standing_in({}, lambda _: {'actions': turning(10)}) as server:
        found = run(server.url, tmp_path / 'r.json', '--max-steps', '2', expect=1)
    assert [episode['error'] for episode in found['episodes']] == [None, None]


@pytest.mark.usefixtures('deaf')
def test_a_signal_before_the_first_episode_ends_it(monkeypatch, capsys):
    never = threading.Event()

    def wait(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        never.wait(60)

    monkeypatch.setattr(stock_client, 'WebsocketClientPolicy', wait)
    try:
        assert main(['ws', '--url', 'ws://127.0.0.1:9/']) == 130
    finally:
        never.set()
    assert 'stopped before the first episode' in capsys.readouterr().err
