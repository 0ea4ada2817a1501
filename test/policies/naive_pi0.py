# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""π0 written as plainly as possible, straight from the tensors of a checkpoint file.

No shortcut of the served model is in here: masked cameras and padded text are computed and hidden
by masks, cameras go through SigLIP one by one, projections are not fused, the patch embedding is a
convolution, the whole last prefix layer is computed, and every sampler step recomputes the state
and concatenates keys and values. So that it agrees shows that the shortcuts are exact.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.policies.pi0.config import GemmaSize, Pi0Config

HIDDEN = -2.3819763e38


class NaivePi0:
    """The reference algorithm for one checkpoint."""

    def __init__(self, directory: Path, config: Pi0Config) -> None:
        self.w = {
            name.removeprefix('model.'): tensor
            for name, tensor in load_file(directory / 'model.safetensors').items()
        }
        self.config = config

    def chunk(
        self,
        images: dict[str, Tensor],
        tokens: tuple[int, ...],
        state: Tensor,
        noise: Tensor,
        steps: int,
    ) -> Tensor:
        """Return model-space actions [chunk_size, max_action_dim].

        ``images``: feature → [3, H, W] in −1..1, absent ones are masked.
        """
        config = self.config
        parts, valid = [], []
        for feature in config.image_features:
            image = images.get(feature, torch.full((3, *config.image_resolution), -1.0))
            parts.append(self.image_tokens(image))
            valid += [feature in images] * config.patches
        padding = config.tokenizer_max_length - len(tokens)
        text = torch.tensor([*tokens, *[0] * padding])
        table = self.w['paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight']
        parts.append(table[text] * math.sqrt(config.language.width))
        valid += [True] * len(tokens) + [False] * padding
        mask = torch.tensor(valid)
        prefix_kv = self.prefix(torch.cat(parts), mask)
        x = noise
        for step in range(steps):
            time = 1.0 - step / steps
            x = x - self.velocity(x, time, state, prefix_kv, mask) / steps
        return x

    def image_tokens(self, image: Tensor) -> Tensor:
        """Return [patches, width] of one image."""
        size, root = self.config.vision, 'paligemma_with_expert.paligemma.model'
        tower = f'{root}.vision_tower.vision_model'
        w = self.w
        x = F.conv2d(
            image[None],
            w[f'{tower}.embeddings.patch_embedding.weight'],
            w[f'{tower}.embeddings.patch_embedding.bias'],
            stride=size.patch_size,
        )
        x = x[0].flatten(1).T + w[f'{tower}.embeddings.position_embedding.weight']
        for layer in range(size.depth):
            name = f'{tower}.encoder.layers.{layer}'
            y = self.layer_norm(x, f'{name}.layer_norm1')
            q, k, v = (
                self.linear(y, f'{name}.self_attn.{part}_proj')
                .unflatten(-1, (size.num_heads, -1))
                .transpose(0, 1)
                for part in 'qkv'
            )
            scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
            y = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
            x = x + self.linear(y, f'{name}.self_attn.out_proj')
            y = self.linear(self.layer_norm(x, f'{name}.layer_norm2'), f'{name}.mlp.fc1')
            x = x + self.linear(F.gelu(y, approximate='tanh'), f'{name}.mlp.fc2')
        x = self.layer_norm(x, f'{tower}.post_layernorm')
        return self.linear(x, f'{root}.multi_modal_projector.linear')

    def prefix(self, x: Tensor, valid: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return keys and values per layer, all tokens of the padded prefix included."""
        positions = valid.cumsum(0) - 1
        mask = torch.where(valid[None, :] & valid[:, None], 0.0, HIDDEN)
        root = 'paligemma_with_expert.paligemma.model.language_model.layers'
        cached = []
        for layer in range(self.config.language.depth):
            x, kv = self.gemma(x, f'{root}.{layer}', self.config.language, positions, mask, None)
            cached.append(kv)
        return cached

    def velocity(
        self,
        x: Tensor,
        time: float,
        state: Tensor,
        prefix_kv: list[tuple[Tensor, Tensor]],
        valid: Tensor,
    ) -> Tensor:
        """Return the flow at ``x``, the state's token computed along."""
        config, w = self.config, self.w
        width = config.expert.width
        actions = self.linear(x, 'action_in_proj')
        emb = self.time_embedding(time).expand(len(x), width)
        hidden = F.silu(self.linear(torch.cat([actions, emb], -1), 'action_time_mlp_in'))
        actions = self.linear(hidden, 'action_time_mlp_out')
        tokens = torch.cat([self.linear(state, 'state_proj')[None], actions])
        count = len(tokens)
        own = torch.ones(count, count, dtype=torch.bool)
        own[0, 1:] = False
        seen = torch.cat([valid[None].expand(count, -1), own], -1)
        mask = torch.where(seen, 0.0, HIDDEN)
        positions = int(valid.sum()) + torch.arange(count)
        root = 'paligemma_with_expert.gemma_expert.model'
        for layer, kv in enumerate(prefix_kv):
            name = f'{root}.layers.{layer}'
            tokens, _ = self.gemma(tokens, name, config.expert, positions, mask, kv)
        normed = rms_norm(tokens, w[f'{root}.norm.weight'])
        return self.linear(normed[1:], 'action_out_proj')

    def time_embedding(self, time: float) -> Tensor:
        """Return [sin | cos] of t, from the formula, value by value."""
        config = self.config
        count = config.expert.width // 2
        t = float(torch.tensor(time, dtype=torch.float32))
        ratio = config.max_period / config.min_period
        angles = [
            2 * math.pi * t / (config.min_period * ratio ** (i / (count - 1))) for i in range(count)
        ]
        return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])

    def gemma(
        self,
        x: Tensor,
        name: str,
        size: GemmaSize,
        positions: Tensor,
        mask: Tensor,
        earlier: tuple[Tensor, Tensor] | None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return a block's output and its own keys and values [KV, S, D]."""
        y = rms_norm(x, self.w[f'{name}.input_layernorm.weight'])
        q, k, v = (
            (y @ self.w[f'{name}.self_attn.{part}_proj.weight'].T)
            .unflatten(-1, (-1, size.head_dim))
            .transpose(0, 1)
            for part in 'qkv'
        )
        q, k = rotate(q, positions), rotate(k, positions)
        own = (k, v)
        if earlier is not None:
            k, v = torch.cat([earlier[0], k], 1), torch.cat([earlier[1], v], 1)
        share = size.num_heads // size.num_kv_heads
        k, v = k.repeat_interleave(share, 0), v.repeat_interleave(share, 0)
        scores = q @ k.transpose(1, 2) / math.sqrt(size.head_dim) + mask
        y = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
        x = x + y @ self.w[f'{name}.self_attn.o_proj.weight'].T
        y = rms_norm(x, self.w[f'{name}.post_attention_layernorm.weight'])
        gate = F.gelu(y @ self.w[f'{name}.mlp.gate_proj.weight'].T, approximate='tanh')
        up = y @ self.w[f'{name}.mlp.up_proj.weight'].T
        return x + (gate * up) @ self.w[f'{name}.mlp.down_proj.weight'].T, own

    def linear(self, x: Tensor, name: str) -> Tensor:
        """Return a biased projection."""
        return x @ self.w[f'{name}.weight'].T + self.w[f'{name}.bias']

    def layer_norm(self, x: Tensor, name: str) -> Tensor:
        """Return SigLIP's norm."""
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        normed = (x - mean) / torch.sqrt(variance + 1e-6)
        return normed * self.w[f'{name}.weight'] + self.w[f'{name}.bias']


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Return Gemma's norm."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * (1.0 + weight)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Return ``x`` [H, S, D] with the pairs (i, i + D/2) rotated by position."""
    half = x.shape[-1] // 2
    frequency = 1.0 / 10000.0 ** (torch.arange(half) * 2.0 / x.shape[-1])
    angle = positions[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
