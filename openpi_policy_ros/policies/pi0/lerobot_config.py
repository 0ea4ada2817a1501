# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the ``config.json`` of a π0 or π0.5 checkpoint as LeRobot writes it.

A checkpoint of other than the published sizes has an ``arch_overrides.json`` beside it. Fields that
nobody knows are warned about; fields that would change the numbers in ways not supported refuse.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, Field

from openpi_policy_ros.configuration.schema import Section, validate
from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies.checkpoint_files import read_json
from openpi_policy_ros.policies.layouts import TYPES
from openpi_policy_ros.policies.pi0.config import (
    ACTION,
    MAX_STEPS,
    MAX_TOKENS,
    PALIGEMMA_VOCABULARY,
    STATE,
    VARIANTS,
    Family,
    GemmaSize,
    Pi0Config,
    RtcSettings,
    Schedule,
    VisionSize,
    check_sizes,
)
from openpi_policy_ros.policies.problems import Problems

logger = logging.getLogger('openpi_policy_ros.policies.pi0')


class _Lenient(Section):
    """A part of config.json: what we read is typed strictly, what we do not is let through."""

    model_config = ConfigDict(extra='ignore')


class _Feature(_Lenient):
    type: str
    shape: list[int] = Field(min_length=1)


class _Rtc(_Lenient):
    prefix_attention_schedule: Schedule = 'LINEAR'
    max_guidance_weight: float = Field(default=10.0, gt=0.0)
    execution_horizon: int = Field(default=10, ge=1)


class _LeRobotConfig(_Lenient):
    """The fields of config.json that decide what the model computes, LeRobot's defaults."""

    type: str
    input_features: dict[str, _Feature] = Field(default_factory=dict)
    output_features: dict[str, _Feature] = Field(default_factory=dict)
    paligemma_variant: str = 'gemma_2b'
    action_expert_variant: str = 'gemma_300m'
    dtype: str = 'float32'
    chunk_size: int = Field(default=50, ge=1, le=10_000)
    max_state_dim: int = Field(default=32, ge=1)
    max_action_dim: int = Field(default=32, ge=1)
    num_inference_steps: int = Field(default=10, ge=1, le=MAX_STEPS)
    min_period: float = Field(default=0.004, gt=0.0)
    max_period: float = Field(default=4.0, gt=0.0)
    image_resolution: list[int] = Field(default=[224, 224], min_length=2, max_length=2)
    empty_cameras: int = Field(default=0, ge=0)
    tokenizer_max_length: int = Field(default=48, ge=2, le=MAX_TOKENS)
    normalization_mapping: dict[str, str] = Field(
        default={'VISUAL': 'IDENTITY', 'STATE': 'MEAN_STD', 'ACTION': 'MEAN_STD'}
    )
    use_relative_actions: bool | None = None
    action_feature_names: list[str] | None = None
    rtc_config: _Rtc | None = None


class _Pi05Config(_LeRobotConfig):
    """What π0.5 has other defaults for."""

    tokenizer_max_length: int = Field(default=200, ge=2, le=MAX_TOKENS)
    normalization_mapping: dict[str, str] = Field(
        default={'VISUAL': 'IDENTITY', 'STATE': 'QUANTILES', 'ACTION': 'QUANTILES'}
    )


_FAMILIES: Mapping[str, tuple[Family, type[_LeRobotConfig]]] = {
    'pi0': ('pi0', _LeRobotConfig),
    'pi05': ('pi05', _Pi05Config),
}

_MEMORY = 'checkpoints with a memory (MEM) are not supported: serve it with LeRobot'
_OLD_ALOHA = (
    'this conversion of old LeRobot versions (up to 0.3) is not done here: train on states and '
    'actions as the robot has them, or convert them on the robot, and set it to false'
)
# Fields whose other values change what is computed, in ways not supported.
_ONLY: Mapping[str, tuple[Any, str]] = {
    'n_obs_steps': (1, 'the model sees one observation: ' + _MEMORY),
    'use_peft': (
        False,
        'merge the adapter into the weights (PEFT merge_and_unload), save them, set it to false',
    ),
    'use_visual_memory': (False, _MEMORY),
    'use_proprioceptive_memory': (False, _MEMORY),
    'rtc_training_max_delay': (
        0,
        'checkpoints trained for real-time chunking are not supported: serve it with LeRobot',
    ),
    'adapt_to_pi_aloha': (False, _OLD_ALOHA),
    'use_delta_joint_actions_aloha': (False, _OLD_ALOHA),
}
# Fields that concern training, or who wrote the file, or are read elsewhere.
# fmt: off
_IRRELEVANT = frozenset((
    'device', 'use_amp', 'push_to_hub', 'repo_id', 'private', 'tags', 'license',
    'pretrained_path', 'pretrained_revision', 'n_action_steps', 'time_sampling_beta_alpha',
    'time_sampling_beta_beta', 'time_sampling_scale', 'time_sampling_offset',
    'relative_exclude_joints', 'gradient_checkpointing', 'compile_model', 'compile_mode',
    'freeze_vision_encoder', 'train_expert_only', 'optimizer_lr', 'optimizer_betas',
    'optimizer_eps', 'optimizer_weight_decay', 'optimizer_grad_clip_norm',
    'scheduler_warmup_steps', 'scheduler_decay_steps', 'scheduler_decay_lr', 'memory_frames',
    'memory_stride', 'memory_temporal_attention_every', 'norm_stats',
))
# fmt: on
_EMPTY_CAMERA = re.compile(r'(?:.*\.)?empty_camera_\d+')


def read_config(directory: Path, image_feature_keys: list[str] | None = None) -> Pi0Config:
    """Return the configuration of the checkpoint in ``directory``.

    Args:
        directory: a checkpoint in the LeRobot layout.
        image_feature_keys: camera features in model order, for a config.json that names none.

    Raises:
        CheckpointError: a file is missing or not JSON, or holds a value that cannot be served.
        SeveralErrors: several such values.

    """
    path = directory / 'config.json'
    raw = read_json(path)
    kind = raw.get('type')
    if not isinstance(kind, str) or kind not in _FAMILIES:
        raise CheckpointError(
            f'{path}: type is {kind!r}',
            expected=' or '.join(map(repr, _FAMILIES)),
            remedy=TYPES.get(str(kind), 'choose the policy that serves this type')
            + ', or pass a checkpoint of π0 or π0.5',
        )
    family, section = _FAMILIES[kind]
    known = _LeRobotConfig.model_fields.keys() | _ONLY.keys() | _IRRELEVANT
    unknown = sorted(raw.keys() - known)
    if unknown:
        logger.warning('%s: fields not known here have no effect: %s', path, ', '.join(unknown))
    problems = Problems()
    _refuse_unsupported(raw, path, problems)
    read = None
    try:
        read = validate(section, raw, str(path))
    except ConfigurationError as error:
        problems.add(CheckpointError(str(error), remedy='mend config.json'))
    config = None
    if read is not None:
        with problems.collecting():
            config = _assemble(read, family, image_feature_keys, path)
            config = apply_overrides(config, directory / 'arch_overrides.json')
            check_sizes(config, directory)
    problems.raise_any()
    assert config is not None
    return config


def _refuse_unsupported(raw: Mapping[str, Any], path: Path, problems: Problems) -> None:
    for name, (only, why) in _ONLY.items():
        value = raw.get(name)
        if value is not None and value != only:
            problems.add(
                CheckpointError(f'{path}: {name} is {value!r}', expected=repr(only), remedy=why)
            )
    dtype = raw.get('dtype', 'float32')
    if dtype not in ('float32', 'bfloat16'):
        problems.add(
            CheckpointError(
                f'{path}: dtype is {dtype!r}',
                expected='float32 or bfloat16 (π0 breaks in float16)',
                remedy='set dtype in config.json; the weights are converted when they are loaded',
            )
        )


def _assemble(
    read: _LeRobotConfig, family: Family, image_feature_keys: list[str] | None, path: Path
) -> Pi0Config:
    visual = [name for name, f in read.input_features.items() if f.type == 'VISUAL']
    # Without any camera the names can only come from the user; with some, they are compared later.
    visual = visual or list(image_feature_keys or [])
    images = tuple(name for name in visual if not _EMPTY_CAMERA.fullmatch(name))
    if not images:
        raise CheckpointError(
            f'{path}: input_features names no camera (type VISUAL)',
            expected='at least one',
            remedy='list them in model order as image_feature_keys in the policy file',
        )
    declared_empty = len(visual) - len(images)
    state = read.input_features.get(STATE)
    action = read.output_features.get(ACTION)
    state_dim = state.shape[0] if state else read.max_state_dim
    action_dim = action.shape[0] if action else read.max_action_dim
    names = tuple(read.action_feature_names or ())
    rtc = read.rtc_config or _Rtc()
    return Pi0Config(
        vision=VisionSize(),
        language=_variant(read.paligemma_variant, 'paligemma_variant', path),
        expert=_variant(read.action_expert_variant, 'action_expert_variant', path),
        vocab_size=PALIGEMMA_VOCABULARY,
        paligemma_variant=read.paligemma_variant,
        action_expert_variant=read.action_expert_variant,
        image_resolution=(read.image_resolution[0], read.image_resolution[1]),
        image_features=images,
        image_slots=len(images) + max(declared_empty, read.empty_cameras),
        state_dim=state_dim,
        max_state_dim=read.max_state_dim,
        action_dim=action_dim,
        max_action_dim=read.max_action_dim,
        chunk_size=read.chunk_size,
        num_inference_steps=read.num_inference_steps,
        tokenizer_max_length=read.tokenizer_max_length,
        min_period=read.min_period,
        max_period=read.max_period,
        dtype=read.dtype,
        normalization=dict(read.normalization_mapping),
        action_names=names if len(names) == action_dim else (),
        rtc=RtcSettings(
            rtc.prefix_attention_schedule, rtc.max_guidance_weight, rtc.execution_horizon
        ),
        family=family,
    )


def _variant(name: str, field_name: str, path: Path) -> GemmaSize:
    if name not in VARIANTS:
        raise CheckpointError(
            f'{path}: {field_name} is {name!r}',
            expected=f'one of {", ".join(VARIANTS)}',
            remedy='other sizes go into arch_overrides.json beside config.json',
        )
    return VARIANTS[name]


_GEMMA_KEYS = {f.name: f.name for f in fields(GemmaSize)}
_VISION_KEYS = {
    'hidden_size': 'width',
    'num_hidden_layers': 'depth',
    'intermediate_size': 'mlp_dim',
    'num_attention_heads': 'num_heads',
    'patch_size': 'patch_size',
}
_Size = TypeVar('_Size', GemmaSize, VisionSize)


def apply_overrides(config: Pi0Config, path: Path) -> Pi0Config:
    """Return ``config`` with the sizes of arch_overrides.json, if there is such a file."""
    if not path.is_file():
        return config
    raw = read_json(path)
    problems: list[str] = []
    _unknown_keys(
        raw, ('vocab_size', 'paligemma', 'action_expert', 'vision', 'projection_dim'), '', problems
    )
    language = _override(config.language, raw, 'paligemma', _GEMMA_KEYS, problems)
    expert = _override(config.expert, raw, 'action_expert', _GEMMA_KEYS, problems)
    vision = _override(config.vision, raw, 'vision', _VISION_KEYS, problems)
    vocab_size = _positive(raw.get('vocab_size', config.vocab_size), 'vocab_size', problems)
    projection = raw.get('projection_dim', language.width)
    if projection != language.width:
        problems.append(
            f'projection_dim is {projection!r}, but the width of paligemma is {language.width}'
        )
    if problems:
        raise CheckpointError(
            '\n  - '.join([f'{path}: {len(problems)} problem(s)', *problems]),
            remedy='mend or remove the file',
        )
    return replace(config, language=language, expert=expert, vision=vision, vocab_size=vocab_size)


def _override(
    size: _Size,
    raw: Mapping[str, Any],
    section: str,
    keys: Mapping[str, str],
    problems: list[str],
) -> _Size:
    values = raw.get(section, {})
    if not isinstance(values, dict):
        problems.append(f'{section}: expected a mapping, found {values!r}')
        return size
    _unknown_keys(values, tuple(keys), f'{section}.', problems)
    known = {
        keys[key]: _positive(value, f'{section}.{key}', problems)
        for key, value in values.items()
        if key in keys
    }
    return replace(size, **known)


def _unknown_keys(
    values: Mapping[str, Any], known: tuple[str, ...], prefix: str, problems: list[str]
) -> None:
    for key in values.keys() - set(known):
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f'known here: {", ".join(known)}'
        problems.append(f'{prefix}{key}: unknown key; {hint}')


def _positive(value: Any, name: str, problems: list[str]) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    problems.append(f'{name}: expected a positive whole number, found {value!r}')
    return 1
