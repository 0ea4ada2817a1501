# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The commanded numbers of a chunk: by name, in the controllers' order, in ROS units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes import make_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.axes import Axes, axes_problems, make_axes
from openpi_policy_ros.control.joints import JointMap
from openpi_policy_ros.control.match import robot_problems
from openpi_policy_ros.errors import InvalidOutput

LEFT = {'type': 'array', 'topic': 'left', 'joints': ['b', 'a'], 'action_indices': [4, 2]}
RIGHT = {'type': 'trajectory', 'topic': 'right', 'joints': ['c'], 'action_indices': [0]}
HAND = {'type': 'gripper', 'topic': 'hand', 'joints': ['d'], 'action_indices': [3]}
JOINTS = {
    'names': ['a', 'b', 'c', 'd'],
    'keys': ['state'],
    'scale': [2.0, -4.0, 1.0, 8.0],
    'offset': [0.5, 1.0, 0.0, 2.0],
    'velocity_scale': [0.5, 0.25, 1.0, 8.0],
}


def robot(execution: dict[str, Any] | None = None, **outputs: Any) -> RobotConfig:
    return validate(
        RobotConfig,
        {
            'joints': JOINTS,
            'timing': {'action_rate': 15.0},
            'output_names': list(outputs),
            'outputs': outputs,
            'execution': execution or {},
        },
        'test',
    )


def spec(space: str = 'joint_position', **changes: Any) -> Any:
    return make_spec(10, 5, action_space=space, **changes)


TWO_ARMS = robot(left=LEFT, right=RIGHT, hand=HAND)


def test_axes_are_the_outputs_side_by_side_in_the_order_of_their_names() -> None:
    axes = make_axes(TWO_ARMS, spec())
    assert len(axes) == 4
    assert axes.names == ('b', 'a', 'c', 'd')
    assert axes.columns == (4, 2, 0, 3)
    assert axes.outputs == {'left': slice(0, 2), 'right': slice(2, 3), 'hand': slice(3, 4)}
    assert axes.gripper.tolist() == [False, False, False, True]
    assert axes.position.tolist() == [True] * 4
    assert not axes.velocity


def test_rows_are_in_ros_units_and_a_gripper_keeps_the_policys() -> None:
    rows = make_axes(TWO_ARMS, spec()).rows(np.float32([[0.25, 9.0, 3.5, 0.75, 5.0]]))
    assert rows.dtype == np.float64
    np.testing.assert_array_equal(rows, [[(5.0 - 1.0) / -4.0, (3.5 - 0.5) / 2.0, 0.25, 0.75]])


def test_velocities_have_their_own_scale_and_no_offset_and_grippers_stay_positions() -> None:
    axes = make_axes(robot(left=LEFT, hand=HAND), spec('joint_velocity'))
    assert axes.velocity
    assert axes.position.tolist() == [False, False, True]
    np.testing.assert_array_equal(axes.rows([[0.0, 0.0, 3.0, 0.75, 5.0]]), [[20.0, 6.0, 0.75]])


@settings(deadline=None)
@given(
    space=st.sampled_from(['joint_position', 'joint_velocity']),
    columns=st.permutations(range(5)),
    order=st.permutations('abc'),
    action=st.lists(st.floats(-10.0, 10.0), min_size=5, max_size=5),
)
def test_rows_agree_with_the_joint_map(
    space: str, columns: list[int], order: list[str], action: list[float]
) -> None:
    indices = dict(zip('abc', columns[:3], strict=True))
    arm = {
        'type': 'array',
        'topic': 'arm',
        'joints': list(order),
        'action_indices': [indices[joint] for joint in order],
    }
    one = robot(arm=arm)
    joints = JointMap(one.joints.model_copy(update={'action_indices': [*columns[:3], -1]}))
    expected = joints.to_positions if space == 'joint_position' else joints.to_velocities
    by_name = dict(zip('abc', expected([action])[0], strict=True))
    rows = make_axes(one, spec(space)).rows([action])
    assert dict(zip(order, rows[0], strict=True)) == by_name


def test_a_chunk_of_another_shape_than_the_outputs_need_is_refused() -> None:
    axes = make_axes(TWO_ARMS, spec())
    for shape in ((4,), (2, 4), (1, 2, 5)):
        with pytest.raises(InvalidOutput, match=r'expected \[steps, 5 columns or more\]'):
            axes.rows(np.zeros(shape))


def test_a_robot_without_outputs_has_no_axes_and_no_problem() -> None:
    for space in ('joint_position', 'cartesian_position', ''):
        assert axes_problems(robot(), spec(space)) == []
    axes = make_axes(robot(), spec())
    assert (len(axes), axes.outputs) == (0, {})
    assert axes.rows(np.zeros((3, 5))).shape == (3, 0)


def test_outputs_that_fit_have_no_problem() -> None:
    assert axes_problems(TWO_ARMS, spec()) == []
    assert axes_problems(robot(left=LEFT, hand=HAND), spec('joint_velocity')) == []


@pytest.mark.parametrize(
    ('one', 'policy', 'named'),
    [
        (
            robot(left={**LEFT, 'action_indices': [4, 5]}),
            spec(),
            'outputs.left.action_indices: a takes column 5, but the policy has 5 (0..4)',
        ),
        (
            robot(left=LEFT),
            spec('cartesian_position'),
            "outputs: the action space is 'cartesian_position', which no output can express",
        ),
        (robot(hand=HAND), spec(''), 'outputs: the action space is not declared'),
        (
            robot(right=RIGHT),
            spec('joint_velocity'),
            'outputs.right.type: a trajectory holds positions, but the action space is '
            'joint_velocity; use type: array',
        ),
        (
            robot({'mode': 'rtc'}, left=LEFT),
            spec(),
            'execution.mode: fake does not support real-time chunking (rtc)',
        ),
        (
            robot({'open_loop_steps': 11}, left=LEFT),
            spec(),
            'execution.open_loop_steps is 11, but a chunk has 10 actions',
        ),
    ],
)
def test_outputs_that_do_not_fit_the_policy_are_named(
    one: RobotConfig, policy: Any, named: str
) -> None:
    (problem,) = axes_problems(one, policy)
    assert problem.startswith(named)
    assert problem in robot_problems(one, policy)


def test_a_policy_that_supports_it_may_run_in_real_time_chunks() -> None:
    assert axes_problems(robot({'mode': 'rtc'}, left=LEFT), spec(supports_rtc=True)) == []


@pytest.mark.parametrize('execution', [{'mode': 'rtc'}, {'open_loop_steps': 11}])
def test_how_chunks_would_be_played_is_no_matter_where_nothing_is_driven(
    execution: dict[str, Any],
) -> None:
    assert axes_problems(robot(execution), spec()) == []


def test_a_gripper_in_a_trajectory_goes_with_a_policy_of_velocities() -> None:
    grip = {**RIGHT, 'gripper': True}
    assert axes_problems(robot(grip=grip), spec('joint_velocity')) == []
    assert isinstance(make_axes(robot(grip=grip), spec('joint_velocity')), Axes)
