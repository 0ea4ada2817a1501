# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Chunks as ROS messages: stamps, times, labels, and every number where it belongs."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('rclpy')

from openpi_policy_ros.control.chunk import JointTrajectoryRows, LabelledRows
from openpi_policy_ros.ros.publishers import array_message, trajectory_message

pytestmark = pytest.mark.ros


@pytest.mark.parametrize('quantity', ['positions', 'velocities'])
def test_a_trajectory_is_stamped_with_its_observation_and_timed_from_there(quantity: str) -> None:
    rows = np.arange(6, dtype=np.float64).reshape(3, 2)
    times = (500_000_000, 1_000_000_000, 1_500_000_001)
    message = trajectory_message(
        JointTrajectoryRows(('a', 'b'), quantity, rows, times),  # type: ignore[arg-type]
        1_700_000_000_123_456_789,
    )
    assert message.joint_names == ['a', 'b']
    stamp = message.header.stamp
    assert (stamp.sec, stamp.nanosec) == (1_700_000_000, 123_456_789)
    due = [(p.time_from_start.sec, p.time_from_start.nanosec) for p in message.points]
    assert due == [(0, 500_000_000), (1, 0), (1, 500_000_001)]
    other = {'positions': 'velocities', 'velocities': 'positions'}[quantity]
    for point, row in zip(message.points, rows, strict=True):
        assert list(getattr(point, quantity)) == list(row)
        assert len(getattr(point, other)) == 0


def test_an_array_is_labelled_by_step_and_dimension() -> None:
    rows = np.arange(6, dtype=np.float64).reshape(2, 3)
    message = array_message(LabelledRows(('x', 'y', 'gripper'), rows))
    steps, columns = message.layout.dim
    assert (steps.label, steps.size, steps.stride) == ('step', 2, 6)
    assert (columns.label, columns.size, columns.stride) == ('dimension: x,y,gripper', 3, 3)
    assert message.layout.data_offset == 0
    np.testing.assert_array_equal(np.reshape(message.data, (2, 3)), rows)
