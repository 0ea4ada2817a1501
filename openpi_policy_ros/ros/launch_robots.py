# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What ``fake_robot.launch.py`` and ``two_robots.launch.py`` do, without launch.

A launch file gets texts; what they mean for which process is decided here, so that it can be tested
where launch is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.launch_arguments import ARGUMENTS, LaunchArgument, is_true

SIDES = ('left', 'right')
"""The two robots; also their namespaces, unless told otherwise."""
FIRST_PORT = 8000
REHEARSAL = 'rehearsal'
"""Policy where none and no model is named: it needs none."""
OWN = ('model', 'policy', 'robot', 'device', 'port', 'prompt', 'params_file', 'namespace')
"""Arguments that each of two robots may have a value of its own for."""

_FAULT = LaunchArgument(
    'fault',
    'text',
    'What goes wrong with the fake robot, e.g. camera:front@10..13; '
    '`openpi_policy_fake_robot --help` lists them. Default: nothing.',
)
_URDF = LaunchArgument(
    'urdf', 'text', "The fake robot's URDF, published on robot_description. Default: none."
)
FAKE_ARGUMENTS = (
    *(
        replace(one, description='Robot file: a stem of config/ (so101) or a path. Needed.')
        if one.name == 'robot'
        else one
        for one in ARGUMENTS
    ),
    _URDF,
    _FAULT,
)
"""Arguments of ``fake_robot.launch.py``."""


def _of_side(side: str, argument: LaunchArgument) -> LaunchArgument:
    default = {
        'namespace': side,
        'port': f'that of port{" plus one" if side == SIDES[1] else ""}',
    }.get(argument.name, f'that of {argument.name}')
    return LaunchArgument(
        f'{side}_{argument.name}',
        argument.kind,
        f'The same for the {side} robot alone. Default: {default}.',
    )


TWO_ARGUMENTS = (
    *(one for one in ARGUMENTS if one.name != 'namespace'),
    *(_of_side(side, one) for side in SIDES for one in ARGUMENTS if one.name in OWN),
    LaunchArgument(
        'fake', 'boolean', 'true = start two fake robots as well, to try it. Default: false.'
    ),
)
"""Arguments of ``two_robots.launch.py``."""


@dataclass(frozen=True)
class Robot:
    """One robot to be brought up.

    Attributes:
        values: argument of ``serve.launch.py`` → text, '' = not given.
        fake: arguments of ``openpi_policy_fake_robot``; None = the robot is a real one.

    """

    values: Mapping[str, str]
    fake: tuple[str, ...] | None = None

    @property
    def namespace(self) -> str:
        """Return the namespace of its nodes, '' = none."""
        return self.values.get('namespace', '')


def fake_robot(values: Mapping[str, str]) -> Robot:
    """Return the fake robot that these arguments describe; it rehearses where no model is named.

    Args:
        values: argument → text, '' = not given.

    Raises:
        ConfigurationError: no robot file is named.

    """
    if not values.get('robot'):
        raise ConfigurationError(
            'fake_robot.launch.py', ['robot: needed, a stem of config/ (so101) or a path']
        )
    return Robot(_with_policy(values), _fake_arguments(values))


def two_robots(values: Mapping[str, str]) -> tuple[Robot, Robot]:
    """Return the two robots that these arguments describe.

    Args:
        values: argument → text, '' = not given.

    Raises:
        ConfigurationError: they would meet: in one namespace, on one port, or on a topic to which
            both robot files give an absolute name, where one robot would move by the other's
            commands. A ``params_file`` is not read here: which of its sections hold for a node is
            decided by ROS.

    """
    left, right = (_side(values, side) for side in SIDES)
    problems = []
    if left.namespace.strip('/') == right.namespace.strip('/'):
        problems.append(
            f'both namespaces are {left.namespace!r}; set left_namespace or right_namespace'
        )
    ports = [robot.values['port'] for robot in (left, right)]
    if ports[0] == ports[1] != '0':
        problems.append(f'both ports are {ports[0]}; set left_port or right_port')
    problems += _crossings(left, right)
    if problems:
        raise ConfigurationError('two_robots.launch.py', problems)
    return left, right


def _side(values: Mapping[str, str], side: str) -> Robot:
    own = {
        name: values.get(f'{side}_{name}') or values.get(name, '')
        for name in (one.name for one in ARGUMENTS)
    }
    own['namespace'] = values.get(f'{side}_namespace') or side
    if not values.get(f'{side}_port'):
        own['port'] = _port(values.get('port', ''), side)
    if own['record']:
        own['record'] = f'{own["record"].rstrip("/")}/{side}'
    if not is_true(values.get('fake', '')):
        return Robot(own)
    return Robot(_with_policy(own), _fake_arguments(own))


def _port(text: str, side: str) -> str:
    """Return the port of a side; a text that is no number is refused with all others later."""
    text = text or str(FIRST_PORT)
    if not text.isdigit() or int(text) == 0:
        return text
    return str(int(text) + SIDES.index(side))


def _with_policy(values: Mapping[str, str]) -> dict[str, str]:
    known = {one.name for one in ARGUMENTS}
    values = {name: text for name, text in values.items() if name in known}
    if not any(values.get(name) for name in ('model', 'policy', 'params_file')):
        values['policy'] = REHEARSAL
    return values


def _fake_arguments(values: Mapping[str, str]) -> tuple[str, ...]:
    arguments = ['--robot', values.get('robot', ''), '--quiet']
    for name in ('urdf', 'fault'):
        if values.get(name):
            arguments += [f'--{name}', values[name]]
    return tuple(arguments)


def _crossings(left: Robot, right: Robot) -> list[str]:
    """Return the topics of commands that both robots would send to."""
    topics = [_command_topics(robot) for robot in (left, right)]
    return [
        f'outputs.{topics[0][topic]}.topic is {topic} for both robots: one would move by the '
        "other's commands; write it relative, without the leading slash"
        for topic in topics[0]
        if topic in topics[1]
    ]


def _command_topics(robot: Robot) -> dict[str, str]:
    """Return absolute topic → name of its output; a file that is wrong is told by the node."""
    name = robot.values.get('robot', '')
    try:
        config = load_robot(name) if name else RobotConfig()
    except ConfigurationError:
        return {}
    return {
        output.topic: name
        for name, output in config.outputs.items()
        if output.topic.startswith('/')
    }
