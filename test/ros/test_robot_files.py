# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every shipped robot file is a ROS parameter file, and means the same read either way."""

from __future__ import annotations

from pathlib import Path

import pytest

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.robot_file import read_robot_parameters
from openpi_policy_ros.configuration.schema import flatten
from openpi_policy_ros.ros.declarations import declarations, free_form
from openpi_policy_ros.ros.settings import validate_parameters

FILES = sorted(
    path for path in config_directory().glob('*.yaml') if '/**:' in path.read_text(encoding='utf-8')
)
every = pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)


@every
def test_the_node_reads_it_as_the_server_does(path: Path) -> None:
    node = validate_parameters({'model': 'm', 'robot': path.stem})
    robot = load_robot(path.stem)
    assert {name: getattr(node, name) for name in RobotConfig.model_fields} == dict(robot)


@every
def test_every_key_of_it_is_declared_or_free(path: Path) -> None:
    robot = load_robot(path.stem)
    known = declarations(robot.camera_names, robot.output_names)
    for name, _ in flatten(read_robot_parameters(path)):
        assert name in known or free_form(name) is not None, name


@pytest.mark.ros
def test_ros_parses_every_file_to_the_same_values() -> None:
    rclpy = pytest.importorskip('rclpy')
    from rclpy.node import Node

    for path in FILES:
        context = rclpy.Context()
        rclpy.init(args=['--ros-args', '--params-file', str(path)], context=context)
        try:
            node = Node(
                'reader',
                context=context,
                automatically_declare_parameters_from_overrides=True,
                start_parameter_services=False,
                enable_rosout=False,
            )
            expected = dict(flatten(read_robot_parameters(path)))
            found = {name: node.get_parameter(name).value for name in expected}
            node.destroy_node()
        finally:
            rclpy.shutdown(context=context)
        assert {
            name: list(value) if isinstance(expected[name], list) else value
            for name, value in found.items()
        } == expected
