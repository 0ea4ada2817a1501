# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The fake robot's controllers behave as those of ros2_controllers do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from openpi_policy_ros.fake_robot.forward_controller import ForwardController
from openpi_policy_ros.fake_robot.trajectory_controller import Trajectory, TrajectoryController

MS = 1_000_000
NOW = 1_000 * MS
STEPS = Trajectory(('a', 'b'), (100 * MS, 200 * MS), ((1.0, 0.0), (1.0, 2.0)))


@pytest.fixture
def controller() -> TrajectoryController:
    return TrajectoryController(['a', 'b'], [0.0, 0.0])


def test_it_stands_at_its_start_until_a_trajectory_comes(controller: TrajectoryController) -> None:
    assert controller.desired(NOW).tolist() == [0.0, 0.0]


def test_it_leads_straight_to_the_first_point_and_holds_the_last(
    controller: TrajectoryController,
) -> None:
    assert controller.take(STEPS, NOW) == ''
    wanted = {0: [0.0, 0.0], 50: [0.5, 0.0], 100: [1.0, 0.0], 150: [1.0, 1.0], 200: [1.0, 2.0]}
    for after, row in wanted.items():
        np.testing.assert_allclose(controller.desired(NOW + after * MS), row)
    assert controller.desired(NOW + 10_000 * MS).tolist() == [1.0, 2.0]
    assert controller.ends_ns == NOW + 200 * MS


def test_a_new_trajectory_replaces_the_old_one_from_the_desired_state(
    controller: TrajectoryController,
) -> None:
    controller.take(STEPS, NOW)
    back = Trajectory(('a', 'b'), (50 * MS,), ((0.0, 0.0),))
    assert controller.take(back, NOW + 50 * MS) == ''
    assert controller.desired(NOW + 50 * MS).tolist() == [0.5, 0.0]
    np.testing.assert_allclose(controller.desired(NOW + 75 * MS), [0.25, 0.0])
    assert controller.desired(NOW + 500 * MS).tolist() == [0.0, 0.0]


def test_joints_are_mapped_by_name(controller: TrajectoryController) -> None:
    assert controller.take(Trajectory(('b', 'a'), (MS,), ((5.0, 6.0),)), NOW) == ''
    assert controller.desired(NOW + MS).tolist() == [6.0, 5.0]


@pytest.mark.parametrize(
    ('change', 'problem'),
    [
        ({'joints': ('a', 'c')}, 'do not match'),
        ({'joints': ('a',), 'rows': ((1.0,), (1.0,))}, 'do not match'),
        ({'joints': ('a', 'a')}, 'do not match'),
        ({'times_ns': (), 'rows': ()}, 'no points'),
        ({'rows': ((1.0, 0.0),)}, '1 rows for 2 times'),
        ({'rows': ((1.0, 0.0), (1.0,))}, 'point 1 has 1 positions'),
        ({'times_ns': (200 * MS, 100 * MS)}, 'do not rise'),
        ({'times_ns': (100 * MS, 100 * MS)}, 'do not rise'),
        ({'stamp_ns': NOW - 201 * MS}, 'ended before'),
    ],
)
def test_a_message_that_is_refused_changes_nothing(
    controller: TrajectoryController, change: dict[str, object], problem: str
) -> None:
    controller.take(STEPS, NOW - 50 * MS)
    assert problem in controller.take(replace(STEPS, **change), NOW)  # type: ignore[arg-type]
    np.testing.assert_allclose(controller.desired(NOW), [0.5, 0.0])


def test_a_stamp_in_the_past_jumps_into_the_path(controller: TrajectoryController) -> None:
    assert controller.take(replace(STEPS, stamp_ns=NOW - 150 * MS), NOW) == ''
    np.testing.assert_allclose(controller.desired(NOW), [1.0, 1.0])


def test_a_stamp_in_the_future_is_waited_for(controller: TrajectoryController) -> None:
    assert controller.take(replace(STEPS, stamp_ns=NOW + 100 * MS), NOW) == ''
    np.testing.assert_allclose(controller.desired(NOW + 100 * MS), [0.5, 0.0])
    np.testing.assert_allclose(controller.desired(NOW + 200 * MS), [1.0, 0.0])


def test_nan_becomes_the_desired_position(controller: TrajectoryController) -> None:
    assert controller.take(Trajectory(('a', 'b'), (MS,), ((math.nan, 1.0),)), NOW) == ''
    desired = controller.desired(NOW + 2 * MS)
    assert math.isnan(desired[0])
    assert desired[1] == 1.0


def test_a_row_counts_until_the_next_one() -> None:
    forward = ForwardController(['a', 'b'], [0.1, 0.2])
    assert forward.desired(NOW).tolist() == [0.1, 0.2]
    assert forward.take([1.0, 2.0], NOW) == ''
    assert forward.desired(NOW + 10_000 * MS).tolist() == [1.0, 2.0]


@pytest.mark.parametrize('row', [[1.0], [1.0, 2.0, 3.0], [math.nan, 1.0], [1.0, math.inf]])
def test_a_row_that_is_refused_changes_nothing(row: list[float]) -> None:
    forward = ForwardController(['a', 'b'], [0.1, 0.2])
    assert forward.take(row, NOW) != ''
    assert forward.desired(NOW).tolist() == [0.1, 0.2]
