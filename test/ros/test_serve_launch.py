# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The launch file itself, where ROS is installed."""

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

FILE = Path(__file__).resolve().parents[2] / 'launch' / 'serve.launch.py'


def description() -> Any:
    return get_launch_description_from_python_launch_file(str(FILE))


def make_node(**values: str) -> Node:
    context = launch.LaunchContext()
    node = None
    for entity in description().entities:
        if isinstance(entity, DeclareLaunchArgument):
            context.launch_configurations[entity.name] = values.get(entity.name, '')
        elif isinstance(entity, OpaqueFunction):
            (node,) = entity.execute(context)
    assert isinstance(node, Node)
    return node


def test_every_argument_is_declared_with_its_description() -> None:
    declared = {
        one.name: one.description
        for one in description().entities
        if isinstance(one, DeclareLaunchArgument)
    }
    assert declared == {one.name: one.description for one in ARGUMENTS}


def test_a_model_makes_the_node() -> None:
    node = make_node(model='123', namespace='left', port='0', log_level='debug')
    assert node.node_package == 'openpi_policy_ros'
    assert node.node_executable == 'openpi_policy_node'


def test_without_a_model_launch_ends_with_the_hint() -> None:
    with pytest.raises(RuntimeError, match=r'serve\.launch\.py model:=/path/to/checkpoint'):
        make_node()
