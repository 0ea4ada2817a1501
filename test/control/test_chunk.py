# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A chunk is laid out for ROS: the named joints, timed from the observation, in ROS units."""

from typing import Any

import numpy as np
import pytest
from fakes import make_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.chunk import ChunkLayout
from openpi_policy_ros.policies.base import ACTIONS, ActionChunk


def robot(rate: float | None = 15.0, **joints: Any) -> RobotConfig:
    values: dict[str, Any] = {
        'joints': {
            'names': ['a', 'b', 'c'],
            'keys': ['state'],
            'scale': [2.0, 1.0, -1.0],
            'offset': [1.0, 0.0, 0.0],
            'action_indices': [2, -1, 0],
            **joints,
        },
        'timing': {} if rate is None else {'action_rate': rate},
    }
    return validate(RobotConfig, values, 'test')


def chunk(horizon: int = 2, width: int = 4) -> ActionChunk:
    return ActionChunk({ACTIONS: np.arange(horizon * width, dtype=np.float32).reshape(-1, width)})


def test_positions_of_the_named_joints_in_ros_units() -> None:
    layout = ChunkLayout(robot(), make_spec(2, 4))
    trajectory = layout.trajectory(chunk())
    assert trajectory is not None
    assert (trajectory.names, trajectory.quantity) == (('a', 'c'), 'positions')
    np.testing.assert_array_equal(trajectory.rows, [[0.5, 0.0], [2.5, -4.0]])


def test_velocities_of_the_named_joints_in_ros_units() -> None:
    layout = ChunkLayout(robot(), make_spec(2, 4, action_space='joint_velocity'))
    trajectory = layout.trajectory(chunk())
    assert trajectory is not None
    assert trajectory.quantity == 'velocities'
    np.testing.assert_array_equal(trajectory.rows, [[1.0, 0.0], [3.0, -4.0]])


@settings(deadline=None)
@given(rate=st.floats(0.1, 1000.0), horizon=st.integers(1, 60))
def test_row_i_is_due_at_i_plus_one_action_periods(rate: float, horizon: int) -> None:
    layout = ChunkLayout(robot(rate), make_spec(horizon, 4))
    trajectory = layout.trajectory(chunk(horizon))
    assert trajectory is not None
    assert len(trajectory.times_ns) == horizon
    for i, time_ns in enumerate(trajectory.times_ns):
        assert abs(time_ns - (i + 1) * 1e9 / rate) <= 0.5 + 1e-9 * time_ns
    assert all(b > a for a, b in zip(trajectory.times_ns, trajectory.times_ns[1:], strict=False))


@pytest.mark.parametrize(
    ('joints', 'space', 'said'),
    [
        ({'action_indices': []}, 'joint_position', 'names no joint for any action'),
        ({'action_indices': [-1, -1, -1]}, 'joint_position', 'names no joint for any action'),
        ({}, 'cartesian_position', "is 'cartesian_position', not joint_position or joint_velo"),
        ({}, '', 'is not declared'),
    ],
)
def test_what_is_not_joint_rows_is_no_trajectory_and_says_why(
    joints: dict[str, Any], space: str, said: str
) -> None:
    layout = ChunkLayout(robot(None, **joints), make_spec(2, 4, action_space=space))
    assert layout.trajectory(chunk()) is None
    assert said in layout.no_trajectory


def test_every_column_is_labelled_whatever_it_means() -> None:
    spec = make_spec(2, 3, action_names=('x', 'y', 'gripper'), action_space='cartesian_velocity')
    rows = ChunkLayout(RobotConfig(), spec).labelled(chunk(2, 3))
    assert rows.labels == ('x', 'y', 'gripper')
    np.testing.assert_array_equal(rows.rows, [[0, 1, 2], [3, 4, 5]])
