# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The control ticks keep their grid in time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.ros.delivery import Pace


def test_deadlines_do_not_drift_with_the_work_between_them() -> None:
    pace = Pace(10, start_ns=100)
    now, dues = 100, []
    for work in (3, 9, 1, 7):
        now += work
        now += pace.wait_ns(now)
        dues.append(now)
    assert dues == [110, 120, 130, 140]


@given(work=st.lists(st.integers(0, 95), max_size=30))
def test_missed_deadlines_are_left_out_and_the_others_stay(work: list[int]) -> None:
    pace, now = Pace(10, start_ns=0), 0
    for took in work:
        before = now
        now += took
        wait = pace.wait_ns(now)
        assert 0 <= wait <= 10
        if wait:
            # On the grid, and the next one.
            assert (now + wait) % 10 == 0
        else:
            # One has passed since the last: at once, but once.
            assert now // 10 > before // 10
        now += wait
