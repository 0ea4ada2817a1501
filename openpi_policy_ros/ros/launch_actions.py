# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Turn arguments into what launch starts; launch files alone use it, as it needs launch_ros.

Every default is '' = not given: what a user did not say must not override a parameter file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros import launch_simulation
from openpi_policy_ros.ros.launch_arguments import (
    NODE,
    LaunchArgument,
    dds_environment,
    node_parameters,
    ros_arguments,
)

PACKAGE = 'openpi_policy_ros'

Start = Callable[[Mapping[str, str]], list[Action]]


def description(arguments: Sequence[LaunchArgument], start: Start) -> LaunchDescription:
    """Return a description that declares arguments and calls ``start`` with their texts."""

    def begin(context: LaunchContext) -> list[Action]:
        values = {one.name: LaunchConfiguration(one.name).perform(context) for one in arguments}
        try:
            return start(values)
        except ConfigurationError as error:
            # What launch prints of an exception is its text.
            raise RuntimeError(str(error)) from None

    declared = [
        DeclareLaunchArgument(one.name, default_value='', description=one.description)
        for one in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=begin)])


def policy_node(values: Mapping[str, str], source: str = 'serve.launch.py') -> Node:
    """Return the policy's node.

    Args:
        values: argument of ``serve.launch.py`` → text, '' = not given.
        source: what the arguments belong to, for messages.

    Raises:
        ConfigurationError: every value that cannot be read, or nothing to serve.

    """
    parameters = node_parameters(values, source)
    typed = {
        # Else launch takes a prompt or a model that looks like a number for one.
        name: ParameterValue(value, value_type=type(value))
        for name, value in parameters.items()
    }
    files = [values['params_file']] if values.get('params_file') else []
    return Node(
        package=PACKAGE,
        executable='openpi_policy_node',
        name=NODE,
        namespace=values.get('namespace', ''),
        parameters=[*files, typed] if typed else files,
        ros_arguments=ros_arguments(values),
        additional_env=dds_environment(os.environ),
        output='screen',
        emulate_tty=True,
        # The server finishes what is in flight before it goes.
        sigterm_timeout='40',
        sigkill_timeout='10',
        on_exit=Shutdown(reason='a policy node ended'),
    )


def fake_robot_node(arguments: Sequence[str], namespace: str) -> Node:
    """Return a fake robot.

    Args:
        arguments: of ``openpi_policy_fake_robot``.
        namespace: of its node, '' = none.

    """
    return Node(
        package=PACKAGE,
        executable='openpi_policy_fake_robot',
        namespace=namespace,
        arguments=list(arguments),
        # Its images are as large as a camera driver's.
        additional_env=dds_environment(os.environ),
        output='screen',
        on_exit=Shutdown(reason='a fake robot ended'),
    )


def simulated_robot_node(arguments: Sequence[str], namespace: str) -> Node:
    """Return the simulated robot; when its episodes are over, all ends.

    Args:
        arguments: of ``openpi_policy_sim_robot``.
        namespace: of its node, '' = none.

    """
    return Node(
        package=PACKAGE,
        executable=launch_simulation.EXECUTABLE,
        namespace=namespace,
        arguments=list(arguments),
        additional_env=dds_environment(os.environ),
        output='screen',
        # A bar for the episodes.
        emulate_tty=True,
        on_exit=Shutdown(reason='the simulated robot ended'),
    )
