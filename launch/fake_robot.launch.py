# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring up a fake robot and the node that drives it: everything but a robot and a checkpoint.

    ros2 launch openpi_policy_ros fake_robot.launch.py robot:=so101

Without model and policy the policy is `rehearsal`, which moves every joint gently. Nothing moves
before `ros2 service call /openpi_policy/enable std_srvs/srv/SetBool "{data: true}"`.
"""

from collections.abc import Mapping

from launch import LaunchDescription
from launch.action import Action

from openpi_policy_ros.ros.launch_actions import description, fake_robot_node, policy_node
from openpi_policy_ros.ros.launch_robots import FAKE_ARGUMENTS, fake_robot


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; both nodes are made once their values are known."""
    return description(FAKE_ARGUMENTS, _start)


def _start(values: Mapping[str, str]) -> list[Action]:
    robot = fake_robot(values)
    assert robot.fake is not None
    return [
        fake_robot_node(robot.fake, robot.namespace),
        policy_node(robot.values, 'fake_robot.launch.py'),
    ]
