# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the launch files do, without launch: arguments in, parameters and environment out.

Launch files can only be run where ROS is installed; this can be tested everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies import named_models
from openpi_policy_ros.policies.loading import needs_model

NODE = 'openpi_policy'
SIMULATED = 'sim_droid'
"""Robot file of the simulated robot."""
Parameter = str | int | bool

LOG_LEVELS = ('debug', 'info', 'warn', 'error', 'fatal')
_TRUE, _FALSE = ('true', '1', 'yes', 'on'), ('false', '0', 'no', 'off')
_FAST_DDS_2 = ('foxy', 'galactic', 'humble', 'iron', 'jazzy')
PROFILE_VARIABLES = ('FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE')

NO_MODEL = (
    'no model to serve. Name a checkpoint, a directory or a hub id:\n'
    '  ros2 launch openpi_policy_ros serve.launch.py model:=/path/to/checkpoint\n'
    f'{named_models.DEMO!r} is served unasked where no robot is named, or the simulated one.\n'
    'Without one at hand, make a small one whose actions mean nothing:\n'
    '  openpi-policy make-checkpoint /tmp/pi0_small\n'
    '  ros2 launch openpi_policy_ros serve.launch.py model:=/tmp/pi0_small'
)


@dataclass(frozen=True)
class LaunchArgument:
    """One argument of the launch file.

    Attributes:
        name: as in ``name:=value``.
        kind: how its text becomes a parameter.
        description: shown by ``--show-args``.
        parameter: node parameter it sets; '' = it concerns the process, not the node.

    Every default is '' = not given, so that a parameter file is not overridden by a default.

    """

    name: str
    kind: Literal['text', 'integer', 'boolean']
    description: str
    parameter: str = ''


ARGUMENTS = (
    LaunchArgument(
        'policy',
        'text',
        'Policy file: a stem of config/ (pi0) or a path. Default: derived from the checkpoint.',
        'policy',
    ),
    LaunchArgument(
        'model',
        'text',
        'Checkpoint: a directory, a hub id, or demo, the one that comes with the simulator. '
        'Default: demo where no robot is named, or sim_droid; else needed, unless the policy has '
        'no model (rehearsal).',
        'model',
    ),
    LaunchArgument(
        'robot',
        'text',
        'Robot file: a stem of config/ (droid) or a path. Default: none, the node then serves '
        'remote clients only.',
        'robot',
    ),
    LaunchArgument('device', 'text', 'Torch device: cpu, cuda or cuda:N. Default: cpu.', 'device'),
    LaunchArgument(
        'host',
        'text',
        'Address the WebSocket server binds. Default: 127.0.0.1; 0.0.0.0 lets every machine on '
        'the network use the policy.',
        'host',
    ),
    LaunchArgument('port', 'integer', 'TCP port. Default: 8000; 0 picks a free one.', 'port'),
    LaunchArgument(
        'prompt',
        'text',
        'Instruction until one comes on the prompt topic. Default: none, so that no inference '
        'runs for the robot before.',
        'default_prompt',
    ),
    LaunchArgument(
        'dry_run',
        'boolean',
        'true = chunks are published to look at and never reach the robot. Default: false.',
        'dry_run',
    ),
    LaunchArgument(
        'record',
        'text',
        'Directory for a recording of each session (MCAP). Default: none is made.',
        'record',
    ),
    LaunchArgument(
        'params_file',
        'text',
        'ROS parameter file for the node; arguments given beside it win. Default: none.',
    ),
    LaunchArgument('namespace', 'text', 'Namespace of the node, one per robot. Default: none.'),
    LaunchArgument('use_sim_time', 'boolean', 'true = use /clock. Default: false.', 'use_sim_time'),
    LaunchArgument(
        'autostart',
        'boolean',
        'false = wait for a lifecycle manager instead of configuring and activating. '
        'Default: true.',
        'autostart',
    ),
    LaunchArgument(
        'log_level', 'text', f"The node's log level: {', '.join(LOG_LEVELS)}. Default: info."
    ),
)


def node_parameters(
    values: Mapping[str, str], source: str = 'serve.launch.py'
) -> dict[str, Parameter]:
    """Return the node parameters that these arguments set.

    Args:
        values: argument → text, '' = not given.
        source: what the arguments belong to, for messages.

    Raises:
        ConfigurationError: nothing to serve (with a hint), or every value that cannot be read.

    """
    problems = []
    parameters: dict[str, Parameter] = {}
    if not values.get('model') and not values.get('params_file') and _model_needed(values):
        if _demo_fits(values):
            parameters['model'] = named_models.DEMO
        else:
            problems.append(NO_MODEL)
    for argument in ARGUMENTS:
        text = values.get(argument.name, '')
        if not text or not argument.parameter:
            continue
        if argument.kind == 'text':
            parameters[argument.parameter] = text
        elif argument.kind == 'boolean':
            if text.lower() not in _TRUE + _FALSE:
                problems.append(f'{argument.name}:={text}: expected true or false')
            parameters[argument.parameter] = is_true(text)
        else:
            try:
                parameters[argument.parameter] = int(text)
            except ValueError:
                problems.append(f'{argument.name}:={text}: expected a whole number')
    level = values.get('log_level', '')
    if level and level not in LOG_LEVELS:
        problems.append(f'log_level:={level}: expected one of {", ".join(LOG_LEVELS)}')
    if problems:
        raise ConfigurationError(source, problems)
    return parameters


def is_true(text: str) -> bool:
    """Return whether an argument's text says yes; '' and whatever cannot be read say no."""
    return text.lower() in _TRUE


def _demo_fits(values: Mapping[str, str]) -> bool:
    """Return whether the demo checkpoint may be served unasked: no real robot moves by it."""
    return (
        not values.get('policy')
        and values.get('robot', '') in ('', SIMULATED)
        and named_models.has(named_models.DEMO)
    )


def _model_needed(values: Mapping[str, str]) -> bool:
    try:
        return needs_model(values.get('policy'))
    except ConfigurationError:
        # The node says what is wrong with the policy file, and all else that is.
        return True


def ros_arguments(values: Mapping[str, str]) -> list[str]:
    """Return the ``--ros-args`` of the process: the log level of this node and of no other logger.

    A node's logger is called by its full name with dots for slashes.
    """
    level = values.get('log_level', '')
    if not level:
        return []
    logger = '.'.join([*values.get('namespace', '').strip('/').split('/'), NODE]).strip('.')
    return ['--log-level', f'{logger}:={level}']


def dds_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that point Fast DDS to the shipped profile, unless the user set one.

    Without it a 640×480 image exceeds Fast DDS's default buffers and most are lost. Other DDS
    implementations ignore the variables.
    """
    if any(environment.get(name) for name in PROFILE_VARIABLES):
        return {}
    profile = str(config_directory() / 'fastdds_profile.xml')
    current, former = PROFILE_VARIABLES
    if environment.get('ROS_DISTRO', '') in _FAST_DDS_2:
        return {current: profile, former: profile}
    # Fast DDS 3 warns about the former name.
    return {current: profile}
