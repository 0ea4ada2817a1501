# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rates are those of the last seconds, whatever came before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.control.window import MINUTE, CounterWindow

GAINS = st.lists(st.integers(0, 100), min_size=2, max_size=200)


def window_of(gains: list[int], period: float = 1.0) -> CounterWindow:
    """Return a window of readings one period apart, each so much above the last."""
    window, total = CounterWindow(), 0
    for number, gain in enumerate(gains):
        total += gain
        window.add(1000.0 + period * number, {'n': total})
    return window


@given(GAINS, st.integers(1, 60))
def test_what_was_gained_is_the_sum_of_the_last_seconds(gains: list[int], seconds: int) -> None:
    assert window_of(gains).gained('n', float(seconds)) == sum(gains[1:][-seconds:])


@given(st.integers(1, 50), st.integers(3, 100), st.integers(1, 60), st.integers(0, 10))
def test_a_steady_stream_has_its_rate_however_late_it_began(
    rate: int, readings: int, seconds: int, silence: int
) -> None:
    window = window_of([0] * silence + [7] + [rate] * readings)
    assert window.rate('n', float(seconds)) == pytest.approx(rate)


@given(GAINS, st.integers(1, 60))
def test_a_rate_is_never_negative_and_never_above_the_fastest_second(
    gains: list[int], seconds: int
) -> None:
    rate = window_of(gains).rate('n', float(seconds))
    assert rate is None or 0.0 <= rate <= max(gains)


def test_a_stream_that_has_never_come_has_the_rate_0_and_one_that_just_came_none() -> None:
    assert window_of([0, 0]).rate('n', 5.0) == 0.0
    assert window_of([0, 0, 3]).rate('n', 5.0) is None
    assert window_of([0, 0, 3]).rate('other', 5.0) == 0.0
    assert window_of([3]).rate('n', 5.0) is None
    assert CounterWindow().gained('n', 5.0) == 0


def test_a_stream_that_stopped_slows_down_to_0() -> None:
    gains = [10] * 10 + [0] * 5
    rates = [window_of(gains[:end]).rate('n', 5.0) for end in range(10, 16)]
    assert rates == [10.0, 8.0, 6.0, 4.0, 2.0, 0.0]


def test_late_readings_are_taken_by_their_time() -> None:
    window = CounterWindow()
    for now, total in ((0.0, 10), (1.0, 40), (3.5, 115), (4.1, 133)):
        window.add(now, {'n': total})
    assert window.rate('n', 3.0) == pytest.approx(30.0)
    assert window.gained('n', 3.0) == 93


def test_readings_older_than_a_minute_are_dropped() -> None:
    window = window_of([1] * 1000)
    assert window.gained('n', 1e9) == MINUTE
    assert len(window._readings) == MINUTE + 1
