# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the weights of a π0 checkpoint, every tensor accounted for.

A tensor that is missing, unknown or of another shape refuses: a network that is random in one
layer still answers, and moves a robot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.layout import EMBEDDING, PALIGEMMA_HEAD, tensors
from openpi_policy_ros.policies.pi0.matching import match_tensors
from openpi_policy_ros.policies.pi0.model import Pi0Model
from openpi_policy_ros.policies.weight_files import header_of, opened


def load_weights(directory: Path, config: Pi0Config, device: torch.device) -> tuple[Pi0Model, str]:
    """Return the model with the weights in ``directory``, and their digest.

    Each tensor is mapped, converted and copied straight to its place on the device; the unused
    ones (both vocabulary heads, the end of the last prefix layer) are never read.

    Returns:
        the model, and 12 hexadecimal digits that tell two sets of weights apart: SHA-256 over
        name, type, shape and stored bytes of every tensor that is served.

    Raises:
        CheckpointError: no weights, a damaged file, or every tensor that is missing, unknown,
            wrongly shaped or of a type that is not a float.

    """
    path = directory / WEIGHTS
    with opened(path, 'pt') as file:
        sources = match_tensors(header_of(file), config, str(path))
        model = Pi0Model(config, device, getattr(torch, config.dtype))
        digest = _fill(model, file, sources, config)
    return model, digest


@torch.no_grad()
def _fill(model: Pi0Model, file: Any, sources: Mapping[str, str], config: Pi0Config) -> str:
    parameters = dict(model.named_parameters())
    digest = hashlib.sha256()
    filled: dict[str, int] = dict.fromkeys(parameters, 0)
    for name, slot in sorted(tensors(config).items()):
        if not slot.parameter:
            continue
        stored = sources.get(name, sources.get(PALIGEMMA_HEAD) if name == EMBEDDING else None)
        assert stored is not None, name
        tensor: Tensor = file.get_tensor(stored)
        digest.update(f'{name} {tensor.dtype} {list(tensor.shape)}'.encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
        parameter = parameters[slot.parameter]
        rows = parameter[slot.row : slot.row + tensor.shape[0]]
        # In float32 first: 1 + w in a narrow type would lose what w says.
        values = tensor.float() + 1.0 if slot.plus_one else tensor
        rows.copy_(values.reshape(rows.shape))
        filled[slot.parameter] += rows.numel()
    short = [name for name, count in filled.items() if count != parameters[name].numel()]
    if short:
        raise AssertionError(f'layout.py leaves parameters of the model unfilled: {short}')
    return digest.hexdigest()[:12]
