# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is done around the network follows from a LeRobot checkpoint's files, or they refuse."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lerobot_files import (
    ACTION,
    CAMERA,
    NORMALIZER,
    POSTPROCESSOR,
    PREPROCESSOR,
    STATE,
    UNNORMALIZER,
    add_step,
    both,
    drop_step,
    pipeline,
    rejected,
    set_config,
    set_modes,
    step,
    write_files,
    write_statistics,
)
from policy_checkpoints import rewrite_json

from openpi_policy_ros.policies.normalization import lerobot_normalizer
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.lerobot_pipeline import lerobot_pipeline
from openpi_policy_ros.policies.pi0.options import Pi0Options
from openpi_policy_ros.policies.pi0.pipeline import Pipeline, PromptStyle
from openpi_policy_ros.policies.pi0.processors import read_processing
from openpi_policy_ros.policies.problems import Problems

DATA = Path(__file__).resolve().parents[1] / 'data'
RELATIVE, ABSOLUTE = 'relative_actions_processor', 'absolute_actions_processor'


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# Reference outputs


@pytest.mark.parametrize('name', ['pi0_tiny_ft_meanstd', 'pi05_tiny'])
def test_numbers_around_the_network_are_those_of_the_reference(name: str) -> None:
    around = pipeline(DATA / name)
    with np.load(DATA / name / 'cases' / 'end_to_end.npz') as case:
        state, actions_full = case['state'], case['actions_full']
        norm_state, actions, robot = case['norm_state'], case['actions'], case['robot_actions']
    assert around.state_width == 14
    np.testing.assert_allclose(around.state.normalize(state), norm_state, rtol=1e-6)
    np.testing.assert_allclose(around.robot_actions(actions_full, state), robot, rtol=1e-6)
    np.testing.assert_allclose(around.model_actions(robot, state), actions, rtol=1e-4, atol=1e-6)


# Text, state token, padding


def test_pi0_reads_the_state_as_a_token_and_a_newline_after_the_text(tmp_path: Path) -> None:
    write_files(tmp_path)
    around = pipeline(tmp_path)
    assert around.prompt is PromptStyle.NEWLINE
    assert around.state_token
    assert not around.antialias
    assert not around.legacy_padding
    assert (around.action_dim, around.delta_mask) == (3, ())


def test_pi05_reads_the_state_in_its_text(tmp_path: Path) -> None:
    write_files(tmp_path, 'pi05')
    around = pipeline(tmp_path)
    assert around.prompt is PromptStyle.STATE
    assert not around.state_token


def test_a_pi0_preprocessor_without_the_newline_step_leaves_the_text_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    write_files(tmp_path)
    drop_step(tmp_path / PREPROCESSOR, 'pi0_new_line_processor')
    assert pipeline(tmp_path).prompt is PromptStyle.PLAIN
    (record,) = caplog.records
    assert 'newline' in record.getMessage()
    assert str(tmp_path / PREPROCESSOR) in record.getMessage()


@pytest.mark.parametrize(
    ('family', 'style'), [('pi0', PromptStyle.NEWLINE), ('pi05', PromptStyle.STATE)]
)
def test_without_processor_files_the_text_is_that_of_the_family(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, family: str, style: PromptStyle
) -> None:
    caplog.set_level(logging.WARNING)
    write_files(tmp_path, family)
    for name in (PREPROCESSOR, POSTPROCESSOR):
        (tmp_path / name).unlink()
    assert pipeline(tmp_path).prompt is style
    assert caplog.text == ''


# Modes


def test_a_declared_mode_without_any_statistics_refuses(tmp_path: Path) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    error = rejected(tmp_path)
    assert f'STATE: MEAN_STD ({PREPROCESSOR})' in error.what
    assert f'ACTION: MEAN_STD ({POSTPROCESSOR})' in error.what
    assert 'carries no statistics' in error.what
    assert 'normalization: identity' in error.remedy
    assert 'norm_stats' in error.remedy


def test_the_override_of_a_mode_without_statistics_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    write_files(tmp_path, mode='MEAN_STD')
    around = pipeline(tmp_path, normalization='identity')
    assert around.state_width is None
    np.testing.assert_array_equal(
        around.robot_actions(f32(1.0, 2.0, 3.0, 4.0)[None], f32(0.0)), [[1.0, 2.0, 3.0]]
    )
    assert 'STATE: MEAN_STD' in caplog.text
    assert 'overridden by normalization: identity' in caplog.text


def test_the_override_refuses_beside_statistics(tmp_path: Path) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    write_statistics(tmp_path, both('mean', 'std', [0.0] * 3, [1.0] * 3))
    error = rejected(tmp_path, normalization='identity')
    assert 'policy_preprocessor_step_6' in error.what
    assert 'normalization: identity is refused' in error.remedy


def test_the_override_changes_nothing_where_nothing_is_normalised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    write_files(tmp_path)
    write_statistics(tmp_path, both('mean', 'std', [0.0] * 3, [1.0] * 3))
    pipeline(tmp_path, normalization='identity')
    assert caplog.text == ''


@pytest.mark.parametrize('mode', ['NOVEL', 'mean_std', ''])
@pytest.mark.parametrize('kind', ['STATE', 'ACTION', 'VISUAL'])
@pytest.mark.parametrize('options', [{}, {'normalization': 'identity'}])
def test_an_unknown_mode_refuses(
    tmp_path: Path, kind: str, mode: str, options: dict[str, Any]
) -> None:
    write_files(tmp_path)
    set_modes(tmp_path, **{kind: mode})
    assert f'unknown normalisation {mode!r} for {kind}' in rejected(tmp_path, **options).what


def test_an_unknown_mode_of_config_json_refuses_where_it_counts(tmp_path: Path) -> None:
    write_files(tmp_path)
    rewrite_json(tmp_path / 'config.json', normalization_mapping={'STATE': 'NOVEL'})
    pipeline(tmp_path)
    (tmp_path / PREPROCESSOR).unlink()
    assert "config.json declares the unknown normalisation 'NOVEL'" in rejected(tmp_path).what


@pytest.mark.parametrize('mode', ['MEAN_STD', 'MIN_MAX', 'QUANTILES'])
def test_images_that_are_normalised_refuse(tmp_path: Path, mode: str) -> None:
    write_files(tmp_path)
    write_statistics(tmp_path, both('mean', 'std', [0.0] * 3, [1.0] * 3))
    set_modes(tmp_path, VISUAL=mode)
    error = rejected(tmp_path)
    assert f'{PREPROCESSOR} declares {mode} for VISUAL' in error.what
    set_config(tmp_path / PREPROCESSOR, NORMALIZER, normalize_observation_keys=[STATE])
    pipeline(tmp_path)
    set_config(tmp_path / PREPROCESSOR, NORMALIZER, normalize_observation_keys=[CAMERA])
    assert 'for VISUAL' in rejected(tmp_path).what


def test_modes_that_differ_between_the_files_refuse(tmp_path: Path) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    write_statistics(
        tmp_path,
        {
            **both('mean', 'std', [0.0] * 3, [1.0] * 3),
            **both('min', 'max', [0.0] * 3, [1.0] * 3),
        },
    )
    set_config(tmp_path / POSTPROCESSOR, UNNORMALIZER, norm_map={'ACTION': 'MIN_MAX'})
    error = rejected(tmp_path)
    assert 'declares MEAN_STD for ACTION' in error.what
    assert 'MIN_MAX' in error.what


def test_a_type_that_a_norm_map_leaves_out_is_left_as_it_is(tmp_path: Path) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    write_statistics(tmp_path, both('mean', 'std', [0.0] * 3, [1.0] * 3))
    set_config(tmp_path / PREPROCESSOR, NORMALIZER, norm_map={'ACTION': 'MEAN_STD'})
    around = pipeline(tmp_path)
    assert around.state_width is None
    assert around.actions.width == 3


def test_nothing_is_settled_about_a_checkpoint_whose_processors_refuse(tmp_path: Path) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    add_step(tmp_path / PREPROCESSOR, step('gripper_flip'))
    problems, config = Problems(), read_config(tmp_path)
    processing = read_processing(tmp_path, config, problems)
    assert not processing.complete
    assert lerobot_pipeline(tmp_path, processing, config, Pi0Options(), 'x', problems) is None
    assert problems.unchecked == ['normalisation']
    (error,) = problems.errors
    assert 'gripper_flip' in str(error)


# Relative actions


@pytest.fixture
def relative(tmp_path: Path) -> Path:
    """Return a checkpoint with four columns, all differences from the state."""
    write_files(tmp_path, width=4)
    set_config(tmp_path / PREPROCESSOR, RELATIVE, enabled=True, exclude_joints=[])
    set_config(tmp_path / POSTPROCESSOR, ABSOLUTE, enabled=True)
    rewrite_json(tmp_path / 'config.json', use_relative_actions=True)
    return tmp_path


@pytest.mark.parametrize(
    ('exclude', 'names', 'mask'),
    [
        ([], ['a', 'b', 'c', 'd'], (True, True, True, True)),
        (None, ['a', 'b', 'c', 'd'], (True, True, True, True)),
        (['gripper'], ['x', 'y', 'gripper', 'z'], (True, True, False, True)),
        # Part of a name, case aside.
        (['GRIP'], ['left_gripper.pos', 'a', 'Gripper', 'b'], (False, True, False, True)),
        (['grip'], ['LEFT_GRIPPER', 'a', 'b', 'c'], (False, True, True, True)),
        (['gripper.pos'], ['gripper', 'gripper.pos', 'a', 'b'], (True, False, True, True)),
        (['a', 'd'], ['a', 'b', 'c', 'd'], (False, True, True, False)),
        # Empty entries name nothing.
        ([''], ['a', 'b', 'c', 'd'], (True, True, True, True)),
        (['', 'b'], ['a', 'b', 'c', 'd'], (True, False, True, True)),
        # Without names nothing is excluded.
        (['gripper'], None, (True, True, True, True)),
        # Columns without a name are not excluded, names without a column do not count.
        (['gripper'], ['x', 'gripper'], (True, False, True, True)),
        (['gripper'], [], (True, True, True, True)),
        (['g'], ['a', 'b', 'c', 'd', 'g'], (True, True, True, True)),
    ],
)
def test_columns_are_differences_unless_their_name_is_excluded(
    relative: Path, exclude: list[str] | None, names: list[str] | None, mask: tuple[bool, ...]
) -> None:
    set_config(relative / PREPROCESSOR, RELATIVE, exclude_joints=exclude, action_names=names)
    around = pipeline(relative)
    assert around.delta_mask == mask
    assert around.relative
    # 0.5 in every column, the state added where the mask is true.
    actions = around.robot_actions(f32(0.5, 0.5, 0.5, 0.5, 7.0)[None], f32(1.0, 2.0, 4.0, 8.0))
    expected = [
        0.5 + (value if delta else 0.0)
        for value, delta in zip((1.0, 2.0, 4.0, 8.0), mask, strict=True)
    ]
    np.testing.assert_array_equal(actions, f32(*expected)[None])


def test_exclusions_that_cannot_be_found_are_warned_about(
    relative: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    set_config(relative / PREPROCESSOR, RELATIVE, exclude_joints=['gripper'], action_names=None)
    pipeline(relative)
    assert 'exclude_joints names gripper, but action_names is null' in caplog.text


def test_every_column_may_be_excluded(relative: Path) -> None:
    names = ['a1', 'a2', 'a3', 'a4']
    set_config(relative / PREPROCESSOR, RELATIVE, exclude_joints=['a'], action_names=names)
    around = pipeline(relative)
    assert around.delta_mask == (False,) * 4
    assert not around.relative


def test_differences_are_added_after_unnormalising_to_the_raw_state(relative: Path) -> None:
    write_statistics(
        relative,
        {
            f'{STATE}.mean': [100.0] * 4,
            f'{STATE}.std': [50.0] * 4,
            f'{ACTION}.mean': [1.0, 0.0, 0.0, 0.0],
            f'{ACTION}.std': [2.0, 1.0, 0.5, 0.25],
        },
    )
    set_modes(relative, STATE='MEAN_STD', ACTION='MEAN_STD')
    # 2 · 2 + 1 + 10, 3 · 1 + 20, 4 · 0.5 + 30, 8 · 0.25 + 40
    actions = pipeline(relative).robot_actions(
        f32(2.0, 3.0, 4.0, 8.0)[None], f32(10.0, 20.0, 30.0, 40.0)
    )
    np.testing.assert_array_equal(actions, [[15.0, 23.0, 32.0, 42.0]])


@pytest.mark.parametrize(
    ('before', 'after', 'on', 'off'),
    [
        (True, False, PREPROCESSOR, POSTPROCESSOR),
        (False, True, POSTPROCESSOR, PREPROCESSOR),
        (True, None, PREPROCESSOR, POSTPROCESSOR),
        (None, True, POSTPROCESSOR, PREPROCESSOR),
    ],
)
def test_actions_that_are_relative_in_one_file_only_refuse(
    relative: Path, before: bool | None, after: bool | None, on: str, off: str
) -> None:
    for file, name, value in ((PREPROCESSOR, RELATIVE, before), (POSTPROCESSOR, ABSOLUTE, after)):
        if value is None:
            drop_step(relative / file, name)
        else:
            set_config(relative / file, name, enabled=value)
    error = rejected(relative)
    assert f'relative to the state in {on}, but not in {off}' in error.what


def test_relative_actions_without_a_postprocessor_refuse(relative: Path) -> None:
    (relative / POSTPROCESSOR).unlink()
    assert 'but not in policy_postprocessor.json' in rejected(relative).what


@pytest.mark.parametrize('enabled', [True, False])
def test_config_json_and_processors_have_to_agree_on_relative_actions(
    relative: Path, enabled: bool
) -> None:
    set_config(relative / PREPROCESSOR, RELATIVE, enabled=enabled)
    set_config(relative / POSTPROCESSOR, ABSOLUTE, enabled=enabled)
    rewrite_json(relative / 'config.json', use_relative_actions=not enabled)
    error = rejected(relative)
    assert f'use_relative_actions {str(not enabled).lower()}' in error.what
    # A config.json of a version that did not know them says nothing.
    rewrite_json(relative / 'config.json', use_relative_actions=None)
    assert pipeline(relative).relative is enabled


def test_relative_actions_of_config_json_alone_refuse(relative: Path) -> None:
    for name in (PREPROCESSOR, POSTPROCESSOR):
        (relative / name).unlink()
    assert 'use_relative_actions true, but no processor does it' in rejected(relative).what


def test_a_state_that_is_narrower_than_the_differences_refuses(relative: Path) -> None:
    features = {
        CAMERA: {'type': 'VISUAL', 'shape': [3, 480, 640]},
        STATE: {'type': 'STATE', 'shape': [2]},
    }
    rewrite_json(relative / 'config.json', input_features=features)
    error = rejected(relative)
    assert '4 columns' in error.what
    assert 'has 2 values' in error.what
    # The last two are absolute: two numbers are enough.
    names = ['a', 'b', 'gripper_l', 'gripper_r']
    set_config(relative / PREPROCESSOR, RELATIVE, exclude_joints=['gripper'], action_names=names)
    around = pipeline(relative)
    assert around.least_state == 2
    actions = around.robot_actions(f32(0.5, 0.5, 0.5, 0.5)[None], f32(1.0, 2.0))
    np.testing.assert_array_equal(actions, [[1.5, 2.5, 0.5, 0.5]])


def test_two_things_that_are_wrong_are_both_told(tmp_path: Path) -> None:
    write_files(tmp_path, mode='MEAN_STD')
    set_config(tmp_path / PREPROCESSOR, RELATIVE, enabled=True)
    problems, config = Problems(), read_config(tmp_path)
    processing = read_processing(tmp_path, config, problems)
    assert lerobot_pipeline(tmp_path, processing, config, Pi0Options(), 'x', problems) is None
    assert ['carries no statistics' in str(error) for error in problems.errors] == [True, False]


# Both ways, and from one state to another


MEAN_STD = lerobot_normalizer('MEAN_STD', {'mean': f32(1, 0, 0), 'std': f32(2, 1, 0.5)}, 1e-8)
AROUND = Pipeline(action_dim=3, actions=MEAN_STD, delta_mask=(True, False, True))


def test_a_chunk_becomes_robot_actions() -> None:
    chunk = f32(2.0, 3.0, 4.0, 99.0, 0.0, 0.0, 0.0, 99.0).reshape(2, 4)
    # 2 · 2 + 1 + 10, 3, 4 · 0.5 + 30; 0 · 2 + 1 + 10, 0, 0 + 30
    actions = AROUND.robot_actions(chunk, f32(10.0, 20.0, 30.0))
    assert actions.dtype == np.float32
    np.testing.assert_array_equal(actions, [[15.0, 3.0, 32.0], [11.0, 0.0, 30.0]])
    assert chunk[0, 0] == 2.0


def test_robot_actions_become_a_chunk() -> None:
    actions = f32(15.0, 3.0, 32.0).reshape(1, 3)
    # (15 − 10 − 1) / 2, 3 / 1, (32 − 30) / 0.5
    model = AROUND.model_actions(actions, f32(10.0, 20.0, 30.0))
    assert model.dtype == np.float32
    np.testing.assert_allclose(model, [[2.0, 3.0, 4.0]], rtol=1e-6)
    assert actions[0, 0] == 15.0


def test_actions_that_a_robot_cropped_become_a_chunk_as_narrow() -> None:
    model = AROUND.model_actions(f32(15.0).reshape(1, 1), f32(10.0, 20.0, 30.0))
    np.testing.assert_allclose(model, [[2.0]], rtol=1e-6)


def test_a_leftover_is_seen_from_the_new_state() -> None:
    leftover = f32(2.0, 3.0, 4.0, 99.0).reshape(1, 4)
    moved = AROUND.re_anchored(leftover, f32(10.0, 20.0, 30.0), f32(12.0, 0.0, 31.0))
    # 15 − 12 = 3 → (3 − 1) / 2; absolute: 3; 32 − 31 = 1 → 1 / 0.5; beyond the action: as it was
    np.testing.assert_allclose(moved, [[1.0, 3.0, 2.0, 99.0]], rtol=1e-6)
    np.testing.assert_array_equal(leftover, [[2.0, 3.0, 4.0, 99.0]])


def test_a_leftover_of_absolute_actions_is_the_same_from_everywhere() -> None:
    around = Pipeline(action_dim=3, actions=MEAN_STD)
    leftover = f32(2.0, 3.0, 4.0).reshape(1, 3)
    moved = around.re_anchored(leftover, f32(10.0, 20.0, 30.0), f32(12.0, 0.0, 31.0))
    np.testing.assert_array_equal(moved, [[2.0, 3.0, 4.0]])


def test_a_mask_may_be_shorter_than_the_action() -> None:
    around = Pipeline(action_dim=3, delta_mask=(False, True))
    assert around.least_state == 2
    actions = around.robot_actions(f32(1.0, 1.0, 1.0).reshape(1, 3), f32(10.0, 20.0))
    np.testing.assert_array_equal(actions, [[1.0, 21.0, 1.0]])
    np.testing.assert_array_equal(around.model_actions(actions, f32(10.0, 20.0)), [[1.0, 1.0, 1.0]])


def test_without_differences_any_state_will_do() -> None:
    around = Pipeline(action_dim=3)
    assert not around.relative
    assert around.least_state == 1
    np.testing.assert_array_equal(
        around.robot_actions(f32(1.0, 2.0, 3.0, 4.0)[None], f32(9.0)), [[1.0, 2.0, 3.0]]
    )


numbers = st.floats(-16.0, 16.0, width=32)
rows = st.lists(numbers, min_size=3, max_size=3)


@given(chunk=rows, state=rows, mask=st.lists(st.booleans(), max_size=3))
def test_a_chunk_survives_the_way_to_the_robot_and_back(
    chunk: list[float], state: list[float], mask: list[bool]
) -> None:
    around = Pipeline(action_dim=3, actions=MEAN_STD, delta_mask=tuple(mask))
    back = around.model_actions(around.robot_actions(f32(*chunk)[None], f32(*state)), f32(*state))
    np.testing.assert_allclose(back[0], chunk, atol=5e-5)


@given(chunk=rows, old=rows, new=rows)
def test_a_moved_leftover_means_the_same_actions(
    chunk: list[float], old: list[float], new: list[float]
) -> None:
    leftover = f32(*chunk)[None]
    moved = AROUND.re_anchored(leftover, f32(*old), f32(*new))
    np.testing.assert_allclose(
        AROUND.robot_actions(moved, f32(*new)),
        AROUND.robot_actions(leftover, f32(*old)),
        atol=5e-5,
    )
