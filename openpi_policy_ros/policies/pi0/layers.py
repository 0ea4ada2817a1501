# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parts the networks of the π0 family are made of: SigLIP, and Gemma over a K/V cache.

Shapes: B batch, S tokens, H heads, D head dim. Weights are undefined until a checkpoint has been
read into them. The dtype given is that of the transformers' matrices; norms, rotation, softmax
sums, patch and position embedding are float32 under any.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.policies.pi0.config import GemmaSize, Pi0Config, VisionSize

EPS = 1e-6
ROPE_THETA = 10000.0


class Linear(nn.Module):
    """A matrix product whose weights come from a checkpoint, never from an initialiser."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        device: torch.device,
        dtype: torch.dtype,
        *,
        bias: bool,
    ) -> None:
        super().__init__()
        self.weight = parameter((outputs, inputs), device, dtype)
        self.bias = parameter((outputs,), device, dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [..., inputs] projected to [..., outputs], in the weights' dtype."""
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias)


class RMSNorm(nn.Module):
    """Gemma's norm in float32. ``weight`` holds 1 + w, where a checkpoint stores w."""

    def __init__(self, width: int, device: torch.device) -> None:
        super().__init__()
        self.weight = parameter((width,), device, torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [..., width] normed, in the dtype of ``x``."""
        return F.rms_norm(x.float(), self.weight.shape, self.weight, EPS).to(x.dtype)


class LayerNorm(nn.Module):
    """SigLIP's norm in float32."""

    def __init__(self, width: int, device: torch.device) -> None:
        super().__init__()
        self.weight = parameter((width,), device, torch.float32)
        self.bias = parameter((width,), device, torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [..., width] normed, in the dtype of ``x``."""
        return F.layer_norm(x.float(), self.weight.shape, self.weight, self.bias, EPS).to(x.dtype)


class VisionLayer(nn.Module):
    """One SigLIP block."""

    def __init__(self, size: VisionSize, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        width = size.width
        self.heads = size.num_heads
        self.norm1 = LayerNorm(width, device)
        self.qkv = Linear(width, 3 * width, device, dtype, bias=True)
        self.out = Linear(width, width, device, dtype, bias=True)
        self.norm2 = LayerNorm(width, device)
        self.fc1 = Linear(width, size.mlp_dim, device, dtype, bias=True)
        self.fc2 = Linear(size.mlp_dim, width, device, dtype, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output for ``x`` [B, S, width]."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.out(mixed.reshape(batch, tokens, width))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate='tanh'))


class SigLip(nn.Module):
    """Image encoder; all cameras in one batch."""

    def __init__(self, config: Pi0Config, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        size = config.vision
        self.patch = size.patch_size
        self.dtype = dtype
        self.patch_embedding = Linear(
            3 * size.patch_size**2, size.width, device, torch.float32, bias=True
        )
        self.position_embedding = parameter((config.patches, size.width), device, torch.float32)
        self.layers = nn.ModuleList(VisionLayer(size, device, dtype) for _ in range(size.depth))
        self.post_norm = LayerNorm(size.width, device)

    def forward(self, images: Tensor) -> Tensor:
        """Return patch features [N, patches, width] of ``images`` float32 [N, 3, H, W]."""
        count, channels, height, width = images.shape
        rows, columns, side = height // self.patch, width // self.patch, self.patch
        # A convolution whose stride is its kernel is a matrix product over flattened patches.
        patches = images.reshape(count, channels, rows, side, columns, side)
        patches = patches.permute(0, 2, 4, 1, 3, 5).reshape(count, rows * columns, -1)
        x = (self.patch_embedding(patches) + self.position_embedding).to(self.dtype)
        for layer in self.layers:
            x = layer(x)
        return self.post_norm(x)


class _GemmaMatrices(nn.Module):
    """Attention and gated MLP of one Gemma block over a K/V cache, without its norms.

    Args:
        size: of the transformer.
        device: of the weights.
        dtype: of the weights.
        kv_only: have nothing but what keys and values need.

    """

    def __init__(
        self, size: GemmaSize, device: torch.device, dtype: torch.dtype, *, kv_only: bool = False
    ) -> None:
        super().__init__()
        self.queries = 0 if kv_only else size.num_heads
        self.kv_heads, self.head_dim = size.num_kv_heads, size.head_dim
        width, rows = size.width, (self.queries + 2 * self.kv_heads) * size.head_dim
        self.qkv = Linear(width, rows, device, dtype, bias=False)
        if not kv_only:
            self.out = Linear(self.queries * size.head_dim, width, device, dtype, bias=False)
            self.gate_up = Linear(width, 2 * size.mlp_dim, device, dtype, bias=False)
            self.down = Linear(size.mlp_dim, width, device, dtype, bias=False)

    def cache_normed(self, x: Tensor, rope: Tensor, cache: Tensor, start: int) -> Tensor:
        """Put keys and values into the cache and return the queries.

        Args:
            x: normed, [B, S, width].
            rope: cos and sin at the positions of ``x``, float32 [2, S, 1, D].
            cache: this layer's keys and values [2, B, KV, T, D].
            start: where in T the first token of ``x`` goes.

        Returns:
            rotated queries [B, S, H, D], H = 0 with ``kv_only``.

        """
        batch, tokens, _ = x.shape
        heads = self.qkv(x).view(batch, tokens, -1, self.head_dim)
        rotated = _rotate(heads[:, :, : self.queries + self.kv_heads], rope)
        cache[0, :, :, start : start + tokens] = rotated[:, :, self.queries :].transpose(1, 2)
        values = heads[:, :, self.queries + self.kv_heads :]
        cache[1, :, :, start : start + tokens] = values.transpose(1, 2)
        return rotated[:, :, : self.queries]

    def attend(self, x: Tensor, rope: Tensor, cache: Tensor, start: int) -> Tensor:
        """Return the attention's output [B, S, width]; arguments as for ``cache_normed``.

        Every token of ``x`` sees all that is in the cache before it, and all of ``x``.
        """
        batch, tokens, _ = x.shape
        q = self.cache_normed(x, rope, cache, start)
        k, v = cache[:, :, :, : start + tokens]
        # The heads that share keys and values are folded into the token axis: one product, and
        # no copy of K and V per head.
        share = self.queries // self.kv_heads
        q = q.view(batch, tokens, self.kv_heads, share, self.head_dim).permute(0, 2, 3, 1, 4)
        q = q.reshape(batch, self.kv_heads, share * tokens, self.head_dim)
        mixed = F.scaled_dot_product_attention(q, k, v)
        mixed = mixed.view(batch, self.kv_heads, share, tokens, self.head_dim)
        return self.out(mixed.permute(0, 3, 1, 2, 4).reshape(batch, tokens, -1))

    def mlp(self, x: Tensor) -> Tensor:
        """Return the MLP's output [B, S, width] of ``x``, normed, of the same shape."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.gelu(gate, approximate='tanh') * up)


class GemmaLayer(_GemmaMatrices):
    """One Gemma block. With ``kv_only`` it can ``write`` and nothing else."""

    def __init__(
        self, size: GemmaSize, device: torch.device, dtype: torch.dtype, *, kv_only: bool = False
    ) -> None:
        super().__init__(size, device, dtype, kv_only=kv_only)
        self.norm1 = RMSNorm(size.width, device)
        if not kv_only:
            self.norm2 = RMSNorm(size.width, device)

    def write(self, x: Tensor, rope: Tensor, cache: Tensor, start: int) -> None:
        """Put the keys and values of ``x`` [B, S, width] into the cache, as ``forward`` does."""
        self.cache_normed(self.norm1(x), rope, cache, start)

    def forward(self, x: Tensor, rope: Tensor, cache: Tensor, start: int) -> Tensor:
        """Return the block's output [B, S, width].

        Args:
            x: [B, S, width].
            rope: cos and sin at the positions of ``x``, float32 [2, S, 1, D].
            cache: this layer's keys and values [2, B, KV, T, D]; those of ``x`` go in at ``start``.
            start: where in T the first token of ``x`` goes.

        """
        x = x + self.attend(self.norm1(x), rope, cache, start)
        return x + self.mlp(self.norm2(x))


class AdaptiveLayer(_GemmaMatrices):
    """A block of π0.5's action expert: its norms come with the call, from the time."""

    def forward(
        self, x: Tensor, modulation: Tensor, rope: Tensor, cache: Tensor, start: int
    ) -> Tensor:
        """Return the block's output [B, S, width].

        Args:
            x: [B, S, width].
            modulation: factor, shift and gate before the attention, then before the MLP, float32
                [2, 3, width].
            rope, cache, start: as for ``GemmaLayer.forward``.

        """
        before_attention, before_mlp = modulation
        y = self.attend(modulated_norm(x, before_attention), rope, cache, start)
        x = _gated(x, y, before_attention)
        return _gated(x, self.mlp(modulated_norm(x, before_mlp)), before_mlp)


def modulated_norm(x: Tensor, modulation: Tensor) -> Tensor:
    """Return ``x`` [..., width] normed, scaled and shifted, in its dtype (pi0.md §5).

    Args:
        x: [..., width].
        modulation: factor (1 + scale), shift and gate, float32 [3, width].

    """
    factor, shift, _ = modulation
    return (F.rms_norm(x.float(), factor.shape, factor, EPS) + shift).to(x.dtype)


def _gated(x: Tensor, y: Tensor, modulation: Tensor) -> Tensor:
    """Return ``x + y·gate``, computed in float32, in the dtype of ``x``."""
    return torch.addcmul(x.float(), y.float(), modulation[2]).to(x.dtype)


def parameter(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, device=device, dtype=dtype), requires_grad=False)


def rope_table(length: int, head_dim: int, device: torch.device) -> Tensor:
    """Return cos and sin for each position, float32 [2, length, 1, head_dim].

    The first half of sin is negated: x·cos + roll(x)·sin then rotates the pairs (i, i + D/2).
    """
    exponent = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    frequency = 1.0 / ROPE_THETA**exponent
    angle = torch.arange(length, dtype=torch.float32)[:, None] * frequency
    cos, sin = angle.cos(), angle.sin()
    table = torch.stack([torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)])
    return table[:, :, None].to(device)


def _rotate(x: Tensor, rope: Tensor) -> Tensor:
    """Return heads ``x`` [B, S, H, D] rotated to their positions, in the dtype of ``x``."""
    wide = x.float()
    cos, sin = rope
    return torch.addcmul(wide * cos, wide.roll(x.shape[-1] // 2, -1), sin).to(x.dtype)
