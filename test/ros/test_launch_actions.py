# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the launch files hand to launch, which a stand-in takes: this runs without ROS.

``test_serve_launch`` runs the same files with launch itself, where that is installed.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from openpi_policy_ros.configuration.files import config_directory

MODULE = 'openpi_policy_ros.ros.launch_actions'
FOLDER = Path(__file__).resolve().parents[2] / 'launch'
PROFILE = str(config_directory() / 'fastdds_profile.xml')


class StandInNode(SimpleNamespace):
    """Takes of launch_ros's Node, and of the process below it, what exists there and is used."""

    def __init__(
        self,
        *,
        package: str,
        executable: str,
        additional_env: dict[str, str],
        output: str,
        on_exit: Any,
        name: str = '',
        namespace: str = '',
        parameters: tuple[Any, ...] | list[Any] = (),
        arguments: tuple[str, ...] | list[str] = (),
        ros_arguments: tuple[str, ...] | list[str] = (),
        emulate_tty: bool = False,
        sigterm_timeout: str = '5',
        sigkill_timeout: str = '5',
    ) -> None:
        super().__init__(
            package=package,
            executable=executable,
            additional_env=additional_env,
            output=output,
            on_exit=on_exit,
            name=name,
            namespace=namespace,
            parameters=parameters,
            arguments=arguments,
            ros_arguments=ros_arguments,
            emulate_tty=emulate_tty,
            patience=(sigterm_timeout, sigkill_timeout),
        )


Launch = Callable[..., list[StandInNode]]


@pytest.fixture
def bring_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """Yield a function that runs a launch file with arguments and returns its nodes."""
    given: dict[str, str] = {}
    modules: dict[str, dict[str, Any]] = {
        'launch': {'LaunchContext': object, 'LaunchDescription': list},
        'launch.action': {'Action': object},
        'launch.actions': {
            'DeclareLaunchArgument': lambda name, default_value, description: given.setdefault(
                name, default_value
            ),
            'OpaqueFunction': lambda function: function,
            'Shutdown': lambda reason: f'shutdown: {reason}',
        },
        'launch.substitutions': {
            'LaunchConfiguration': lambda name: SimpleNamespace(perform=lambda _: given[name])
        },
        'launch_ros': {},
        'launch_ros.actions': {'Node': StandInNode},
        'launch_ros.parameter_descriptions': {
            'ParameterValue': lambda value, value_type: (value, value_type)
        },
    }
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    # One that is imported here belongs to the stand-in: it must not stay.
    before = sys.modules.pop(MODULE, None)
    for name in ('FASTDDS_DEFAULT_PROFILES_FILE', 'FASTRTPS_DEFAULT_PROFILES_FILE'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('ROS_DISTRO', 'kilted')

    def run(launch_file: str, **arguments: str) -> list[StandInNode]:
        given.clear()
        given.update(arguments)
        described = runpy.run_path(str(FOLDER / f'{launch_file}.launch.py'))
        *declared, begin = described['generate_launch_description']()
        assert len(declared) >= len(given), 'an argument that is not declared'
        return list(begin(SimpleNamespace()))

    yield run
    sys.modules.pop(MODULE, None)
    if before is not None:
        sys.modules[MODULE] = before


def test_the_node_gets_its_parameters_with_their_types_and_the_file_before_them(
    bring_up: Launch,
) -> None:
    (node,) = bring_up(
        'serve', model='123', port='0', dry_run='true', params_file='p.yaml', namespace='left'
    )
    assert (node.package, node.executable) == ('openpi_policy_ros', 'openpi_policy_node')
    assert (node.name, node.namespace) == ('openpi_policy', 'left')
    assert node.parameters == [
        'p.yaml',
        {'model': ('123', str), 'port': (0, int), 'dry_run': (True, bool)},
    ]
    # A log that is seen at once, and time to answer what is in flight.
    assert (node.output, node.emulate_tty, node.patience) == ('screen', True, ('40', '10'))
    (bare,) = bring_up('serve', params_file='p.yaml')
    assert bare.parameters == ['p.yaml']
    (quiet,) = bring_up('serve', model='m', log_level='debug', namespace='left')
    assert quiet.ros_arguments == ['--log-level', 'left.openpi_policy:=debug']


def test_every_process_gets_the_profile_and_ends_all_when_it_ends(
    bring_up: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = {'FASTDDS_DEFAULT_PROFILES_FILE': PROFILE}
    nodes = bring_up('two_robots', robot='so101', fake='true')
    assert [node.executable for node in nodes] == [
        'openpi_policy_fake_robot',
        'openpi_policy_node',
    ] * 2
    assert [node.additional_env for node in nodes] == [profile] * 4
    assert [node.on_exit for node in nodes] == [
        'shutdown: a fake robot ended',
        'shutdown: a policy node ended',
    ] * 2
    monkeypatch.setenv('FASTDDS_DEFAULT_PROFILES_FILE', '/mine.xml')
    assert [node.additional_env for node in bring_up('fake_robot', robot='so101')] == [{}, {}]


def test_two_robots_have_a_namespace_and_a_port_each(bring_up: Launch) -> None:
    nodes = bring_up('two_robots', robot='so101', fake='true', port='8100', right_namespace='r')
    assert [node.namespace for node in nodes] == ['left', 'left', 'r', 'r']
    ports = [node.parameters[0]['port'] for node in nodes if node.parameters]
    assert ports == [(8100, int), (8101, int)]
    assert [node.arguments for node in nodes[::2]] == [['--robot', 'so101', '--quiet']] * 2


def test_a_fake_robot_shares_the_namespace_of_its_node(bring_up: Launch) -> None:
    robot, node = bring_up('fake_robot', robot='so101', namespace='cell', urdf='r.urdf')
    assert (robot.namespace, node.namespace) == ('cell', 'cell')
    assert robot.arguments == ['--robot', 'so101', '--quiet', '--urdf', 'r.urdf']
    assert node.parameters == [{'policy': ('rehearsal', str), 'robot': ('so101', str)}]


@pytest.mark.parametrize(
    ('launch_file', 'arguments', 'said'),
    [
        ('serve', {'robot': 'so101'}, r'serve\.launch\.py model:='),
        ('fake_robot', {}, 'robot: needed'),
        ('two_robots', {'robot': 'so101', 'model': 'm', 'left_port': '8001'}, 'both ports'),
    ],
)
def test_what_is_wrong_ends_launch_with_the_reason(
    bring_up: Launch, launch_file: str, arguments: dict[str, str], said: str
) -> None:
    with pytest.raises(RuntimeError, match=said):
        bring_up(launch_file, **arguments)
