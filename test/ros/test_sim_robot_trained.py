# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The shipped checkpoint in the real node drives the simulated robot through every gate."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('mujoco')

from node_process import new_domain, start_node
from sim_robot_rig import PATIENCE, simulated_robot, skip_where_nothing_can_be_drawn

from openpi_policy_ros_sim.demo import FOLDER
from openpi_policy_ros_sim.ros.episodes import RosEpisode, run_ros_episode
from openpi_policy_ros_sim.ros.link import PolicyLink
from openpi_policy_ros_sim.ros.node import Options, SimulatedRobotNode

pytestmark = [
    pytest.mark.ros,
    pytest.mark.skipif(
        not (FOLDER / 'model.safetensors').exists(), reason='no trained checkpoint in sim/'
    ),
]
extended = pytest.mark.skipif(
    not os.environ.get('OPENPI_EXTENDED'), reason='takes minutes: scripts/test-extended.sh'
)
Rig = tuple[SimulatedRobotNode, PolicyLink]


@pytest.fixture(scope='module', autouse=True)
def _can_draw() -> None:
    skip_where_nothing_can_be_drawn()


@pytest.fixture(scope='module')
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    scratch: Path = tmp_path_factory.mktemp('trained')
    domain = new_domain()
    parameters = {'model': 'demo', 'robot': 'sim_droid', 'port': 0, 'use_sim_time': True}
    with simulated_robot(domain, Options()) as robot:
        node = start_node(scratch, domain, parameters)
        try:
            link = PolicyLink(robot)
            link.wait_until_there(PATIENCE)
            yield robot, link
        finally:
            node.kill()


def run(rig: Rig, task: str, seeds: range, max_steps: int) -> list[RosEpisode]:
    """Run episodes; none may end because a gate closed."""
    robot, link = rig
    episodes = [
        run_ros_episode(robot, link, seed=seed, task=task, max_steps=max_steps) for seed in seeds
    ]
    assert [one.ended for one in episodes if one.ended] == []
    return episodes


def test_it_lifts_the_cube_over_topics_with_the_gates_on(rig: Rig) -> None:
    episodes = run(rig, 'lift', range(3), 225)
    assert sum(one.succeeded for one in episodes) >= 2, [one.counters for one in episodes]
    assert all(one.latencies for one in episodes)
    assert not any(one.success['bowl'] for one in episodes)


@extended
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(('task', 'least'), [('lift', 80), ('bowl', 50)])
def test_over_topics_it_does_as_well_as_over_the_websocket(rig: Rig, task: str, least: int) -> None:
    episodes = run(rig, task, range(100), 450)
    assert sum(one.succeeded for one in episodes) >= least
