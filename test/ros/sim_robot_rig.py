# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot of the test process beside the real node with the expert as its policy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from node_process import (
    HERE,
    NodeProcess,
    Peer,
    install_policy,
    new_domain,
    peer_of,
    start_node,
)
from rclpy.signals import SignalHandlerOptions
from sidecar_policy import write_state

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.errors import RenderingUnavailable
from openpi_policy_ros_sim.ros.episodes import RosEpisode, run_ros_episode
from openpi_policy_ros_sim.ros.link import PolicyLink
from openpi_policy_ros_sim.ros.node import Options, SimulatedRobotNode
from openpi_policy_ros_sim.state import State

PATIENCE = 60.0


def skip_where_nothing_can_be_drawn() -> None:
    """Skip the test, or the file of whoever's fixture asks."""
    with Environment() as environment:
        try:
            environment.render('wrist', 8, 8)
        except RenderingUnavailable as error:
            pytest.skip(str(error))


@contextlib.contextmanager
def simulated_robot(
    domain: int, options: Options, robot: RobotConfig | None = None
) -> Iterator[SimulatedRobotNode]:
    """Yield the robot; the test process is in the domain for that long."""
    rclpy.init(domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
    try:
        with Environment() as environment:
            node = SimulatedRobotNode(
                robot or load_robot('sim_droid'), environment, options, lambda: False
            )
            try:
                yield node
            finally:
                node.close()
    finally:
        rclpy.shutdown()


def expert_node(scratch: Path, domain: int, state_file: Path, **parameters: Any) -> NodeProcess:
    """Start the node with the expert, which reads ``state_file``."""
    policy, python_path = install_policy(scratch, 'sidecar', HERE)
    return start_node(
        scratch,
        domain,
        {
            'model': str(state_file),
            'policy': str(policy),
            'robot': 'sim_droid',
            'port': 0,
            'use_sim_time': True,
            **parameters,
        },
        python_path=python_path,
    )


class Rig:
    """Robot, node and whoever looks on."""

    def __init__(
        self, robot: SimulatedRobotNode, node: NodeProcess, peer: Peer, state_file: Path
    ) -> None:
        self.robot, self.node, self.peer = robot, node, peer
        self._file = state_file
        self.link = PolicyLink(robot)
        self.link.wait_until_there(PATIENCE)

    def run(
        self,
        seed: int,
        *,
        each_step: Callable[[int], None] = lambda step: None,
        **arguments: Any,
    ) -> RosEpisode:
        """Run one episode; the expert sees it."""
        steps = 0

        def see(environment: Environment, state: State) -> None:
            nonlocal steps
            write_state(self._file, environment.state())
            each_step(steps)
            steps += 1

        return run_ros_episode(self.robot, self.link, seed=seed, on_step=see, **arguments)


@contextlib.contextmanager
def rig_of(scratch: Path) -> Iterator[Rig]:
    """Yield everything, running."""
    domain = new_domain()
    state_file = scratch / 'state.json'
    # Half of real time: the machine that runs tests has other things to do.
    with simulated_robot(domain, Options(rate=0.5)) as robot, peer_of(domain) as peer:
        write_state(state_file, robot.arm.environment.state())
        node = expert_node(scratch, domain, state_file)
        try:
            peer.listen_to_node()
            yield Rig(robot, node, peer, state_file)
        finally:
            node.kill()
