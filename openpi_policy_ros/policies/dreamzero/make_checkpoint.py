# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a small, seeded, complete DreamZero checkpoint in the published layout.

Its actions mean nothing, but every file, name and code path is the real one: demos, tests and
benchmarks run on it where nobody has 46 GB of weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.dreamzero.config import parse_config
from openpi_policy_ros.policies.dreamzero.demo_statistics import demo_metadata
from openpi_policy_ros.policies.dreamzero.demo_tokenizer import (
    TOKENIZER_CONFIG,
    VOCABULARY,
    build_tokenizer,
)
from openpi_policy_ros.policies.dreamzero.demo_weights import random_weights
from openpi_policy_ros.policies.dreamzero.metadata import METADATA
from openpi_policy_ros.policies.dreamzero.networks import build
from openpi_policy_ros.policies.dreamzero.remap import slots
from openpi_policy_ros.policies.layouts import CONFIG
from openpi_policy_ros.policies.pi0.demo_weights import write_weights
from openpi_policy_ros.policies.registry import CheckpointOptions

DTYPES = ('float32', 'bfloat16')
TOKENIZER_FOLDER = 'tokenizer'

_LATENT = 16
_BLOCK = 2
"""Latent frames that are denoised together."""


@dataclass(frozen=True)
class Size:
    """Sizes of a checkpoint, in the order of its networks.

    Attributes:
        resolution: (width, height) of a camera's images, pixels.
        horizon: rows of a chunk.
        action: columns of a chunk in the network, at least 8.
        state: numbers of a state in the network, at least 8.
        chunks: blocks of a window.
        num_frames: of the conditioning clip, 1 + 4k.
        dit: width, MLP, time embedding, heads, layers, hidden width of action and state.
        text: width, MLP, heads, layers.
        clip: width, heads, layers.
        vae: width, residual blocks a level.
        text_length: tokens of a text.

    """

    resolution: tuple[int, int]
    horizon: int
    action: int
    state: int
    chunks: int
    num_frames: int
    dit: tuple[int, int, int, int, int, int]
    text: tuple[int, int, int, int]
    clip: tuple[int, int, int]
    vae: tuple[int, int]
    text_length: int = 256

    @property
    def frame_tokens(self) -> int:
        """Return the tokens of a latent frame, which shows two views by two."""
        width, height = (side // 16 * 16 for side in self.resolution)
        return width * height // 64


SIZES: Mapping[str, Size] = {
    # 4.7 MB: every part is there, nothing takes time.
    'tiny': Size(
        resolution=(36, 20),
        horizon=6,
        action=10,
        state=12,
        chunks=2,
        num_frames=17,
        dit=(48, 96, 32, 4, 2, 20),
        text=(24, 48, 2, 2),
        clip=(32, 2, 3),
        vae=(8, 2),
    ),
    # About 45 MB in float32: the transformer outweighs everything else, as in the real model.
    'small': Size(
        resolution=(160, 96),
        horizon=24,
        action=32,
        state=64,
        chunks=4,
        num_frames=33,
        dit=(256, 704, 128, 4, 8, 128),
        text=(128, 256, 4, 4),
        clip=(128, 4, 6),
        vae=(2, 1),
    ),
    # 0.7 MB: every shape that a client or a session sees is the published checkpoint's, only the
    # widths are not; a call takes seconds on one core, most of them for the autoencoder.
    'droid': Size(
        resolution=(320, 180),
        horizon=24,
        action=32,
        state=64,
        chunks=4,
        num_frames=33,
        dit=(24, 48, 32, 2, 2, 20),
        text=(24, 48, 2, 2),
        clip=(32, 2, 3),
        vae=(1, 1),
        text_length=512,
    ),
}


def make_checkpoint(
    directory: Path, size: str, seed: int, options: CheckpointOptions | None = None
) -> None:
    """Write a checkpoint; equal arguments give equal files.

    Args:
        directory: created; must not hold anything yet.
        size: one of ``SIZES``.
        seed: of the random weights and statistics, 0 to 2**64 − 1.
        options: ``shards`` (default one file) and ``dtype`` of the weights (default float32).

    Raises:
        ConfigurationError: unknown size, seed out of range, options that DreamZero's layout does
            not have, or the directory cannot be used; every problem in one message. Or
            transformers or diffusers, which say what tensors there are, are not installed.

    """
    options = options or CheckpointOptions()
    problems = []
    if size not in SIZES:
        problems.append(f'size is {size!r}; expected one of {", ".join(SIZES)}')
    if not 0 <= seed < 2**64:
        problems.append(f'seed is {seed}; expected 0 to 2**64 - 1')
    if directory.is_dir() and any(directory.iterdir()):
        problems.append(f'{directory} is not empty; name a new directory, nothing is overwritten')
    problems += _unusable(options)
    if problems:
        raise ConfigurationError('make-checkpoint', problems)
    described = checkpoint_config(SIZES[size])
    config = parse_config(described, CONFIG)
    expected = slots(build(config), config)
    shards = options.shards or 1
    if shards > len(expected):
        problem = f'shards is {shards}; expected at most {len(expected)}, one per tensor'
        raise ConfigurationError('make-checkpoint', [problem])
    weights = random_weights(expected, config, seed)
    if options.dtype == 'bfloat16':
        weights = {name: tensor.to(torch.bfloat16) for name, tensor in weights.items()}
    try:
        for folder in (TOKENIZER_FOLDER, Path(METADATA).parent):
            (directory / folder).mkdir(parents=True)
        _write_json(directory / CONFIG, described)
        _write_json(directory / METADATA, demo_metadata(SIZES[size].resolution, seed))
        build_tokenizer().save(str(directory / TOKENIZER_FOLDER / 'tokenizer.json'))
        _write_json(directory / TOKENIZER_FOLDER / 'tokenizer_config.json', TOKENIZER_CONFIG)
        # Last: a directory without weights refuses to load, half of one never passes for whole.
        write_weights(directory, weights, {'format': 'pt'}, shards)
    except OSError as error:
        raise ConfigurationError(
            'make-checkpoint', [f'{directory} cannot be written: {error}']
        ) from None


def checkpoint_config(size: Size) -> dict[str, Any]:
    """Return the config.json of a checkpoint of this size, as the published ones are written."""
    dim, ffn, freq, heads, layers, hidden = size.dit
    text_dim, text_ffn, text_heads, text_layers = size.text
    clip_dim, clip_heads, clip_layers = size.clip
    vae_dim, vae_blocks = size.vae
    modules = 'groot.vla.model.dreamzero'
    shared = {
        'num_frame_per_block': _BLOCK,
        'action_dim': size.action,
        'max_state_dim': size.state,
    }
    return {
        'model_type': 'vla',
        'architectures': ['VLA'],
        'action_horizon': size.horizon,
        'action_dim': size.action,
        'backbone_cfg': {'_target_': f'{modules}.backbone.identity.IdentityBackbone'},
        'action_head_cfg': {
            '_target_': f'{modules}.action_head.wan_flow_matching_action_tf.WANPolicyHead',
            'config': {
                **shared,
                '_target_': f'{modules}.action_head.wan_flow_matching_action_tf.'
                'WANPolicyHeadConfig',
                'tiled': False,
                'num_frames': size.num_frames,
                'action_horizon': size.horizon,
                'max_action_dim': size.action,
                'hidden_size': 64,
                'num_inference_timesteps': 4,
                'decouple_inference_noise': False,
                'video_inference_final_noise': 0.8,
                'train_architecture': 'full',
                'diffusion_model_cfg': {
                    **shared,
                    '_target_': f'{modules}.modules.wan_video_dit_action_casual_chunk.'
                    'CausalWanModel',
                    '_convert_': 'object',
                    'model_type': 'i2v',
                    'frame_seqlen': size.frame_tokens,
                    'text_len': size.text_length,
                    # Noisy latents, four channels of mask, latents of the first frame.
                    'in_dim': 2 * _LATENT + 4,
                    'out_dim': _LATENT,
                    'dim': dim,
                    'ffn_dim': ffn,
                    'freq_dim': freq,
                    'text_dim': text_dim,
                    'num_heads': heads,
                    'num_layers': layers,
                    'max_chunk_size': size.chunks,
                    'hidden_size': hidden,
                    'num_action_per_block': size.horizon,
                    'num_state_per_block': 1,
                    'eps': 1e-6,
                },
                'text_encoder_cfg': {
                    '_target_': f'{modules}.modules.wan_video_text_encoder.WanTextEncoder',
                    'vocab': VOCABULARY,
                    'dim': text_dim,
                    'dim_attn': text_dim,
                    'dim_ffn': text_ffn,
                    'num_heads': text_heads,
                    'num_layers': text_layers,
                    'num_buckets': 32,
                },
                'image_encoder_cfg': {
                    '_target_': f'{modules}.modules.wan_video_image_encoder.WanImageEncoder',
                    'dim': clip_dim,
                    'heads': clip_heads,
                    'layers': clip_layers,
                    'embed_dim': clip_dim // 2,
                    'image_size': 224,
                    'patch': 14,
                },
                'vae_cfg': {
                    '_target_': f'{modules}.modules.wan_video_vae.WanVideoVAE',
                    'dim': vae_dim,
                    'z_dim': _LATENT,
                    'num_res_blocks': vae_blocks,
                    'dim_mult': [1, 2, 4, 4],
                },
            },
        },
    }


def _unusable(options: CheckpointOptions) -> list[str]:
    """Return what is wrong with the options."""
    problems = []
    if options.dtype is not None and options.dtype not in DTYPES:
        problems.append(f'dtype is {options.dtype!r}; expected one of {", ".join(DTYPES)}')
    if options.shards is not None and options.shards < 1:
        problems.append(f'shards is {options.shards}; expected at least 1')
    given = {
        'layout': options.layout,
        'normalization': options.normalization,
        'relative': options.relative or None,
        'state_dim': options.state_dim,
        'action_dim': options.action_dim,
        'cameras': options.cameras or None,
    }
    problems += [
        f'{name} is {value!r}, but a DreamZero checkpoint has one layout, one robot (DROID: three '
        'cameras, seven joints, a gripper) and one normalisation; leave it out'
        for name, value in given.items()
        if value is not None
    ]
    return problems


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + '\n', encoding='utf-8')
