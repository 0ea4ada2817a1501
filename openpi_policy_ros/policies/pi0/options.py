# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The keys of a π0 policy file, and how they meet the checkpoint.

The keys are those of a vLLM-Omni deploy file's ``model_config``, so that such a block can be pasted
in, plus our own. Sizes come from the checkpoint: one written here that differs refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, field_validator

from openpi_policy_ros.configuration.schema import Section, validate
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.pi0.config import MAX_STEPS, Pi0Config, RtcSettings, Schedule


class RtcOptions(Section):
    """Real-time chunking; what is left out comes from the checkpoint's ``rtc_config``."""

    schedule: Schedule | None = Field(
        default=None, description='Guidance over the rows of a chunk: LINEAR, EXP, ONES or ZEROS.'
    )
    max_guidance_weight: float | None = Field(
        default=None, gt=0.0, description='Bound on the guidance.'
    )
    execution_horizon: int | None = Field(
        default=None, ge=1, description='Rows guided where a call does not say.'
    )


class Pi0Options(Section):
    """A π0 policy file without its ``policy`` key. None = the checkpoint decides."""

    chunk_size: int | None = Field(default=None, description='Rows of a chunk.')
    max_action_dim: int | None = Field(default=None, description="Columns of the model's chunk.")
    max_state_dim: int | None = Field(default=None, description="Width of the model's state.")
    image_resolution: list[int] | None = Field(
        default=None, description='[height, width] of the images the model sees.'
    )
    tokenizer_max_length: int | None = Field(default=None, description='Most text tokens.')
    max_cameras: int | None = Field(default=None, description='Camera slots.')
    image_feature_keys: list[str] | None = Field(
        default=None, description='Camera features in model order.'
    )
    paligemma_variant: str | None = Field(default=None, description='Size of the backbone.')
    action_expert_variant: str | None = Field(default=None, description='Size of the expert.')
    num_inference_steps: int | None = Field(
        default=None, ge=1, le=MAX_STEPS, description='Sampler steps; overrides the checkpoint.'
    )
    dtype: str | None = Field(
        default=None, description='float32 or bfloat16; overrides the checkpoint.'
    )
    image_key_map: dict[str, str] = Field(
        default_factory=dict, description='Observation key → camera feature.'
    )
    tokenizer: str | None = Field(
        default=None,
        description='tokenizer.json, a directory that holds one, or a hub id; overrides the '
        "checkpoint's own.",
    )
    norm_stats: dict[str, Any] | None = Field(default=None, description='Not supported yet.')
    normalization: Literal['identity'] | None = Field(
        default=None,
        description='identity: serve a checkpoint that declares a normalisation, but carries no '
        'statistics, without normalising.',
    )
    policy_server_config: dict[str, Any] | None = Field(
        default=None, description='Handshake, sent verbatim to OpenPI clients; absent = none.'
    )
    optional_cameras: list[str] = Field(
        default_factory=list, description='Camera features whose image may be missing (masked).'
    )
    default_prompt: str | None = Field(
        default=None, min_length=1, description='Instruction used where a request carries none.'
    )
    truncate_prompt: bool = Field(
        default=False, description='Cut an over-long instruction instead of refusing it.'
    )
    legacy_padding: bool = Field(
        default=False,
        description='Letterbox bars of -3 instead of -1, as checkpoints trained with LeRobot up '
        'to 0.4.4 saw them.',
    )
    rtc: RtcOptions = Field(default_factory=RtcOptions)

    @field_validator('norm_stats')
    @classmethod
    def _no_statistics(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value:
            raise ValueError(
                'statistics in the policy file are not supported yet; remove norm_stats to serve '
                'the checkpoint without normalisation'
            )
        return value

    @field_validator('dtype')
    @classmethod
    def _known_dtype(cls, value: str | None) -> str | None:
        if value == 'float16':
            raise ValueError('float16 is refused: π0 breaks in it; use bfloat16 or float32')
        if value not in (None, 'float32', 'bfloat16'):
            raise ValueError(f'expected float32 or bfloat16, found {value!r}')
        return value


def read_options(values: Mapping[str, Any] | None, source: str) -> Pi0Options:
    """Return the validated policy file; without one, nothing is overridden."""
    return validate(Pi0Options, values or {}, source)


def apply_options(config: Pi0Config, options: Pi0Options, source: str) -> Pi0Config:
    """Return ``config`` with the overrides a policy file may make.

    Raises:
        ConfigurationError: a size or camera list in the file differs from the checkpoint's; names
            both values of each.

    """
    checkpoint: Mapping[str, Any] = {
        'chunk_size': config.chunk_size,
        'max_action_dim': config.max_action_dim,
        'max_state_dim': config.max_state_dim,
        'image_resolution': list(config.image_resolution),
        'tokenizer_max_length': config.tokenizer_max_length,
        'max_cameras': config.image_slots,
        'image_feature_keys': list(config.image_features),
        'paligemma_variant': config.paligemma_variant,
        'action_expert_variant': config.action_expert_variant,
    }
    problems = []
    for name, theirs in checkpoint.items():
        written = getattr(options, name)
        if written is not None and written != theirs:
            problems.append(
                f'{name} is {written!r} here, but {theirs!r} in the checkpoint; remove the line, '
                'or load the checkpoint it was written for'
            )
    if problems:
        raise ConfigurationError(source, problems)
    rtc = options.rtc
    return replace(
        config,
        num_inference_steps=options.num_inference_steps or config.num_inference_steps,
        dtype=options.dtype or config.dtype,
        rtc=RtcSettings(
            rtc.schedule or config.rtc.schedule,
            rtc.max_guidance_weight or config.rtc.max_guidance_weight,
            rtc.execution_horizon or config.rtc.execution_horizon,
        ),
    )
