# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Give the weights of a network back under the names of a checkpoint: loading, reversed."""

from __future__ import annotations

import torch
from torch import Tensor

from openpi_policy_ros.policies.pi0.layout import EMBEDDING, PALIGEMMA_HEAD, tensors
from openpi_policy_ros.policies.pi0.model import PiModel


@torch.no_grad()
def exported_weights(model: PiModel) -> dict[str, Tensor]:
    """Return every tensor of a complete checkpoint, canonical name → float32, on the CPU.

    What no inference reads, and the network therefore does not hold, is zero, but for the head of
    the language model, which is its table of embeddings.
    """
    parameters = dict(model.named_parameters())
    weights: dict[str, Tensor] = {}
    for name, slot in tensors(model.config).items():
        if not slot.parameter:
            weights[name] = torch.zeros(slot.shape)
            continue
        # The patch embedding is stored as the kernel of a convolution.
        rows = parameters[slot.parameter][slot.row : slot.row + slot.shape[0]]
        values = rows.detach().cpu().float().reshape(slot.shape)
        weights[name] = values - 1.0 if slot.plus_one else values.clone()
    weights[PALIGEMMA_HEAD] = weights[EMBEDDING].clone()
    return weights
