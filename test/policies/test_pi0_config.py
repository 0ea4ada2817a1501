# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""config.json, arch_overrides.json and the policy file agree, or the start is refused."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from lerobot_files import write_files
from policy_checkpoints import refused, rewrite_json, served

from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies.pi0.lerobot_config import read_config

# What is refused: config.json and arch_overrides.json


def test_unknown_fields_of_config_json_are_warned_about(
    copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    rewrite_json(copy / 'config.json', new_knob=3, optimizer_lr=1e-5)
    served(copy)
    assert 'new_knob' in caplog.text
    assert 'optimizer_lr' not in caplog.text


@pytest.mark.parametrize(
    ('field', 'value'),
    [
        ('type', 'act'),
        ('type', 5),
        ('type', None),
        ('dtype', 'float16'),
        ('n_obs_steps', 2),
        ('use_peft', True),
        ('use_relative_actions', 'yes'),
        ('use_visual_memory', True),
        ('use_proprioceptive_memory', True),
        ('adapt_to_pi_aloha', True),
        ('use_delta_joint_actions_aloha', True),
        ('normalization_mapping', ['MEAN_STD']),
        ('normalization_mapping', {'STATE': 1}),
        ('rtc_training_max_delay', 4),
        ('paligemma_variant', 'gemma_7b'),
        ('chunk_size', 0),
        ('chunk_size', '50'),
        ('num_inference_steps', 0),
        ('image_resolution', [224]),
        ('image_resolution', [224, 225]),
        ('max_state_dim', 8),
        ('max_action_dim', 8),
        ('max_period', 0.001),
        ('input_features', {'observation.state': {'type': 'STATE', 'shape': [32]}}),
        ('input_features', 'none'),
    ],
)
def test_a_config_field_that_cannot_be_served_refuses_by_name(
    copy: Path, field: str, value: Any
) -> None:
    rewrite_json(copy / 'config.json', **{field: value})
    assert field in str(refused(copy))


@pytest.mark.parametrize(
    ('field', 'value', 'remedy'),
    [
        ('use_peft', True, 'merge the adapter into the weights'),
        ('n_obs_steps', 2, 'MEM'),
        ('use_visual_memory', True, 'MEM'),
        ('use_proprioceptive_memory', True, 'MEM'),
        ('rtc_training_max_delay', 4, 'real-time chunking'),
        ('adapt_to_pi_aloha', True, 'set it to false'),
        ('use_delta_joint_actions_aloha', True, 'set it to false'),
    ],
)
@pytest.mark.parametrize('family', ['pi0', 'pi05'])
def test_another_kind_of_training_refuses_and_says_what_to_do(
    tmp_path: Path, family: str, field: str, value: Any, remedy: str
) -> None:
    write_files(tmp_path, family)
    rewrite_json(tmp_path / 'config.json', **{field: value})
    with pytest.raises(CheckpointError) as caught:
        read_config(tmp_path)
    assert f'{field} is {value!r}' in caught.value.what
    assert remedy in caught.value.remedy


def test_an_adapter_without_its_base_refuses_to_load(copy: Path) -> None:
    (copy / 'model.safetensors').rename(copy / 'adapter_model.safetensors')
    (copy / 'adapter_config.json').write_text('{}')
    assert 'merge it into the base model' in refused(copy).remedy


def test_what_is_served_elsewhere_says_by_whom(tmp_path: Path) -> None:
    write_files(tmp_path)
    rewrite_json(tmp_path / 'config.json', type='pi0_fast')
    with pytest.raises(CheckpointError) as caught:
        read_config(tmp_path)
    assert caught.value.expected == "'pi0' or 'pi05'"
    assert 'LeRobot' in caught.value.remedy


# Families


@pytest.mark.parametrize(
    ('family', 'length', 'mode'), [('pi0', 48, 'MEAN_STD'), ('pi05', 200, 'QUANTILES')]
)
def test_what_config_json_leaves_out_is_lerobots_default_of_the_family(
    tmp_path: Path, family: str, length: int, mode: str
) -> None:
    write_files(tmp_path, family)
    values = json.loads((tmp_path / 'config.json').read_text())
    for key in ('tokenizer_max_length', 'normalization_mapping', 'use_relative_actions'):
        del values[key]
    (tmp_path / 'config.json').write_text(json.dumps(values))
    config = read_config(tmp_path)
    assert config.family == family
    assert config.tokenizer_max_length == length
    assert config.normalization == {'VISUAL': 'IDENTITY', 'STATE': mode, 'ACTION': mode}


@pytest.mark.parametrize('family', ['pi0', 'pi05'])
def test_what_config_json_says_counts_for_either_family(tmp_path: Path, family: str) -> None:
    write_files(tmp_path, family, mode='MIN_MAX', width=5)
    rewrite_json(tmp_path / 'config.json', tokenizer_max_length=77)
    config = read_config(tmp_path)
    assert config.tokenizer_max_length == 77
    assert config.normalization['STATE'] == 'MIN_MAX'
    assert (config.state_dim, config.action_dim) == (5, 5)
    assert config.image_features == ('observation.images.front',)


@pytest.mark.parametrize('relative', [True, False, None])
def test_relative_actions_are_for_the_processors_to_decide(
    tmp_path: Path, relative: bool | None
) -> None:
    write_files(tmp_path)
    rewrite_json(tmp_path / 'config.json', use_relative_actions=relative)
    read_config(tmp_path)


def test_statistics_in_config_json_are_no_unknown_field(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    write_files(tmp_path)
    rewrite_json(tmp_path / 'config.json', norm_stats={})
    read_config(tmp_path)
    assert caplog.text == ''


@pytest.mark.parametrize('text', ['', '{', '[1]', 'null'])
def test_a_config_that_is_no_json_object_refuses(copy: Path, text: str) -> None:
    (copy / 'config.json').write_text(text)
    assert 'config.json' in refused(copy).what


def test_no_config_refuses(copy: Path) -> None:
    (copy / 'config.json').unlink()
    assert 'config.json does not exist' in refused(copy).what


@pytest.mark.parametrize(
    ('section', 'says'),
    [
        ({'vocab': 3}, "did you mean 'vocab_size'"),
        ({'vocab_size': 0}, 'vocab_size: expected a positive whole number, found 0'),
        ({'vision': {'depth': 2}}, 'vision.depth: unknown key'),
        ({'vision': {'hidden_size': 50}}, 'width 50 cannot be split in 4 heads'),
        ({'vision': 7}, 'vision: expected a mapping'),
        ({'projection_dim': 65}, 'projection_dim is 65, but the width of paligemma is 64'),
        ({'paligemma': {'num_heads': 1.5}}, 'found 1.5'),
    ],
)
def test_overrides_that_make_no_model_refuse(
    copy: Path, section: dict[str, Any], says: str
) -> None:
    path = copy / 'arch_overrides.json'
    values = json.loads(path.read_text())
    for key, value in section.items():
        merge = isinstance(value, dict)
        values[key] = {**values[key], **value} if merge else value
    path.write_text(json.dumps(values))
    assert says in refused(copy).what


def test_transformers_that_cannot_attend_to_one_another_refuse(copy: Path) -> None:
    path = copy / 'arch_overrides.json'
    values = json.loads(path.read_text())
    values['action_expert'].update(depth=2, head_dim=8)
    path.write_text(json.dumps(values))
    text = refused(copy).what
    assert 'depth of paligemma is 3, of the action expert 2' in text
    assert 'head_dim of paligemma is 16, of the action expert 8' in text


def test_empty_cameras_are_slots_without_an_image(copy: Path) -> None:
    config = json.loads((copy / 'config.json').read_text())
    features = config['input_features']
    features['observation.images.empty_camera_0'] = features.pop(
        'observation.images.right_wrist_0_rgb'
    )
    rewrite_json(copy / 'config.json', input_features=features, empty_cameras=1)
    spec = served(copy, max_cameras=3).spec
    assert [camera.feature for camera in spec.cameras] == [
        'observation.images.base_0_rgb',
        'observation.images.left_wrist_0_rgb',
    ]


def test_camera_names_come_from_the_policy_file_where_the_checkpoint_has_none(copy: Path) -> None:
    rewrite_json(copy / 'config.json', input_features={})
    spec = served(copy, image_feature_keys=['front', 'side']).spec
    assert [camera.feature for camera in spec.cameras] == ['front', 'side']
    assert spec.state.max_dim == 32


# The policy file against the checkpoint


@pytest.mark.parametrize(
    ('key', 'written', 'theirs'),
    [
        ('chunk_size', 16, 50),
        ('max_action_dim', 24, 32),
        ('max_state_dim', 24, 32),
        ('image_resolution', [448, 448], [224, 224]),
        ('tokenizer_max_length', 180, 48),
        ('max_cameras', 2, 3),
        ('paligemma_variant', 'gemma_300m', 'gemma_2b'),
        ('action_expert_variant', 'gemma_2b', 'gemma_300m'),
        ('image_feature_keys', ['a'], 'observation.images.base_0_rgb'),
    ],
)
def test_a_size_that_differs_from_the_checkpoints_refuses_with_both(
    small: Path, key: str, written: Any, theirs: Any
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        served(small, **{key: written})
    (problem,) = caught.value.problems
    assert f'{key} is {written!r} here' in problem
    assert str(theirs) in problem


def test_the_sizes_of_the_checkpoint_may_be_written_out(small: Path) -> None:
    served(
        small,
        chunk_size=50,
        max_action_dim=32,
        max_state_dim=32,
        image_resolution=[224, 224],
        tokenizer_max_length=48,
        max_cameras=3,
        paligemma_variant='gemma_2b',
        action_expert_variant='gemma_300m',
        image_feature_keys=[
            'observation.images.base_0_rgb',
            'observation.images.left_wrist_0_rgb',
            'observation.images.right_wrist_0_rgb',
        ],
        image_key_map={},
        norm_stats=None,
    )


@pytest.mark.parametrize(
    ('options', 'says'),
    [
        ({'norm_stats': {'state': {'mean': [0.0], 'std': [1.0]}}}, 'norm_stats.action: required'),
        ({'dtype': 'float16'}, 'float16 is refused'),
        ({'dtype': 'int8'}, "found 'int8'"),
        ({'num_inference_steps': 0}, 'num_inference_steps'),
        ({'normalization': 'mean_std'}, 'normalization'),
        ({'chunksize': 50}, "did you mean 'chunk_size'"),
        ({'policy_server_config': 'none'}, 'policy_server_config'),
        ({'rtc': {'schedule': 'COSINE'}}, 'rtc.schedule'),
        ({'rtc': {'max_weight': 5.0}}, 'rtc.max_weight: unknown key'),
        ({'default_prompt': ''}, 'default_prompt'),
    ],
)
def test_an_option_that_is_wrong_refuses_by_name(
    small: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        served(small, **options)
    assert len(caught.value.problems) == 1
    assert says in caught.value.problems[0]


def test_image_key_map_renames_the_inputs_over_the_checkpoints_own(small: Path) -> None:
    base = 'observation.images.base_0_rgb'
    spec = served(small, image_key_map={'front': base}).spec
    assert spec.cameras[0].wire_keys == ('front', base)
    with pytest.raises(ConfigurationError, match="'front' is renamed to 'nowhere'"):
        served(small, image_key_map={'front': 'nowhere'})
