# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The mean of every chunk that covers a moment, and what is left over for the next request."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_chunks import ARM, DT, HAND, MS, START, VELOCITIES, at, executor, ramp, rows

from openpi_policy_ros.control.timed_chunk import TimedChunk
from openpi_policy_ros.policies.base import ACTIONS, ActionChunk


def weighted(
    chunks: list[npt.NDArray[np.float64]], starts: list[int], now: int, m: float
) -> tuple[float, int]:
    """Return the weighted mean of the arm at a time, and how many chunks cover it."""
    values = [
        np.interp(now, [start + (i + 1) * DT for i in range(len(chunk))], chunk[:, ARM])
        for chunk, start in zip(chunks, starts, strict=True)
        if now <= start + len(chunk) * DT
    ]
    weights = [np.exp(-m * i) for i in range(len(values))]
    return float(np.dot(weights, values) / sum(weights)), len(values)


@settings(deadline=None)
@given(
    chunks=st.lists(rows(5), min_size=1, max_size=6),
    gaps=st.lists(st.integers(0, 2 * DT), min_size=6, max_size=6),
    m=st.floats(0.0, 100.0),
    t=st.integers(0, 5 * DT),
)
def test_an_ensemble_weighs_the_chunks_that_cover_a_time_oldest_first(
    chunks: list[npt.NDArray[np.float64]], gaps: list[int], m: float, t: int
) -> None:
    one = executor(mode='ensemble', ensemble_decay=m, blend_steps=0)
    starts: list[int] = []
    for chunk, gap in zip(chunks, gaps, strict=False):
        starts.append((starts[-1] if starts else 0) + gap)
        one.offer(chunk, START + starts[-1], 0, START + starts[-1])
    now = starts[-1] + t
    expected, _ = weighted(chunks, starts, now, m)
    got = one.sample(START + now)
    assert got is not None
    np.testing.assert_allclose(got[ARM], expected, atol=1e-9)
    newest = TimedChunk(chunks[-1], starts[-1], DT, 0)
    assert got[HAND] == chunks[-1][min(newest.first_due(now), 4), HAND]


def test_the_oldest_chunk_weighs_most_however_many_have_ended() -> None:
    one = executor(mode='ensemble', ensemble_decay=100.0, blend_steps=0)
    for index in range(20):
        now = START + index * DT
        one.offer(ramp(19, start=float(index), step=0.0), now, 0, now)
    assert at(one, 3701)[ARM] == pytest.approx(19.0)
    assert at(one, 3650)[ARM] == pytest.approx(18.0)


def test_an_ensemble_takes_velocities_from_the_newest_chunk() -> None:
    one = executor(VELOCITIES, mode='ensemble', blend_steps=0)
    one.offer(ramp(), START, 0, START)
    one.offer(ramp(start=20.0), START, 0, START)
    assert at(one, 150) == [21.0, 21.0]


@settings(deadline=None)
@given(
    chunks=st.lists(rows(5), min_size=2, max_size=6),
    gaps=st.lists(st.integers(1, 2 * DT), min_size=6, max_size=6),
)
def test_an_ensemble_makes_no_step_where_one_of_its_chunks_ends(
    chunks: list[npt.NDArray[np.float64]], gaps: list[int]
) -> None:
    one = executor(mode='ensemble', blend_steps=3)
    start = 0
    ends = []
    for chunk, gap in zip(chunks, gaps, strict=False):
        start += gap
        one.offer(chunk, START + start, 0, START + start)
        ends.append(START + start + 5 * DT)
    for end in ends[:-1]:
        if end <= START + start:
            continue
        before, after = one.sample(end), one.sample(end + 1)
        assert before is not None
        assert after is not None
        assert abs(after[ARM] - before[ARM]) < 1e-5
    # And once every fade has ended it is the plain mean again.
    late = START + start + 5 * DT
    if late > ends[-2] + 3 * DT:
        np.testing.assert_allclose(one.sample(late)[ARM], chunks[-1][-1, ARM], atol=1e-9)


def test_an_ensemble_never_mixes_epochs() -> None:
    one = executor(mode='ensemble', blend_steps=0)
    one.offer(ramp(start=50.0), START, 0, START)
    one.offer(ramp(), START, 1, START)
    assert at(one, 200) == [1.0, 1.0]


def with_model(rows_: int = 12) -> ActionChunk:
    model = np.arange(rows_ * 4, dtype=np.float32).reshape(rows_, 4)
    return ActionChunk({ACTIONS: np.zeros((10, 2), np.float32)}, model)


@pytest.mark.parametrize(
    ('elapsed_ms', 'first'),
    [(-50, 0), (0, 0), (49, 0), (50, 1), (100, 1), (149, 1), (250, 3), (1100, 11)],
)
def test_the_leftover_begins_with_the_row_due_with_row_0_of_the_answer(
    elapsed_ms: int, first: int
) -> None:
    one = executor(mode='rtc')
    chunk = with_model()
    one.offer(ramp(), START, 0, START, chunk)
    leftover = one.leftover(START + elapsed_ms * MS)
    assert leftover is not None
    assert leftover.dtype == np.float32
    np.testing.assert_array_equal(leftover, chunk.model_actions[first:])


def test_there_is_no_leftover_of_nothing() -> None:
    one = executor(mode='rtc')
    assert one.leftover(START) is None
    one.offer(ramp(), START, 0, START)
    assert one.leftover(START) is None
    one.offer(ramp(), START, 0, START, ActionChunk({ACTIONS: np.zeros((10, 2), np.float32)}))
    assert one.leftover(START) is None
    one.offer(ramp(), START, 0, START, with_model())
    assert one.leftover(START + 1150 * MS) is None
    assert one.leftover(START + 1149 * MS) is not None


@pytest.mark.parametrize(
    ('latency', 'steps'), [(0.0, 0), (1e-9, 1), (0.1, 1), (0.100001, 2), (0.3, 3), (1.5, 15)]
)
def test_delay_counts_started_action_steps(latency: float, steps: int) -> None:
    assert executor().delay_steps(latency) == steps
