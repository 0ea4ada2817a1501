# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every normalisation, both ways, against numbers worked by hand.

LeRobot: (x − mean) / (std + eps), inverse x · std + mean; 2 (x − low) / range − 1, inverse
(x + 1) / 2 · range + low, where a range of exactly 0 is replaced by eps. openpi adds 1e-6 to std
and to every range, both ways.
"""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.policies.normalization import (
    IDENTITY,
    MODES,
    STATISTICS,
    Normalizer,
    lerobot_normalizer,
    openpi_normalizer,
)

RANGES = ['MIN_MAX', 'QUANTILES', 'QUANTILE10']


def lerobot(mode: str, first: list[float], second: list[float], eps: float = 1e-8) -> Normalizer:
    return lerobot_normalizer(
        mode, dict(zip(STATISTICS[mode], _arrays(first, second), strict=True)), eps
    )


def openpi(mode: str, first: list[float], second: list[float]) -> Normalizer:
    return openpi_normalizer(mode, dict(zip(STATISTICS[mode], _arrays(first, second), strict=True)))


def _arrays(*lists: list[float]) -> list[np.ndarray]:
    return [np.array(one, np.float64) for one in lists]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_the_modes_are_those_of_lerobot() -> None:
    assert MODES == ('IDENTITY', 'MEAN_STD', 'MIN_MAX', 'QUANTILES', 'QUANTILE10')
    assert STATISTICS == {
        'MEAN_STD': ('mean', 'std'),
        'MIN_MAX': ('min', 'max'),
        'QUANTILES': ('q01', 'q99'),
        'QUANTILE10': ('q10', 'q90'),
    }


# IDENTITY


def test_identity_changes_nothing_and_fits_any_width() -> None:
    assert IDENTITY.width is None
    values = f32(3.0, -7.5)
    np.testing.assert_array_equal(IDENTITY.normalize(values), f32(3.0, -7.5))
    out = IDENTITY.unnormalize(np.array([3.0, -7.5], np.float64))
    np.testing.assert_array_equal(out, f32(3.0, -7.5))
    assert out.dtype == np.float32


def test_identity_of_lerobot_needs_no_statistics() -> None:
    assert lerobot_normalizer('IDENTITY', {}, 1e-8) is IDENTITY


# LeRobot, MEAN_STD


def test_mean_std_normalises() -> None:
    # (5 − 1) / 2, (−2 + 2) / 0.5, (0 − 0.25) / 0.25
    normalizer = lerobot('MEAN_STD', [1.0, -2.0, 0.25], [2.0, 0.5, 0.25])
    assert normalizer.width == 3
    np.testing.assert_array_equal(normalizer.normalize(f32(5.0, -2.0, 0.0)), f32(2.0, 0.0, -1.0))


def test_mean_std_unnormalises() -> None:
    # 2 · 2 + 1, −1 · 0.5 − 2, 8 · 0.25 + 0.25
    normalizer = lerobot('MEAN_STD', [1.0, -2.0, 0.25], [2.0, 0.5, 0.25])
    np.testing.assert_array_equal(normalizer.unnormalize(f32(2.0, -1.0, 8.0)), f32(5.0, -2.5, 2.25))


def test_the_eps_of_mean_std_counts_on_the_way_in_only() -> None:
    normalizer = lerobot('MEAN_STD', [1.0], [1.5], eps=0.5)
    # (5 − 1) / (1.5 + 0.5); 2 · 1.5 + 1
    np.testing.assert_array_equal(normalizer.normalize(f32(5.0)), f32(2.0))
    np.testing.assert_array_equal(normalizer.unnormalize(f32(2.0)), f32(4.0))


def test_a_deviation_of_zero_is_divided_by_eps_and_gives_the_mean_back() -> None:
    normalizer = lerobot('MEAN_STD', [0.5, 0.5], [0.0, 0.0])
    # (0.5 − 0.5) / 1e-8, (1.5 − 0.5) / 1e-8; 3 · 0 + 0.5
    np.testing.assert_allclose(normalizer.normalize(f32(0.5, 1.5)), [0.0, 1e8], rtol=1e-6)
    np.testing.assert_array_equal(normalizer.unnormalize(f32(3.0, -9.0)), f32(0.5, 0.5))


# LeRobot, the ranges


@pytest.mark.parametrize('mode', RANGES)
def test_a_range_normalises_to_plus_minus_one(mode: str) -> None:
    # low 0, high 8: 0 → −1, 8 → 1, 4 → 0, 2 → 2 · 2 / 8 − 1
    normalizer = lerobot(mode, [0.0] * 4, [8.0] * 4)
    out = normalizer.normalize(f32(0.0, 8.0, 4.0, 2.0))
    np.testing.assert_array_equal(out, f32(-1.0, 1.0, 0.0, -0.5))


@pytest.mark.parametrize('mode', RANGES)
def test_a_range_clips_nothing_either_way(mode: str) -> None:
    # low −1, high 1 and low 0, high 8
    normalizer = lerobot(mode, [-1.0, 0.0], [1.0, 8.0])
    # 2 (3 + 1) / 2 − 1, 2 (−4) / 8 − 1
    np.testing.assert_array_equal(normalizer.normalize(f32(3.0, -4.0)), f32(3.0, -2.0))
    # (3 + 1) / 2 · 2 − 1, (−2 + 1) / 2 · 8
    np.testing.assert_array_equal(normalizer.unnormalize(f32(3.0, -2.0)), f32(3.0, -4.0))


@pytest.mark.parametrize('mode', RANGES)
def test_a_range_unnormalises(mode: str) -> None:
    # (−0.5 + 1) / 2 · 8 + 1, (0 + 1) / 2 · 4 − 2
    normalizer = lerobot(mode, [1.0, -2.0], [9.0, 2.0])
    np.testing.assert_array_equal(normalizer.unnormalize(f32(-0.5, 0.0)), f32(3.0, 0.0))


@pytest.mark.parametrize('mode', RANGES)
def test_a_range_of_zero_is_eps_wide_both_ways(mode: str) -> None:
    normalizer = lerobot(mode, [3.0] * 3, [3.0] * 3, eps=0.5)
    # 2 · 0 / 0.5 − 1, 2 · 1 / 0.5 − 1, 2 · (−1) / 0.5 − 1
    np.testing.assert_array_equal(normalizer.normalize(f32(3.0, 4.0, 2.0)), f32(-1.0, 3.0, -5.0))
    # (−1 + 1) / 2 · 0.5 + 3, (3 + 1) / 2 · 0.5 + 3, (−5 + 1) / 2 · 0.5 + 3
    np.testing.assert_array_equal(normalizer.unnormalize(f32(-1.0, 3.0, -5.0)), f32(3.0, 4.0, 2.0))


@pytest.mark.parametrize('mode', RANGES)
def test_a_range_of_zero_blows_up_under_the_usual_eps(mode: str) -> None:
    normalizer = lerobot(mode, [3.0, 3.0], [3.0, 3.0])
    # 2 · 0.5 / 1e-8 − 1
    np.testing.assert_allclose(normalizer.normalize(f32(3.0, 3.5)), [-1.0, 1e8], rtol=1e-6)
    # (1 + 1) / 2 · 1e-8 + 3
    np.testing.assert_array_equal(normalizer.unnormalize(f32(1.0, 1.0)), f32(3.0, 3.0))


@pytest.mark.parametrize('mode', RANGES)
def test_eps_replaces_a_range_of_zero_and_is_not_added_to_another(mode: str) -> None:
    # 2 · 4 / 8 − 1 with an eps that would be seen
    normalizer = lerobot(mode, [0.0], [8.0], eps=0.5)
    np.testing.assert_array_equal(normalizer.normalize(f32(4.0)), f32(0.0))
    np.testing.assert_array_equal(normalizer.unnormalize(f32(1.0)), f32(8.0))


@pytest.mark.parametrize('mode', ['MEAN_STD', *RANGES])
def test_lerobot_computes_in_float32(mode: str) -> None:
    normalizer = lerobot(mode, [16777216.0], [16777218.0])
    # 2^24 + 1 is no float32: it becomes 2^24, the first of the two statistics.
    out = normalizer.normalize(np.array([16777217.0], np.float64))
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, f32(0.0 if mode == 'MEAN_STD' else -1.0))
    assert normalizer.unnormalize(np.array([1.0], np.float64)).dtype == np.float32


# openpi


def test_mean_std_of_openpi_adds_a_millionth_both_ways() -> None:
    normalizer = openpi('MEAN_STD', [1.0, 0.5], [2.0, 0.0])
    # 4 / 2.000001, 1 / 1e-6
    out = normalizer.normalize(np.array([5.0, 1.5]))
    np.testing.assert_allclose(out, [1.9999990000005, 1000000.0], rtol=1e-13)
    # 2 · 2.000001 + 1, 3 · 1e-6 + 0.5
    np.testing.assert_allclose(
        normalizer.unnormalize(f32(2.0, 3.0)), [5.000002, 0.500003], rtol=1e-7
    )


def test_quantiles_of_openpi_add_a_millionth_both_ways() -> None:
    normalizer = openpi('QUANTILES', [0.0, 3.0, 3.0], [10.0, 3.0, 3.0])
    # 2 · 2.5 / 10.000001 − 1, 0 − 1, 2 · 0.5 / 1e-6 − 1
    out = normalizer.normalize(np.array([2.5, 3.0, 3.5]))
    np.testing.assert_allclose(out, [-0.500000049999995, -1.0, 999999.0], rtol=1e-13)
    # 0.25 · 10.000001, 0 + 3, (5 + 1) / 2 · 1e-6 + 3
    np.testing.assert_allclose(
        normalizer.unnormalize(f32(-0.5, -1.0, 5.0)), [2.50000025, 3.0, 3.000003], rtol=1e-7
    )


def test_openpi_clips_nothing() -> None:
    # 2 · 20 / 10.000001 − 1 = 4 / 1.0000001 − 1
    out = openpi('QUANTILES', [0.0], [10.0]).normalize(np.array([20.0]))
    np.testing.assert_allclose(out, [2.99999960000004], rtol=1e-13)


@pytest.mark.parametrize('mode', ['MEAN_STD', 'QUANTILES'])
def test_openpi_normalises_in_float64_and_answers_in_float32(mode: str) -> None:
    normalizer = openpi(mode, [16777216.0], [16777218.0])
    out = normalizer.normalize(np.array([16777217.0], np.float64))
    assert out.dtype == np.float64
    # 1 / 16777218.000001; 2 · 1 / 2.000001 − 1
    expected = 5.9604637e-08 if mode == 'MEAN_STD' else -4.9999975e-07
    np.testing.assert_allclose(out, [expected], rtol=1e-6)
    assert normalizer.unnormalize(f32(0.0)).dtype == np.float32


# Both


@pytest.mark.parametrize('make', [lerobot, openpi])
def test_rows_of_a_chunk_are_normalised_column_by_column(make) -> None:
    normalizer = make('MEAN_STD', [0.0, 10.0], [1.0, 2.0])
    chunk = f32(1.0, 10.0, -1.0, 14.0).reshape(2, 2)
    np.testing.assert_allclose(
        normalizer.normalize(chunk), [[1.0, 0.0], [-1.0, 2.0]], rtol=2e-6, atol=1e-12
    )
    np.testing.assert_allclose(
        normalizer.unnormalize(f32(1.0, 0.0, -1.0, 2.0).reshape(2, 2)), chunk, rtol=2e-6
    )


@pytest.mark.parametrize('make', [lerobot, openpi])
@pytest.mark.parametrize('mode', ['MEAN_STD', 'QUANTILES'])
def test_what_is_given_is_left_as_it_is(make, mode: str) -> None:
    normalizer = make(mode, [0.0, 1.0], [2.0, 4.0])
    values = f32(3.0, 4.0)
    normalizer.normalize(values)
    normalizer.unnormalize(values)
    np.testing.assert_array_equal(values, f32(3.0, 4.0))


def test_a_normalizer_is_compared_by_identity_and_can_be_sent_to_another_process() -> None:
    normalizer = lerobot('MEAN_STD', [0.0, 1.0], [2.0, 4.0])
    assert normalizer == normalizer
    assert normalizer != dataclasses.replace(normalizer)
    copy = pickle.loads(pickle.dumps(normalizer))
    np.testing.assert_array_equal(copy.normalize(f32(2.0, 5.0)), f32(1.0, 1.0))


finite = st.floats(-1e3, 1e3, width=32)
spans = st.floats(0.0625, 1e3, width=32)


@given(mode=st.sampled_from(['MEAN_STD', *RANGES]), value=finite, low=finite, span=spans)
def test_what_is_normalised_by_lerobot_comes_back(
    mode: str, value: float, low: float, span: float
) -> None:
    second = span if mode == 'MEAN_STD' else low + span
    normalizer = lerobot(mode, [low], [second])
    back = normalizer.unnormalize(normalizer.normalize(f32(value)))
    # Each of the few roundings is one part in 2^24 of the largest number on the way.
    largest = max(abs(value), abs(low), abs(second), span)
    assert abs(back[0] - np.float32(value)) <= 8 * 2.0**-24 * (largest + abs(value - low))


@given(mode=st.sampled_from(['MEAN_STD', 'QUANTILES']), value=finite, low=finite, span=spans)
def test_what_is_normalised_by_openpi_comes_back(
    mode: str, value: float, low: float, span: float
) -> None:
    normalizer = openpi(mode, [low], [span if mode == 'MEAN_STD' else low + span])
    back = normalizer.unnormalize(normalizer.normalize(np.array([value])))
    # float64 on the way: only the answer is rounded to float32.
    assert abs(back[0] - value) <= 2.0**-23 * abs(value) + 1e-9


@given(mode=st.sampled_from(RANGES), low=finite, span=spans)
def test_the_ends_of_a_range_become_minus_one_and_one(mode: str, low: float, span: float) -> None:
    low32, high32 = np.float32(low), np.float32(low) + np.float32(span)
    normalizer = lerobot(mode, [low32], [high32])
    np.testing.assert_array_equal(normalizer.normalize(f32(low32)), f32(-1.0))
    np.testing.assert_array_equal(normalizer.normalize(f32(high32)), f32(1.0))
