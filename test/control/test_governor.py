# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""No row and no waypoint asks more of a joint than it may do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rig import ARM_ARRAY, GRIPPER, MS, make_robot, make_spec

from openpi_policy_ros.control.axes import make_axes
from openpi_policy_ros.control.governor import Governor, chunk_problem
from openpi_policy_ros.control.limits import JointLimits
from openpi_policy_ros.errors import ConfigurationError

LOOKAHEAD = 0.3
ARM = slice(0, 2)
NONE = np.zeros(2, bool)
NUMBERS = st.floats(-10.0, 10.0)


def rows_of(count: int) -> st.SearchStrategy[np.ndarray]:
    return arrays.arrays(np.float64, (count, 2), elements=NUMBERS)


def make_governor(
    space: str = 'joint_position', disabled: frozenset[str] = frozenset(), **safety: float
) -> Governor:
    """Two joints, ±2 and ±1 rad, 2 and 1 rad/s, of which half may be used."""
    robot = make_robot(safety=safety)
    axes = make_axes(robot, make_spec(space))
    limits = JointLimits(np.array([-2.0, -1.0]), np.array([2.0, 1.0]), np.array([2.0, 1.0]))
    return Governor(axes, limits, robot.safety, LOOKAHEAD, unpaced=NONE, disabled=disabled)


@given(rows=st.integers(1, 5).flatmap(rows_of))
def test_clamped_rows_keep_the_margin_and_rows_within_stay_as_they_are(rows: np.ndarray) -> None:
    clamped = make_governor().clamp(rows, {})
    bound = np.array([1.98, 0.98])
    assert (np.abs(clamped.rows) <= bound).all()
    inside = np.abs(rows) <= bound
    assert (clamped.rows[inside] == rows[inside]).all()
    assert clamped.changed == (not inside.all())
    assert bool(clamped.violation) == bool((np.abs(rows) - bound > 0.2).any())


def test_a_violation_names_the_joint_and_by_how_much() -> None:
    violation = make_governor().clamp(np.array([[0.0, 1.5]]), {}).violation
    assert violation.startswith('S6: ')
    assert 'elbow by 0.520' in violation
    assert 'shoulder' not in violation


def test_a_number_that_is_none_is_a_violation_whatever_it_commands() -> None:
    for space in ('joint_position', 'joint_velocity'):
        clamped = make_governor(space).clamp(np.array([[0.0, np.nan]]), {'elbow': 0.0})
        assert 'elbow' in clamped.violation


def test_a_gripper_closes_fully_and_its_own_controller_paces_it() -> None:
    robot = make_robot({'arm': ARM_ARRAY, 'hand': GRIPPER})
    axes = make_axes(robot, make_spec())
    limits = JointLimits(
        np.array([-2.0, -2.0, 0.0]), np.array([2.0, 2.0, 0.8]), np.array([2.0, 2.0, 0.1])
    )
    unpaced = np.array([False, False, True])
    governor = Governor(axes, limits, robot.safety, LOOKAHEAD, unpaced=unpaced)
    row = np.array([0.0, 0.0, 0.8])
    assert not governor.clamp(row[None], {}).changed
    assert not governor.step(row, np.zeros(3), 20 * MS).slowed


def test_a_margin_that_leaves_no_room_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match='elbow'):
        make_governor(position_margin=1.0)


@given(q=st.floats(-1.5, 1.5), velocity=NUMBERS)
def test_a_velocity_does_not_lead_beyond_the_position_limit(q: float, velocity: float) -> None:
    clamped = make_governor('joint_velocity').clamp(
        np.array([[0.0, velocity]]), {'shoulder': 0.0, 'elbow': q}
    )
    kept = clamped.rows[0, 1]
    assert abs(kept) <= abs(velocity)
    assert kept * velocity >= 0.0
    if abs(q) <= 0.98:
        assert abs(q + kept * LOOKAHEAD) <= 0.98 + 1e-9
    else:
        assert kept * q <= 0.0
    assert bool(clamped.violation) == (abs(q) - 0.98 > 0.2)


def test_a_joint_with_limits_that_nobody_measures_gets_no_velocity() -> None:
    clamped = make_governor('joint_velocity').clamp(np.array([[0.5, 0.5]]), {'shoulder': 0.0})
    assert clamped.rows.tolist() == [[0.5, 0.0]]


@given(wanted=rows_of(1), last=rows_of(1), elapsed=st.integers(0, 20 * MS))
def test_a_step_goes_towards_what_is_wanted_and_no_faster_than_allowed(
    wanted: np.ndarray, last: np.ndarray, elapsed: int
) -> None:
    paced = make_governor().step(wanted[0], last[0], elapsed)
    reach = np.array([1.0, 0.5]) * elapsed / 1e9
    assert (np.abs(paced.rows - last[0]) <= reach + 1e-12).all()
    assert (np.abs(wanted[0] - paced.rows) <= np.abs(wanted[0] - last[0]) + 1e-12).all()
    assert paced.slowed == bool((paced.rows != wanted[0]).any())


@given(wanted=rows_of(1), last=rows_of(1))
def test_a_velocity_is_bounded_whatever_came_before(wanted: np.ndarray, last: np.ndarray) -> None:
    paced = make_governor('joint_velocity').step(wanted[0], last[0], 0)
    assert paced.rows.tolist() == np.clip(wanted[0], [-1.0, -0.5], [1.0, 0.5]).tolist()


@st.composite
def paths(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count = draw(st.integers(1, 8))
    gaps = draw(st.lists(st.integers(1, 100 * MS), min_size=count, max_size=count))
    return draw(rows_of(1))[0], np.cumsum(gaps), draw(rows_of(count))


@settings(deadline=None)
@given(path=paths())
def test_retiming_keeps_the_path_and_every_speed(
    path: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    start, times, rows = path
    paced = make_governor().retime(ARM, start, times, rows)
    assert paced.times_ns is not None
    assert len(paced.rows) == len(paced.times_ns) >= 1
    assert paced.times_ns[-1] <= LOOKAHEAD * 1e9
    gaps = np.diff(paced.times_ns, prepend=0)
    assert (gaps > 0).all()
    way = np.diff(np.vstack([start, paced.rows]), axis=0)
    assert (np.abs(way) <= np.array([1.0, 0.5]) * gaps[:, None] / 1e9 + 1e-9).all()
    whole = len(paced.rows) - 1
    assert (paced.rows[:whole] == rows[:whole]).all()
    # The last point lies on the way to the waypoint of its place.
    before = start if whole == 0 else rows[whole - 1]
    leg, part = rows[whole] - before, paced.rows[whole] - before
    share = np.linalg.norm(part) / max(np.linalg.norm(leg), 1e-12)
    np.testing.assert_allclose(part, leg * share, atol=1e-6)
    assert share <= 1.0 + 1e-9


def test_waypoints_that_are_slow_enough_stay_as_they_are() -> None:
    times, rows = np.array([20 * MS, 40 * MS]), np.array([[0.02, 0.01], [0.04, 0.02]])
    paced = make_governor().retime(ARM, np.zeros(2), times, rows)
    assert not paced.slowed
    assert paced.rows.tolist() == rows.tolist()
    assert paced.times_ns is not None
    assert paced.times_ns.tolist() == times.tolist()


def test_waypoints_that_are_too_fast_come_later() -> None:
    times, rows = np.array([20 * MS, 40 * MS]), np.array([[0.1, 0.0], [0.12, 0.0]])
    paced = make_governor().retime(ARM, np.zeros(2), times, rows)
    assert paced.slowed
    assert paced.times_ns is not None
    assert paced.times_ns.tolist() == [100 * MS, 120 * MS]


@pytest.mark.parametrize(
    ('position', 'says'), [(0.2, ''), (0.21, 'elbow by 0.210'), (None, 'elbow (not measured)')]
)
def test_a_start_is_judged_by_the_measured_joints(position: float | None, says: str) -> None:
    measured = {'shoulder': 0.0} | ({} if position is None else {'elbow': position})
    text = make_governor().start_jump(np.zeros(2), measured)
    assert says in text
    assert bool(text) == bool(says)


def test_velocities_may_start_anywhere() -> None:
    assert not make_governor('joint_velocity').start_jump(np.ones(2), {})


@pytest.mark.parametrize(
    ('actions', 'says'),
    [
        (np.zeros((4, 3)), ''),
        (np.zeros((4, 2)), 'shape [4, 2], expected [4, 3]'),
        (np.zeros(12), 'shape [12]'),
        (np.array([[0.0, 0.0, 0.0]] * 3 + [[0.0, np.inf, np.nan]]), '2 numbers'),
    ],
)
def test_a_chunk_is_finite_and_of_the_declared_shape(actions: np.ndarray, says: str) -> None:
    problem = chunk_problem(actions, (4, 3))
    assert says in problem
    assert bool(problem) == bool(says)
