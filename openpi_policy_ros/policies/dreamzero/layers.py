# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parts of DreamZero's diffusion transformer; names of parameters as published.

Shapes: B branches of the guidance, S tokens, H heads, D head dim. Sources: Wan 2.1 (block, head,
time), the DreamZero reference (encoders and decoder of actions and state).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.policies.dreamzero.config import PATCH, DitConfig
from openpi_policy_ros.policies.dreamzero.kv import Pair
from openpi_policy_ros.policies.dreamzero.rope import rotate

_PERIOD = 10000.0
MODULATIONS = 6
"""Of a block: shift, scale and gate of its attention, then of its MLP."""


def time_sinusoid(t: int, width: int) -> Tensor:
    """Return [cos | sin] of a time in 0..1000, float64 [1, width] (Wan 2.1)."""
    half = width // 2
    angles = t * _PERIOD ** (-torch.arange(half, dtype=torch.float64) / half)
    return torch.cat([angles.cos(), angles.sin()])[None]


def action_sinusoid(t: int, width: int) -> Tensor:
    """Return [sin | cos] of a time in 0..1000, float32 [1, width] (DreamZero reference).

    It is computed in float32, whose error at t = 999 (6e-5) is part of what was trained.
    """
    half = width // 2
    exponent = -torch.arange(half, dtype=torch.float32) * (math.log(_PERIOD) / half)
    angles = t * exponent.exp()
    return torch.cat([angles.sin(), angles.cos()])[None]


def modulate(x: Tensor, shift: Tensor, scale: Tensor, eps: float) -> Tensor:
    """Return ``x`` [B, S, dim] normed, scaled by 1 + ``scale``, shifted; both [1, 1 or S, dim]."""
    return F.layer_norm(x, x.shape[-1:], eps=eps) * (1 + scale) + shift


class RMSNorm(nn.Module):
    """Norm over the full width, before heads are split; float32 inside."""

    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [..., dim] normed, in its dtype, then times the weight."""
        return F.rms_norm(x.float(), x.shape[-1:], eps=self.eps).to(x.dtype) * self.weight


def attention(q: Tensor, kv: Pair) -> Tensor:
    """Return softmax(q·kᵀ/√D)·v, [B, S, H·D], without a mask.

    Args:
        q: [B, S, H, D].
        kv: each [B, L, H, D]; the batch may also be 1, for all branches.

    """
    k, v = (item.expand(q.shape[0], -1, -1, -1).transpose(1, 2) for item in kv)
    return F.scaled_dot_product_attention(q.transpose(1, 2), k, v).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Attention among the tokens of a window."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads = config.num_heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.norm_q = RMSNorm(dim, config.eps)
        self.norm_k = RMSNorm(dim, config.eps)

    def keys(self, x: Tensor, rope: Tensor) -> Pair:
        """Compute normed, rotated keys, and values, of ``x`` [B, S, dim], each [B, S, H, D]."""
        heads = (self.heads, -1)
        k = rotate(self.norm_k(self.k(x)).unflatten(-1, heads), rope)
        return k, self.v(x).unflatten(-1, heads)

    def forward(self, x: Tensor, rope: Tensor, place: Callable[[Tensor, Tensor], Pair]) -> Tensor:
        """Return what the tokens ``x`` [B, S, dim] read.

        Args:
            x: normed and modulated tokens.
            rope: their table.
            place: (keys, values of ``x``) → all keys and values that are attended to.

        """
        kv = place(*self.keys(x, rope))
        q = rotate(self.norm_q(self.q(x)).unflatten(-1, (self.heads, -1)), rope)
        return self.o(attention(q, kv))


class CrossAttention(nn.Module):
    """Attention to the text and to the picture, which have keys of their own and one query."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        dim = config.dim
        self.heads = config.num_heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.norm_q = RMSNorm(dim, config.eps)
        self.norm_k = RMSNorm(dim, config.eps)
        self.k_img = nn.Linear(dim, dim)
        self.v_img = nn.Linear(dim, dim)
        self.norm_k_img = RMSNorm(dim, config.eps)

    def text_keys(self, text: Tensor) -> Pair:
        """Return keys and values of the text ``text`` [B, L, dim], each [B, L, H, D]."""
        heads = (self.heads, -1)
        return self.norm_k(self.k(text)).unflatten(-1, heads), self.v(text).unflatten(-1, heads)

    def image_keys(self, image: Tensor) -> Pair:
        """Return keys and values of the picture ``image`` [1, 257, dim], each [1, 257, H, D]."""
        heads = (self.heads, -1)
        keys = self.norm_k_img(self.k_img(image)).unflatten(-1, heads)
        return keys, self.v_img(image).unflatten(-1, heads)

    def forward(self, x: Tensor, text: Pair, image: Pair) -> Tensor:
        """Return what the tokens ``x`` [B, S, dim] read from ``text`` and ``image``."""
        q = self.norm_q(self.q(x)).unflatten(-1, (self.heads, -1))
        return self.o(attention(q, text) + attention(q, image))


class Block(nn.Module):
    """One block of the transformer."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        dim, self.eps = config.dim, config.eps
        self.self_attn = SelfAttention(config)
        self.norm3 = nn.LayerNorm(dim, config.eps)
        self.cross_attn = CrossAttention(config)
        self.ffn = nn.Sequential(
            nn.Linear(dim, config.ffn_dim),
            nn.GELU(approximate='tanh'),
            nn.Linear(config.ffn_dim, dim),
        )
        self.modulation = nn.Parameter(torch.randn(1, MODULATIONS, dim) / dim**0.5)

    def keys(self, x: Tensor, time: Time, rope: Tensor) -> Pair:
        """Return only the keys and values that ``forward`` would put in their place."""
        shift, scale = self._modulation(time)[:2]
        return self.self_attn.keys(modulate(x, shift, scale, self.eps), rope)

    def forward(
        self,
        x: Tensor,
        time: Time,
        rope: Tensor,
        place: Callable[[Tensor, Tensor], Pair],
        text: Pair,
        image: Pair,
    ) -> Tensor:
        """Return the block's output for ``x`` [B, S, dim].

        Args:
            x: tokens.
            time: of them.
            rope: their table.
            place: see ``SelfAttention``.
            text, image: keys and values of the cross-attention.

        """
        shift1, scale1, gate1, shift2, scale2, gate2 = self._modulation(time)
        normed = modulate(x, shift1, scale1, self.eps)
        x = x + gate1 * self.self_attn(normed, rope, place)
        x = x + self.cross_attn(self.norm3(x), text, image)
        return x + gate2 * self.ffn(modulate(x, shift2, scale2, self.eps))

    def _modulation(self, time: Time) -> list[Tensor]:
        rows = self.modulation + time.rows
        return [time.spread(rows[:, index]) for index in range(MODULATIONS)]


class Time:
    """What the distinct times of a forward add to every block.

    Args:
        rows: of each distinct time, [G, 6, dim].
        lengths: tokens that have it; () = one time for all.

    """

    def __init__(self, rows: Tensor, lengths: Sequence[int] = ()) -> None:
        self.rows = rows
        self.lengths = tuple(lengths)

    def spread(self, rows: Tensor) -> Tensor:
        """Return ``rows`` [G, dim] for every token: [1, 1, dim] for one time, else [1, S, dim]."""
        if not self.lengths:
            return rows[None]
        parts = zip(rows, self.lengths, strict=True)
        return torch.cat([row.expand(length, -1) for row, length in parts])[None]


class Head(nn.Module):
    """From tokens to the flow of their patches."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        self.eps = config.eps
        self.head = nn.Linear(config.dim, PATCH * PATCH * config.out_dim)
        self.modulation = nn.Parameter(torch.randn(1, 2, config.dim) / config.dim**0.5)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """Return [B, S, 4 · channels] for ``x`` [B, S, dim] of one ``time`` [1, dim]."""
        shift, scale = (self.modulation + time[:, None]).unbind(dim=1)
        return self.head(modulate(x, shift[:, None], scale[:, None], self.eps))


class ImageEmbedding(nn.Module):
    """From CLIP's features to the transformer's width."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        self.proj = nn.Sequential(
            nn.LayerNorm(config.clip_dim),
            nn.Linear(config.clip_dim, config.clip_dim),
            nn.GELU(),
            nn.Linear(config.clip_dim, config.dim),
            nn.LayerNorm(config.dim),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Return [B, 257, dim] of ``features`` [B, 257, clip_dim]."""
        return self.proj(features)


class CategoryLinear(nn.Module):
    """A product whose weights have a leading axis for the kind of robot, of length 1."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(1, inputs, outputs) / inputs**0.5)
        self.b = nn.Parameter(torch.zeros(1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [..., inputs] · W + b."""
        return x @ self.W[0] + self.b[0]


class CategoryMlp(nn.Module):
    """Two such products with a ReLU between them: the state encoder, the action decoder."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.layer1 = CategoryLinear(inputs, hidden)
        self.layer2 = CategoryLinear(hidden, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return [..., outputs] of ``x`` [..., inputs]."""
        return self.layer2(F.relu(self.layer1(x)))


class ActionEncoder(nn.Module):
    """Tokens of noisy actions."""

    def __init__(self, config: DitConfig) -> None:
        super().__init__()
        dim = config.dim
        self.W1 = CategoryLinear(config.action_dim, dim)
        self.W2 = CategoryLinear(2 * dim, dim)
        self.W3 = CategoryLinear(dim, dim)

    def forward(self, actions: Tensor, time: Tensor) -> Tensor:
        """Return [B, A, dim] of ``actions`` [B, A, action_dim] at ``time``, a sinusoid [1, dim]."""
        embedded = self.W1(actions)
        both = torch.cat([embedded, time.expand_as(embedded)], dim=-1)
        return self.W3(F.silu(self.W2(both)))
