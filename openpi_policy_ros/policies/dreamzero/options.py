# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The keys of a policy file of DreamZero.

Those of a vLLM-Omni deploy file's ``model_config``, ``parallel_config`` and ``cache_config``, so
that such blocks can be pasted in, plus our own. Sizes come from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from openpi_policy_ros.configuration.schema import Section, validate

StepCacheName: TypeAlias = Literal['static8', 'dynamic', 'off']

STATIC_STEPS = 16
"""Sampler steps that the fixed mask of ``static8`` is made for."""
MAX_STEPS = 1000
"""Most sampler steps: the network knows so many times."""
MAX_SEED = 2**64 - 1

Similarity = Annotated[float, Field(ge=-1.0, le=1.0)]
Countdown = Annotated[int, Field(ge=1, le=MAX_STEPS)]

_NO_CACHE = ('none', 'off')


class DreamZeroOptions(Section):
    """A policy file of DreamZero without its ``policy`` key."""

    default_robot_embodiment: Literal['roboarena', 'droid'] = Field(
        default='roboarena',
        description='Observation keys where no robot file names them: roboarena counts exterior '
        'cameras from 0, droid from 1.',
    )
    embodiment: str = Field(
        default='oxe_droid',
        min_length=1,
        description='Whose statistics of experiment_cfg/metadata.json count. Only oxe_droid, two '
        'exterior views and one of the wrist, is served.',
    )
    num_inference_steps: int = Field(
        default=STATIC_STEPS, ge=1, le=MAX_STEPS, description='Sampler steps of a call.'
    )
    cfg_scale: float = Field(
        default=5.0,
        ge=0.0,
        le=100.0,
        description='Guidance of the video by the prompt; the actions never have any.',
    )
    sigma_shift: float = Field(
        default=5.0, ge=0.01, le=100.0, description='Shift of the noise levels towards noise.'
    )
    seed: int = Field(
        default=1140,
        ge=0,
        le=MAX_SEED,
        description='Seed of every call that brings none; the reference starts each call from it.',
    )
    negative_prompt: str | None = Field(
        default=None,
        min_length=1,
        description="What the guidance leads away from; absent: Wan's list for videos.",
    )
    step_cache: StepCacheName | None = Field(
        default=None,
        description='Which sampler steps ask the network: static8, 8 of 16 by a fixed mask (what '
        'counts when nothing says otherwise); dynamic, fewer while the video hardly turns; off, '
        'all.',
    )
    step_cache_dit_enabled: bool | None = Field(
        default=None,
        description="vLLM-Omni's cache_config: true is step_cache dynamic, false is off.",
    )
    cache_backend: str | None = Field(
        default=None,
        description="vLLM-Omni's: step_cache, or none, which is step_cache off.",
    )
    velocity_sim_thresholds: list[Similarity] = Field(
        default_factory=lambda: [0.95, 0.93],
        min_length=1,
        max_length=8,
        description='dynamic: cosines of the last two flows of the video above which steps are '
        'skipped, falling.',
    )
    velocity_skip_countdowns: list[Countdown] = Field(
        default_factory=lambda: [4, 2],
        min_length=1,
        max_length=8,
        description='dynamic: steps skipped above each of the thresholds.',
    )
    decouple_inference_noise: bool | None = Field(
        default=None,
        description='Whether the video ends at a noise level of its own; absent: the '
        "checkpoint's word.",
    )
    video_inference_final_noise: float | None = Field(
        default=None, ge=0.0, lt=1.0, description="That level; absent: the checkpoint's."
    )
    noise_device: Literal['model', 'cpu'] = Field(
        default='model',
        description="Whose generator draws the noise: the model's device, as the reference does, "
        'or cpu, the same noise on every device.',
    )
    dtype: Literal['float32', 'bfloat16'] | None = Field(
        default=None, description='What is computed in; absent: what the weights are stored in.'
    )
    offload_text: bool = Field(
        default=False,
        description="Keep the text encoder in the host's memory except while it encodes: 11 GB "
        'of the GPU in bfloat16, for some seconds at each new prompt.',
    )
    batch_guidance: Literal[True, False, 'auto'] = Field(
        default='auto',
        description='Run both branches of the guidance as one batch, or (false) one after the '
        'other, which needs less memory at a time. auto: one batch where there is room.',
    )
    cfg_parallel_size: Literal[1, 2] = Field(
        default=1, description='2: one branch of the guidance on each of two devices.'
    )
    relative_action: bool | None = Field(
        default=None,
        description='Whether the joints of a chunk are differences from the measured ones. '
        'Absent: what experiment_cfg/conf.yaml says, else true.',
    )
    relative_action_dim: int | None = Field(
        default=None,
        description="vLLM-Omni's: columns that are such differences; the joints' 7 or nothing.",
    )
    action_norm_stats_path: str | None = Field(
        default=None,
        min_length=1,
        description='A metadata.json instead of that of the checkpoint; a relative path also from '
        'beside this file.',
    )
    embodiment_name_to_id: dict[str, int] = Field(
        default_factory=dict,
        description="vLLM-Omni's; without effect, as the network overwrites the number with 0.",
    )
    max_sessions: int | None = Field(
        default=None, ge=1, description='Most sessions at a time; absent: as many as fit.'
    )
    session_memory: float | None = Field(
        default=None,
        gt=0.0,
        le=2**20,
        description="Memory for all sessions' keys and values, GiB; absent: what is free after "
        'warming up.',
    )
    imagined: bool = Field(
        default=False, description='Decode the video that the model imagined with each chunk.'
    )
    tokenizer: str | None = Field(
        default=None,
        description='tokenizer.json, a directory that holds one, or a hub id; absent: the '
        "checkpoint's own, else google/umt5-xxl.",
    )
    view_size: list[int] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description='[height, width] of one view as the model sees it; absent: the resolution in '
        'metadata.json, down to multiples of 16.',
    )
    optional_cameras: list[str] = Field(
        default_factory=list,
        description='Cameras whose image may be missing: their view is black then, as one exterior '
        'view at times was in training.',
    )
    default_prompt: str | None = Field(
        default=None, min_length=1, description='Instruction used where a request carries none.'
    )
    truncate_prompt: bool = Field(
        default=False, description='Cut an over-long text instead of refusing it.'
    )
    policy_server_config: dict[str, Any] | None = Field(
        default=None, description='Handshake, sent verbatim to OpenPI clients; absent = none.'
    )

    @field_validator('embodiment')
    @classmethod
    def _served(cls, value: str) -> str:
        if value != 'oxe_droid':
            raise ValueError(
                f'{value!r} is not served: its views and text are others; expected oxe_droid'
            )
        return value

    @field_validator('cache_backend')
    @classmethod
    def _known_backend(cls, value: str | None) -> str | None:
        if value not in (None, 'step_cache', *_NO_CACHE):
            raise ValueError(f'expected step_cache or none, found {value!r}')
        return value

    @field_validator('default_prompt')
    @classmethod
    def _some_text(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError('is blank; write what the robot is to do, or remove the line')
        return value

    @field_validator('relative_action_dim')
    @classmethod
    def _the_joints(cls, value: int | None) -> int | None:
        if value not in (None, 7):
            raise ValueError(
                f'is {value}, but the differences are those of the 7 joints; write 7 or remove '
                'the line (relative_action: false for a checkpoint without any)'
            )
        return value

    @field_validator('view_size')
    @classmethod
    def _whole_patches(cls, value: list[int] | None) -> list[int] | None:
        if value is not None and any(side < 16 or side % 16 for side in value):
            raise ValueError(
                f'is {value}, expected [height, width] in multiples of 16, which the encoder and '
                'the patches of the network divide by'
            )
        return value

    @model_validator(mode='after')
    def _one_step_cache(self) -> DreamZeroOptions:
        said: dict[str, StepCacheName] = {}
        if self.step_cache is not None:
            said[f'step_cache is {self.step_cache}'] = self.step_cache
        if self.step_cache_dit_enabled is not None:
            means: StepCacheName = 'dynamic' if self.step_cache_dit_enabled else 'off'
            written = str(self.step_cache_dit_enabled).lower()
            said[f'step_cache_dit_enabled is {written}, which means {means}'] = means
        if self.cache_backend in _NO_CACHE:
            said[f'cache_backend is {self.cache_backend}, which means off'] = 'off'
        if len(set(said.values())) > 1:
            raise ValueError(f'{", but ".join(said)}; leave one of them')
        if self.chosen_step_cache == 'static8' and self.num_inference_steps != STATIC_STEPS:
            raise ValueError(
                f'num_inference_steps is {self.num_inference_steps}, but step_cache static8 is a '
                f'mask for {STATIC_STEPS} steps; set step_cache: dynamic or off'
            )
        return self

    @model_validator(mode='after')
    def _thresholds_fit(self) -> DreamZeroOptions:
        thresholds, countdowns = self.velocity_sim_thresholds, self.velocity_skip_countdowns
        if len(thresholds) != len(countdowns):
            raise ValueError(
                f'velocity_sim_thresholds has {len(thresholds)} entries, velocity_skip_countdowns '
                f'{len(countdowns)}; expected one countdown for each threshold'
            )
        if thresholds != sorted(set(thresholds), reverse=True):
            raise ValueError(
                f'velocity_sim_thresholds is {thresholds}, expected falling numbers: the first one '
                'that is exceeded counts'
            )
        return self

    @model_validator(mode='after')
    def _one_way_to_run_both(self) -> DreamZeroOptions:
        if self.batch_guidance is True and self.cfg_parallel_size == 2:
            raise ValueError(
                'batch_guidance is true, but cfg_parallel_size is 2: each of two devices runs one '
                'branch; remove one of the lines'
            )
        return self

    @property
    def chosen_step_cache(self) -> StepCacheName:
        """Return the step cache that the three keys about it mean together."""
        if self.step_cache is not None:
            return self.step_cache
        if self.step_cache_dit_enabled is not None:
            return 'dynamic' if self.step_cache_dit_enabled else 'off'
        return 'off' if self.cache_backend in _NO_CACHE else 'static8'


def read_options(values: Mapping[str, Any] | None, source: str) -> DreamZeroOptions:
    """Return the validated policy file; without one, nothing is overridden."""
    return validate(DreamZeroOptions, values or {}, source)
