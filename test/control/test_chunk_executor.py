# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Chunks are played by time: no jump where one gives way to the next, no action twice or late."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_chunks import (
    ARM,
    DT,
    HAND,
    LEAD,
    MS,
    SPACES,
    START,
    VELOCITIES,
    at,
    executor,
    ramp,
    rows,
)

from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.executor import Verdict
from openpi_policy_ros.control.timed_chunk import TimedChunk


def test_there_is_nothing_before_the_first_chunk_and_after_the_last_row() -> None:
    one = executor()
    assert at(one, 0) is None
    assert not one.finished(START)
    one.offer(ramp(3), START, 0, START)
    assert at(one, 300) == [2.0, 2.0]
    assert at(one, 300 + 1e-6) is None
    assert not one.finished(START + 3 * DT - 1)
    assert one.finished(START + 3 * DT)


def test_positions_are_linear_between_the_points_and_the_first_row_holds_until_it_is_due() -> None:
    one = executor()
    one.offer(ramp(), START, 0, START)
    assert [at(one, ms)[ARM] for ms in (0, 50, 100, 150, 175, 200)] == [0, 0, 0, 0.5, 0.75, 1]


@settings(deadline=None)
@given(axes=SPACES, chunk=rows(5), t=st.integers(1, 5 * DT))
def test_a_sample_is_between_the_points_around_it_and_held_numbers_are_never_interpolated(
    axes: Axes, chunk: npt.NDArray[np.float64], t: int
) -> None:
    one = executor(axes)
    one.offer(chunk, START, 0, START)
    due = [(i + 1) * DT for i in range(5)]
    running = next(i for i, when in enumerate(due) if when >= t)
    got = one.sample(START + t)
    assert got is not None
    assert got[HAND] == chunk[running, HAND]
    if axes.velocity:
        assert got[ARM] == chunk[running, ARM]
    else:
        np.testing.assert_allclose(got[ARM], np.interp(t, due, chunk[:, ARM]), atol=1e-12)


def test_a_nanosecond_after_an_action_is_due_the_next_one_holds() -> None:
    one = executor(VELOCITIES)
    one.offer(ramp(), START, 0, START)
    assert one.sample(START + 3 * DT).tolist() == [2.0, 2.0]
    assert one.sample(START + 3 * DT + 1).tolist() == [3.0, 3.0]


def test_a_new_chunk_is_entered_at_the_time_that_it_is_and_not_at_its_beginning() -> None:
    one = executor(blend_steps=0)
    one.offer(ramp(), START, 0, START)
    offer = one.offer(ramp(start=20.0), START + 2 * DT, 0, START + 5 * DT + 50 * MS)
    assert offer.accepted
    assert offer.dropped == 3
    assert at(one, 550) == [22.5, 23.0]


def test_the_step_between_two_chunks_is_faded_out_linearly_but_not_the_grippers() -> None:
    one = executor(blend_steps=2)
    one.offer(ramp(step=0.0, start=1.0), START, 0, START)
    one.offer(ramp(step=0.0, start=5.0), START + DT, 0, START + 3 * DT)
    assert [at(one, ms) for ms in (300, 350, 400, 450, 500, 600)] == [
        [1.0, 5.0],
        [2.0, 5.0],
        [3.0, 5.0],
        [4.0, 5.0],
        [5.0, 5.0],
        [5.0, 5.0],
    ]


def test_what_is_left_of_a_fade_is_part_of_the_next_one() -> None:
    one = executor(blend_steps=2)
    one.offer(ramp(step=0.0, start=0.0), START, 0, START)
    one.offer(ramp(step=0.0, start=4.0), START, 0, START + DT)
    one.offer(ramp(step=0.0, start=4.0), START + DT, 0, START + 2 * DT)
    assert [at(one, ms)[ARM] for ms in (200, 300, 400, 500)] == [2.0, 3.0, 4.0, 4.0]


@settings(deadline=None)
@given(
    axes=SPACES,
    mode=st.sampled_from(['async', 'rtc', 'ensemble', 'open_loop']),
    blend=st.integers(1, 5),
    chunks=st.lists(rows(6), min_size=2, max_size=5),
    waits=st.lists(st.integers(0, 4 * DT), min_size=5, max_size=5),
    latencies=st.lists(st.integers(0, 3 * DT), min_size=5, max_size=5),
    delta=st.integers(0, DT // 5),
)
def test_no_step_is_larger_than_the_fade_and_the_actions_themselves_allow(
    axes: Axes,
    mode: str,
    blend: int,
    chunks: list[npt.NDArray[np.float64]],
    waits: list[int],
    latencies: list[int],
    delta: int,
) -> None:
    one = executor(axes, mode=mode, blend_steps=blend)
    now = START
    before = None
    for chunk, wait, latency in zip(chunks, waits, latencies, strict=False):
        now += wait
        before = one.sample(now)
        if not one.offer(chunk, now - latency, 0, now).accepted or before is None:
            continue
        after = one.sample(now)
        later = one.sample(now + delta)
        assert after is not None
        np.testing.assert_allclose(after[ARM], before[ARM], atol=1e-9)
        if later is not None and not axes.velocity and mode != 'ensemble':
            steepest = np.abs(np.diff(chunk[:, ARM])).max()
            at_once = TimedChunk(chunk, now - latency, DT, 0)
            if mode == 'open_loop':
                at_once = TimedChunk(chunk, now, DT, 0)
            entered = at_once.at(np.array([now]), np.zeros(2, bool))[0, ARM]
            allowed = (steepest + abs(before[ARM] - entered) / blend) * delta / DT
            assert abs(later[ARM] - before[ARM]) <= allowed + 1e-9


@settings(deadline=None)
@given(
    axes=SPACES,
    mode=st.sampled_from(['async', 'ensemble', 'open_loop']),
    chunks=st.lists(rows(6), min_size=1, max_size=4),
    t=st.integers(0, 10 * DT),
)
def test_a_gripper_is_only_ever_commanded_what_some_action_says(
    axes: Axes, mode: str, chunks: list[npt.NDArray[np.float64]], t: int
) -> None:
    one = executor(axes, mode=mode)
    for index, chunk in enumerate(chunks):
        one.offer(chunk, START + index * DT, 0, START + index * DT)
    said = {float(value) for chunk in chunks for value in chunk[:, HAND]}
    got = one.sample(START + t)
    assert got is None or got[HAND] in said
    _, points = one.waypoints(START + t, 3 * DT)
    assert set(points[:, HAND].tolist()) <= said


@settings(deadline=None)
@given(
    age=st.integers(0, 12 * DT),
    lead=st.floats(0.0, 0.2),
    horizon=st.integers(1, 10),
    mode=st.sampled_from(['async', 'rtc', 'ensemble']),
)
def test_elapsed_actions_are_dropped_and_a_chunk_of_nothing_else_is_late(
    age: int, lead: float, horizon: int, mode: str
) -> None:
    one = executor(mode=mode, min_lead_time=lead)
    lead_ns = max(round(lead * 1e9), 1)
    left = [i for i in range(horizon) if (i + 1) * DT >= age + lead_ns]
    offer = one.offer(ramp(horizon), START, 0, START + age)
    assert offer.dropped == horizon - len(left)
    assert offer.verdict is (Verdict.ACCEPTED if left else Verdict.LATE)
    assert one.remaining(START + age) == len(left)
    times, points = one.waypoints(START + age, 20 * DT)
    assert points[:, HAND].tolist() == left
    assert times.tolist() == [(i + 1) * DT - age for i in left]


def test_S14_a_late_chunk_leaves_the_running_one_alone() -> None:  # noqa: N802
    one = executor()
    one.offer(ramp(20), START - 5 * DT, 0, START)
    late = ramp(3, start=50.0)
    assert one.offer(late, START, 0, START + 3 * DT - LEAD + 1).verdict is Verdict.LATE
    assert at(one, 400) == [8.0, 8.0]
    assert one.offer(late, START, 0, START + 3 * DT - LEAD).accepted


def test_S14_a_late_chunk_as_the_first_is_nothing_to_play() -> None:  # noqa: N802
    one = executor()
    offer = one.offer(ramp(3), START, 0, START + DT * 4)
    assert (offer.verdict, offer.dropped) == (Verdict.LATE, 3)
    assert at(one, 250) is None
    assert not one.finished(START + DT * 4)


def test_the_gate_against_late_chunks_can_be_left_out_by_its_name_alone() -> None:
    late = (ramp(3), START, 0, START + DT * 4)
    assert executor(disabled=frozenset(['S14'])).offer(*late).accepted
    assert not executor(disabled=frozenset(['S13', 'S15'])).offer(*late).accepted


def test_what_an_older_request_answers_is_refused() -> None:
    one = executor()
    assert one.offer(ramp(), START, 3, START).accepted
    assert one.offer(ramp(), START, 3, START).accepted
    assert one.offer(ramp(), START + 1, 2, START).verdict is Verdict.OUTDATED
    assert one.offer(ramp(), START - 1, 3, START).verdict is Verdict.OUTDATED
    assert one.offer(ramp(), START - 1, 4, START).verdict is Verdict.OUTDATED
    assert one.offer(ramp(start=5.0), START, 4, START).accepted


def test_dropping_an_epoch_ends_its_chunk_and_refuses_its_late_results() -> None:
    one = executor()
    one.offer(ramp(), START, 3, START)
    one.drop_older_than(3)
    assert at(one, 100) is not None
    one.drop_older_than(4)
    assert at(one, 100) is None
    assert one.waypoints(START, DT)[0].size == one.remaining(START) == 0
    assert one.offer(ramp(), START + DT, 3, START + DT).verdict is Verdict.OUTDATED
    one.drop_older_than(2)
    assert one.offer(ramp(), START + DT, 3, START + DT).verdict is Verdict.OUTDATED
    assert one.offer(ramp(), START + DT, 4, START + DT).accepted


def test_clearing_forgets_times_so_that_a_clock_may_have_jumped_back() -> None:
    one = executor()
    one.offer(ramp(), START, 3, START)
    one.clear()
    assert at(one, 100) is None
    assert one.offer(ramp(start=7.0), START - 100 * DT, 2, START).verdict is Verdict.OUTDATED
    assert one.offer(ramp(start=7.0), START - 100 * DT, 3, START - 100 * DT).accepted
    assert one.sample(START - 99 * DT).tolist() == [7.0, 7.0]


@settings(deadline=None)
@given(
    axes=SPACES,
    mode=st.sampled_from(['async', 'ensemble', 'open_loop']),
    chunks=st.lists(rows(6), min_size=1, max_size=3),
    t=st.integers(0, 9 * DT),
    lookahead=st.integers(LEAD, 5 * DT),
)
def test_waypoints_rise_strictly_within_the_lookahead_and_are_what_samples_will_be(
    axes: Axes, mode: str, chunks: list[npt.NDArray[np.float64]], t: int, lookahead: int
) -> None:
    one = executor(axes, mode=mode)
    for index, chunk in enumerate(chunks):
        one.offer(chunk, START + index * DT // 2, 0, START + index * DT)
    now = START + t
    times, points = one.waypoints(now, lookahead)
    assert times.dtype == np.int64
    assert points.shape == (len(times), 2)
    assert (np.diff(times) > 0).all()
    assert all(LEAD <= time <= lookahead for time in times)
    assert len(times) <= one.remaining(now)
    assert bool(len(times)) == bool(one.remaining(now))
    for time, point in zip(times, points, strict=True):
        np.testing.assert_array_equal(one.sample(now + int(time)), point)


def test_actions_further_apart_than_the_lookahead_give_one_point_on_the_way() -> None:
    one = executor()
    one.offer(ramp(), START, 0, START)
    times, points = one.waypoints(START + 210 * MS, 40 * MS)
    assert times.tolist() == [40 * MS]
    np.testing.assert_allclose(points, [[1.5, 2.0]])


def test_a_waypoint_is_never_now_even_without_lead_time() -> None:
    one = executor(min_lead_time=0.0)
    one.offer(ramp(3), START, 0, START)
    assert one.waypoints(START + DT, 10 * DT)[0].tolist() == [DT, 2 * DT]


def test_open_loop_starts_at_action_0_on_arrival_and_plays_its_steps() -> None:
    one = executor(mode='open_loop', open_loop_steps=3)
    assert one.needs_inference(START)
    offer = one.offer(ramp(), START - 50 * DT, 0, START)
    assert (offer.verdict, offer.dropped) == (Verdict.ACCEPTED, 0)
    assert [at(one, ms) for ms in (0, 100, 150, 200, 300)] == [
        [0.0, 0.0],
        [0.0, 0.0],
        [0.5, 1.0],
        [1.0, 1.0],
        [2.0, 2.0],
    ]
    assert one.waypoints(START, 10 * DT)[0].tolist() == [DT, 2 * DT, 3 * DT]
    assert [one.needs_inference(START + ms * MS) for ms in (0, 299, 300, 900)] == [
        False,
        False,
        True,
        True,
    ]
    assert at(one, 301) is None


def test_open_loop_without_steps_plays_the_whole_chunk() -> None:
    one = executor(mode='open_loop')
    one.offer(ramp(10), START, 0, START)
    assert not one.needs_inference(START + 10 * DT - 1)
    assert one.needs_inference(START + 10 * DT)


def test_open_loop_drops_nothing_however_short_an_action_is() -> None:
    one = executor(mode='open_loop', min_lead_time=0.2)
    offer = one.offer(ramp(1, start=7.0), START - 50 * DT, 0, START)
    assert (offer.verdict, offer.dropped) == (Verdict.ACCEPTED, 0)
    assert at(one, 100) == [7.0, 7.0]


@pytest.mark.parametrize('mode', ['async', 'rtc', 'ensemble'])
def test_the_other_modes_infer_all_the_time(mode: str) -> None:
    one = executor(mode=mode)
    assert one.needs_inference(START)
    one.offer(ramp(), START, 0, START)
    assert one.needs_inference(START)


def test_after_a_pause_the_next_chunk_continues_where_the_last_one_ended() -> None:
    one = executor(mode='open_loop', blend_steps=2)
    one.offer(ramp(3), START, 0, START)
    one.offer(ramp(3, start=4.0, step=0.0), START, 0, START + 20 * DT)
    assert [at(one, ms)[ARM] for ms in (2000, 2100, 2200)] == [2.0, 3.0, 4.0]


def test_after_a_pause_velocities_start_from_rest() -> None:
    one = executor(VELOCITIES, blend_steps=2)
    one.offer(ramp(3, start=9.0), START, 0, START)
    one.offer(ramp(9, start=4.0, step=0.0), START + 20 * DT, 0, START + 20 * DT)
    assert [at(one, ms)[ARM] for ms in (2000, 2100, 2200)] == [0.0, 2.0, 4.0]


def test_a_chunk_that_nothing_precedes_begins_at_its_own_first_row() -> None:
    one = executor(blend_steps=2)
    one.offer(ramp(start=3.0), START, 0, START)
    assert [at(one, ms)[ARM] for ms in (0, 150)] == [3.0, 3.5]
    # Nor is anything of an earlier plan left after it was cleared.
    one.clear()
    one.offer(ramp(start=8.0), START + DT, 0, START + DT)
    assert [at(one, ms)[ARM] for ms in (100, 250)] == [8.0, 8.5]


def test_a_place_that_nobody_knows_is_where_the_plan_has_it() -> None:
    one = executor(blend_steps=2)
    one.offer(ramp(start=3.0, step=0.0), START, 0, START)
    nowhere = np.full(2, np.nan)
    one.offer(ramp(start=5.0, step=0.0), START, 0, START + DT, commanded=nowhere)
    assert [at(one, ms)[ARM] for ms in (100, 200, 300)] == [3.0, 4.0, 5.0]


def test_rows_of_a_wrong_shape_are_refused_and_the_callers_array_is_not_kept() -> None:
    one = executor()
    for shape in ((0, 2), (3, 1), (2,)):
        with pytest.raises(ValueError, match=r'expected \(1 or more, 2\)'):
            one.offer(np.zeros(shape), START, 0, START)
    mine = ramp()
    one.offer(mine, START, 0, START)
    mine[:] = 99.0
    assert at(one, 100) == [0.0, 0.0]
