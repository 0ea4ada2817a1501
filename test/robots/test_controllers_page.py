# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The controllers of docs/controllers.md are those that the shipped robot files command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
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


def lag(updates: int, action_rate: float, control_rate: float = 50.0) -> float:
    """Return how far an arm on Humble is behind a steady motion, at most, in seconds.

    Each message leads from where the last command was through the actions still to come; the first
    update after it repeats that command.
    """
    position, most = 0.0, 0.0
    for tick in range(400):
        begun = tick / control_rate
        to_come = np.floor(begun * action_rate + 1e-9) + np.arange(1, 5)
        times = np.array([begun, *(to_come / action_rate)])
        path = np.array([position, *times[1:]])
        for update in range(updates):
            now = begun + update / (updates * control_rate)
            if update:
                position = float(np.interp(now, times, path))
            most = max(most, now - position)
    return most


def test_the_lag_on_humble_is_bounded_as_the_page_says() -> None:
    assert '1 / (`timing.action_rate` · (*r* − 1))' in PAGE
    numbers = re.search(r'(\d+) ms for \*r\* = (\d+), (\d+) ms for (\d+), (\d+) ms for (\d+)', PAGE)
    assert numbers is not None
    told = [int(text) for text in numbers.groups()]
    for milliseconds, updates in zip(told[::2], told[1::2], strict=True):
        assert milliseconds == round(1e3 / (15.0 * (updates - 1)))
        for action_rate in (15.0, 30.0, 50.0):
            bound = 1.0 / (action_rate * (updates - 1))
            assert 0.3 * bound < lag(updates, action_rate) <= bound + 1e-9
    assert lag(1, 15.0) > 7.0, 'never moves'
