# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serve a policy: to remote clients, and to the robot whose topics the node subscribes.

    ros2 launch openpi_policy_ros serve.launch.py model:=/path/to/checkpoint robot:=droid

`--show-args` describes every argument.
"""

import os

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.launch_arguments import (
    ARGUMENTS,
    NODE,
    dds_environment,
    node_parameters,
    ros_arguments,
)


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; the node is made once their values are known."""
    declared = [
        DeclareLaunchArgument(one.name, default_value='', description=one.description)
        for one in ARGUMENTS
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=_serve)])


def _serve(context: LaunchContext) -> list[Action]:
    values = {one.name: LaunchConfiguration(one.name).perform(context) for one in ARGUMENTS}
    try:
        parameters = node_parameters(values)
    except ConfigurationError as error:
        # What launch prints of an exception is its text.
        raise RuntimeError(str(error)) from None
    typed = {
        # Else launch takes a prompt or a model that looks like a number for one.
        name: ParameterValue(value, value_type=type(value))
        for name, value in parameters.items()
    }
    files = [values['params_file']] if values['params_file'] else []
    return [
        Node(
            package='openpi_policy_ros',
            executable='openpi_policy_node',
            name=NODE,
            namespace=values['namespace'],
            parameters=[*files, typed] if typed else files,
            ros_arguments=ros_arguments(values),
            additional_env=dds_environment(os.environ),
            output='screen',
            emulate_tty=True,
            # The server finishes what is in flight before it goes.
            sigterm_timeout='40',
            sigkill_timeout='10',
            on_exit=Shutdown(reason='the policy node ended'),
        )
    ]
