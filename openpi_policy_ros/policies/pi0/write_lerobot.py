# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write the files of a LeRobot checkpoint, of the 0.6 line or of 0.4.

The older one knows no relative actions, so its lists of processor steps are shorter and the
statistics lie in files of other numbers; its tokenizer is named, not packed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save
from torch import Tensor

from openpi_policy_ros.policies.pi0.config import ACTION, STATE, Pi0Config
from openpi_policy_ros.policies.pi0.demo_statistics import (
    Statistics,
    image_statistics,
    joint_statistics,
)
from openpi_policy_ros.policies.pi0.demo_weights import in_bfloat16, tied
from openpi_policy_ros.policies.pi0.processors import POSTPROCESSOR, PREPROCESSOR

_EXCLUDED = ['gripper']
_NORMS = ('input_layernorm', 'post_attention_layernorm', 'model.norm')
# What the training keeps in float32 among bfloat16.
_FLOAT32 = ('vision_tower', 'multi_modal_projector', *_NORMS)
_FLOAT32_OLD = ('vision_model.embeddings.', *_NORMS)
_STEPS = 'paligemma_with_expert.'
_RELATIVE_SPREAD = 0.1

Step = dict[str, Any]


def write_lerobot(
    directory: Path,
    config: Pi0Config,
    statistics: Mapping[str, Statistics],
    *,
    old: bool,
    relative: bool,
) -> None:
    """Write config.json, the processor files and their statistics.

    Args:
        directory: exists.
        config: what they say. Statistics are written where any feature is normalised.
        statistics: feature → name → values.
        old: as LeRobot 0.4 wrote them.
        relative: actions are differences from the state, except the gripper's.

    """
    _write_json(directory / 'config.json', _config(config, old=old, relative=relative))
    before = _preprocessor(config, old=old, relative=relative)
    after = _postprocessor(config, old=old, relative=relative)
    if set(config.normalization.values()) != {'IDENTITY'}:
        stored = save(_flat(statistics))
        for name, steps in ((PREPROCESSOR, before), (POSTPROCESSOR, after)):
            _write_statistics(directory, name.removesuffix('.json'), steps, stored)
    for name, steps in ((PREPROCESSOR, before), (POSTPROCESSOR, after)):
        _write_json(directory / name, {'name': name.removesuffix('.json'), 'steps': steps})


def lerobot_weights(
    config: Pi0Config, weights: dict[str, Tensor], *, old: bool
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return (name → tensor, metadata) as LeRobot stores them.

    A fine-tune of the 0.6 line holds both tables and ``model.`` before every name; the published
    files of 0.4 neither.
    """
    if config.dtype == 'bfloat16':
        # The projections outside of the two transformers stay as they are.
        inner = {name: tensor for name, tensor in weights.items() if name.startswith(_STEPS)}
        weights = {**weights, **in_bfloat16(inner, _FLOAT32_OLD if old else _FLOAT32)}
    stored = tied(weights) if old else {f'model.{name}': tensor for name, tensor in weights.items()}
    return stored, {'format': 'pt'}


def _features(config: Pi0Config) -> tuple[dict[str, Any], dict[str, Any]]:
    height, width = config.image_resolution
    inputs: dict[str, Any] = {
        name: {'type': 'VISUAL', 'shape': [3, height, width]} for name in config.image_features
    }
    inputs[STATE] = {'type': 'STATE', 'shape': [config.state_dim]}
    return inputs, {ACTION: {'type': 'ACTION', 'shape': [config.action_dim]}}


def _config(config: Pi0Config, *, old: bool, relative: bool) -> dict[str, Any]:
    inputs, outputs = _features(config)
    memory = {
        'use_visual_memory': False,
        'use_proprioceptive_memory': False,
        'memory_frames': 6,
        'memory_stride': 30,
        'memory_temporal_attention_every': 4,
    }
    differences = {
        'use_relative_actions': relative,
        'relative_exclude_joints': _EXCLUDED,
        'action_feature_names': list(config.action_names) or None,
    }
    newer = config.family == 'pi05' and not old
    return {
        'type': config.family,
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
        **(memory if newer else {}),
        'max_state_dim': config.max_state_dim,
        'max_action_dim': config.max_action_dim,
        'num_inference_steps': config.num_inference_steps,
        'min_period': config.min_period,
        'max_period': config.max_period,
        **({} if old else differences),
        'rtc_config': None,
        **({'rtc_training_max_delay': 0} if newer else {}),
        'image_resolution': list(config.image_resolution),
        'empty_cameras': 0,
        'normalization_mapping': dict(config.normalization),
        'tokenizer_max_length': config.tokenizer_max_length,
    }


def _step(name: str, **config: Any) -> Step:
    return {'registry_name': name, 'config': config}


def _tokenizer(config: Pi0Config, *, old: bool) -> Step:
    step = _step(
        'tokenizer_processor',
        max_length=config.tokenizer_max_length,
        task_key='task',
        padding_side='right',
        padding='max_length',
        truncation=True,
        tokenizer_name='google/paligemma-3b-pt-224' if old else 'tokenizer',
    )
    return step if old else {**step, 'artifacts': {'tokenizer_name': 'tokenizer'}}


def _preprocessor(config: Pi0Config, *, old: bool, relative: bool) -> list[Step]:
    inputs, outputs = _features(config)
    first = [
        _step('rename_observations_processor', rename_map={}),
        _step('to_batch_processor'),
    ]
    device = _step('device_processor', device='cpu', float_dtype=None)
    differences = [] if old else [_relative(config, relative=relative)]
    normalizer = _step(
        'normalizer_processor',
        eps=1e-8,
        features={**inputs, **outputs},
        norm_map=dict(config.normalization),
    )
    tokenizer = _tokenizer(config, old=old)
    if config.family == 'pi05':
        # The text holds the normalised state.
        state = _step('pi05_prepare_state_tokenizer_processor_step')
        return [*first, *differences, normalizer, state, tokenizer, device]
    newline = _step('pi0_new_line_processor')
    return [*first, newline, tokenizer, device, *differences, normalizer]


def _relative(config: Pi0Config, *, relative: bool) -> Step:
    return _step(
        'relative_actions_processor',
        enabled=relative,
        exclude_joints=_EXCLUDED,
        action_names=list(config.action_names) or None,
    )


def _postprocessor(config: Pi0Config, *, old: bool, relative: bool) -> list[Step]:
    _, outputs = _features(config)
    steps = [
        _step(
            'unnormalizer_processor',
            eps=1e-8,
            features=outputs,
            norm_map=dict(config.normalization),
        ),
        _step('absolute_actions_processor', enabled=relative),
        _step('device_processor', device='cpu', float_dtype=None),
    ]
    return [step for step in steps if not (old and step['registry_name'].startswith('absolute'))]


def drawn_statistics(config: Pi0Config, seed: int, *, relative: bool) -> dict[str, Statistics]:
    """Return feature → statistics of drawn recordings, those of the cameras among them."""
    spread = _RELATIVE_SPREAD if relative else 0.5
    return {
        **{name: image_statistics(seed, name) for name in config.image_features},
        STATE: joint_statistics(config.state_dim, seed, 'state'),
        ACTION: joint_statistics(config.action_dim, seed, 'action', spread),
    }


def _flat(statistics: Mapping[str, Statistics]) -> dict[str, Any]:
    """Return ``<feature>.<statistic>`` → float32."""
    return {
        f'{feature}.{name}': values.astype(np.float32)
        for feature, named in statistics.items()
        for name, values in named.items()
    }


def _write_statistics(directory: Path, name: str, steps: list[Step], statistics: bytes) -> None:
    """Write them beside every step that normalises, and name them in it."""
    for number, step in enumerate(steps):
        kind = step['registry_name']
        if kind.endswith('normalizer_processor'):
            file = f'{name}_step_{number}_{kind}.safetensors'
            (directory / file).write_bytes(statistics)
            step['state_file'] = file


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + '\n', encoding='utf-8')
