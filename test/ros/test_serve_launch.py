# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The launch files themselves, where ROS is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

launch = pytest.importorskip('launch')
pytest.importorskip('launch_ros')

from launch.actions import DeclareLaunchArgument, OpaqueFunction  # noqa: E402
from launch.launch_description_sources import (  # noqa: E402
    get_launch_description_from_python_launch_file,
)
from launch_ros.actions import Node  # noqa: E402

from openpi_policy_ros.ros.launch_arguments import ARGUMENTS  # noqa: E402
from openpi_policy_ros.ros.launch_robots import FAKE_ARGUMENTS, TWO_ARGUMENTS  # noqa: E402
from openpi_policy_ros.ros.launch_simulation import SIMULATION_ARGUMENTS  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / 'launch'


def description(name: str) -> Any:
    return get_launch_description_from_python_launch_file(str(FOLDER / f'{name}.launch.py'))


def make_nodes(launch_file: str, **values: str) -> list[Node]:
    context = launch.LaunchContext()
    nodes: list[Node] = []
    for entity in description(launch_file).entities:
        if isinstance(entity, DeclareLaunchArgument):
            context.launch_configurations[entity.name] = values.get(entity.name, '')
        elif isinstance(entity, OpaqueFunction):
            nodes = list(entity.execute(context) or [])
    assert all(isinstance(node, Node) for node in nodes)
    return nodes


def make_node(**values: str) -> Node:
    (node,) = make_nodes('serve', **values)
    return node


@pytest.mark.parametrize(
    ('name', 'arguments'),
    [
        ('serve', ARGUMENTS),
        ('fake_robot', FAKE_ARGUMENTS),
        ('two_robots', TWO_ARGUMENTS),
        ('sim', SIMULATION_ARGUMENTS),
    ],
)
def test_every_argument_is_declared_with_its_description(name: str, arguments: Any) -> None:
    declared = {
        one.name: one.description
        for one in description(name).entities
        if isinstance(one, DeclareLaunchArgument)
    }
    assert declared == {one.name: one.description for one in arguments}


def test_a_model_makes_the_node() -> None:
    node = make_node(model='123', namespace='left', port='0', log_level='debug')
    assert node.node_package == 'openpi_policy_ros'
    assert node.node_executable == 'openpi_policy_node'


def test_without_a_model_a_robots_launch_ends_with_the_hint() -> None:
    with pytest.raises(RuntimeError, match=r'serve\.launch\.py model:=/path/to/checkpoint'):
        make_node(robot='droid')


def test_without_a_model_and_a_robot_the_demo_is_served() -> None:
    assert make_node().node_executable == 'openpi_policy_node'


def executables(nodes: list[Node]) -> list[str]:
    return [str(node.node_executable) for node in nodes]


def test_a_fake_robot_comes_with_the_node_that_drives_it() -> None:
    nodes = make_nodes('fake_robot', robot='so101')
    assert executables(nodes) == ['openpi_policy_fake_robot', 'openpi_policy_node']


def test_two_robots_are_two_nodes_and_with_fakes_four() -> None:
    assert (
        executables(make_nodes('two_robots', robot='so101', model='m'))
        == ['openpi_policy_node'] * 2
    )
    four = executables(make_nodes('two_robots', robot='so101', fake='true'))
    assert four == ['openpi_policy_fake_robot', 'openpi_policy_node'] * 2


def test_two_robots_on_one_port_end_launch_with_the_reason() -> None:
    with pytest.raises(RuntimeError, match='both ports are 8001'):
        make_nodes('two_robots', robot='so101', model='m', left_port='8001')


def test_the_simulated_robot_comes_with_the_node_that_drives_it() -> None:
    nodes = make_nodes('sim', model='m', episodes='3')
    assert executables(nodes) == ['openpi_policy_sim_robot', 'openpi_policy_node']


def test_a_simulation_without_a_model_is_driven_by_the_demo_one() -> None:
    nodes = make_nodes('sim', episodes='3')
    assert executables(nodes) == ['openpi_policy_sim_robot', 'openpi_policy_node']
    with pytest.raises(RuntimeError, match='no model to serve'):
        make_nodes('sim', episodes='3', robot='droid_jointpos')
