# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of other kinds are called by their name, by loading as by inspecting."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from policy_checkpoints import rewrite_json, rewrite_weights
from safetensors.numpy import save_file

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import layouts
from openpi_policy_ros.policies.checkpoint_files import Located
from openpi_policy_ros.policies.checkpoint_view import view_directory, view_model
from openpi_policy_ros.policies.inspection import inspect_model
from openpi_policy_ros.policies.loading import load_policy

PI0_TENSORS = ('paligemma_with_expert.paligemma.lm_head.weight', 'action_in_proj.weight')
GR00T = {'model_type': 'gr00t_n1_5', 'action_head_cfg': {}, 'action_horizon': 16, 'action_dim': 32}
OPENPI = {'action_dim': 32, 'action_horizon': 50, 'paligemma_variant': 'gemma_2b'}


def fill(directory: Path, files: Mapping[str, Any]) -> Path:
    """Write files: a mapping as JSON, a tuple as a safetensors file with tensors so called."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, tuple):
            save_file({tensor: np.zeros(2, np.float32) for tensor in content}, path)
        elif isinstance(content, Mapping):
            path.write_text(json.dumps(content))
        else:
            path.write_bytes(content)
    return directory


@pytest.mark.parametrize(
    ('files', 'name', 'says'),
    [
        # openpi in JAX: a step as trained, as published, its parameters alone, a whole run.
        (
            {'params/_METADATA': {}, 'params/manifest.ocdbt': b'', 'train_state/_METADATA': {}},
            'openpi_jax',
            'convert_jax_model_to_pytorch.py',
        ),
        (
            {
                'params/_METADATA': {},
                'assets/droid/norm_stats.json': {},
                '_CHECKPOINT_METADATA': {},
            },
            'openpi_jax',
            'convert_jax_model_to_pytorch.py',
        ),
        ({'_METADATA': {}, 'd/0123': b''}, 'openpi_jax', 'convert_jax_model_to_pytorch.py'),
        ({'29999/params/_METADATA': {}}, 'openpi_jax', 'convert_jax_model_to_pytorch.py'),
        # openpi's training in PyTorch: no config.json says how long a chunk is.
        (
            {'model.safetensors': PI0_TENSORS, 'assets/trossen/norm_stats.json': {}},
            'openpi_training',
            'without a config.json',
        ),
        (
            {'model.safetensors': PI0_TENSORS, 'metadata.pt': b'PK', 'optimizer.pt': b'PK'},
            'openpi_training',
            'pickles are never opened',
        ),
        # A LoRA beside the config of the model it belongs to.
        (
            {'adapter_config.json': {}, 'config.json': {'type': 'pi0', 'use_peft': True}},
            'peft',
            'merge_and_unload',
        ),
        ({'adapter_model.safetensors': ('lora_A',)}, 'peft', 'merge_and_unload'),
        ({'model.safetensors': ('action_head.model.blocks.0.q',)}, 'dreamzero', 'copy config.json'),
        (
            {'model.safetensors.index.json': {'weight_map': {'action_head.vae.model.x': 'a'}}},
            'dreamzero',
            'DreamZero checkpoint without their config.json',
        ),
        ({'config.json': GR00T}, 'groot', 'GR00T'),
        ({'pytorch_model.bin': b'PK'}, 'pickle', 'pickles are never opened'),
        (
            {'config.json': {'model_type': 'paligemma', 'architectures': ['P']}},
            'transformers',
            'paligemma',
        ),
        (
            {
                'checkpoints/last/pretrained_model/config.json': {'type': 'pi0'},
                'checkpoints/last/pretrained_model/model.safetensors': PI0_TENSORS,
            },
            'nested',
            'checkpoints/last/pretrained_model',
        ),
    ],
)
def test_another_kind_is_named_with_what_to_do_by_inspecting_and_by_loading(
    tmp_path: Path, files: Mapping[str, Any], name: str, says: str
) -> None:
    fill(tmp_path, files)
    inspection = inspect_model(str(tmp_path))
    assert inspection.layout.name == name
    (told,) = inspection.errors
    assert says in str(told)
    assert not inspection.served
    for policy in (None, 'pi0'):
        with pytest.raises(CheckpointError) as caught:
            load_policy(str(tmp_path), policy=policy)
        assert str(caught.value) == str(told)


@pytest.mark.parametrize(
    'files',
    [
        {'config.json': OPENPI, 'model.safetensors': PI0_TENSORS},
        {'config.json': OPENPI, 'model.safetensors': PI0_TENSORS, 'assets/x/norm_stats.json': {}},
        # What it was made from, left beside it.
        {'config.json': OPENPI, 'model.safetensors': PI0_TENSORS, 'params/_METADATA': {}},
        # A config.json that lost a key is told so by its reader.
        {'config.json': {'action_dim': 32}, 'assets/someone/data/norm_stats.json': {}},
        {'config.json': OPENPI, 'model.safetensors.index.json': {'weight_map': {'x': 'a'}}},
    ],
)
def test_what_openpi_converted_to_pytorch_is_recognised_by_its_files(
    tmp_path: Path, files: Mapping[str, Any]
) -> None:
    view = view_model(str(fill(tmp_path, files)))
    assert layouts.identify(view) is layouts.OPENPI_PYTORCH
    assert layouts.known_layout(view) is layouts.OPENPI_PYTORCH


@pytest.mark.parametrize(
    ('tensors', 'kind'),
    [
        (('state_proj.weight', 'action_time_mlp_in.weight'), 'pi0'),
        (('time_mlp_in.weight', 'time_mlp_out.weight'), 'pi05'),
        # An old name of what π0 calls action_time_mlp_in.
        (('state_proj.weight', 'time_mlp_in.weight'), 'pi0'),
    ],
)
def test_the_tensors_tell_which_model_openpi_converted(
    tmp_path: Path, tensors: tuple[str, ...], kind: str
) -> None:
    whole = fill(tmp_path / 'whole', {'config.json': OPENPI, 'model.safetensors': tensors})
    assert layouts.openpi_type(view_model(str(whole))) == kind
    weight_map = dict.fromkeys(tensors, 'model-00001-of-00001.safetensors')
    index = {'model.safetensors.index.json': {'weight_map': weight_map}}
    sharded = fill(tmp_path / 'sharded', {'config.json': OPENPI, **index})
    assert layouts.openpi_type(view_model(str(sharded))) == kind


@pytest.mark.parametrize(('dtype', 'precision'), [('float16', 'float32'), ('bfloat16', 'bfloat16')])
def test_what_openpis_training_saved_is_refused_with_the_config_to_write(
    tmp_path: Path, dtype: str, precision: str
) -> None:
    import torch
    from safetensors.torch import save_file as save_tensors

    weights = {
        'paligemma_with_expert.paligemma.lm_head.weight': torch.zeros(4, 2048, dtype=torch.float32),
        'action_in_proj.weight': torch.zeros(1024, 32, dtype=getattr(torch, dtype)),
    }
    save_tensors(weights, tmp_path / 'model.safetensors')
    fill(tmp_path, {'metadata.pt': b'PK', 'assets/droid/norm_stats.json': {}})
    with pytest.raises(CheckpointError) as caught:
        load_policy(str(tmp_path))
    written, _, rest = caught.value.remedy.removeprefix('write one: ').partition('}')
    assert json.loads(written + '}') == {
        'action_dim': 32,
        'action_horizon': '…',
        'paligemma_variant': 'gemma_2b',
        'action_expert_variant': 'gemma_300m',
        'precision': precision,
    }
    assert 'action_horizon is the whole number' in rest


def test_sharded_weights_are_as_good_as_whole_ones(tmp_path: Path) -> None:
    index = {'weight_map': {'model.paligemma_with_expert.x': 'model-00001-of-00001.safetensors'}}
    files = {'model.safetensors.index.json': index, 'adapter_config.json': {}}
    view = view_model(str(fill(tmp_path, {'config.json': {'type': 'pi0'}, **files})))
    assert layouts.known_layout(view) is layouts.LEROBOT


@pytest.mark.parametrize(
    ('kind', 'says'),
    [
        ('pi0_fast', 'π0-FAST'),
        ('act', 'another model than π0'),
        ('diffusion', 'another model than π0'),
        ('smolvla', 'another model than π0'),
        ('my_own', 'install the package that adds this policy'),
    ],
)
def test_a_lerobot_policy_of_another_type_is_named(tmp_path: Path, kind: str, says: str) -> None:
    features = {'observation.images.top': {'type': 'VISUAL', 'shape': [3, 480, 640]}}
    fill(tmp_path, {'config.json': {'type': kind, 'input_features': features}})
    inspection = inspect_model(str(tmp_path))
    assert inspection.layout is layouts.LEROBOT
    assert inspection.model_type == kind
    assert inspection.declared == {'observation.images.top': [3, 480, 640]}
    (error,) = inspection.errors
    assert f"type '{kind}'" in error.what
    assert 'pi0' in error.expected
    assert says in error.remedy
    with pytest.raises(CheckpointError) as caught:
        load_policy(str(tmp_path))
    assert str(caught.value) == str(error)


def test_a_policy_file_for_pi0_does_not_make_another_type_pi0(copy: Path) -> None:
    rewrite_json(copy / 'config.json', type='pi05')
    with pytest.raises(CheckpointError, match=r'is a pi05 checkpoint.*use policy pi05'):
        load_policy(str(copy), policy='pi0')
    rewrite_json(copy / 'config.json', type='act')
    with pytest.raises(CheckpointError, match=r"'act'.*another model than π0"):
        load_policy(str(copy), policy='pi0')


@pytest.mark.parametrize(
    'buffer',
    [
        'normalize_inputs.buffer_observation_state.mean',
        'unnormalize_outputs.buffer_action.std',
        'model.normalize_targets.buffer_action.max',
    ],
)
def test_statistics_among_the_weights_are_an_old_lerobot_checkpoint(
    copy: Path, buffer: str
) -> None:
    from torch import zeros

    rewrite_weights(copy, lambda w: w.update({buffer: zeros(32)}))
    inspection = inspect_model(str(copy))
    assert inspection.layout is layouts.LEROBOT_BUFFERS
    (error,) = inspection.errors
    assert 'migrate_policy_normalization' in error.remedy
    for policy in (None, 'pi0'):
        with pytest.raises(CheckpointError, match='old LeRobot checkpoint'):
            load_policy(str(copy), policy=policy)


def test_leftovers_of_another_kind_do_not_hide_whole_weights(copy: Path) -> None:
    fill(copy, {'adapter_config.json': {}, 'params/_METADATA': {}})
    assert inspect_model(str(copy)).served
    load_policy(str(copy))


def test_weights_of_pi0_without_their_config_are_told_apart_from_nothing(tmp_path: Path) -> None:
    fill(tmp_path / 'weights', {'model.safetensors': PI0_TENSORS})
    fill(tmp_path / 'text', {'notes.txt': b'hello'})
    (tmp_path / 'empty').mkdir()
    names = {
        name: inspect_model(str(tmp_path / name)).layout.name
        for name in ('weights', 'text', 'empty')
    }
    assert names == {'weights': 'no_config', 'text': 'unknown', 'empty': 'unknown'}
    for name in names:
        (error,) = inspect_model(str(tmp_path / name)).errors
        assert 'config.json does not exist' in error.what


def test_a_folder_that_is_no_checkpoint_is_not_walked_without_end(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*'abcdefghij')
    deep.mkdir(parents=True)
    (deep / 'file').write_text('')
    (tmp_path / '.git').mkdir()
    (tmp_path / '.git' / 'config').write_text('')
    (tmp_path / 'gone').symlink_to(tmp_path / 'nowhere')
    (tmp_path / 'README.md').write_text('hello')
    assert view_directory('x', Located(tmp_path)).sizes == {'README.md': 5}


def test_an_address_is_no_checkpoint() -> None:
    with pytest.raises(CheckpointError, match=r'address of a server.*openpi-policy client'):
        inspect_model('ws://127.0.0.1:8000')


def test_a_missing_weights_file_is_told_by_the_view(tmp_path: Path) -> None:
    view = view_model(str(fill(tmp_path, {'config.json': {'type': 'pi0'}})))
    with pytest.raises(CheckpointError, match=r'there is: config\.json'):
        view.header('model.safetensors')
