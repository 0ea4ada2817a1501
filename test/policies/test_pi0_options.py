# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Statistics and the openpi keys in a policy file."""

from __future__ import annotations

from typing import Any

import pytest

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.pi0.options import read_options

Z_SCORE = {'mode': 'mean_std', 'mean': [0.0, 1], 'std': [1.0, 0.0]}
RANGE = {'mode': 'min_max', 'min': [-1.0, 2.0], 'max': [1.0, 2.0]}


def refused(state: dict[str, Any], action: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read_options({'norm_stats': {'state': state, 'action': action or Z_SCORE}}, 'mine.yaml')
    (problem,) = caught.value.problems
    return problem


def test_statistics_of_either_mode_are_read() -> None:
    stats = read_options({'norm_stats': {'state': Z_SCORE, 'action': RANGE}}, 'x').norm_stats
    assert stats is not None
    assert (stats.state.mode, stats.state.mean, stats.state.std) == (
        'mean_std',
        [0.0, 1.0],
        [1.0, 0.0],
    )
    assert (stats.action.mode, stats.action.min, stats.action.max) == (
        'min_max',
        [-1.0, 2.0],
        [1.0, 2.0],
    )


def test_statistics_without_a_mode_are_mean_and_spread() -> None:
    plain = {'mean': [0.0], 'std': [1.0]}
    stats = read_options({'norm_stats': {'state': plain, 'action': plain}}, 'x').norm_stats
    assert stats is not None
    assert stats.state.mode == 'mean_std'


@pytest.mark.parametrize('value', [None, {}])
def test_no_statistics_may_be_written_as_an_empty_mapping(value: Any) -> None:
    assert read_options({'norm_stats': value}, 'x').norm_stats is None


@pytest.mark.parametrize(
    ('state', 'says'),
    [
        ({'mean': [0.0]}, 'norm_stats.state: mode mean_std needs mean and std, found mean'),
        ({}, 'mode mean_std needs mean and std, found neither'),
        ({'mode': 'min_max', 'mean': [0.0], 'std': [1.0]}, 'needs min and max, found mean and std'),
        ({**Z_SCORE, 'min': [0.0, 0.0]}, 'found mean and std and min'),
        ({'mean': [0.0], 'std': [1.0, 1.0]}, 'mean has 1 numbers, std 2'),
        ({'mean': [], 'std': []}, 'mean has 0 numbers'),
        ({'mean': [0.0, 0.0], 'std': [1.0, -1.0]}, 'std[1] is -1.0, expected 0 or more'),
        ({'mode': 'min_max', 'min': [2.0], 'max': [1.0]}, 'min[0] is 2.0, above max[0]'),
    ],
)
def test_statistics_that_cannot_be_meant_are_refused(state: dict[str, Any], says: str) -> None:
    assert says in refused(state)


def test_another_mode_is_refused() -> None:
    assert refused({**Z_SCORE, 'mode': 'quantiles'}).startswith('norm_stats.state.mode: ')


@pytest.mark.parametrize('value', [float('nan'), float('inf'), 'one', None, True])
def test_a_statistic_is_a_finite_number(value: Any) -> None:
    assert 'norm_stats.state.std.1' in refused({'mean': [0.0, 0.0], 'std': [1.0, value]})


def test_both_features_have_their_statistics_and_no_other() -> None:
    with pytest.raises(ConfigurationError, match=r'norm_stats.action: required'):
        read_options({'norm_stats': {'state': Z_SCORE}}, 'x')
    with pytest.raises(ConfigurationError, match=r"norm_stats.actions: .*'action'"):
        read_options({'norm_stats': {'state': Z_SCORE, 'action': RANGE, 'actions': RANGE}}, 'x')


def test_the_keys_of_openpi_checkpoints() -> None:
    options = read_options({'asset_id': 'droid', 'discrete_state_input': False}, 'x')
    assert (options.asset_id, options.discrete_state_input) == ('droid', False)
    assert (read_options({}, 'x').asset_id, read_options({}, 'x').discrete_state_input) == (
        None,
        None,
    )
    for values, key in (({'asset_id': ''}, 'asset_id'), ({'discrete_state_input': 0}, 'discrete')):
        with pytest.raises(ConfigurationError, match=key):
            read_options(values, 'x')


def test_the_longest_text_of_an_openpi_checkpoint_is_bounded() -> None:
    for length in (0, -5, 10_001):
        with pytest.raises(ConfigurationError, match='tokenizer_max_length'):
            read_options({'tokenizer_max_length': length}, 'x')
