# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Outputs, limits, execution and safety of a robot file: what does not fit is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openpi_policy_ros.configuration.execution import Execution, Limits, Output, Safety
from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.schema import Section, validate
from openpi_policy_ros.errors import ConfigurationError

ARM = {'type': 'trajectory', 'topic': 'arm/joint_trajectory', 'joints': ['a', 'b']}
ARM = {**ARM, 'action_indices': [0, 1]}
GRIPPER = {'type': 'gripper', 'topic': 'grip', 'joints': ['finger'], 'action_indices': [2]}
ROBOT: dict[str, Any] = {
    'joints': {'names': ['a', 'b', 'c'], 'keys': ['state'], 'action_indices': [0, 1, -1]},
    'timing': {'action_rate': 15.0},
    'output_names': ['arm', 'hand'],
    'outputs': {'arm': ARM, 'hand': GRIPPER},
}


def refusal(section: type[Section], values: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        validate(section, values, 'robot.yaml')
    return '\n'.join(caught.value.problems)


def robot(**changes: Any) -> dict[str, Any]:
    return {**ROBOT, **changes}


def test_outputs_are_written_as_ros_parameters(tmp_path: Path) -> None:
    path = tmp_path / 'robot.yaml'
    path.write_text(
        """/**:
  ros__parameters:
    joints: {names: [a, b], keys: [state]}
    timing: {action_rate: 10.0}
    output_names: [arm, hand]
    outputs:
      arm: {type: array, topic: arm/commands, joints: [b, a], action_indices: [1, 0]}
      hand: {type: gripper, topic: hand/gripper_cmd, joints: [f], action_indices: [2],
             invert: true, threshold: 0.5, hysteresis: 0.1, closed: 0.8, open: 0.0,
             max_effort: 5.0}
    limits: {position_min: [-1.0, -2.0], position_max: [1.0, 2.0], velocity: [1.0, 2.0]}
    execution: {mode: open_loop, open_loop_steps: 8}
    safety: {velocity_scale: 0.25, interlock_topic: /estop_ok}
""",
        encoding='utf-8',
    )
    loaded = load_robot(str(path))
    assert loaded.outputs['arm'].joints == ['b', 'a']
    assert loaded.outputs['hand'].closed == 0.8
    assert loaded.limits.position_min == [-1.0, -2.0]
    assert (loaded.execution.mode, loaded.execution.open_loop_steps) == ('open_loop', 8)
    assert (loaded.safety.velocity_scale, loaded.safety.interlock_topic) == (0.25, '/estop_ok')
    assert validate(RobotConfig, loaded.model_dump(), 'again') == loaded


def test_the_defaults_are_those_of_the_table_of_gates() -> None:
    assert Safety().model_dump() == {
        'stale_hold': 0.5,
        'position_margin': 0.02,
        'clamp_max': 0.2,
        'velocity_scale': 0.5,
        'max_start_jump': 0.2,
        'watchdog_periods': 2.0,
        'max_failures': 3,
        'interlock_topic': '',
        'interlock_timeout': 0.2,
        'clock_jump': 1.0,
        'max_wait': 2.0,
        'remote_clients': 'reject_while_enabled',
    }
    assert Execution().model_dump() == {
        'mode': 'async',
        'control_rate': 50.0,
        'blend_steps': 3,
        'open_loop_steps': None,
        'min_lead_time': 0.02,
        'max_lookahead': 0.3,
        'ensemble_decay': 0.01,
        'rtc_horizon': None,
    }


@pytest.mark.parametrize('section', [Output, Limits, Execution, Safety])
def test_every_number_is_described_and_has_a_range(section: type[Section]) -> None:
    for name, field in section.model_fields.items():
        assert field.description, name
        bounded = field.annotation in (float, int, float | None, int | None)
        of_gripper = name in ('scale', 'offset', 'threshold', 'closed', 'open')
        assert field.metadata or not bounded or of_gripper, name


@pytest.mark.parametrize(
    ('change', 'named'),
    [
        ({'action_indices': [0]}, 'action_indices has 1 entries for 2 joints'),
        ({'joints': ['a', 'a']}, "joints must be different names, found ['a', 'a']"),
        ({'joints': ['a', '']}, "joints must be different names, found ['a', '']"),
        ({'action_indices': [0, -1]}, 'found [0, -1]; leave out a joint that no action moves'),
        ({'action_indices': [1, 1]}, 'must be different columns, found [1, 1]'),
        ({'topic': 'my topic'}, "topic: 'my topic' is no topic name"),
        ({'type': 'velocity'}, 'type: '),
        ({'threshold': 0.5}, 'threshold: only for grippers'),
        ({'invert': True, 'scale': 2.0}, 'scale, invert: only for grippers'),
        ({'max_effort': 1.0}, 'max_effort: type trajectory carries no effort'),
        ({'gripper': True, 'type': 'gripper'}, 'a gripper action takes one number, found 2 joints'),
    ],
)
def test_an_output_that_makes_no_sense_is_refused(change: dict[str, Any], named: str) -> None:
    validate(Output, ARM, 'robot.yaml')
    assert named in refusal(Output, {**ARM, **change})


@pytest.mark.parametrize(
    ('change', 'named'),
    [
        ({'scale': 0.0}, 'scale: 0 would lose the command'),
        ({'hysteresis': 0.1}, 'hysteresis: no effect without threshold'),
        ({'open': 0.04, 'closed': 0.01}, 'closed, open: no effect without threshold'),
        ({'threshold': 0.5}, 'threshold: needs closed and open'),
        ({'threshold': 0.5, 'closed': 0.1}, 'threshold: needs closed and open'),
        (
            {'threshold': 0.5, 'closed': 0.1, 'open': 0.0, 'scale': 2.0},
            'no effect with threshold; closed and open say it',
        ),
    ],
)
def test_a_gripper_that_makes_no_sense_is_refused(change: dict[str, Any], named: str) -> None:
    validate(Output, GRIPPER, 'robot.yaml')
    assert named in refusal(Output, {**GRIPPER, **change})


@pytest.mark.parametrize(
    ('change', 'named'),
    [
        ({'type': 'array'}, 'controller_names: no effect, as type array carries no names'),
        ({'controller_names': ['x']}, 'controller_names has 1 entries for 2 joints'),
        ({'controller_names': ['x', 'x']}, "must be different names, found ['x', 'x']"),
        ({'controller_names': ['x', '']}, "must be different names, found ['x', '']"),
        ({'controller_names': ['a', 'b']}, 'controller_names: no effect, as joints says the same'),
    ],
)
def test_names_of_a_controller_that_have_no_effect_are_refused(
    change: dict[str, Any], named: str
) -> None:
    good = {**ARM, 'controller_names': ['x', 'y']}
    assert validate(Output, good, 'robot.yaml').message_names == ['x', 'y']
    assert validate(Output, ARM, 'robot.yaml').message_names == ['a', 'b']
    assert named in refusal(Output, {**good, **change})


def test_fingers_of_one_gripper_may_share_a_column() -> None:
    values = {**ARM, 'type': 'array', 'gripper': True, 'action_indices': [7, 7]}
    assert validate(Output, values, 'robot.yaml').is_gripper


@pytest.mark.parametrize(
    ('values', 'named'),
    [
        ({'position_min': [0.0]}, 'position_min has 1 entries and position_max 0'),
        (
            {'position_min': [0.0, 1.0], 'position_max': [1.0, 1.0]},
            'position_min must be below position_max (joint 1: 1.0 to 1.0)',
        ),
        ({'velocity': [1.0, 0.0]}, 'velocity must be above 0'),
        ({'velocity': [float('nan')]}, 'velocity.0: Input should be a finite number'),
    ],
)
def test_limits_that_would_let_anything_pass_are_refused(
    values: dict[str, Any], named: str
) -> None:
    assert named in refusal(Limits, values)


@pytest.mark.parametrize(
    ('values', 'named'),
    [
        ({'mode': 'rct'}, 'mode: '),
        ({'control_rate': 0.5}, 'control_rate: '),
        ({'max_lookahead': 0.03}, 'max_lookahead is 0.03 s, expected more than min_lead_time'),
        ({'control_rate': 2.0}, 'or a trajectory ends before the next comes'),
        ({'open_loop_steps': 0}, 'open_loop_steps: '),
    ],
)
def test_an_execution_that_cannot_be_played_is_refused(values: dict[str, Any], named: str) -> None:
    assert named in refusal(Execution, values)


def test_a_safety_that_never_lets_anything_pass_or_always_is_refused() -> None:
    text = refusal(
        Safety,
        {'velocity_scale': 1.5, 'watchdog_periods': 1.0, 'interlock_topic': 'a b', 'max_wait': 0.0},
    )
    for name in ('velocity_scale', 'watchdog_periods', 'interlock_topic', 'max_wait'):
        assert f'{name}: ' in text


@pytest.mark.parametrize(
    ('change', 'named'),
    [
        ({'output_names': ['arm', 'hand', 'arm']}, "output_names are not unique: ['arm', 'hand'"),
        ({'outputs': {'arm': ARM}}, "output_names without a group outputs.<name>: ['hand']"),
        ({'output_names': ['arm']}, "outputs.hand: 'hand' is not listed in output_names"),
        (
            {'outputs': {'arm': ARM, 'hand': {**GRIPPER, 'topic': ARM['topic']}}},
            "outputs.hand.topic: 'arm/joint_trajectory' is that of outputs.arm",
        ),
        (
            {'outputs': {'arm': ARM, 'hand': {**GRIPPER, 'joints': ['a']}}},
            "outputs.hand.joints: 'a' belongs to outputs.arm",
        ),
        (
            {'outputs': {'arm': ARM, 'hand': {**GRIPPER, 'action_indices': [1]}}},
            'outputs.hand.action_indices: column 1 commands outputs.arm',
        ),
        (
            {'outputs': {'arm': {**ARM, 'joints': ['a', 'x']}, 'hand': GRIPPER}},
            "outputs.arm.joints: 'x' is not in joints.names, so where it is cannot be known",
        ),
        (
            {'outputs': {'arm': {**ARM, 'action_indices': [1, 0]}, 'hand': GRIPPER}},
            "outputs.arm.action_indices: 'a' takes column 1, but 0 in joints.action_indices",
        ),
        (
            {'outputs': {'arm': {**ARM, 'joints': ['a', 'c'], 'action_indices': [0, 2]}}},
            "outputs.arm.action_indices: 'c' takes column 2, but -1 in joints.action_indices (no "
            'action moves it)',
        ),
        (
            {
                'outputs': {
                    'arm': {**ARM, 'joints': ['a'], 'action_indices': [0]},
                    'hand': {**GRIPPER, 'joints': ['c'], 'action_indices': [1]},
                }
            },
            "outputs.hand.action_indices: 'c' takes column 1, which is that of 'b' in joints.",
        ),
        ({'timing': {}}, 'timing.action_rate: required with outputs'),
        ({'joints': {}}, 'outputs: need joints.names'),
        (
            {'limits': {'velocity': [1.0, 1.0]}},
            'limits.velocity has 2 entries for 3 joints.names',
        ),
    ],
)
def test_outputs_and_the_rest_of_the_robot_must_agree(change: dict[str, Any], named: str) -> None:
    validate(RobotConfig, ROBOT, 'robot.yaml')
    assert named in refusal(RobotConfig, robot(**change))


def test_a_gripper_may_be_a_joint_that_nobody_measures_and_an_action_that_joints_leave_out() -> (
    None
):
    outputs = {'arm': ARM, 'hand': {**GRIPPER, 'joints': ['c'], 'action_indices': [3]}}
    assert validate(RobotConfig, robot(outputs=outputs), 'robot.yaml').outputs['hand'].is_gripper
    assert validate(RobotConfig, ROBOT, 'robot.yaml').outputs['hand'].joints == ['finger']


def test_problems_of_sensors_and_outputs_come_in_one_message() -> None:
    text = refusal(RobotConfig, robot(camera_names=['front'], timing={}))
    assert 'camera_names without a group cameras.<name>' in text
    assert 'timing.action_rate: required with outputs' in text
