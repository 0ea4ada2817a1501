# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every size, name and setting of one π0 checkpoint, in one frozen object.

Nothing downstream checks again or holds a size of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from openpi_policy_ros.errors import CheckpointError

STATE = 'observation.state'
ACTION = 'action'
MAX_STEPS = 1000
MAX_TOKENS = 10_000
"""Of a text: memory is reserved for the longest one."""
"""Most sampler steps a call may ask for: far beyond any use, but a bound on what it costs."""

Family = Literal['pi0', 'pi05']
Schedule = Literal['LINEAR', 'EXP', 'ONES', 'ZEROS']


@dataclass(frozen=True)
class GemmaSize:
    """Sizes of one Gemma transformer."""

    width: int
    depth: int
    mlp_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int


@dataclass(frozen=True)
class VisionSize:
    """Sizes of the SigLIP image encoder. The defaults are So400m/14."""

    width: int = 1152
    depth: int = 27
    mlp_dim: int = 4304
    num_heads: int = 16
    patch_size: int = 14


VARIANTS = {
    'gemma_2b': GemmaSize(2048, 18, 16384, 8, 1, 256),
    'gemma_300m': GemmaSize(1024, 18, 4096, 8, 1, 256),
}
PALIGEMMA_VOCABULARY = 257152


@dataclass(frozen=True)
class RtcSettings:
    """How real-time chunking guides (pi0.md §6).

    Attributes:
        schedule: shape of the weights over the rows of a chunk.
        max_guidance_weight: bound on the guidance.
        execution_horizon: rows guided where a call does not say.

    """

    schedule: Schedule = 'LINEAR'
    max_guidance_weight: float = 10.0
    execution_horizon: int = 10


@dataclass(frozen=True)
class Pi0Config:
    """Sizes, features and settings of a checkpoint, overrides applied.

    Attributes:
        vision, language, expert: sizes of the three transformers.
        vocab_size: rows of the text embedding.
        paligemma_variant, action_expert_variant: names the sizes started from.
        image_resolution: (height, width) the images are letterboxed to.
        image_features: VISUAL features in model order, without those that never have an image.
        image_slots: number of VISUAL features, those that never have an image counted.
        state_dim: widest state, the checkpoint's own.
        max_state_dim: width of the model's state input (zero-padded).
        action_dim: columns of a chunk that mean something.
        max_action_dim: columns of the model's chunk.
        chunk_size: rows of a chunk.
        num_inference_steps: Euler steps.
        tokenizer_max_length: most text tokens.
        min_period, max_period: of the time embedding.
        dtype: ``float32`` or ``bfloat16``.
        normalization: feature type (VISUAL, STATE, ACTION) → mode.
        action_names: labels of the action columns, where the checkpoint carries them.
        rtc: real-time chunking.
        family: ``pi0``, or ``pi05``: no state token, adaptive norms in the action expert.

    """

    vision: VisionSize
    language: GemmaSize
    expert: GemmaSize
    vocab_size: int
    paligemma_variant: str
    action_expert_variant: str
    image_resolution: tuple[int, int]
    image_features: tuple[str, ...]
    image_slots: int
    state_dim: int
    max_state_dim: int
    action_dim: int
    max_action_dim: int
    chunk_size: int
    num_inference_steps: int
    tokenizer_max_length: int
    min_period: float
    max_period: float
    dtype: str
    normalization: Mapping[str, str]
    action_names: tuple[str, ...]
    rtc: RtcSettings
    family: Family = 'pi0'

    @property
    def patches(self) -> int:
        """Return the number of tokens one image becomes."""
        height, width = self.image_resolution
        return (height // self.vision.patch_size) * (width // self.vision.patch_size)

    @property
    def max_prefix(self) -> int:
        """Return the longest prefix: every camera and a full prompt."""
        return len(self.image_features) * self.patches + self.tokenizer_max_length


def check_sizes(config: Pi0Config, directory: Path) -> None:
    """Refuse sizes that cannot belong to one model; every problem in one message."""
    language, expert, vision = config.language, config.expert, config.vision
    problems = []
    for field_name in ('depth', 'num_kv_heads', 'head_dim'):
        mine, other = getattr(language, field_name), getattr(expert, field_name)
        if mine != other:
            problems.append(
                f'{field_name} of paligemma is {mine}, of the action expert {other}; they attend '
                'to one another and must agree'
            )
    for name, size in (('paligemma', language), ('action expert', expert)):
        if size.num_heads % size.num_kv_heads:
            problems.append(
                f'{name}: {size.num_heads} heads cannot share {size.num_kv_heads} K/V heads'
            )
        if size.head_dim % 2:
            problems.append(f'{name}: head_dim {size.head_dim} is odd, rotation needs pairs')
    if expert.width % 2 or expert.width < 4:
        problems.append(f'action expert: width {expert.width} cannot hold [sin | cos] of the time')
    if vision.width % vision.num_heads:
        problems.append(f'vision: width {vision.width} cannot be split in {vision.num_heads} heads')
    if any(side < 1 or side % vision.patch_size for side in config.image_resolution):
        problems.append(
            f'image_resolution {list(config.image_resolution)} is no multiple of the patch size '
            f'{vision.patch_size}'
        )
    for name, true, most in (
        ('state', config.state_dim, config.max_state_dim),
        ('action', config.action_dim, config.max_action_dim),
    ):
        if not 1 <= true <= most:
            problems.append(f'{name} feature has {true} dimensions, max_{name}_dim is {most}')
    if config.max_period <= config.min_period:
        problems.append(f'max_period {config.max_period} <= min_period {config.min_period}')
    if problems:
        raise CheckpointError(
            '\n  - '.join([f'{directory}: {len(problems)} problem(s) with its sizes', *problems]),
            remedy='mend config.json and arch_overrides.json',
        )
