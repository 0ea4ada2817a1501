# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring up two robots on one machine: two namespaces, two nodes, two ports, a model for each.

    ros2 launch openpi_policy_ros two_robots.launch.py robot:=so101 model:=/path/to/checkpoint
    ros2 launch openpi_policy_ros two_robots.launch.py robot:=so101 fake:=true

An argument holds for both; with left_ or right_ before its name it holds for one. Each node is
enabled by itself, with its own service:

    ros2 service call /left/openpi_policy/enable std_srvs/srv/SetBool "{data: true}"
"""

from collections.abc import Mapping

from launch import LaunchDescription
from launch.action import Action

from openpi_policy_ros.ros.launch_actions import description, fake_robot_node, policy_node
from openpi_policy_ros.ros.launch_robots import TWO_ARGUMENTS, two_robots


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; the nodes are made once their values are known."""
    return description(TWO_ARGUMENTS, _start)


def _start(values: Mapping[str, str]) -> list[Action]:
    actions: list[Action] = []
    for robot in two_robots(values):
        if robot.fake is not None:
            actions.append(fake_robot_node(robot.fake, robot.namespace))
        actions.append(policy_node(robot.values, f'two_robots.launch.py, {robot.namespace}'))
    return actions
