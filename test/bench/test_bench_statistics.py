# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of a bench table."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.bench.statistics import Spread, percentile, quantiles, ratios, table

SAMPLES = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=200)


@given(SAMPLES, st.floats(0.0, 1.0))
def test_a_percentile_is_the_smallest_sample_with_that_share_at_or_below(
    samples: list[float], share: float
) -> None:
    found = percentile(samples, share)
    assert found in samples
    assert sum(one <= found for one in samples) >= share * len(samples) - 1e-6
    assert sum(one < found for one in samples) <= max(0, math.ceil(share * len(samples)) - 1)


def test_percentiles_of_a_hundred_samples_are_those_one_expects() -> None:
    samples = [float(n) for n in range(100, 0, -1)]
    assert quantiles(samples) == {'p50': 50.0, 'p95': 95.0, 'p99': 99.0, 'max': 100.0}
    assert percentile(samples, 0.0) == 1.0


@pytest.mark.parametrize(('samples', 'share'), [([], 0.5), ([1.0], 1.01), ([1.0], -0.1)])
def test_nonsense_has_no_percentile(samples: list[float], share: float) -> None:
    with pytest.raises(ValueError, match=r'no samples|share'):
        percentile(samples, share)


@given(SAMPLES)
def test_a_spread_is_ordered_and_made_of_samples(samples: list[float]) -> None:
    spread = Spread.of(samples)
    assert spread.min <= spread.median <= spread.max
    assert {spread.min, spread.median, spread.max} <= set(samples)


def test_ratios_are_taken_round_by_round_so_that_a_slow_round_cancels() -> None:
    # The third round was disturbed for both: the ratio of sums would be 0.65, of medians 0.5.
    spread = ratios([1.0, 1.0, 10.0], [2.0, 2.0, 20.0])
    assert (spread.min, spread.median, spread.max) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ('ours', 'rival'), [([], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0]), ([1.0], [-1.0])]
)
def test_rounds_that_do_not_pair_up_are_refused(ours: list[float], rival: list[float]) -> None:
    with pytest.raises(ValueError, match='round'):
        ratios(ours, rival)


def test_a_table_is_markdown_with_aligned_columns() -> None:
    assert table(['a', 'long'], [['wide cell', '1'], ['x', '2']]) == (
        '| a         | long |\n|-----------|------|\n| wide cell | 1    |\n| x         | 2    |'
    )
    with pytest.raises(ValueError, match='one cell per heading'):
        table(['a', 'b'], [['1']])
