# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The WebSocket loop as DreamZero's evaluation speaks, against a DreamZero behind our server.

Its weights are random: what is tried is who is told what, not what comes of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip('mujoco')
pytest.importorskip('diffusers')
pytest.importorskip('transformers')

import torch
from openpi_standin import run
from serving import eventually, serving

from openpi_policy_ros.client.videos import ROBOARENA as IMAGES
from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.engine import Lane
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.policies.dreamzero.make_checkpoint import make_checkpoint
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.wire import Dialect
from openpi_policy_ros_sim import constants as c

ROBOT = 'roboarena_dreamzero'
both = pytest.mark.parametrize('dialect', list(Dialect), ids=lambda one: one.name.lower())


class Ear:
    """Keeps what the policy was asked, and what it answered."""

    def __init__(self) -> None:
        self.requests: list[InferenceRequest] = []
        self.chunks: list[ActionChunk] = []
        self.closed: list[SessionKey] = []

    def inferred(
        self, request: InferenceRequest, lane: Lane, outcome: ActionChunk | BaseException
    ) -> None:
        assert isinstance(outcome, ActionChunk), outcome
        self.requests.append(request)
        self.chunks.append(outcome)

    def session_closed(self, key: SessionKey) -> None:
        self.closed.append(key)


@pytest.fixture(scope='module', autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def drive(
    checkpoint: Path, file: Path, dialect: Dialect, *arguments: str
) -> tuple[dict[str, Any], Ear]:
    """Serve, run the simulator's command; return its results and what was asked."""
    policy: Any = load_policy(
        str(checkpoint), policy='dreamzero', profile=load_robot(ROBOT).profile
    )
    ear = Ear()
    with serving(policy) as served:
        served.engine.add_tap(ear)
        found = run(served.url(dialect), file, '--robot', ROBOT, *arguments)
        eventually(lambda: not policy.live_sessions, 'all sessions are freed')
    return found, ear


def check(found: dict[str, Any], ear: Ear, rows: int) -> None:
    """Assert what holds of every run: numbers, limits, and a session for each episode."""
    episodes = found['episodes']
    assert [one['error'] for one in episodes] == [None] * len(episodes)
    assert [one['steps'] for one in episodes] == [found['settings']['max_steps']] * len(episodes)
    assert sum(one['inferences'] for one in episodes) == len(ear.requests)
    for chunk in ear.chunks:
        assert chunk.actions.shape == (rows, 8)
        assert np.isfinite(chunk.actions).all()
    for request in ear.requests:
        joints = np.asarray(request.observation['observation/joint_position'])
        assert (joints >= np.array(c.LOWER) - 0.01).all()
        assert (joints <= np.array(c.UPPER) + 0.01).all()
        assert request.observation['prompt'] == 'lift the red cube'
    sessions = list(dict.fromkeys(one.session for one in ear.requests))
    assert len(sessions) == len({one.session_id for one in sessions}) == len(episodes)
    # The first call of each session begins it, and no other.
    known: set[SessionKey] = set()
    for request in ear.requests:
        assert request.reset == (request.session not in known)
        known.add(request.session)
    assert set(ear.closed) >= known


def shapes(request: InferenceRequest) -> list[tuple[int, ...]]:
    return [np.shape(request.observation[key]) for key in IMAGES]


@both
def test_stacks_of_what_was_seen_during_the_last_chunk(
    tiny_dreamzero: Path, tmp_path: Path, dialect: Dialect
) -> None:
    found, ear = drive(
        tiny_dreamzero,
        tmp_path / 'r.json',
        dialect,
        *('--episodes', '2', '--max-steps', '13', '--horizon', '6', '--frames=-5,-4,-2,0'),
    )
    check(found, ear, 6)
    one, four = (1, 180, 320, 3), (4, 180, 320, 3)
    assert [shapes(request) for request in ear.requests] == [[one] * 3, [four] * 3, [four] * 3] * 2
    moved = ear.requests[2].observation[IMAGES[2]]
    assert not np.array_equal(moved[0], moved[-1])


def test_single_images_of_a_client_that_keeps_none(tiny_dreamzero: Path, tmp_path: Path) -> None:
    found, ear = drive(
        tiny_dreamzero,
        tmp_path / 'r.json',
        Dialect.STOCK,
        *('--episodes', '2', '--max-steps', '9', '--horizon', '4'),
    )
    check(found, ear, 6)
    assert [shapes(request) for request in ear.requests] == [[(180, 320, 3)] * 3] * 6


@pytest.mark.skipif(
    not os.environ.get('OPENPI_EXTENDED'), reason='takes a minute: scripts/test-extended.sh'
)
@pytest.mark.timeout(600)
def test_the_published_shapes_at_the_published_cadence(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / 'droid', 'droid', 0)
    found, ear = drive(
        tmp_path / 'droid',
        tmp_path / 'r.json',
        Dialect.OPENPI,
        *('--episodes', '2', '--max-steps', '49', '--frames=-23,-16,-8,0'),
    )
    check(found, ear, 24)
    assert [shapes(one)[0][0] for one in ear.requests] == [1, 4, 4] * 2
