# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Reading a DreamZero checkpoint's config.json: sizes, the published defaults, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.dreamzero.config import (
    ClipConfig,
    TextConfig,
    VaeConfig,
    parse_config,
)

DATA = Path(__file__).parents[1] / 'data' / 'dreamzero_tiny'
SOURCE = '/a/config.json'
TARGET = 'groot.vla.model.dreamzero.modules.'


@pytest.fixture
def published() -> dict[str, Any]:
    return json.loads((DATA / 'config.json').read_text())


def put(data: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path below the action head's config ('/' = of the file)."""
    node = data if path.startswith('/') else data['action_head_cfg']['config']
    *parents, last = path.lstrip('/').split('.')
    for name in parents:
        node = node[name]
    node[last] = value


def test_the_tiny_checkpoint_has_the_sizes_it_was_made_with(published: dict[str, Any]) -> None:
    config = parse_config(published, SOURCE)
    sizes = json.loads((DATA / 'tiny_config.json').read_text())
    for name, expected in sizes['dit'].items():
        if name != 'model_type':
            assert getattr(config.dit, name) == expected, name
    text_len = sizes['text'].pop('text_len')
    assert config.dit.text_len == text_len
    assert config.text == TextConfig(**sizes['text'])
    assert config.clip == ClipConfig(**sizes['clip'])
    assert config.vae == VaeConfig(**{**sizes['vae'], 'dim_mult': (1, 2, 4, 4)})
    assert config.num_frames == sizes['num_frames']
    assert config.action_horizon == sizes['action_horizon']
    assert config.dit.clip_dim == 32
    assert config.dit.head_dim == 12
    assert config.dit.local_attn_size == 5
    assert config.dit.cached_frames == 3
    assert (config.decouple_inference_noise, config.video_inference_final_noise) == (False, 0.8)
    assert config.tiled is False
    assert config.dtype == 'float32'


def test_what_the_published_file_leaves_out_has_the_published_size(
    published: dict[str, Any],
) -> None:
    head = published['action_head_cfg']['config']
    for name in ('text_encoder_cfg', 'image_encoder_cfg', 'vae_cfg'):
        head[name] = {'_target_': head[name]['_target_'], '_convert_': 'object'}
    for name in ('text_dim', 'text_len', 'hidden_size', 'freq_dim', 'eps'):
        del head['diffusion_model_cfg'][name]
    config = parse_config(published, SOURCE)
    assert config.text == TextConfig(256384, 4096, 4096, 10240, 64, 24, 32)
    assert config.clip == ClipConfig(1280, 16, 32, 1024, 224, 14)
    assert config.vae == VaeConfig(96, 16, 2, (1, 2, 4, 4))
    dit = config.dit
    assert (dit.text_dim, dit.text_len, dit.hidden_size) == (4096, 512, 1024)
    assert (dit.freq_dim, dit.eps, dit.clip_dim) == (256, 1e-6, 1280)


def test_fields_that_nobody_reads_have_no_effect(published: dict[str, Any]) -> None:
    before = parse_config(published, SOURCE)
    put(published, 'hidden_size', 'nonsense')
    put(published, 'num_inference_timesteps', None)
    put(published, 'diffusion_model_cfg.num_registers', 8)
    assert parse_config(published, SOURCE) == before


def test_all_missing_and_mistyped_fields_are_named_at_once(published: dict[str, Any]) -> None:
    head = published['action_head_cfg']['config']
    del head['diffusion_model_cfg']['num_layers']
    head['diffusion_model_cfg']['dim'] = '48'
    del head['num_frames']
    head['vae_cfg']['z_dim'] = 0
    del published['action_horizon']
    with pytest.raises(CheckpointError) as caught:
        parse_config(published, SOURCE)
    text = str(caught.value)
    assert text.startswith(f'{SOURCE}: 5 problems')
    within = 'action_head_cfg.config.'
    assert f'{within}diffusion_model_cfg.num_layers: required, but not set' in text
    assert f'{within}diffusion_model_cfg.dim: ' in text
    assert "found '48'" in text
    assert f'{within}num_frames: required, but not set' in text
    assert f'{within}vae_cfg.z_dim: ' in text
    assert '\n  - action_horizon: required, but not set' in text


@pytest.mark.parametrize(
    ('path', 'value', 'message'),
    [
        ('/model_type', 'pi0', "model_type is 'pi0', expected 'vla'"),
        ('/action_head_cfg._target_', 'groot.FlowHead', 'only WANPolicyHead is served'),
        (
            'diffusion_model_cfg._target_',
            TARGET + 'dreamzero_mot.MoTCausalWanModel',
            'only CausalWanModel is served',
        ),
        ('vae_cfg._target_', TARGET + 'wan_video_vae.WanVideoVAE38', 'only WanVideoVAE is served'),
        ('text_encoder_cfg._target_', 'a.Other', 'text_encoder_cfg._target_'),
        ('image_encoder_cfg._target_', 'a.Other', 'image_encoder_cfg._target_'),
        ('diffusion_model_cfg.model_type', 'ti2v', "model_type is 'ti2v'; only 'i2v' is served"),
        ('diffusion_model_cfg.patch_size', [1, 4, 4], 'patch_size is [1, 4, 4]'),
        ('diffusion_model_cfg.qk_norm', False, 'qk_norm is False; only True'),
        ('diffusion_model_cfg.cross_attn_norm', False, 'cross_attn_norm is False; only True'),
        ('diffusion_model_cfg.num_state_per_block', 2, 'num_state_per_block is 2; only 1'),
        ('diffusion_model_cfg.max_chunk_size', -1, 'a window without an end is not served'),
        ('tiled', True, 'tiled is True, but the autoencoder works on whole images'),
        ('text_encoder_cfg.shared_pos', True, 'shared_pos is True'),
        ('diffusion_model_cfg.num_heads', 7, 'a width of 48 cannot be split in 7 heads'),
        ('diffusion_model_cfg.num_heads', 16, 'heads of 3 numbers cannot be rotated'),
        ('text_encoder_cfg.num_heads', 5, 'text_encoder_cfg: a width of 24'),
        ('image_encoder_cfg.heads', 3, 'image_encoder_cfg: a width of 32'),
        ('diffusion_model_cfg.freq_dim', 33, 'freq_dim 33 or dim 48 is odd'),
        ('image_encoder_cfg.patch', 16, 'are not the 257 tokens'),
        ('num_frames', 16, 'num_frames is 16, expected 1 + 4k'),
        ('num_frames', 1, 'num_frames is 1, 1 latent frames; a block has 2'),
        ('text_encoder_cfg.dim', 32, 'text_dim is 24, text_encoder_cfg.dim is 32'),
        ('diffusion_model_cfg.out_dim', 48, 'out_dim is 48, vae_cfg.z_dim is 16'),
        ('diffusion_model_cfg.in_dim', 16, 'in_dim is 16, latent, mask (4) and conditioning'),
        ('diffusion_model_cfg.num_action_per_block', 24, 'num_action_per_block is 24'),
        ('num_frame_per_block', 1, "num_frame_per_block is 2, the action head's"),
        ('action_horizon', 24, "action_horizon is 6, the action head's action_horizon is 24"),
        ('max_action_dim', 32, "action_dim is 10, the action head's max_action_dim is 32"),
        ('action_dim', 32, "action_dim is 10, the action head's action_dim is 32"),
        ('max_state_dim', 64, "max_state_dim is 12, the action head's max_state_dim is 64"),
    ],
)
def test_another_network_or_a_contradiction_is_refused_by_name(
    published: dict[str, Any], path: str, value: Any, message: str
) -> None:
    put(published, path, value)
    with pytest.raises(CheckpointError) as caught:
        parse_config(published, SOURCE)
    text = str(caught.value)
    assert text.startswith(f'{SOURCE}: ')
    assert message in text
    assert text.count('\n  - ') == 1
    assert caught.value.remedy


@pytest.mark.parametrize('value', [10**9, 10**30])
@pytest.mark.parametrize(
    'path',
    [
        *(f'diffusion_model_cfg.{name}' for name in ('dim', 'num_layers', 'text_len')),
        *(f'diffusion_model_cfg.{name}' for name in ('hidden_size', 'max_chunk_size')),
        *(f'text_encoder_cfg.{name}' for name in ('vocab', 'num_layers', 'num_buckets')),
        *('image_encoder_cfg.dim', 'image_encoder_cfg.layers', 'vae_cfg.num_res_blocks'),
        *('num_frames', '/action_horizon'),
    ],
)
def test_a_size_that_no_network_has_is_refused_before_one_is_built(
    published: dict[str, Any], path: str, value: int
) -> None:
    put(published, path, value)
    with pytest.raises(CheckpointError, match='less than or equal to') as caught:
        parse_config(published, SOURCE)
    assert str(value) in str(caught.value)


@pytest.mark.parametrize('value', [[], [0], [1, -1], [10**9], [1] * 60, [1.5]])
def test_the_autoencoders_levels_have_to_be_some(published: dict[str, Any], value: Any) -> None:
    put(published, 'vae_cfg.dim_mult', value)
    with pytest.raises(CheckpointError, match='dim_mult'):
        parse_config(published, SOURCE)
