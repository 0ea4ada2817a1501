# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that openpi converted to PyTorch: what their files say, and what they cannot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openpi_files import ABSOLUTE, ACTIONS, CONFIG, DELTA, RAW_STATE, STATE, WIDTH, put, statistics
from policy_checkpoints import rewrite_json

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import CheckpointError, ConfigurationError, PolicyRosError
from openpi_policy_ros.policies.checkpoint_view import view_model
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0.config import Family
from openpi_policy_ros.policies.pi0.openpi_checkpoint import (
    read_openpi_config,
    read_openpi_pipeline,
)
from openpi_policy_ros.policies.pi0.options import read_options
from openpi_policy_ros.policies.pi0.pipeline import Pipeline, PromptStyle
from openpi_policy_ros.policies.problems import Problems


@pytest.fixture(params=['pi0', 'pi05'])
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


@pytest.fixture
def checkpoint(converted: dict[Family, Path], family: Family, tmp_path: Path) -> Path:
    """Return one of either family that a test may change."""
    return Path(shutil.copytree(converted[family], tmp_path / 'checkpoint'))


@pytest.fixture
def pi0(converted: dict[Family, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted['pi0'], tmp_path / 'pi0'))


@pytest.fixture
def pi05(converted: dict[Family, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted['pi05'], tmp_path / 'pi05'))


def planned(directory: Path, profile: Profile | None = ABSOLUTE, **options: Any) -> Pipeline:
    """Return what is done around the network; raises what loading would refuse."""
    view, read = view_model(str(directory)), read_options(options, 'mine.yaml')
    config = read_openpi_config(view, read)
    problems = Problems()
    _, pipeline = read_openpi_pipeline(view, config, read, 'mine.yaml', profile, problems)
    problems.raise_any()
    assert pipeline is not None
    return pipeline


def refused(directory: Path, profile: Profile | None = ABSOLUTE, **options: Any) -> PolicyRosError:
    with pytest.raises(PolicyRosError) as caught:
        planned(directory, profile, **options)
    return caught.value


# What the files say.


def test_sizes_come_from_the_config_and_widths_from_the_statistics(
    checkpoint: Path, family: Family
) -> None:
    rewrite_json(checkpoint / 'config.json', action_horizon=15)
    config = read_openpi_config(view_model(str(checkpoint)), None)
    assert config.family == family
    assert (config.chunk_size, config.max_action_dim, config.max_state_dim) == (15, 32, 32)
    assert (config.state_dim, config.action_dim) == (WIDTH, WIDTH)
    assert config.image_features == (
        'observation.images.base_0_rgb',
        'observation.images.left_wrist_0_rgb',
        'observation.images.right_wrist_0_rgb',
    )
    assert config.image_resolution == (224, 224)
    assert config.num_inference_steps == 10
    assert config.tokenizer_max_length == {'pi0': 48, 'pi05': 200}[family]
    assert config.dtype == 'float32'
    # Of arch_overrides.json.
    assert config.language.width == 64


def test_what_is_done_around_the_network_is_what_openpi_does(pi0: Path, pi05: Path) -> None:
    one, other = planned(pi0), planned(pi05)
    assert (one.prompt, one.state_token, one.antialias) == (PromptStyle.CLEANED, True, True)
    assert (other.prompt, other.state_token, other.antialias) == (PromptStyle.STATE, False, True)
    for pipeline in (one, other):
        assert not pipeline.legacy_padding
        assert not pipeline.relative
        assert pipeline.state_width == WIDTH


def test_pi0_is_normalised_by_mean_and_deviation(pi0: Path) -> None:
    pipeline = planned(pi0)
    # (0.75 − 0.5) / 0.500001 and so on.
    np.testing.assert_allclose(
        pipeline.state.normalize(RAW_STATE),
        [0.499999, 0.999996, 0.49999975, 0.4999995, 0.999998, 0.499999, 0.499998, 1.999984],
        rtol=0,
        atol=1e-9,
    )
    # 2 × 2.000001 + 0.25, −1 × 0.500001 + 0.5, and so on.
    rows = np.zeros((1, 32), np.float32)
    rows[0, :8] = [2.0, -1.0, 0.0, 0.5, -2.0, 0.25, 8.0, 1.0]
    np.testing.assert_allclose(
        pipeline.robot_actions(rows, RAW_STATE),
        [[4.250002, -0.000001, -0.25, 0.0000005, -1.000002, 2.00000025, 3.000008, 0.750001]],
        rtol=0,
        atol=2.5e-7,
    )


def test_pi05_is_normalised_by_quantiles(pi05: Path) -> None:
    pipeline = planned(pi05)
    # 2 (0.75 + 0.5) / 2.000001 − 1 and so on.
    np.testing.assert_allclose(
        pipeline.state.normalize(RAW_STATE),
        [
            0.249999375,
            0.4999985,
            0.6249996,
            0.49999925,
            0.49999925,
            0.249999375,
            -0.000001,
            0.4999985,
        ],
        rtol=0,
        atol=1e-8,
    )
    # (2 + 1) / 2 × 2.000001 − 1, (−1 + 1) / 2 × 1.000001 + 0, and so on; nothing is clipped.
    rows = np.zeros((1, 32), np.float32)
    rows[0, :8] = [2.0, -1.0, 0.0, 0.5, -2.0, 0.25, 7.0, 1.0]
    np.testing.assert_allclose(
        pipeline.robot_actions(rows, RAW_STATE),
        [[2.0000015, 0.0, -0.4999995, -0.49999925, -1.0000005, 1.000000625, 5.500004, 1.000001]],
        rtol=0,
        atol=5e-7,
    )


@pytest.mark.parametrize('padding', [0.0, 1e-7, -1e-7])
def test_columns_that_only_pad_do_not_count_at_the_end(checkpoint: Path, padding: float) -> None:
    wide = {
        feature: {name: [*values, *[padding] * 24] for name, values in given.items()}
        for feature, given in (('state', STATE), ('actions', ACTIONS))
    }
    wide['state']['std'] = [abs(value) for value in wide['state']['std']]
    wide['actions']['std'] = [abs(value) for value in wide['actions']['std']]
    if padding < 0:
        for given in wide.values():
            given['q99'] = [*given['q99'][:8], *[0.0] * 24]
    put(checkpoint, statistics(**wide))
    config = read_openpi_config(view_model(str(checkpoint)), None)
    assert (config.state_dim, config.action_dim) == (WIDTH, WIDTH)
    np.testing.assert_array_equal(
        planned(checkpoint).state.origin, STATE['mean' if config.family == 'pi0' else 'q01']
    )


def test_a_column_of_zeros_before_the_end_is_a_column(pi0: Path) -> None:
    still = {name: [0.0, *values[1:]] for name, values in STATE.items()}
    put(pi0, statistics(state=still))
    assert planned(pi0).state_width == WIDTH


def test_pi0_is_refused_without_mean_or_deviation(pi0: Path) -> None:
    put(pi0, statistics(state__mean=None, actions__std=None))
    text = str(refused(pi0))
    assert 'state.mean is missing' in text
    assert 'actions.std is missing' in text


def test_pi0_needs_no_quantiles(pi0: Path, pi05: Path) -> None:
    without = statistics(state__q01=None, state__q99=None, actions__q01=None, actions__q99=None)
    put(pi0, without)
    assert planned(pi0).state.kind == 'z_score'
    put(pi05, without)
    text = str(refused(pi05))
    for name in ('state.q01', 'state.q99', 'actions.q01', 'actions.q99'):
        assert f'{name} is missing (π0.5 normalises by quantiles)' in text


@pytest.mark.parametrize(
    ('changes', 'says'),
    [
        ({'state': None}, 'state is None, expected an object'),
        ({'actions': [1.0]}, r'actions is \[1.0\], expected an object'),
        ({'state__mean': []}, 'state.mean is .*expected a list of finite numbers'),
        ({'state__mean': 'much'}, "state.mean is 'much', expected a list"),
        ({'state__std': [[0.5]]}, 'state.std is .*expected a list'),
        ({'state__std': [True] * 8}, 'state.std is .*expected a list'),
        ({'state__mean': [float('nan'), *STATE['mean'][1:]]}, r'state.mean is \[nan'),
        ({'actions__q99': [*ACTIONS['q99'][:7], float('inf')]}, 'actions.q99 is'),
        ({'actions__q99': [*ACTIONS['q99'][:7], None]}, 'actions.q99 is'),
        ({'state__std': [0.5, -0.25, *STATE['std'][2:]]}, r'state.std\[1\] is -0.25, negative'),
        ({'actions__q99': [-2.0, *ACTIONS['q99'][1:]]}, r'actions.q99\[0\] is -2, below q01'),
        ({'state__mean': [0.5] * 7}, r'state: statistics of unequal length \(mean 7, std 8'),
        ({'state': {name: [0.0] * 8 for name in STATE}}, 'state: all statistics are 0'),
        (
            {'actions': {name: [*v, *[1.0] * 30] for name, v in ACTIONS.items()}},
            'actions has 38 columns, but the model only 32',
        ),
    ],
)
def test_statistics_that_cannot_be_are_refused_by_name(
    checkpoint: Path, changes: dict[str, Any], says: str
) -> None:
    put(checkpoint, statistics(**changes))
    error = refused(checkpoint)
    assert isinstance(error, CheckpointError)
    with pytest.raises(CheckpointError, match=says):
        raise error
    assert 'droid/norm_stats.json' in error.what
    assert error.remedy


@pytest.mark.parametrize('text', ['{}', '{"norm_stats": 1}', '[]', '{"norm_stats": {"state"'])
def test_a_file_that_holds_no_statistics_is_refused(pi0: Path, text: str) -> None:
    put(pi0, text)
    assert 'norm_stats.json' in str(refused(pi0))


def test_every_wrong_number_is_named_at_once(pi0: Path) -> None:
    put(pi0, statistics(state__std=[-1.0] * 8, actions__mean=None))
    text = str(refused(pi0))
    assert 'actions.mean is missing' in text
    assert text.count('negative') == 8


@pytest.mark.parametrize(
    ('family', 'changes', 'says'),
    [
        (
            'pi0',
            {'state__std': [0.5, 0.0, *STATE['std'][2:]], 'actions__std': [*ACTIONS['std'][:7], 0]},
            ['state[1] is -0.5 ± 0', 'actions[7] is 0.5 ± 0'],
        ),
        (
            'pi05',
            {'state__q99': [*STATE['q99'][:3], -1.0, *STATE['q99'][4:]]},
            ['state[3] is -1 ± 0'],
        ),
    ],
)
def test_columns_that_never_moved_are_told_once_with_their_value(
    checkpoint: Path, changes: dict[str, Any], says: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    put(checkpoint, statistics(**changes))
    planned(checkpoint)
    (told,) = [text for text in caplog.messages if 'never moved' in text]
    assert all(part in told for part in says)


def test_statistics_that_moved_warn_of_nothing(
    checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    planned(checkpoint)
    assert caplog.messages == []


# Which statistics.


def test_of_several_assets_one_has_to_be_chosen(checkpoint: Path) -> None:
    put(checkpoint, statistics(state__mean=[9.0] * 8), 'trossen')
    put(checkpoint, statistics(), 'someone/my_robot')
    error = refused(checkpoint)
    assert isinstance(error, ConfigurationError)
    assert 'droid, someone/my_robot, trossen' in str(error)
    assert 'set asset_id' in str(error)
    chosen = planned(checkpoint, asset_id='trossen').state
    if chosen.kind == 'z_score':
        assert chosen.origin[0] == 9.0
    planned(checkpoint, asset_id='someone/my_robot')


@pytest.mark.parametrize(('asset', 'meant'), [('drid', 'droid'), ('my_robot', 'someone/my_robot')])
def test_an_asset_that_is_not_there_is_refused_with_the_one_that_was_meant(
    pi0: Path, asset: str, meant: str
) -> None:
    put(pi0, statistics(), 'someone/my_robot')
    assert f"asset_id is '{asset}', did you mean '{meant}'?" in str(refused(pi0, asset_id=asset))


def test_without_statistics_it_is_refused_with_where_they_are(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / 'assets')
    error = refused(checkpoint)
    assert isinstance(error, CheckpointError)
    assert 'carries no statistics (assets/<asset_id>/norm_stats.json)' in error.what
    assert 'copy the folder assets/' in error.remedy
    assert 'asset_id is' in str(refused(checkpoint, asset_id='droid'))


def test_statistics_of_the_policy_file_serve_where_there_are_none(pi0: Path, pi05: Path) -> None:
    given = {
        'state': {'mode': 'mean_std', 'mean': STATE['mean'], 'std': STATE['std']},
        'action': {'mode': 'mean_std', 'mean': ACTIONS['mean'], 'std': ACTIONS['std']},
    }
    expected = planned(pi0).state.normalize(RAW_STATE)
    assert 'norm_stats is set, but' in str(refused(pi0, norm_stats=given))
    shutil.rmtree(pi0 / 'assets')
    pipeline = planned(pi0, norm_stats=given)
    np.testing.assert_array_equal(pipeline.state.normalize(RAW_STATE), expected)
    assert (pipeline.state_width, pipeline.action_dim) == (WIDTH, WIDTH)
    quantiles = {
        name: {'mode': 'min_max', 'min': values['q01'], 'max': values['q99']}
        for name, values in (('state', STATE), ('action', ACTIONS))
    }
    expected = planned(pi05).state.normalize(RAW_STATE)
    shutil.rmtree(pi05 / 'assets')
    np.testing.assert_array_equal(
        planned(pi05, norm_stats=quantiles).state.normalize(RAW_STATE), expected
    )
    other = {**quantiles, 'action': given['action']}
    assert 'norm_stats.action.mode is mean_std, but openpi normalises π0.5 by quantiles' in str(
        refused(pi05, norm_stats=other)
    )
    both = str(refused(pi05, norm_stats=quantiles, normalization='identity'))
    assert 'norm_stats and normalization: identity are both set' in both
    wide = {**quantiles, 'state': {'mode': 'min_max', 'min': [0.0] * 33, 'max': [1.0] * 33}}
    assert 'state has 33 columns, but the model only 32' in str(refused(pi05, norm_stats=wide))


def test_identity_serves_only_where_there_are_no_statistics(checkpoint: Path) -> None:
    error = refused(checkpoint, normalization='identity')
    assert 'normalization: identity is set, but' in str(error)
    shutil.rmtree(checkpoint / 'assets')
    pipeline = planned(checkpoint, normalization='identity')
    assert (pipeline.state_width, pipeline.action_dim) == (None, 32)


# What cannot be served.


@pytest.mark.parametrize(
    ('changes', 'says'),
    [
        ({'precision': 'float16'}, "precision is 'float16'.*π0 breaks in float16"),
        ({'precision': None}, 'precision: .*found None'),
        ({'paligemma_variant': 'gemma_2b_lora'}, 'trained with LoRA.*add the adapters'),
        ({'action_expert_variant': 'gemma_300m_lora'}, 'trained with LoRA.*add the adapters'),
        ({'paligemma_variant': 'dummy'}, "paligemma_variant is 'dummy'.*one of gemma_2b"),
        ({'action_horizon': 0}, 'action_horizon: .*found 0'),
        ({'action_dim': '32'}, "action_dim: .*found '32'"),
    ],
)
def test_a_config_that_cannot_be_served_is_refused_by_name(
    checkpoint: Path, changes: dict[str, Any], says: str
) -> None:
    rewrite_json(checkpoint / 'config.json', **changes)
    with pytest.raises(CheckpointError, match=rf'(?s){says}') as caught:
        load_policy(str(checkpoint), profile=ABSOLUTE)
    assert caught.value.remedy


def test_each_of_the_five_keys_is_missed(pi0: Path) -> None:
    for name in CONFIG:
        rest = {key: value for key, value in CONFIG.items() if key != name}
        (pi0 / 'config.json').write_text(json.dumps(rest))
        with pytest.raises(CheckpointError, match=f'{name}: required'):
            load_policy(str(pi0), profile=ABSOLUTE)


def test_an_unknown_field_is_only_told(pi0: Path, caplog: pytest.LogCaptureFixture) -> None:
    rewrite_json(pi0 / 'config.json', new_knob=3)
    planned(pi0)
    assert 'fields not known here have no effect: new_knob' in caplog.text


def test_options_of_other_kinds_of_checkpoint_are_refused(pi0: Path) -> None:
    assert 'legacy_padding is true' in str(refused(pi0, legacy_padding=True))
    assert 'discrete_state_input is true' in str(refused(pi0, discrete_state_input=True))
    assert planned(pi0, discrete_state_input=False).prompt is PromptStyle.CLEANED


def test_a_policy_file_of_the_other_family_is_refused_by_name(pi0: Path, pi05: Path) -> None:
    with pytest.raises(CheckpointError, match=r'is a pi0 checkpoint.*use policy pi0'):
        load_policy(str(pi0), policy='pi05', profile=ABSOLUTE)
    with pytest.raises(CheckpointError, match=r'is a pi05 checkpoint.*use policy pi05'):
        load_policy(str(pi05), policy='pi0', profile=ABSOLUTE)


# Which actions are differences.


@pytest.mark.parametrize(
    'profile', [None, Profile(), Profile(action_space='joint_position')], ids=str
)
def test_it_is_refused_while_nobody_says_what_is_a_difference(
    checkpoint: Path, profile: Profile | None
) -> None:
    error = refused(checkpoint, profile)
    assert isinstance(error, ConfigurationError)
    assert 'profile.delta_mask is not set' in str(error)
    assert 'all false where it answers absolute values' in str(error)


def test_velocities_are_no_differences(checkpoint: Path) -> None:
    assert not planned(checkpoint, Profile(action_space='joint_velocity')).relative


def test_the_state_is_added_to_the_columns_that_are_differences(pi0: Path) -> None:
    pipeline = planned(pi0, Profile(delta_mask=DELTA))
    assert pipeline.delta_mask == (True, True, False, True, False, False, False, False)
    rows = np.zeros((2, 32), np.float32)
    # The means alone, and the state where it is added: 0.25 + 0.75, 0.5 − 0.25, −0.5 + 0.5.
    np.testing.assert_allclose(
        pipeline.robot_actions(rows, RAW_STATE),
        [[1.0, 0.25, -0.25, 0.0, 0.0, 1.0, 2.0, 0.5]] * 2,
        rtol=0,
        atol=1e-7,
    )


@pytest.mark.parametrize(
    ('state', 'mask', 'says'),
    [
        (8, [False] * 9, 'has 9 entries, but an action of this checkpoint has 8 columns'),
        (6, [True] * 8, r'true for columns \[6, 7\], but the state has only 6 numbers'),
    ],
)
def test_a_mask_that_does_not_fit_the_checkpoint_is_refused(
    pi0: Path, state: int, mask: list[bool], says: str
) -> None:
    put(pi0, statistics(state={name: values[:state] for name, values in STATE.items()}))
    with pytest.raises(ConfigurationError, match=says):
        raise refused(pi0, Profile(delta_mask=mask))
