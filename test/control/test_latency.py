# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The latency that supply and real-time chunking go by."""

from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.control.latency import Latency


def test_nothing_is_known_before_the_first_answer() -> None:
    assert Latency().p95() is None


def test_the_first_answer_counts_only_until_there_is_another() -> None:
    latency = Latency()
    latency.add(9.0)
    assert latency.p95() == 9.0
    latency.add(0.1)
    assert (latency.p95(), len(latency)) == (0.1, 1)
    latency.add(0.2)
    assert (latency.p95(), len(latency)) == (0.2, 2)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=60), st.integers(1, 30))
def test_it_is_the_smallest_time_that_95_percent_of_the_newest_do_not_exceed(
    times: list[float], window: int
) -> None:
    latency = Latency(window)
    latency.add(1000.0)
    for time in times:
        latency.add(time)
    recent = times[-window:]
    enough = [t for t in recent if 100 * sum(one <= t for one in recent) >= 95 * len(recent)]
    assert latency.p95() == min(enough)
