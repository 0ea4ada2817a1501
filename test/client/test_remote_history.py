# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that looks back, on another machine: the robot's door has to be told that it does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from dreaming_policy import CAMERAS, GRIPPER, HORIZON, JOINTS, OFFSETS, WIDTH, DreamingPolicy
from fakes import request
from serving import Served, eventually, serving

from openpi_policy_ros.client.remote import PLUGIN
from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.wire import Dialect

both = pytest.mark.parametrize('dialect', list(Dialect))
SIZES = {'action_horizon': HORIZON, 'action_dim': WIDTH}
WAIT = 10.0


def load(far: Served, dialect: Dialect, **options: Any) -> Policy:
    """Return the remote policy with the shipped robot file."""
    profile = load_robot('roboarena_dreamzero').profile
    options = {'start_timeout': 0.0, 'policy_server_config': SIZES, **options}
    return PLUGIN.load(LoadRequest(far.url(dialect), options=options, profile=profile))


@contextlib.contextmanager
def running(policy: Policy) -> Iterator[Engine]:
    engine = Engine(policy)
    engine.start()
    try:
        yield engine
    finally:
        engine.close(drain_timeout=WAIT)


@both
def test_frames_reset_and_session_go_through_to_the_far_policy(dialect: Dialect) -> None:
    far = DreamingPolicy()
    with serving(far) as served:
        near = load(served, dialect, history_offsets=list(OFFSETS))
        assert near.spec.history_offsets == OFFSETS
        assert near.spec.stateful
        assert (near.spec.horizon, near.spec.action_dim) == (HORIZON, WIDTH)
        with running(near) as engine:
            for count, reset in ((1, True), (4, False), (1, True)):
                observation = {
                    **{key: np.zeros((count, 6, 8, 3), np.uint8) for key in CAMERAS},
                    JOINTS: np.zeros(7, np.float32),
                    GRIPPER: np.zeros(1, np.float32),
                    'prompt': 'go',
                }
                one = request('ros', '1', observation=observation, reset=reset)
                chunk = engine.submit(one, Lane.ROBOT).result(WAIT)
                assert chunk.actions.shape == (HORIZON, WIDTH)
        eventually(lambda: not far.live, 'the far session is freed')
    assert [(reset, len(marks[0])) for _, reset, marks in far.seen] == [
        (True, 1),
        (False, 4),
        (True, 1),
    ]


def test_without_being_told_it_sees_the_newest_image_alone() -> None:
    with serving(DreamingPolicy()) as served:
        near = load(served, Dialect.OPENPI)
        assert near.spec.history_offsets == ()
        near.close()


@pytest.mark.parametrize('offsets', [[-8, -16, 0], [-8, -8, 0], [-8], [1, 0], [0, 1]])
def test_offsets_that_do_not_rise_to_the_newest_are_refused(offsets: list[int]) -> None:
    with serving(DreamingPolicy()) as served, pytest.raises(ConfigurationError) as caught:
        load(served, Dialect.OPENPI, history_offsets=offsets)
    assert 'history_offsets' in str(caught.value)
    assert 'rise strictly and end with 0' in str(caught.value)
