# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Fake robots and two robots from launch arguments; runs where launch itself cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.fake_robot import main as fake_robot_program
from openpi_policy_ros.ros.launch_arguments import ARGUMENTS, node_parameters
from openpi_policy_ros.ros.launch_robots import (
    FAKE_ARGUMENTS,
    TWO_ARGUMENTS,
    fake_robot,
    two_robots,
)


def test_the_arguments_of_all_launch_files_are_distinct_and_described() -> None:
    for arguments in (FAKE_ARGUMENTS, TWO_ARGUMENTS):
        names = [one.name for one in arguments]
        assert len(set(names)) == len(names)
        assert all(one.description.endswith('.') for one in arguments)
    names = {one.name for one in TWO_ARGUMENTS}
    assert 'namespace' not in names
    assert {'left_namespace', 'right_port', 'left_model', 'right_robot', 'fake'} <= names


def test_a_fake_robot_rehearses_unless_something_else_is_named() -> None:
    robot = fake_robot({'robot': 'so101', 'namespace': 'left', 'model': '', 'urdf': ''})
    assert robot.namespace == 'left'
    assert robot.fake == ('--robot', 'so101', '--quiet')
    assert node_parameters(robot.values) == {'policy': 'rehearsal', 'robot': 'so101'}
    assert 'policy' not in node_parameters(fake_robot({'robot': 'so101', 'model': 'm'}).values)
    assert fake_robot({'robot': 'so101', 'policy': 'pi0'}).values['policy'] == 'pi0'


def test_a_fake_robot_gets_its_urdf_and_fault_and_the_node_does_not() -> None:
    robot = fake_robot({'robot': 'r.yaml', 'urdf': 'r.urdf', 'fault': 'camera:front@1..2'})
    assert robot.fake is not None
    assert robot.fake[3:] == ('--urdf', 'r.urdf', '--fault', 'camera:front@1..2')
    assert set(robot.values) <= {one.name for one in ARGUMENTS}


def test_the_fake_robots_program_knows_its_arguments() -> None:
    robot = fake_robot({'robot': 'so101', 'urdf': 'u', 'fault': 'camera:front@1..2'})
    parsed = fake_robot_program._parser().parse_args(robot.fake)
    assert (parsed.robot, str(parsed.urdf), parsed.quiet) == ('so101', 'u', True)


def test_a_fake_robot_needs_a_robot_file() -> None:
    with pytest.raises(ConfigurationError, match='robot: needed'):
        fake_robot({'robot': ''})


def test_two_robots_get_their_own_namespaces_ports_and_recordings() -> None:
    left, right = two_robots({'robot': 'so101', 'model': 'm', 'record': 'here/', 'prompt': 'p'})
    assert (left.namespace, right.namespace) == ('left', 'right')
    assert (left.values['port'], right.values['port']) == ('8000', '8001')
    assert (left.values['record'], right.values['record']) == ('here/left', 'here/right')
    assert left.values['prompt'] == right.values['prompt'] == 'p'
    assert left.fake is right.fake is None


def test_what_one_robot_is_told_is_its_own() -> None:
    left, right = two_robots(
        {
            'model': 'both',
            'robot': 'so101',
            'right_model': 'mine',
            'right_robot': 'droid',
            'right_device': 'cuda:1',
            'left_namespace': 'cell/a',
            'right_port': '9000',
            'port': '8100',
        }
    )
    assert (left.values['model'], right.values['model']) == ('both', 'mine')
    assert (left.values['device'], right.values['device']) == ('', 'cuda:1')
    assert (left.namespace, right.namespace) == ('cell/a', 'right')
    assert (left.values['port'], right.values['port']) == ('8100', '9000')
    assert right.values['robot'] == 'droid'


def test_a_free_port_stays_one_for_both() -> None:
    left, right = two_robots({'robot': 'so101', 'model': 'm', 'port': '0'})
    assert left.values['port'] == right.values['port'] == '0'


def test_two_fake_robots_rehearse() -> None:
    for robot in two_robots({'robot': 'so101', 'fake': 'true'}):
        assert robot.fake == ('--robot', 'so101', '--quiet')
        assert robot.values['policy'] == 'rehearsal'


def test_robots_that_would_meet_are_refused_with_every_reason(tmp_path: Path) -> None:
    text = (config_directory() / 'so101.yaml').read_text(encoding='utf-8')
    topic = 'topic: arm_controller/joint_trajectory'
    assert topic in text
    path = tmp_path / 'robot.yaml'
    path.write_text(text.replace(topic, topic.replace(': ', ': /')), encoding='utf-8')
    with pytest.raises(ConfigurationError) as caught:
        two_robots(
            {
                'robot': str(path),
                'model': 'm',
                'left_port': '8001',
                'left_namespace': '/one',
                'right_namespace': 'one/',
            }
        )
    text = str(caught.value)
    for said in ('both namespaces', 'both ports are 8001', '/arm_controller/joint_trajectory is'):
        assert said.split(' is')[0] in text
    assert "one would move by the other's commands" in text


def test_a_value_that_cannot_be_read_is_told_with_its_robot() -> None:
    _, right = two_robots({'robot': 'so101', 'model': 'm', 'right_port': 'http'})
    with pytest.raises(ConfigurationError, match=r'two.*right.*\n.*port:=http'):
        node_parameters(right.values, 'two_robots.launch.py, right')
