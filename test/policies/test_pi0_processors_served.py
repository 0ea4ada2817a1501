# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What processor files ask for decides how a whole checkpoint is served, or whether it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from lerobot_files import (
    NORMALIZER,
    POSTPROCESSOR,
    PREPROCESSOR,
    STATE,
    UNNORMALIZER,
    add_step,
    both,
    drop_step,
    set_config,
    set_modes,
    step,
    write_statistics,
)
from policy_checkpoints import refused, rewrite_json, served

from openpi_policy_ros.errors import (
    ConfigurationError,
    InvalidObservation,
)
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.policies.pi0.openpi_checkpoint import CAMERAS
from openpi_policy_ros.policies.pi0.prompt import Prompt

NEWLINE, TOKENIZER = 'pi0_new_line_processor', 'tokenizer_processor'
RENAME = 'rename_observations_processor'
RELATIVE, ABSOLUTE = 'relative_actions_processor', 'absolute_actions_processor'
DEVICE = 'device_processor'


def test_a_normalisation_without_statistics_needs_the_override(copy: Path) -> None:
    set_modes(copy, STATE='MEAN_STD', ACTION='MEAN_STD')
    error = refused(copy)
    assert 'no statistics' in error.what
    assert 'normalization: identity' in error.remedy
    served(copy, normalization='identity').warm_up()


def test_statistics_of_an_identity_are_no_obstacle(copy: Path) -> None:
    write_statistics(copy, both('mean', 'std', [0.0] * 32, [1.0] * 32))
    served(copy)


def test_a_state_as_wide_as_the_models_has_as_many_numbers_as_its_statistics(copy: Path) -> None:
    """LeRobot's training keeps the inputs of the base it is pointed to: a state of 32."""
    set_modes(copy, STATE='MEAN_STD')
    numbers = {f'{STATE}.mean': [1.0, 2.0, 3.0], f'{STATE}.std': [0.5, 1.0, 2.0]}
    write_statistics(copy, numbers, after=None)
    policy = served(copy)
    assert policy.spec.state.max_dim == 3
    observation = {key: np.zeros((8, 8, 3), np.uint8) for key in CAMERAS} | {'prompt': 'pick'}
    key = SessionKey('test', 'test')
    for state, fits in (([2.0, 2.0, -3.0], True), ([0.0] * 4, False), ([0.0] * 32, False)):
        given = {**observation, 'state': np.array(state, np.float32)}
        if fits:
            seen = policy.prepare(InferenceRequest(given, key)).state
            np.testing.assert_array_equal(seen, [2.0, 0.0, -3.0, *[0.0] * 29])
        else:
            with pytest.raises(InvalidObservation, match='expected 3'):
                policy.prepare(InferenceRequest(given, key))


def test_statistics_that_are_no_state_of_the_model_refuse(copy: Path) -> None:
    set_modes(copy, STATE='MEAN_STD')
    for mean, std in (([0.0] * 3, [1.0] * 2), ([0.0] * 33, [1.0] * 33)):
        write_statistics(copy, {f'{STATE}.mean': mean, f'{STATE}.std': std}, after=None)
        assert f'has {len(mean)} values, but the feature has 32' in refused(copy).what


def test_options_of_openpi_checkpoints_refuse(copy: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"asset_id is 'droid'.*LeRobot"):
        served(copy, asset_id='droid')
    with pytest.raises(ConfigurationError, match=r'discrete_state_input is true.*never'):
        served(copy, discrete_state_input=True)
    served(copy, discrete_state_input=False)


def test_without_processor_files_config_json_decides(copy: Path) -> None:
    for name in (PREPROCESSOR, POSTPROCESSOR):
        (copy / name).unlink()
    served(copy)
    rewrite_json(
        copy / 'config.json', normalization_mapping={'VISUAL': 'IDENTITY', 'STATE': 'MEAN_STD'}
    )
    assert 'STATE: MEAN_STD (config.json)' in refused(copy).what
    served(copy, normalization='identity')


def test_an_unknown_normalisation_refuses_whatever_the_override(copy: Path) -> None:
    set_modes(copy, STATE='NOVEL')
    for options in ({}, {'normalization': 'identity'}):
        error = refused(copy, **options)
        assert "the unknown normalisation 'NOVEL' for STATE" in error.what
        assert 'MEAN_STD' in error.expected


def test_config_json_decides_where_no_processor_says_how_to_normalise(copy: Path) -> None:
    drop_step(copy / PREPROCESSOR, NORMALIZER)
    drop_step(copy / POSTPROCESSOR, UNNORMALIZER)
    served(copy)
    rewrite_json(copy / 'config.json', normalization_mapping={'STATE': 'MEAN_STD'})
    assert 'STATE: MEAN_STD (config.json)' in refused(copy).what


def test_processor_files_go_before_config_json(copy: Path) -> None:
    rewrite_json(
        copy / 'config.json', normalization_mapping={'STATE': 'MEAN_STD', 'ACTION': 'NOVEL'}
    )
    served(copy)


def test_a_rename_map_renames_the_inputs(copy: Path) -> None:
    renames = {'observation.images.front': 'observation.images.base_0_rgb'}
    set_config(copy / PREPROCESSOR, RENAME, rename_map=renames)
    assert served(copy).spec.cameras[0].wire_keys == (
        'observation.images.front',
        'observation.images.base_0_rgb',
    )


def test_a_rename_map_that_leads_nowhere_refuses(copy: Path) -> None:
    set_config(copy / PREPROCESSOR, RENAME, rename_map={'a': 'b'})
    with pytest.raises(ConfigurationError, match="'a' is renamed to 'b'"):
        served(copy)


def test_an_unknown_step_refuses_to_load(copy: Path) -> None:
    add_step(copy / PREPROCESSOR, step('gripper_flip'))
    assert "unknown processor step 'gripper_flip'" in refused(copy).what


def test_the_tokenizer_step_decides_how_long_a_prompt_may_be(copy: Path) -> None:
    set_config(copy / PREPROCESSOR, TOKENIZER, max_length=20)
    assert json.loads((copy / 'config.json').read_text())['tokenizer_max_length'] == 48
    prompts = served(copy).prompts
    assert len(prompts.encode(Prompt(('pick',)))) <= 20
    with pytest.raises(InvalidObservation, match='20'):
        prompts.encode(Prompt(('0 1 ' * 15,)))


@pytest.mark.parametrize('source', ['config', 'processor'])
def test_action_names_come_from_the_checkpoint_where_it_has_them(copy: Path, source: str) -> None:
    names = [f'joint_{index}' for index in range(32)]
    if source == 'config':
        rewrite_json(copy / 'config.json', action_feature_names=names)
    else:
        set_config(copy / PREPROCESSOR, RELATIVE, action_names=names)
    assert served(copy).spec.action_names == tuple(names)
