# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Seeded random weights, named and stored as the writers of each layout do.

Equal sizes, family and seed give one network, whatever the layout, the number of files or the
names: what differs between two checkpoints made here is what their files say around it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.layout import EMBEDDING, PALIGEMMA_HEAD, Slot, tensors


def random_weights(config: Pi0Config, seed: int) -> dict[str, Tensor]:
    """Return every tensor of a checkpoint of these sizes, canonical name → float32."""
    generator = torch.Generator().manual_seed(seed)
    return {name: _random(name, slot, generator) for name, slot in sorted(tensors(config).items())}


def parameter_count(config: Pi0Config) -> int:
    """Return the number of values in a checkpoint of these sizes, unused heads included."""
    return sum(math.prod(slot.shape) for slot in tensors(config).values())


def tied(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights with the one table of text embeddings stored once, as the head.

    The two names share their storage in the models that write it so, and the first by name stays.
    """
    once = {name: tensor for name, tensor in weights.items() if name != EMBEDDING}
    once[PALIGEMMA_HEAD] = weights[EMBEDDING]
    return once


def in_bfloat16(weights: Mapping[str, Tensor], kept: tuple[str, ...]) -> dict[str, Tensor]:
    """Return the weights in bfloat16, except those whose name holds one of ``kept``."""
    return {
        name: tensor if any(part in name for part in kept) else tensor.to(torch.bfloat16)
        for name, tensor in weights.items()
    }


def write_weights(
    directory: Path, weights: Mapping[str, Tensor], metadata: dict[str, str], shards: int
) -> None:
    """Write one file, or so many and their index.

    The index comes last: without it, the shards of an interrupted write are no weights to anybody.
    """
    if shards == 1:
        _write(directory / WEIGHTS, weights, metadata)
        return
    where: dict[str, str] = {}
    stem, suffix = WEIGHTS.split('.')
    for number, names in enumerate(_split(weights, shards), start=1):
        file = f'{stem}-{number:05d}-of-{shards:05d}.{suffix}'
        _write(directory / file, {name: weights[name] for name in names}, metadata)
        where |= dict.fromkeys(names, file)
    index = {
        'metadata': {'total_size': sum(tensor.nbytes for tensor in weights.values())},
        'weight_map': where,
    }
    text = json.dumps(index, indent=2, sort_keys=True) + '\n'
    (directory / f'{WEIGHTS}.index.json').write_text(text, encoding='utf-8')


def _write(path: Path, weights: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    # Not save_file: it leaves a file that only its owner can read.
    path.write_bytes(save(dict(weights), metadata=metadata))


def _split(weights: Mapping[str, Tensor], parts: int) -> list[list[str]]:
    """Return the names in so many groups of neighbours, of about equal bytes, none empty."""
    names = sorted(weights)
    rest = sum(weights[name].nbytes for name in names)
    groups: list[list[str]] = []
    for left in range(parts, 0, -1):
        group = [names.pop(0)]
        size = weights[group[0]].nbytes
        while len(names) >= left and (left == 1 or size < rest / left):
            group.append(names.pop(0))
            size += weights[group[-1]].nbytes
        rest -= size
        groups.append(group)
    return groups


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
