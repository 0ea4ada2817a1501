# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a small, seeded, complete π0 checkpoint in the layout LeRobot writes.

Its actions mean nothing, but every file, name and code path is the real one: demos, tests and
benchmarks run on it where nobody can download gigabytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.pi0.config import (
    ACTION,
    STATE,
    GemmaSize,
    Pi0Config,
    RtcSettings,
    VisionSize,
)
from openpi_policy_ros.policies.pi0.demo_tokenizer import MAX_ENTRIES, SPECIALS, build_tokenizer
from openpi_policy_ros.policies.pi0.layout import Slot, tensors
from openpi_policy_ros.policies.pi0.processors import POSTPROCESSOR, PREPROCESSOR

CAMERAS = (
    'observation.images.base_0_rgb',
    'observation.images.left_wrist_0_rgb',
    'observation.images.right_wrist_0_rgb',
)
_MODES = {'VISUAL': 'IDENTITY', 'STATE': 'IDENTITY', 'ACTION': 'IDENTITY'}


def _config(vision: VisionSize, language: GemmaSize, expert: GemmaSize) -> Pi0Config:
    return Pi0Config(
        vision=vision,
        language=language,
        expert=expert,
        vocab_size=MAX_ENTRIES,
        paligemma_variant='gemma_2b',
        action_expert_variant='gemma_300m',
        image_resolution=(224, 224),
        image_features=CAMERAS,
        image_slots=len(CAMERAS),
        state_dim=32,
        max_state_dim=32,
        action_dim=32,
        max_action_dim=32,
        chunk_size=50,
        num_inference_steps=10,
        tokenizer_max_length=48,
        min_period=0.004,
        max_period=4.0,
        dtype='float32',
        normalization=_MODES,
        action_names=(),
        rtc=RtcSettings(),
    )


SIZES: Mapping[str, Pi0Config] = {
    # 1.7 MB: every part is there, nothing takes time.
    'small': _config(
        VisionSize(48, 2, 96, 4, 14),
        GemmaSize(64, 3, 128, 8, 1, 16),
        GemmaSize(32, 3, 64, 8, 1, 16),
    ),
    # About 200 MB in float32: matrix products outweigh the overhead, as in the real model.
    'medium': _config(
        VisionSize(384, 6, 1536, 6, 14),
        GemmaSize(512, 8, 2048, 8, 1, 64),
        GemmaSize(256, 8, 1024, 8, 1, 64),
    ),
}


def make_checkpoint(directory: Path, size: str, seed: int) -> None:
    """Write a checkpoint; equal size and seed give equal files.

    Args:
        directory: created; must not hold anything yet.
        size: one of ``SIZES``.
        seed: of the random weights, 0 to 2**64 − 1.

    Raises:
        ConfigurationError: unknown size, seed out of range, or the directory cannot be used.

    """
    problems = []
    if size not in SIZES:
        problems.append(f'size is {size!r}; expected one of {", ".join(SIZES)}')
    if not 0 <= seed < 2**64:
        problems.append(f'seed is {seed}; expected 0 to 2**64 - 1')
    if directory.is_dir() and any(directory.iterdir()):
        problems.append(f'{directory} is not empty; name a new directory, nothing is overwritten')
    if problems:
        raise ConfigurationError('make-checkpoint', problems)
    config = SIZES[size]
    try:
        (directory / 'tokenizer').mkdir(parents=True)
        _write_json(directory / 'config.json', _lerobot_config(config))
        _write_json(directory / 'arch_overrides.json', _arch_overrides(config))
        _write_json(directory / PREPROCESSOR, _preprocessor(config))
        _write_json(directory / POSTPROCESSOR, _postprocessor(config))
        build_tokenizer().save(str(directory / 'tokenizer' / 'tokenizer.json'))
        _write_json(directory / 'tokenizer' / 'tokenizer_config.json', _TOKENIZER_CONFIG)
        weights = random_weights(config, seed)
        # Last: a directory without weights refuses to load, half of one never passes for whole.
        # Not save_file: it leaves a file that only its owner can read.
        (directory / WEIGHTS).write_bytes(save(weights, metadata={'format': 'pt'}))
    except OSError as error:
        raise ConfigurationError(
            'make-checkpoint', [f'{directory} cannot be written: {error}']
        ) from None


def random_weights(config: Pi0Config, seed: int) -> dict[str, Tensor]:
    """Return every tensor of a checkpoint of these sizes, float32, as a fine-tune names them."""
    generator = torch.Generator().manual_seed(seed)
    return {
        f'model.{name}': _random(name, slot, generator)
        for name, slot in sorted(tensors(config).items())
    }


def parameter_count(config: Pi0Config) -> int:
    """Return the number of values in a checkpoint of these sizes, unused heads included."""
    return sum(math.prod(slot.shape) for slot in tensors(config).values())


def _random(name: str, slot: Slot, generator: torch.Generator) -> Tensor:
    """Return weights that keep activations near unit size, so that every input matters."""
    values = torch.randn(slot.shape, generator=generator)
    if name.endswith('.bias'):
        return values * 0.02
    if len(slot.shape) == 1:
        # Gemma's norms store w of 1 + w, SigLIP's the factor itself.
        return values * 0.1 if 'vision_tower' not in name else 1.0 + values * 0.1
    if 'position_embedding' in name:
        return values * 0.1
    # Rows of the table are multiplied by √width before use, projections sum over their inputs.
    return values / math.sqrt(math.prod(slot.shape[1:]))


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + '\n', encoding='utf-8')


def _features(config: Pi0Config) -> tuple[dict[str, Any], dict[str, Any]]:
    height, width = config.image_resolution
    inputs: dict[str, Any] = {
        name: {'type': 'VISUAL', 'shape': [3, height, width]} for name in config.image_features
    }
    inputs[STATE] = {'type': 'STATE', 'shape': [config.state_dim]}
    return inputs, {ACTION: {'type': 'ACTION', 'shape': [config.action_dim]}}


def _lerobot_config(config: Pi0Config) -> dict[str, Any]:
    inputs, outputs = _features(config)
    return {
        'type': 'pi0',
        'n_obs_steps': 1,
        'input_features': inputs,
        'output_features': outputs,
        'device': 'cpu',
        'use_amp': False,
        'use_peft': False,
        'push_to_hub': False,
        'paligemma_variant': config.paligemma_variant,
        'action_expert_variant': config.action_expert_variant,
        'dtype': config.dtype,
        'chunk_size': config.chunk_size,
        'n_action_steps': config.chunk_size,
        'max_state_dim': config.max_state_dim,
        'max_action_dim': config.max_action_dim,
        'num_inference_steps': config.num_inference_steps,
        'min_period': config.min_period,
        'max_period': config.max_period,
        'use_relative_actions': False,
        'relative_exclude_joints': ['gripper'],
        'action_feature_names': None,
        'rtc_config': None,
        'image_resolution': list(config.image_resolution),
        'empty_cameras': 0,
        'normalization_mapping': dict(config.normalization),
        'tokenizer_max_length': config.tokenizer_max_length,
    }


def _arch_overrides(config: Pi0Config) -> dict[str, Any]:
    vision = config.vision
    return {
        'vocab_size': config.vocab_size,
        'paligemma': asdict(config.language),
        'action_expert': asdict(config.expert),
        'vision': {
            'hidden_size': vision.width,
            'num_hidden_layers': vision.depth,
            'num_attention_heads': vision.num_heads,
            'intermediate_size': vision.mlp_dim,
            'patch_size': vision.patch_size,
        },
        'projection_dim': config.language.width,
    }


def _step(name: str, **config: Any) -> dict[str, Any]:
    return {'registry_name': name, 'config': config}


def _preprocessor(config: Pi0Config) -> dict[str, Any]:
    inputs, outputs = _features(config)
    tokenizer = _step(
        'tokenizer_processor',
        max_length=config.tokenizer_max_length,
        task_key='task',
        padding_side='right',
        padding='max_length',
        truncation=True,
        tokenizer_name='tokenizer',
    )
    tokenizer['artifacts'] = {'tokenizer_name': 'tokenizer'}
    relative = _step(
        'relative_actions_processor', enabled=False, exclude_joints=['gripper'], action_names=None
    )
    steps = [
        _step('rename_observations_processor', rename_map={}),
        _step('to_batch_processor'),
        _step('pi0_new_line_processor'),
        tokenizer,
        _step('device_processor', device='cpu', float_dtype=None),
        relative,
        _step('normalizer_processor', eps=1e-8, features={**inputs, **outputs}, norm_map=_MODES),
    ]
    return {'name': 'policy_preprocessor', 'steps': steps}


def _postprocessor(config: Pi0Config) -> dict[str, Any]:
    _, outputs = _features(config)
    steps = [
        _step('unnormalizer_processor', eps=1e-8, features=outputs, norm_map=_MODES),
        _step('absolute_actions_processor', enabled=False),
        _step('device_processor', device='cpu', float_dtype=None),
    ]
    return {'name': 'policy_postprocessor', 'steps': steps}


_TOKENIZER_CONFIG = {
    'bos_token': SPECIALS[2],
    'eos_token': SPECIALS[1],
    'pad_token': SPECIALS[0],
    'padding_side': 'right',
    'tokenizer_class': 'PreTrainedTokenizerFast',
    'unk_token': SPECIALS[3],
}
