# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Seeded random weights of a DreamZero checkpoint, published name → tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig
from openpi_policy_ros.policies.dreamzero.remap import PREFIXES, Slot

_ACTION_GAIN = 0.3
"""Velocities of the actions stay small, so that chunks stay near the drawn noise, of size one."""


def random_weights(
    expected: Mapping[str, Slot], config: DreamZeroConfig, seed: int
) -> dict[str, Tensor]:
    """Return every tensor, float32.

    Args:
        expected: what ``remap.slots`` returned.
        config: sizes.
        seed: equal sizes and seed give equal weights.

    """
    generator = torch.Generator().manual_seed(seed)
    # UMT5 does not scale its scores: the projection of the queries does.
    head = config.text.dim_attn // config.text.num_heads
    weights = {}
    for name, slot in sorted(expected.items()):
        values = torch.randn(slot.shape, generator=generator) * _scale(name, slot.shape)
        if name.startswith(PREFIXES['text']) and name.endswith('.attn.q.weight'):
            values /= math.sqrt(head)
        if '.action_decoder.layer2.' in name:
            values *= _ACTION_GAIN
        weights[name] = values + 1.0 if _is_gain(name, slot.shape) else values
    return weights


def _is_gain(name: str, shape: tuple[int, ...]) -> bool:
    """Return whether a norm multiplies by it."""
    one_axis = len(shape) > 0 and math.prod(shape[1:]) == 1
    return name.endswith('.gamma') or (one_axis and name.endswith('.weight') and len(shape) == 1)


def _scale(name: str, shape: tuple[int, ...]) -> float:
    """Return what keeps activations near unit size, so that every input matters."""
    if _is_gain(name, shape) or name.endswith(('embedding', 'log_scale')):
        return 0.1
    if name.endswith(('.bias', '.b')):
        return 0.02
    if name.endswith(('.modulation', 'pos_embedding.embedding.weight')):
        return 0.5
    if name.endswith('token_embedding.weight'):
        return 1.0
    # Stored [1, inputs, outputs], not [outputs, inputs, …].
    inputs = shape[1] if name.endswith('.W') else math.prod(shape[1:])
    return 1.0 / math.sqrt(inputs)
