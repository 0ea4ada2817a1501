# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Statistics on disk or in norm_stats are read as they are, or refused by name."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lerobot_files import (
    ACTION,
    NORMALIZER,
    POSTPROCESSOR,
    PREPROCESSOR,
    STATE,
    UNNORMALIZER,
    both,
    change_statistics,
    drop_step,
    find,
    pipeline,
    rejected,
    set_config,
    set_modes,
    write_files,
    write_statistics,
)
from policy_checkpoints import rewrite_json

from openpi_policy_ros.policies.normalization import STATISTICS
from openpi_policy_ros.policies.pi0.statistics import read_statistics

MODES = ['MEAN_STD', 'MIN_MAX', 'QUANTILES', 'QUANTILE10']
BEFORE = 'policy_preprocessor_step_6_normalizer_processor.safetensors'
AFTER = 'policy_postprocessor_step_0_unnormalizer_processor.safetensors'
# Different numbers for every statistic, so that reading the wrong one is seen.
ALL = {
    'mean': [1.0, 0.0, 4.0],
    'std': [2.0, 0.5, 0.25],
    'min': [0.0, -4.0, 2.0],
    'max': [8.0, 4.0, 3.0],
    'q01': [1.0, -2.0, 0.0],
    'q99': [3.0, 2.0, 16.0],
    'q10': [2.0, -1.0, 1.0],
    'q90': [2.5, 1.0, 3.0],
}


@pytest.fixture(params=['pi0', 'pi05'])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a checkpoint of either family whose statistics hold everything."""
    write_files(tmp_path, request.param)
    write_statistics(
        tmp_path,
        {
            f'{feature}.{name}': values
            for feature in (STATE, ACTION)
            for name, values in ALL.items()
        },
    )
    return tmp_path


@pytest.fixture
def mean_std(tmp_path: Path) -> Path:
    """Return a π0 checkpoint that normalises by mean and deviation."""
    write_files(tmp_path, mode='MEAN_STD')
    write_statistics(tmp_path, both('mean', 'std', ALL['mean'], ALL['std']))
    return tmp_path


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# What is read


@pytest.mark.parametrize(
    ('mode', 'raw', 'model'),
    [
        # (5 − 1) / 2, (−0.5 − 0) / 0.5, (4.5 − 4) / 0.25
        ('MEAN_STD', (5.0, -0.5, 4.5), (2.0, -1.0, 2.0)),
        # 2 · 2 / 8 − 1, 2 · 12 / 8 − 1 (outside), 2 · 1 / 1 − 1
        ('MIN_MAX', (2.0, 8.0, 3.0), (-0.5, 2.0, 1.0)),
        # 2 · 1 / 2 − 1, 2 · 4 / 4 − 1, 2 · (−8) / 16 − 1 (outside)
        ('QUANTILES', (2.0, 2.0, -8.0), (0.0, 1.0, -2.0)),
        # 2 · 0.5 / 0.5 − 1, 2 · 0.5 / 2 − 1, 2 · 1 / 2 − 1
        ('QUANTILE10', (2.5, -0.5, 2.0), (1.0, -0.5, 0.0)),
    ],
)
def test_each_mode_normalises_the_state_and_brings_actions_back(
    files: Path, mode: str, raw: tuple[float, ...], model: tuple[float, ...]
) -> None:
    set_modes(files, STATE=mode, ACTION=mode)
    around = pipeline(files)
    assert around.state_width == 3
    np.testing.assert_allclose(around.state.normalize(f32(*raw)), f32(*model), rtol=1e-6)
    # Nine columns of the model: three mean something.
    chunk = np.concatenate([f32(*model), f32(*[99.0] * 6)])[None].repeat(2, axis=0)
    actions = around.robot_actions(chunk, f32(0.0, 0.0, 0.0))
    assert (actions.dtype, actions.shape) == (np.float32, (2, 3))
    np.testing.assert_allclose(actions, [raw, raw], rtol=1e-6)


def test_state_and_actions_may_have_modes_of_their_own(files: Path) -> None:
    set_modes(files, STATE='MIN_MAX', ACTION='MEAN_STD')
    around = pipeline(files)
    np.testing.assert_array_equal(around.state.normalize(f32(2.0, 0.0, 2.0)), f32(-0.5, 0.0, -1.0))
    # 2 · 2 + 1, −1 · 0.5, 0 · 0.25 + 4
    actions = around.robot_actions(f32(2.0, -1.0, 0.0)[None], f32(0.0, 0.0, 0.0))
    np.testing.assert_array_equal(actions[0], f32(5.0, -0.5, 4.0))


@pytest.mark.parametrize(
    'eps', [0, -1e-8, True, '1e-8', 10**400, 1e300, float('nan')], ids=lambda eps: str(eps)[:8]
)
def test_an_eps_that_is_no_small_number_refuses(mean_std: Path, eps: Any) -> None:
    set_config(mean_std / PREPROCESSOR, NORMALIZER, eps=eps)
    assert 'eps is ' in rejected(mean_std).what


def test_each_step_has_its_own_eps(mean_std: Path) -> None:
    set_config(mean_std / PREPROCESSOR, NORMALIZER, eps=2.0)
    set_modes(mean_std, ACTION='MIN_MAX')
    ends = {'action.min': [0.0] * 3, 'action.max': [0.0] * 3}
    change_statistics(mean_std / BEFORE, **ends)
    change_statistics(mean_std / AFTER, **ends)
    set_config(mean_std / POSTPROCESSOR, UNNORMALIZER, eps=4.0)
    around = pipeline(mean_std)
    # (5 − 1) / (2 + 2)
    assert around.state.normalize(f32(5.0, 0.0, 0.0))[0] == 1.0
    # (1 + 1) / 2 · 4 + 0
    assert around.robot_actions(f32(1.0, 1.0, 1.0)[None], f32(0.0, 0.0, 0.0))[0, 0] == 4.0


def test_an_identity_reads_no_statistics(files: Path) -> None:
    change_statistics(files / BEFORE, **{f'{STATE}.mean': [float('nan')] * 3})
    around = pipeline(files)
    assert around.state_width is None
    np.testing.assert_array_equal(around.state.normalize(f32(7.0)), f32(7.0))


def test_a_state_that_the_step_leaves_out_stays_as_it_is(mean_std: Path) -> None:
    set_config(mean_std / PREPROCESSOR, NORMALIZER, normalize_observation_keys=['observation.env'])
    around = pipeline(mean_std)
    assert around.state_width is None
    # Actions do not hang on the keys of an observation: 2 · 2 + 1.
    assert around.robot_actions(f32(2.0, 0.0, 0.0)[None], f32(0.0))[0, 0] == 5.0
    set_config(mean_std / PREPROCESSOR, NORMALIZER, normalize_observation_keys=[STATE])
    assert pipeline(mean_std).state_width == 3


@pytest.mark.parametrize(
    'dtype',
    [
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
    ],
)
@pytest.mark.parametrize('shape', [(3,), (1, 3)])
def test_statistics_of_every_type_and_of_one_row_are_read(
    tmp_path: Path, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    mean, std = (
        torch.tensor(numbers).to(dtype).reshape(shape) for numbers in ([1, 2, 3], [2, 4, 8])
    )
    write_statistics(tmp_path, both('mean', 'std', mean, std))
    state = pipeline(tmp_path).state.normalize(f32(5.0, 6.0, 7.0))
    np.testing.assert_allclose(state, [2.0, 1.0, 0.5], rtol=1e-6)


def test_statistics_are_used_as_float32(tmp_path: Path) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    mean = torch.tensor([0.1, 0.0, 0.0], dtype=torch.float64)
    write_statistics(tmp_path, both('mean', 'std', mean, [1.0] * 3))
    # float32(0.1) − float32(0.1)
    assert pipeline(tmp_path).state.normalize(f32(0.1, 0.0, 0.0))[0] == 0.0


def test_other_features_and_statistics_are_passed_over(mean_std: Path) -> None:
    for name in (BEFORE, AFTER):
        change_statistics(
            mean_std / name,
            **{
                'observation.images.front.mean': torch.full((3, 1, 1), float('nan')),
                'observation.state.extra.mean': [float('inf')],
                'action.count': torch.tensor([7]),
                'action.q01': [float('nan')],
                'timestamp.mean': [1.0],
                'index': [1.0],
            },
        )
    assert pipeline(mean_std).state_width == 3


def test_a_file_may_hold_the_statistics_of_its_own_direction_alone(mean_std: Path) -> None:
    change_statistics(mean_std / BEFORE, **{'action.mean': None, 'action.std': None})
    change_statistics(mean_std / AFTER, **{f'{STATE}.mean': None, f'{STATE}.std': None})
    around = pipeline(mean_std)
    np.testing.assert_array_equal(around.state.normalize(f32(5.0, 0.0, 4.0)), f32(2.0, 0.0, 0.0))
    actions = around.robot_actions(f32(2.0, 0.0, 0.0)[None], f32(0.0, 0.0, 0.0))
    np.testing.assert_array_equal(actions[0], f32(5.0, 0.0, 4.0))


# What refuses


@pytest.mark.parametrize('mode', MODES)
@pytest.mark.parametrize(
    ('name', 'feature', 'kind', 'file'),
    [(BEFORE, STATE, 'STATE', PREPROCESSOR), (AFTER, ACTION, 'ACTION', POSTPROCESSOR)],
)
def test_a_mode_without_its_statistics_refuses(
    tmp_path: Path, mode: str, name: str, feature: str, kind: str, file: str
) -> None:
    write_files(tmp_path)
    set_modes(tmp_path, **{kind: mode})
    first, second = STATISTICS[mode]
    others = {f'{feature}.{stat}': v for stat, v in ALL.items() if stat not in (first, second)}
    write_statistics(tmp_path, others)
    for options in ({}, {'normalization': 'identity'}):
        error = rejected(tmp_path, **options)
        assert f'{kind}: {mode}' in error.what
        assert 'normalization: identity is refused' in error.remedy
    error = rejected(tmp_path)
    assert f'{file} declares {kind}: {mode}, but {name} is without them' in error.what
    assert f'{feature}.{first} and {feature}.{second}' in error.expected


@pytest.mark.parametrize('mode', MODES)
@pytest.mark.parametrize('absent', [0, 1])
def test_half_of_the_statistics_refuses(files: Path, mode: str, absent: int) -> None:
    set_modes(files, STATE=mode)
    gone = f'{STATE}.{STATISTICS[mode][absent]}'
    change_statistics(files / BEFORE, **{gone: None})
    assert f'{BEFORE} holds no {gone}, which {mode} needs' in rejected(files).what


@pytest.mark.parametrize(
    ('kind', 'lacking', 'named'),
    [('STATE', PREPROCESSOR, AFTER), ('ACTION', POSTPROCESSOR, BEFORE)],
)
def test_statistics_in_the_other_file_alone_refuse(
    tmp_path: Path, kind: str, lacking: str, named: str
) -> None:
    write_files(tmp_path)
    set_modes(tmp_path, **{kind: 'MEAN_STD'})
    write_statistics(
        tmp_path,
        both('mean', 'std', ALL['mean'], ALL['std']),
        before=BEFORE if named == BEFORE else None,
        after=AFTER if named == AFTER else None,
    )
    error = rejected(tmp_path)
    assert f'{lacking} declares {kind}: MEAN_STD' in error.what
    assert named in error.remedy


def test_a_missing_processor_file_leaves_config_json_without_statistics(mean_std: Path) -> None:
    (mean_std / POSTPROCESSOR).unlink()
    error = rejected(mean_std)
    assert 'config.json declares ACTION: MEAN_STD' in error.what


def test_a_missing_step_leaves_config_json_without_statistics(mean_std: Path) -> None:
    drop_step(mean_std / PREPROCESSOR, NORMALIZER)
    assert 'config.json declares STATE: MEAN_STD' in rejected(mean_std).what


@pytest.mark.parametrize('features', [{}, {STATE: {'type': 'ENV', 'shape': [3]}}])
def test_a_state_that_the_step_does_not_know_refuses(mean_std: Path, features: Any) -> None:
    set_config(mean_std / PREPROCESSOR, NORMALIZER, features=features)
    assert f'its features do not list {STATE} as STATE' in rejected(mean_std).what


@pytest.mark.parametrize('feature', [STATE, ACTION])
@pytest.mark.parametrize('width', [2, 4, 0])
def test_statistics_of_another_width_refuse_with_both_numbers(
    tmp_path: Path, feature: str, width: int
) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    statistics = both('mean', 'std', ALL['mean'], ALL['std'])
    statistics.update({f'{feature}.mean': [0.0] * width, f'{feature}.std': [1.0] * width})
    write_statistics(tmp_path, statistics)
    error = rejected(tmp_path)
    assert f'{feature}.mean has {width} values, but the feature has 3' in error.what


@pytest.mark.parametrize(
    ('values', 'says'),
    [
        (torch.zeros(2, 3), 'has shape [2, 3]'),
        (torch.zeros(1, 1, 3), 'has shape [1, 1, 3]'),
        (torch.tensor(1.0), 'has shape []'),
        (torch.ones(3, dtype=torch.bool), 'has dtype BOOL'),
    ],
)
def test_statistics_of_another_shape_or_type_refuse(
    mean_std: Path, values: torch.Tensor, says: str
) -> None:
    change_statistics(mean_std / BEFORE, **{f'{STATE}.std': values})
    assert f'{STATE}.std {says}' in rejected(mean_std).what


@pytest.mark.parametrize(
    ('mode', 'name', 'values', 'says'),
    [
        ('MEAN_STD', 'mean', [0.0, float('nan'), 0.0], 'mean[1] is nan'),
        ('MEAN_STD', 'std', [1.0, 1.0, float('inf')], 'std[2] is inf'),
        ('MEAN_STD', 'std', [1.0, -0.5, 1.0], 'std[1] is -0.5'),
        ('MIN_MAX', 'min', [float('-inf'), 0.0, 0.0], 'min[0] is -inf'),
        ('MIN_MAX', 'max', [8.0, -4.5, 3.0], 'max[1] is -4.5, below min[1], -4'),
        ('QUANTILES', 'q99', [0.5, 2.0, 16.0], 'q99[0] is 0.5, below q01[0], 1'),
        ('QUANTILES', 'q01', [float('nan')] * 3, 'q01[0] is nan'),
        ('QUANTILE10', 'q10', [2.0, -1.0, 3.5], 'q90[2] is 3, below q10[2], 3.5'),
    ],
)
@pytest.mark.parametrize(
    ('kind', 'feature', 'file'), [('STATE', STATE, BEFORE), ('ACTION', ACTION, AFTER)]
)
def test_numbers_that_no_training_data_have_refuse_by_dimension(
    files: Path,
    kind: str,
    feature: str,
    file: str,
    mode: str,
    name: str,
    values: list[float],
    says: str,
) -> None:
    set_modes(files, **{kind: mode})
    change_statistics(files / file, **{f'{feature}.{name}': values})
    error = rejected(files)
    assert file in error.what
    assert f'{feature}.{says}' in error.what


def test_numbers_beyond_float32_refuse(mean_std: Path) -> None:
    values = torch.tensor([1e39, 0.0, 0.0], dtype=torch.float64)
    change_statistics(mean_std / BEFORE, **{f'{STATE}.mean': values})
    error = rejected(mean_std)
    assert f'{STATE}.mean[0] is inf' in error.what
    assert 'float32' in error.expected


@pytest.mark.parametrize(
    ('content', 'remedy'),
    [
        (b'', 'damaged'),
        (b'\x10\x00\x00\x00\x00\x00\x00\x00{"a": 1', 'damaged'),
        (b'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1', 'git lfs pull'),
    ],
)
def test_a_damaged_file_of_statistics_refuses(mean_std: Path, content: bytes, remedy: str) -> None:
    (mean_std / BEFORE).write_bytes(content)
    error = rejected(mean_std)
    assert BEFORE in error.what
    assert remedy in error.remedy


def test_action_statistics_that_differ_between_the_files_refuse(mean_std: Path) -> None:
    change_statistics(mean_std / BEFORE, **{'action.std': [2.0, 0.5, 0.5]})
    error = rejected(mean_std)
    assert f'the statistics of action in {BEFORE} and {AFTER} differ' in error.what


def test_state_statistics_of_the_postprocessor_do_not_count(mean_std: Path) -> None:
    change_statistics(mean_std / AFTER, **{f'{STATE}.std': [9.0, 9.0, 9.0]})
    assert pipeline(mean_std).state.normalize(f32(5.0, 0.0, 0.0))[0] == 2.0


# Degenerate ranges


def degenerate(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if 'degenerate' in r.getMessage()]


def test_degenerate_deviations_are_warned_about_once_with_dimension_and_value(
    mean_std: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    rewrite_json(mean_std / 'config.json', action_feature_names=['x', 'y', 'gripper'])
    change_statistics(mean_std / BEFORE, **{f'{STATE}.std': [1.0, 0.0, 1e-8]})
    for name in (BEFORE, AFTER):
        change_statistics(mean_std / name, **{'action.std': [1.0, 2e-8, 0.0]})
    around = pipeline(mean_std)
    (message,) = degenerate(caplog)
    assert str(mean_std) in message
    assert f'{STATE}[1]: std 0; {STATE}[2]: std 1e-08; action[2] (gripper): std 0' in message
    assert 'action[1]' not in message
    # Served all the same: 3 · 0 + 4.
    assert around.robot_actions(f32(0.0, 0.0, 3.0)[None], f32(0.0, 0.0, 0.0))[0, 2] == 4.0


@pytest.mark.parametrize('mode', ['MIN_MAX', 'QUANTILES', 'QUANTILE10'])
def test_degenerate_ranges_are_warned_about_with_both_ends(
    files: Path, caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    caplog.set_level(logging.WARNING)
    low, high = STATISTICS[mode]
    set_modes(files, STATE=mode)
    ends = {f'{STATE}.{low}': [0.0, 0.25, 0.0], f'{STATE}.{high}': [1.0, 0.25, 1.0]}
    change_statistics(files / BEFORE, **ends)
    pipeline(files)
    (message,) = degenerate(caplog)
    assert message.endswith(f'{STATE}[1]: {low} 0.25, {high} 0.25')


def test_statistics_that_move_are_not_warned_about(
    files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    set_modes(files, STATE='QUANTILES', ACTION='QUANTILES')
    pipeline(files)
    assert caplog.text == ''


# The file itself


def test_statistics_outlive_the_file_they_came_from(mean_std: Path) -> None:
    statistics = read_statistics(mean_std / BEFORE, STATE, 'MEAN_STD', 3)
    assert statistics is not None
    (mean_std / BEFORE).write_bytes(b'\0' * 4096)
    np.testing.assert_array_equal(statistics.first, f32(1.0, 0.0, 4.0))
    np.testing.assert_array_equal(statistics.second, f32(2.0, 0.5, 0.25))


def test_a_file_that_is_far_too_large_for_statistics_refuses(mean_std: Path) -> None:
    change_statistics(mean_std / BEFORE, weight=torch.zeros(2**24 + 1))
    error = rejected(mean_std)
    assert BEFORE in error.what
    assert 'a file of statistics' in error.expected


def test_statistics_are_read_without_torch(mean_std: Path) -> None:
    code = (
        'import pathlib, sys\n'
        'from openpi_policy_ros.policies.pi0.statistics import read_statistics\n'
        f'path = pathlib.Path({str(mean_std / BEFORE)!r})\n'
        f'assert read_statistics(path, {STATE!r}, "MEAN_STD", 3) is not None\n'
        'assert "torch" not in sys.modules\n'
    )
    subprocess.run([sys.executable, '-c', code], check=True, timeout=60)


def test_a_file_without_the_feature_has_no_statistics_of_it(mean_std: Path) -> None:
    assert read_statistics(mean_std / BEFORE, 'observation.env', 'MEAN_STD', 3) is None
    assert read_statistics(mean_std / BEFORE, STATE, 'QUANTILES', 3) is None


def test_the_step_may_share_one_file_with_the_other(mean_std: Path) -> None:
    values = json.loads((mean_std / POSTPROCESSOR).read_text())
    find(values['steps'], UNNORMALIZER)['state_file'] = BEFORE
    (mean_std / POSTPROCESSOR).write_text(json.dumps(values))
    assert pipeline(mean_std).state_width == 3
