# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A tiny DreamZero in the real node drives the simulated robot, chunk by chunk, gates on.

Its weights are random: what is tried is that it moves within its limits, not what comes of it.
"""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('mujoco')
pytest.importorskip('diffusers')
pytest.importorskip('transformers')

import node_process
from node_process import new_domain, peer_of, start_node
from sim_robot_rig import PATIENCE, simulated_robot, skip_where_nothing_can_be_drawn

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.ros.arm import check_robot
from openpi_policy_ros_sim.ros.episodes import run_ros_episode
from openpi_policy_ros_sim.ros.link import PolicyLink
from openpi_policy_ros_sim.ros.node import Options
from openpi_policy_ros_sim.state import State

pytestmark = [pytest.mark.ros, pytest.mark.timeout(180)]

ROBOT = 'sim_droid_dreamzero'
STEPS = 24
PAUSE = 'the chunk has been played (open_loop)'


def test_episodes_begin_anew_and_no_limit_is_touched(
    tiny_dreamzero: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_where_nothing_can_be_drawn()
    monkeypatch.setattr(node_process, 'WAIT', 60.0)
    robot = load_robot(ROBOT)
    check_robot(robot, ROBOT)
    domain = new_domain()
    parameters = {
        'model': str(tiny_dreamzero),
        'robot': ROBOT,
        'port': 0,
        'use_sim_time': True,
    }
    places: list[np.ndarray] = []

    def note(environment: Environment, state: State) -> None:
        places.append(state.joint_position)

    options = Options(size=(36, 20))
    with simulated_robot(domain, options, robot) as made, peer_of(domain) as peer:
        peer.listen_to_node()
        node = start_node(tmp_path, domain, parameters)
        try:
            link = PolicyLink(made)
            link.wait_until_there(PATIENCE)
            episodes = [
                run_ros_episode(made, link, seed=seed, task='lift', max_steps=STEPS, on_step=note)
                for seed in (0, 1)
            ]
            said = [message.message for message in peer.heard('openpi_policy/status')]
            topics = dict(peer.node.get_topic_names_and_types())
            node.signal(signal.SIGINT)
            assert node.join() == 0, node.text()
        finally:
            node.kill()
    assert 'Traceback' not in node.text()
    for episode in episodes:
        assert episode.ended == ''
        assert len(episode.states) == STEPS + 1
        assert len(episode.latencies) >= 2
        # The physics counts every target beyond a limit.
        assert episode.clamped == {}
        assert episode.counters['failures'] == episode.counters['holds'] == 0
    assert any(PAUSE in text for text in said)
    assert not any(text.startswith('HOLD') for text in said)
    assert np.isfinite(places).all()
    assert (np.array(places) >= c.LOWER).all()
    assert (np.array(places) <= c.UPPER).all()
    assert np.ptp(np.array(places), axis=0).max() > 1e-3
    assert '/openpi_policy/imagined' not in topics
