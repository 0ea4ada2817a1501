# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""norm_stats of the policy file or of config.json count, or are refused by name."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lerobot_files import (
    ACTION,
    POSTPROCESSOR,
    PREPROCESSOR,
    STATE,
    both,
    pipeline,
    rejected,
    write_files,
    write_statistics,
)
from policy_checkpoints import rewrite_json

BEFORE = 'policy_preprocessor_step_6_normalizer_processor.safetensors'
MEAN, STD = [1.0, 0.0, 4.0], [2.0, 0.5, 0.25]


@pytest.fixture
def mean_std(tmp_path: Path) -> Path:
    """Return a π0 checkpoint that normalises by mean and deviation."""
    write_files(tmp_path, mode='MEAN_STD')
    write_statistics(tmp_path, both('mean', 'std', MEAN, STD))
    return tmp_path


def degenerate(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if 'degenerate' in r.getMessage()]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


GIVEN = {
    'state': {'mode': 'mean_std', 'mean': [1.0, 0.0, 4.0], 'std': [2.0, 0.5, 0.25]},
    'action': {'mode': 'min_max', 'min': [0.0, -4.0, 2.0], 'max': [8.0, 4.0, 2.0]},
}


@pytest.mark.parametrize('where', ['policy file', 'config.json'])
@pytest.mark.parametrize('declared', ['IDENTITY', 'MEAN_STD'])
def test_norm_stats_count_where_the_checkpoint_has_no_statistics(
    tmp_path: Path, where: str, declared: str
) -> None:
    write_files(tmp_path, mode=declared)
    options: dict[str, Any] = {}
    if where == 'policy file':
        options['norm_stats'] = GIVEN
    else:
        rewrite_json(tmp_path / 'config.json', norm_stats=GIVEN)
    around = pipeline(tmp_path, **options)
    # (5 − 1) / 2, (−0.5) / 0.5, (4.5 − 4) / 0.25
    state = around.state.normalize(f32(5.0, -0.5, 4.5))
    np.testing.assert_allclose(state, [2.0, -1.0, 2.0], rtol=1e-6)
    # (−0.5 + 1) / 2 · 8, (2 + 1) / 2 · 8 − 4 (outside), (1 + 1) / 2 · 1e-8 + 2 (no range)
    actions = around.robot_actions(f32(-0.5, 2.0, 1.0, 9.0)[None], f32(0.0, 0.0, 0.0))
    np.testing.assert_array_equal(actions[0], f32(2.0, 8.0, 2.0))


def test_norm_stats_without_processor_files_count_too(tmp_path: Path) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    for name in (PREPROCESSOR, POSTPROCESSOR):
        (tmp_path / name).unlink()
    assert pipeline(tmp_path, norm_stats=GIVEN).state_width == 3


def test_norm_stats_of_another_mode_than_declared_are_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    write_files(tmp_path, mode='MEAN_STD')
    pipeline(tmp_path, norm_stats=GIVEN)
    said = [r.getMessage() for r in caplog.records if 'declares' in r.getMessage()]
    assert said == [
        f'{tmp_path}: norm_stats of policy.yaml normalises ACTION as MIN_MAX, the checkpoint '
        'declares MEAN_STD'
    ]


def test_degenerate_norm_stats_are_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    write_files(tmp_path)
    pipeline(tmp_path, norm_stats=GIVEN)
    (message,) = degenerate(caplog)
    assert 'action[2]: min 2, max 2' in message


@pytest.mark.parametrize('where', ['policy file', 'config.json'])
def test_norm_stats_beside_statistics_refuse(mean_std: Path, where: str) -> None:
    options: dict[str, Any] = {}
    if where == 'policy file':
        options['norm_stats'] = GIVEN
    else:
        rewrite_json(mean_std / 'config.json', norm_stats=GIVEN)
    error = rejected(mean_std, **options)
    assert 'norm_stats beside the statistics of the checkpoint' in error.what
    assert BEFORE in error.what
    assert ('policy.yaml' if options else 'config.json') in error.what


def test_norm_stats_beside_the_override_refuse(tmp_path: Path) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    error = rejected(tmp_path, norm_stats=GIVEN, normalization='identity')
    assert 'normalization: identity is refused, because policy.yaml has norm_stats' in str(error)


def test_norm_stats_in_both_places_have_to_agree(tmp_path: Path) -> None:
    write_files(tmp_path)
    rewrite_json(tmp_path / 'config.json', norm_stats=GIVEN)
    assert pipeline(tmp_path, norm_stats=GIVEN).state_width == 3
    other = {**GIVEN, 'state': {**GIVEN['state'], 'mean': [0.0, 0.0, 0.0]}}
    assert 'norm_stats differs' in str(rejected(tmp_path, norm_stats=other))


@pytest.mark.parametrize(
    ('feature', 'part'),
    [
        (STATE, {'state': {'mode': 'mean_std', 'mean': [0.0] * 2, 'std': [1.0] * 2}}),
        (ACTION, {'action': {'mode': 'min_max', 'min': [0.0] * 2, 'max': [1.0] * 2}}),
    ],
)
def test_norm_stats_of_another_width_refuse(tmp_path: Path, feature: str, part: Any) -> None:
    write_files(tmp_path)
    error = rejected(tmp_path, norm_stats={**GIVEN, **part})
    assert 'policy.yaml: norm_stats' in error.what
    assert f'{feature}.' in error.what
    assert 'has 2 values, but the feature has 3' in error.what


def test_norm_stats_beyond_float32_refuse(tmp_path: Path) -> None:
    write_files(tmp_path)
    part = {'mode': 'mean_std', 'mean': [1e39, 0.0, 0.0], 'std': [1.0] * 3}
    error = rejected(tmp_path, norm_stats={**GIVEN, 'state': part})
    assert f'{STATE}.mean[0] is inf' in error.what


@pytest.mark.parametrize(
    ('value', 'says'),
    [
        ([1], 'norm_stats is [1]'),
        ({'state': GIVEN['state']}, 'action: required'),
        ({**GIVEN, 'actions': {}}, "did you mean 'action'"),
        ({**GIVEN, 'state': {'mode': 'quantiles'}}, 'state.mode'),
        ({**GIVEN, 'state': {'mode': 'mean_std', 'mean': [0.0] * 3}}, 'needs mean and std'),
        ({**GIVEN, 'state': {**GIVEN['state'], 'std': [1.0, -1.0, 1.0]}}, 'std[1] is -1.0'),
        ({**GIVEN, 'state': {**GIVEN['state'], 'std': ['1', 1.0, 1.0]}}, 'state.std.0'),
    ],
)
def test_norm_stats_of_config_json_that_are_wrong_refuse(
    tmp_path: Path, value: Any, says: str
) -> None:
    write_files(tmp_path)
    rewrite_json(tmp_path / 'config.json', norm_stats=value)
    error = rejected(tmp_path)
    assert str(tmp_path / 'config.json') in error.what
    assert says in error.what


@pytest.mark.parametrize('nothing', [None, {}])
def test_empty_norm_stats_of_config_json_are_none(tmp_path: Path, nothing: Any) -> None:
    write_files(tmp_path)
    rewrite_json(tmp_path / 'config.json', norm_stats=nothing)
    assert pipeline(tmp_path).state_width is None
