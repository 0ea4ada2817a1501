# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The keys of a policy file of the π0 family, and how they meet the checkpoint.

The keys are those of a vLLM-Omni deploy file's ``model_config``, so that such a block can be pasted
in, plus our own. Sizes come from the checkpoint: one written here that differs refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from openpi_policy_ros.configuration.schema import Section, validate
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.pi0.config import (
    MAX_STEPS,
    MAX_TOKENS,
    Pi0Config,
    RtcSettings,
    Schedule,
)

Finite = Annotated[float, Field(allow_inf_nan=False)]


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


class Statistics(Section):
    """Statistics of one feature, one number per dimension."""

    mode: Literal['mean_std', 'min_max'] = Field(
        default='mean_std', description='mean_std: (x - mean) / std. min_max: to -1..1.'
    )
    mean: list[Finite] | None = None
    std: list[Finite] | None = None
    min: list[Finite] | None = None
    max: list[Finite] | None = None

    @model_validator(mode='after')
    def _those_of_the_mode(self) -> Statistics:
        wanted = ('mean', 'std') if self.mode == 'mean_std' else ('min', 'max')
        given = {
            name: values
            for name in ('mean', 'std', 'min', 'max')
            if (values := getattr(self, name)) is not None
        }
        if set(given) != set(wanted):
            found = ' and '.join(given) or 'neither'
            raise ValueError(f'mode {self.mode} needs {" and ".join(wanted)}, found {found}')
        (low_name, low), (high_name, high) = ((name, given[name]) for name in wanted)
        if not low or len(low) != len(high):
            raise ValueError(
                f'{low_name} has {len(low)} numbers, {high_name} {len(high)}; expected one for '
                'each dimension in both'
            )
        for index, (first, second) in enumerate(zip(low, high, strict=True)):
            if self.mode == 'mean_std' and second < 0.0:
                raise ValueError(f'std[{index}] is {second}, expected 0 or more')
            if self.mode == 'min_max' and second < first:
                raise ValueError(f'min[{index}] is {first}, above max[{index}], {second}')
        return self


class NormStats(Section):
    """Statistics for a checkpoint that carries none, as a vLLM-Omni deploy file writes them."""

    state: Statistics
    action: Statistics


class Pi0Options(Section):
    """A policy file of the π0 family without its ``policy`` key. None = the checkpoint decides."""

    chunk_size: int | None = Field(default=None, description='Rows of a chunk.')
    max_action_dim: int | None = Field(default=None, description="Columns of the model's chunk.")
    max_state_dim: int | None = Field(default=None, description="Width of the model's state.")
    image_resolution: list[int] | None = Field(
        default=None, description='[height, width] of the images the model sees.'
    )
    tokenizer_max_length: int | None = Field(
        default=None, ge=2, le=MAX_TOKENS, description='Most text tokens.'
    )
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
    norm_stats: NormStats | None = Field(
        default=None,
        description='Statistics for a checkpoint that carries none: {state: {mode: mean_std, mean, '
        'std}, action: {mode: min_max, min, max}}, either mode for either, one number per '
        'dimension.',
    )
    normalization: Literal['identity'] | None = Field(
        default=None,
        description='identity: serve a checkpoint that declares a normalisation, but carries no '
        'statistics, without normalising.',
    )
    asset_id: str | None = Field(
        default=None,
        min_length=1,
        description='openpi checkpoints: whose statistics count, where assets/ holds several.',
    )
    discrete_state_input: bool | None = Field(
        default=None,
        description='openpi π0.5: false where it was trained without the state in its text, as '
        'pi05_libero; default true.',
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
        description='What LeRobot up to 0.4.4 padded otherwise in training: letterbox bars of -3 '
        'instead of -1, and for π0.5 zeros in the text after a narrower state. No file tells it.',
    )
    rtc: RtcOptions = Field(default_factory=RtcOptions)

    @field_validator('norm_stats', mode='before')
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        # Deploy files have an empty mapping where there are none.
        return None if value == {} else value

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
