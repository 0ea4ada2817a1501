# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every parameter of a running node has a type, a description, and numbers have a range."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

pytest.importorskip('rclpy')

import rclpy
from node_process import new_domain
from rcl_interfaces.msg import ParameterDescriptor
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.parameter import Parameter

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.ros.declarations import free_form, is_dynamic
from openpi_policy_ros.ros.node import PolicyNode
from openpi_policy_ros.ros.parameters import FOREIGN

pytestmark = pytest.mark.ros

ROBOTS = sorted(
    path.stem
    for path in config_directory().glob('*.yaml')
    if '/**' in yaml.safe_load(path.read_text(encoding='utf-8'))
)
NUMBERS = (Parameter.Type.INTEGER, Parameter.Type.DOUBLE)


@pytest.fixture(scope='module')
def context() -> Iterator[rclpy.Context]:
    made = rclpy.Context()
    rclpy.init(context=made, domain_id=new_domain())
    yield made
    rclpy.shutdown(context=made)


def test_robot_files_are_shipped() -> None:
    assert len(ROBOTS) >= 3


def test_services_that_set_parameters_take_turns(context: rclpy.Context) -> None:
    # Two judged at once would each be judged without the other, and apply together what cannot be.
    node = PolicyNode(context=context)
    try:
        kinds = (SetParameters, SetParametersAtomically)
        first, second = (one for one in node.services if one.srv_type in kinds)
        assert first.callback_group.beginning_execution(first)
        assert not second.callback_group.can_execute(second)
        others = [one for one in node.services if one.srv_type not in kinds]
        assert others
        assert all(one.callback_group.can_execute(one) for one in others)
        first.callback_group.ending_execution(first)
        assert second.callback_group.can_execute(second)
    finally:
        node.destroy_node()


@pytest.mark.parametrize('robot', ['', *ROBOTS])
def test_all_parameters_say_what_they_are(context: rclpy.Context, robot: str) -> None:
    node = PolicyNode(
        context=context, parameter_overrides=[Parameter('robot', value=robot)] if robot else []
    )
    try:
        names = sorted(set(node.get_parameters_by_prefix('')) - set(FOREIGN))
        assert len(names) > 60
        descriptors = node.describe_parameters(names)
        for name, descriptor in zip(names, descriptors, strict=True):
            parameter = node.get_parameter(name)
            check(name, parameter, descriptor)
        if robot:
            assert [
                name for name in names if name.startswith('profile.key_map') and has(node, name)
            ]
    finally:
        node.destroy_node()


def has(node: PolicyNode, name: str) -> bool:
    return node.get_parameter(name).type_ != Parameter.Type.NOT_SET


def check(name: str, parameter: Parameter, descriptor: ParameterDescriptor) -> None:
    assert len(descriptor.description) > 15, name
    if free_form(name) is not None:
        return
    said = descriptor.additional_constraints
    at_once = 'takes effect at once' in said
    assert at_once == is_dynamic(name), name
    assert at_once or 'takes effect when the node' in said, name
    if parameter.type_ == Parameter.Type.NOT_SET:
        # ROS has no null: typed by its constraints until it is set.
        assert 'absent = none' in said, name
        kind = said.partition(';')[0]
        assert kind.startswith(('true or false', 'integer', 'number', 'text', 'list of ')), name
        is_number = kind in ('integer', 'number')
    else:
        assert not descriptor.dynamic_typing, name
        is_number = parameter.type_ in NUMBERS
    ranges = [*descriptor.integer_range, *descriptor.floating_point_range]
    assert len(ranges) == is_number, name
    if is_number:
        assert ranges[0].from_value < ranges[0].to_value, name
