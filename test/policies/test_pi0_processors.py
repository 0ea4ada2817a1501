# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint's processors ask for is done, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from policy_checkpoints import refused, rewrite_json, served

from openpi_policy_ros.errors import ConfigurationError


def set_modes(directory: Path, statistics: bool, **modes: str) -> None:
    for name in ('policy_preprocessor.json', 'policy_postprocessor.json'):
        path = directory / name
        values = json.loads(path.read_text())
        for step in values['steps']:
            if step['registry_name'] in ('normalizer_processor', 'unnormalizer_processor'):
                step['config']['norm_map'].update(modes)
                if statistics:
                    step['state_file'] = f'{path.stem}_step_6.safetensors'
        path.write_text(json.dumps(values))


def add_step(path: Path, step: dict[str, Any]) -> None:
    values = json.loads(path.read_text())
    values['steps'].append(step)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize('mode', ['MEAN_STD', 'QUANTILES'])
@pytest.mark.parametrize('kind', ['STATE', 'ACTION', 'VISUAL'])
def test_a_normalisation_with_statistics_refuses_by_name(copy: Path, kind: str, mode: str) -> None:
    set_modes(copy, True, **{kind: mode})
    for options in ({}, {'normalization': 'identity'}):
        error = refused(copy, **options)
        assert f'{kind}: {mode}' in error.what
        assert 'policy_preprocessor_step_6.safetensors' in error.what
        assert 'not supported yet' in error.what
    assert 'normalization: identity is refused' in error.remedy


def test_a_normalisation_without_statistics_needs_the_override(copy: Path) -> None:
    set_modes(copy, False, STATE='MEAN_STD', ACTION='MEAN_STD')
    error = refused(copy)
    assert 'no statistics' in error.what
    assert 'normalization: identity' in error.remedy
    served(copy, normalization='identity').warm_up()


@pytest.mark.parametrize('config', [{}, {'norm_map': None}, {'norm_map': ['STATE']}])
def test_a_normalizer_that_does_not_say_how_refuses(copy: Path, config: dict[str, Any]) -> None:
    path = copy / 'policy_preprocessor.json'
    add_step(path, {'registry_name': 'normalizer_processor', 'config': config})
    error = refused(copy)
    assert str(path) in error.what
    assert 'norm_map is ' in error.what


def test_statistics_of_an_identity_are_no_obstacle(copy: Path) -> None:
    set_modes(copy, True)
    served(copy)


def test_without_processor_files_config_json_decides(copy: Path) -> None:
    for name in ('policy_preprocessor.json', 'policy_postprocessor.json'):
        (copy / name).unlink()
    served(copy)
    rewrite_json(
        copy / 'config.json', normalization_mapping={'VISUAL': 'IDENTITY', 'STATE': 'MEAN_STD'}
    )
    assert 'STATE: MEAN_STD (config.json)' in refused(copy).what
    served(copy, normalization='identity')


def test_an_unknown_normalisation_refuses_whatever_the_override(copy: Path) -> None:
    set_modes(copy, False, STATE='NOVEL')
    for options in ({}, {'normalization': 'identity'}):
        error = refused(copy, **options)
        assert "the unknown normalisation 'NOVEL' for STATE" in error.what
        assert 'MEAN_STD' in error.expected


def test_config_json_decides_where_no_processor_says_how_to_normalise(copy: Path) -> None:
    for name in ('policy_preprocessor.json', 'policy_postprocessor.json'):
        values = json.loads((copy / name).read_text())
        values['steps'] = [s for s in values['steps'] if 'normalizer' not in s['registry_name']]
        (copy / name).write_text(json.dumps(values))
    served(copy)
    rewrite_json(copy / 'config.json', normalization_mapping={'STATE': 'MEAN_STD'})
    assert 'STATE: MEAN_STD (config.json)' in refused(copy).what


def test_processor_files_go_before_config_json(copy: Path) -> None:
    rewrite_json(copy / 'config.json', normalization_mapping={'STATE': 'MEAN_STD'})
    served(copy)


def test_an_unknown_processor_step_refuses_by_name(copy: Path) -> None:
    add_step(copy / 'policy_preprocessor.json', {'registry_name': 'gripper_flip', 'config': {}})
    error = refused(copy)
    assert "'gripper_flip'" in error.what
    assert 'normalizer_processor' in error.expected


def test_the_state_tokenizer_of_pi05_is_no_step_of_pi0(copy: Path) -> None:
    name = 'pi05_prepare_state_tokenizer_processor_step'
    add_step(copy / 'policy_preprocessor.json', {'registry_name': name, 'config': {}})
    assert name in refused(copy).what


@pytest.mark.parametrize(
    ('file', 'name'),
    [
        ('policy_preprocessor.json', 'relative_actions_processor'),
        ('policy_postprocessor.json', 'absolute_actions_processor'),
    ],
)
def test_relative_actions_refuse_by_name(copy: Path, file: str, name: str) -> None:
    add_step(copy / file, {'registry_name': name, 'config': {'enabled': True}})
    assert name in refused(copy).what


@pytest.mark.parametrize(
    'text', ['{', '{"steps": 1}', '{"steps": [1]}', '{"steps": [{"config": []}]}']
)
def test_a_damaged_processor_file_refuses(copy: Path, text: str) -> None:
    (copy / 'policy_postprocessor.json').write_text(text)
    assert 'policy_postprocessor.json' in refused(copy).what


def test_a_rename_map_renames_the_inputs(copy: Path) -> None:
    renames = {'observation.images.front': 'observation.images.base_0_rgb'}
    add_step(
        copy / 'policy_preprocessor.json',
        {'registry_name': 'rename_observations_processor', 'config': {'rename_map': renames}},
    )
    assert served(copy).spec.cameras[0].wire_keys == (
        'observation.images.front',
        'observation.images.base_0_rgb',
    )


def test_a_rename_map_that_leads_nowhere_refuses(copy: Path) -> None:
    add_step(
        copy / 'policy_preprocessor.json',
        {'registry_name': 'rename_observations_processor', 'config': {'rename_map': {'a': 'b'}}},
    )
    with pytest.raises(ConfigurationError, match="'a' is renamed to 'b'"):
        served(copy)


def test_a_rename_map_that_is_no_map_refuses(copy: Path) -> None:
    add_step(
        copy / 'policy_preprocessor.json',
        {'registry_name': 'rename_observations_processor', 'config': {'rename_map': ['a']}},
    )
    assert "rename_map is ['a']" in refused(copy).what


def test_action_names_come_from_the_checkpoint_where_it_has_them(copy: Path) -> None:
    names = [f'joint_{index}' for index in range(32)]
    rewrite_json(copy / 'config.json', action_feature_names=names)
    assert served(copy).spec.action_names == tuple(names)
