# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot file that does not fit the policy is found out before anything moves."""

from dataclasses import replace
from typing import Any

import pytest

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.match import robot_problems
from openpi_policy_ros.policies.base import ACTIONS, CameraSpec, PolicySpec, StateSpec

EXTERIOR, WRIST = 'observation/exterior_image_1_left', 'observation/wrist_image_left'
SPEC = PolicySpec(
    name='fake',
    model='m',
    cameras=(
        CameraSpec('observation.images.base_0_rgb', (EXTERIOR,), required=True),
        CameraSpec('observation.images.left_wrist_0_rgb', (WRIST,), required=True),
        CameraSpec('observation.images.right_wrist_0_rgb', ('right',), required=False),
    ),
    state=StateSpec(('observation/joint_position', 'observation/gripper_position'), max_dim=32),
    horizon=10,
    action_dim=8,
    action_space='joint_velocity',
    action_names=tuple('abcdefgh'),
    output_shapes={ACTIONS: (10, 8)},
    handshake={},
)

UNMAPPED: dict[str, Any] = {'key_map': [], 'state_dims': []}


def droid(**changes: dict[str, Any]) -> RobotConfig:
    values = load_robot('droid').model_dump()
    for group, fields in changes.items():
        values[group] = {**values[group], **fields}
    return validate(RobotConfig, values, 'test')


def test_the_shipped_droid_file_fits_a_droid_policy() -> None:
    assert robot_problems(droid(), SPEC) == []


def test_a_robot_without_sensors_needs_nothing() -> None:
    assert robot_problems(RobotConfig(), SPEC) == []


def test_a_misspelt_camera_key_cannot_blind_the_robot() -> None:
    cameras = {'wrist': {'topic': 't', 'key': 'observation/wrist_image_lft'}}
    # One without a key map of its own; see test_robot_file.py for the other.
    first, second = robot_problems(droid(cameras=cameras, profile=UNMAPPED), SPEC)
    assert first == (
        "cameras.wrist.key: the policy reads no image called 'observation/wrist_image_lft', "
        "did you mean 'observation/wrist_image_left'?"
    )
    assert f"none carries '{WRIST}', which the policy requires for" in second
    assert 'profile.optional_cameras' in second


@pytest.mark.parametrize(
    ('profile', 'key', 'said'),
    [
        (
            UNMAPPED,
            'observation/joint_positions',
            "no state called 'observation/joint_positions', did you mean",
        ),
        (
            {'state_dims': []},
            'observation/joint_position',
            "no joint carries 'observation/gripper_position'",
        ),
    ],
)
def test_every_key_of_the_state_must_come_and_no_other(
    profile: dict[str, Any], key: str, said: str
) -> None:
    problems = robot_problems(droid(joints={'keys': [key]}, profile=profile), SPEC)
    assert any(said in problem for problem in problems), problems


def test_unmapped_state_keys_are_alternatives() -> None:
    spec = replace(SPEC, cameras=(), state=StateSpec(('state', 'observation.state'), max_dim=32))
    robot = validate(RobotConfig, {'joints': {'names': ['a'], 'keys': ['state']}}, 'test')
    assert robot_problems(robot, spec) == []


def test_an_action_column_that_is_not_there_and_a_missing_rate_are_told_together() -> None:
    robot = droid(
        joints={'action_indices': [0, 1, 2, 3, 4, 5, 8, -1]}, timing={'action_rate': None}
    )
    first, second = robot_problems(robot, SPEC)
    assert first == (
        'joints.action_indices: panda_joint7 takes column 8, but the policy has 8 (0..7)'
    )
    assert second.startswith('timing.action_rate: required with joints.action_indices')


def test_without_a_trajectory_no_rate_is_needed() -> None:
    robot = droid(timing={'action_rate': None})
    assert robot_problems(robot, replace(SPEC, action_space='cartesian_position')) == []


def test_a_policy_that_looks_back_needs_the_rate_of_its_steps() -> None:
    spec = replace(SPEC, action_space='cartesian_position', history_offsets=(-23, -16, -8, 0))
    (problem,) = robot_problems(droid(timing={'action_rate': None}), spec)
    assert problem == (
        'timing.action_rate: required, as the policy looks back at images of 23 action steps ago; '
        'write the rate of its training data (e.g. 15.0 for DROID)'
    )
    assert robot_problems(droid(), spec) == []
    blind = droid(timing={'action_rate': None}).model_copy(
        update={'camera_names': [], 'cameras': {}}
    )
    assert not any('action_rate' in problem for problem in robot_problems(blind, spec))


@pytest.mark.parametrize('offsets', [(-8,), (0, -8), (-8, -8, 0), (-8, 0, 1), (0, 0)])
def test_a_history_in_no_clear_order_is_no_spec(offsets: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match='rise strictly and end with 0'):
        replace(SPEC, history_offsets=offsets)
