# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serve a policy: to remote clients, and to the robot whose topics the node subscribes.

    ros2 launch openpi_policy_ros serve.launch.py model:=/path/to/checkpoint robot:=droid

Without a model, and without a robot or with the simulated one, it serves `demo`, the small policy
that comes with the simulator. `--show-args` describes every argument.
"""

from launch import LaunchDescription

from openpi_policy_ros.ros.launch_actions import description, policy_node
from openpi_policy_ros.ros.launch_arguments import ARGUMENTS


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; the node is made once their values are known."""
    return description(ARGUMENTS, lambda values: [policy_node(values)])
