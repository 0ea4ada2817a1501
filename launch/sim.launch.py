# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring up the simulated DROID robot and the node that drives it, gates and all.

    ros2 launch openpi_policy_ros sim.launch.py episodes:=3 task:=lift
    ros2 launch openpi_policy_ros sim.launch.py model:=/path/to/checkpoint episodes:=3 task:=lift

Without a model it is driven by `demo`, the small trained policy that comes with the simulator.
Without episodes the robot just lives, and nothing moves before
`ros2 service call /openpi_policy/enable std_srvs/srv/SetBool "{data: true}"`.
"""

from collections.abc import Mapping

from launch import LaunchDescription
from launch.action import Action

from openpi_policy_ros.ros.launch_actions import description, policy_node, simulated_robot_node
from openpi_policy_ros.ros.launch_simulation import SIMULATION_ARGUMENTS, SOURCE, simulation


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; both nodes are made once their values are known."""
    return description(SIMULATION_ARGUMENTS, _start)


def _start(values: Mapping[str, str]) -> list[Action]:
    pair = simulation(values)
    return [
        simulated_robot_node(pair.arguments, pair.values.get('namespace', '')),
        policy_node(pair.values, SOURCE),
    ]
