# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Counting and timing in bounded memory."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.engine import Stages, Timing, Window
from openpi_policy_ros.engine.stats import MAX_STAGES


def test_nothing_measured_is_all_zeros():
    assert Window().timing() == Timing()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
@settings(max_examples=50, deadline=None)
def test_percentiles_are_samples_in_rising_order(samples):
    window = Window()
    for sample in samples:
        window.add(sample)
    timing = window.timing()
    assert timing.count == len(samples)
    assert timing.last == samples[-1]
    assert timing.p50 <= timing.p95 <= timing.p99 <= timing.max == max(samples)
    assert {timing.p50, timing.p95, timing.p99} <= set(samples)
    assert sum(sample <= timing.p95 for sample in samples) >= 0.95 * len(samples)


def test_percentiles_of_one_to_a_hundred():
    window = Window()
    for sample in range(1, 101):
        window.add(float(sample))
    assert window.timing() == Timing(count=100, last=100, p50=50, p95=95, p99=99, max=100)


def test_only_the_newest_samples_are_kept_but_all_are_counted():
    window = Window(size=4)
    for sample in (100.0, 1.0, 2.0, 3.0, 4.0):
        window.add(sample)
    assert window.timing() == Timing(count=5, last=4, p50=2, p95=4, p99=4, max=4)


def test_a_policy_with_ever_new_stage_names_does_not_eat_memory():
    stages = Stages()
    for number in range(10 * MAX_STAGES):
        stages.add({f'stage {number}': 1.0})
    assert len(stages.timings()) == MAX_STAGES
    stages.add({'stage 0': 3.0})
    assert stages.timings()['stage 0'].count == 2
