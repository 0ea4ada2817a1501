# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Behaviour cloning of a π0: the network that is served, run in batches with gradients.

The loss is the flow matching of π0 (Black et al. 2024, arXiv:2410.24164, eq. 1) as LeRobot and
openpi write it: x_t = t·noise + (1 − t)·actions, and the network learns noise − actions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.policies.pi0.layers import GemmaLayer
from openpi_policy_ros.policies.pi0.model import Pi0Model

_ALPHA = 1.5
"""t is drawn from Beta(α, 1): the noisy end counts more, as in π0."""


@dataclass(frozen=True)
class Batch:
    """Samples of one prompt, in the network's units.

    Attributes:
        images: float32 [B, C, 3, H, W] in −1..1, cameras in the order of the checkpoint.
        tokens: of the prompt, int64 [T].
        state: normalised, float32 [B, max_state_dim].
        actions: normalised, float32 [B, chunk_size, max_action_dim].
        places: where the objects are, float32 [B, P]; what the helper head learns.

    """

    images: Tensor
    tokens: Tensor
    state: Tensor
    actions: Tensor
    places: Tensor


class PlaceHead(nn.Module):
    """Tells from the image tokens where the objects are.

    It is trained along and thrown away: what it needs, the actions need too, and it is learnt
    sooner from a direct answer.
    """

    def __init__(self, tokens: int, width: int, places: int) -> None:
        super().__init__()
        self.narrow = nn.Linear(width, 16)
        self.out = nn.Linear(16 * tokens, places)

    def forward(self, image_tokens: Tensor) -> Tensor:
        """Return places [B, P] of image tokens [B, S, width]."""
        answer: Tensor = self.out(F.gelu(self.narrow(image_tokens)).flatten(1))
        return answer


def initialise(model: Pi0Model, generator: torch.Generator) -> None:
    """Fill a network with weights to start training from, and let them be trained."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(False)
        if name.endswith('bias'):
            parameter.zero_()
        elif parameter.dim() == 1:
            # Norms: ours hold 1 + w.
            parameter.fill_(1.0)
        elif name == 'embedding' or 'position_embedding' in name:
            parameter.copy_(0.02 * torch.randn(parameter.shape, generator=generator))
        else:
            spread = 1.0 / math.sqrt(parameter.shape[1])
            parameter.copy_(spread * torch.randn(parameter.shape, generator=generator))
    # Nothing is added to the residual stream at first but what training puts there.
    for module in (*model.vision.layers, *model.prefix[:-1], *model.expert):
        module.out.weight.mul_(0.3)
        (module.down if hasattr(module, 'down') else module.fc2).weight.mul_(0.3)
    model.action_out_proj.weight.mul_(0.1)
    for parameter in model.parameters():
        parameter.requires_grad_(True)


def image_tokens(model: Pi0Model, images: Tensor) -> Tensor:
    """Return tokens [B, C · patches, width] of images [B, C, 3, H, W]."""
    batch, cameras = images.shape[:2]
    return model.embed_images(images.flatten(0, 1)).unflatten(0, (batch, cameras)).flatten(1, 2)


def velocities(
    model: Pi0Model, seen: Tensor, tokens: Tensor, state: Tensor, x: Tensor, times: Tensor
) -> Tensor:
    """Return the flow at ``x``, as ``Pi0Model.velocity`` does for one sample.

    The cache of the served network is written in place, which a gradient cannot pass; here each
    group of tokens gets a copy.

    Args:
        model: of the family pi0.
        seen: image tokens [B, S, width].
        tokens: int64 [T].
        state: [B, max_state_dim].
        x: [B, K, chunk_size, max_action_dim]: K draws per sample share its prefix.
        times: [B, K].

    Returns:
        [B, K, chunk_size, max_action_dim].

    """
    batch, draws, rows, _ = x.shape
    config = model.config
    words = F.embedding(tokens, model.embedding) * math.sqrt(config.language.width)
    prefix = torch.cat([seen, words[None].expand(batch, -1, -1)], dim=1)
    length = prefix.shape[1]
    shape = (2, batch, config.language.num_kv_heads, length + 1, config.language.head_dim)
    caches = [prefix.new_zeros(shape) for _ in model.prefix]
    rope = model.rope[:, :length]
    for layer, cache in zip(model.prefix[:-1], caches, strict=False):
        prefix = layer(prefix, rope, cache, 0)
    cast('GemmaLayer', model.prefix[-1]).write(prefix, rope, caches[-1], 0)

    caches = [cache.clone() for cache in caches]
    token = model.state_proj(state)[:, None]
    rope = model.rope[:, length : length + 1]
    for layer, cache in zip(model.expert[:-1], caches, strict=False):
        token = layer(token, rope, cache, length)
    cast('GemmaLayer', model.expert[-1]).write(token, rope, caches[-1], length)

    start = length + 1
    width = config.expert.width
    mlp = model.action_time_mlp_in
    time_row = model.time_table(times.flatten())[:, None]
    hidden = F.linear(model.action_in_proj(x.flatten(0, 1)), mlp.weight[:, :width])
    chunk = model.action_time_mlp_out(F.silu(hidden + time_row))
    rope = model.rope[:, start : start + rows]
    for layer, cache in zip(model.expert, caches, strict=True):
        wide = cache.repeat_interleave(draws, dim=1)
        room = wide.new_zeros((*wide.shape[:3], rows, wide.shape[4]))
        chunk = layer(chunk, rope, torch.cat([wide, room], dim=3), start)
    return model.action_out_proj(model.expert_norm(chunk)).unflatten(0, (batch, draws))


def flow_loss(
    model: Pi0Model, seen: Tensor, batch: Batch, draws: int, generator: torch.Generator
) -> Tensor:
    """Return the mean squared error of the flow at ``draws`` random points per sample."""
    size = len(batch.state)
    noise = torch.randn((size, draws, *batch.actions.shape[1:]), generator=generator)
    # Beta(α, 1) by inversion.
    times = torch.rand((size, draws), generator=generator) ** (1.0 / _ALPHA) * 0.999 + 0.001
    mixed = times[..., None, None]
    actions = batch.actions[:, None]
    x = mixed * noise + (1.0 - mixed) * actions
    found = velocities(model, seen, batch.tokens, batch.state, x, times)
    return F.mse_loss(found, noise - actions)
