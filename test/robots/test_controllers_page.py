# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The controllers of docs/controllers.md are those that the shipped robot files command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from openpi_policy_ros.configuration.robot import load_robot

PAGE = (Path(__file__).parents[2] / 'docs' / 'controllers.md').read_text(encoding='utf-8')
FILES = [
    yaml.safe_load(text)
    for text in re.findall(r'^```yaml ros2_control\n(.*?)^```', PAGE, re.S | re.M)
]
KINDS = {
    'trajectory': 'joint_trajectory_controller/JointTrajectoryController',
    'array': 'forward_command_controller/ForwardCommandController',
}
STARTS_AT_THE_COMMAND = ('interpolate_from_desired_state', 'open_loop_control')


def controllers(file: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield (name, type or '', parameters) of each controller of a file, whatever its namespace."""
    if len(file) == 1:
        (file,) = file.values()
    manager = file.get('controller_manager', {}).get('ros__parameters', {})
    for name, parameters in file.items():
        if name != 'controller_manager':
            kind = manager.get(name, {}).get('type', '')
            yield name, kind, parameters['ros__parameters']


def test_the_page_has_a_file_for_every_robot_with_outputs() -> None:
    assert len(FILES) == 4


@pytest.mark.parametrize('number', range(len(FILES)))
def test_a_trajectory_starts_where_the_last_one_was_meant_to_be(number: int) -> None:
    for name, kind, parameters in controllers(FILES[number]):
        # The controller named like MoveIt's is only told what is new.
        if kind == KINDS['trajectory'] or name == 'fr3_arm_controller':
            assert [parameters.get(key) for key in STARTS_AT_THE_COMMAND].count(True) == 1


@pytest.mark.parametrize(('robot', 'number'), [('so101', 0), ('aloha', 3)])
def test_controllers_of_the_page_take_what_the_robot_file_sends(robot: str, number: int) -> None:
    known = {
        name: (kind, parameters['joints']) for name, kind, parameters in controllers(FILES[number])
    }
    outputs = load_robot(robot).outputs.values()
    assert {output.topic.split('/')[-2] for output in outputs} == set(known)
    for output in outputs:
        kind, joints = known[output.topic.split('/')[-2]]
        assert kind == KINDS[output.type]
        names = output.message_names
        if output.type == 'array':
            # Not by name: by order.
            names = [joint.rpartition('/')[2] for joint in output.joints]
        assert names == joints
        suffix = 'joint_trajectory' if output.type == 'trajectory' else 'commands'
        assert output.topic.endswith(f'/{suffix}')


def test_the_page_names_what_fr3_commands() -> None:
    outputs = load_robot('fr3').outputs
    assert [name for name, _, _ in controllers(FILES[2])] == ['fr3_arm_controller']
    assert outputs['arm'].topic == 'fr3_arm_controller/joint_trajectory'
    assert f'`{outputs["hand"].topic}`' in PAGE


@pytest.mark.parametrize('number', range(len(FILES)))
def test_update_rates_are_well_above_ours(number: int) -> None:
    file = FILES[number]
    (inner,) = file.values() if len(file) == 1 else (file,)
    rate = inner.get('controller_manager', {}).get('ros__parameters', {}).get('update_rate')
    ours = max(load_robot(robot).execution.control_rate for robot in ('fr3', 'aloha', 'so101'))
    assert rate is None or rate >= 4 * ours
