# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The whole π0 network: SigLIP, the Gemma prefix, the action expert, one static K/V cache.

Three stages run once per chunk (``embed_images``, ``prefill``, ``append_state``), one runs per
sampler step (``velocity``). No attention here needs a mask: masked cameras and text padding are
left out instead of computed and hidden (positions come from a cumulative sum over valid tokens, so
that nothing moves), and the three groups of tokens enter the cache in the order in which they may
see one another: prefix, state, actions. Shapes: B batch, S tokens, H heads, D head dim.

Under bfloat16 the transformers' matrices are bfloat16; norms, rotation, softmax sums, patch and
position embedding, the action and time projections and the sampler's x stay float32.
"""

from __future__ import annotations

import math
from typing import cast

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
        self.weight = _parameter((outputs, inputs), device, dtype)
        self.bias = _parameter((outputs,), device, dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [..., inputs] projected to [..., outputs], in the weights' dtype."""
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias)


class RMSNorm(nn.Module):
    """Gemma's norm in float32. ``weight`` holds 1 + w, where a checkpoint stores w."""

    def __init__(self, width: int, device: torch.device) -> None:
        super().__init__()
        self.weight = _parameter((width,), device, torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` [..., width] normed, in the dtype of ``x``."""
        return F.rms_norm(x.float(), self.weight.shape, self.weight, EPS).to(x.dtype)


class LayerNorm(nn.Module):
    """SigLIP's norm in float32."""

    def __init__(self, width: int, device: torch.device) -> None:
        super().__init__()
        self.weight = _parameter((width,), device, torch.float32)
        self.bias = _parameter((width,), device, torch.float32)

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
        self.position_embedding = _parameter((config.patches, size.width), device, torch.float32)
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


class GemmaLayer(nn.Module):
    """One Gemma block that reads and writes a K/V cache.

    With ``kv_only`` it has nothing but what its keys and values need.
    """

    def __init__(
        self, size: GemmaSize, device: torch.device, dtype: torch.dtype, *, kv_only: bool = False
    ) -> None:
        super().__init__()
        self.queries = 0 if kv_only else size.num_heads
        self.kv_heads, self.head_dim = size.num_kv_heads, size.head_dim
        width, rows = size.width, (self.queries + 2 * self.kv_heads) * size.head_dim
        self.norm1 = RMSNorm(width, device)
        self.qkv = Linear(width, rows, device, dtype, bias=False)
        if not kv_only:
            self.out = Linear(self.queries * size.head_dim, width, device, dtype, bias=False)
            self.norm2 = RMSNorm(width, device)
            self.gate_up = Linear(width, 2 * size.mlp_dim, device, dtype, bias=False)
            self.down = Linear(size.mlp_dim, width, device, dtype, bias=False)

    def write(self, x: Tensor, rope: Tensor, cache: Tensor, start: int) -> Tensor:
        """Put the keys and values of ``x`` into the cache and return its queries.

        Args:
            x: [B, S, width].
            rope: cos and sin at the positions of ``x``, float32 [2, S, 1, D].
            cache: this layer's keys and values [2, B, KV, T, D].
            start: where in T the first token of ``x`` goes.

        Returns:
            rotated queries [B, S, H, D], H = 0 with ``kv_only``.

        """
        batch, tokens, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, tokens, -1, self.head_dim)
        rotated = _rotate(heads[:, :, : self.queries + self.kv_heads], rope)
        cache[0, :, :, start : start + tokens] = rotated[:, :, self.queries :].transpose(1, 2)
        values = heads[:, :, self.queries + self.kv_heads :]
        cache[1, :, :, start : start + tokens] = values.transpose(1, 2)
        return rotated[:, :, : self.queries]

    def forward(self, x: Tensor, rope: Tensor, cache: Tensor, start: int) -> Tensor:
        """Return the block's output [B, S, width]; arguments as for ``write``.

        Every token of ``x`` sees all that is in the cache before it, and all of ``x``.
        """
        batch, tokens, _ = x.shape
        q = self.write(x, rope, cache, start)
        k, v = cache[:, :, :, : start + tokens]
        # The heads that share keys and values are folded into the token axis: one product, and
        # no copy of K and V per head.
        share = self.queries // self.kv_heads
        q = q.view(batch, tokens, self.kv_heads, share, self.head_dim).permute(0, 2, 3, 1, 4)
        q = q.reshape(batch, self.kv_heads, share * tokens, self.head_dim)
        mixed = F.scaled_dot_product_attention(q, k, v)
        mixed = mixed.view(batch, self.kv_heads, share, tokens, self.head_dim)
        x = x + self.out(mixed.permute(0, 3, 1, 2, 4).reshape(batch, tokens, -1))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.gelu(gate, approximate='tanh') * up)


class Pi0Model(nn.Module):
    """π0 without a sampler. Weights are undefined until a checkpoint has been read into them."""

    rope: Tensor
    cache: Tensor

    def __init__(self, config: Pi0Config, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = config
        self.device, self.dtype = device, dtype
        language, expert = config.language, config.expert
        self.vision = SigLip(config, device, dtype)
        self.projector = Linear(config.vision.width, language.width, device, dtype, bias=True)
        self.embedding = _parameter((config.vocab_size, language.width), device, dtype)
        # Nobody reads what the last prefix layer would compute beyond its keys and values.
        self.prefix = nn.ModuleList(
            GemmaLayer(language, device, dtype, kv_only=layer == language.depth - 1)
            for layer in range(language.depth)
        )
        self.expert = nn.ModuleList(GemmaLayer(expert, device, dtype) for _ in range(expert.depth))
        self.expert_norm = RMSNorm(expert.width, device)

        def projection(inputs: int, outputs: int) -> Linear:
            return Linear(inputs, outputs, device, torch.float32, bias=True)

        self.state_proj = projection(config.max_state_dim, expert.width)
        self.action_in_proj = projection(config.max_action_dim, expert.width)
        self.action_time_mlp_in = projection(2 * expert.width, expert.width)
        self.action_time_mlp_out = projection(expert.width, expert.width)
        self.action_out_proj = projection(expert.width, config.max_action_dim)

        length = config.max_prefix + 1 + config.chunk_size
        self.register_buffer('rope', _rope_table(length, language.head_dim, device))
        # [layer, key or value, B, KV, T, D]
        shape = (language.depth, 2, 1, language.num_kv_heads, length, language.head_dim)
        self.register_buffer('cache', torch.zeros(shape, device=device, dtype=dtype))

    def embed_images(self, images: Tensor) -> Tensor:
        """Return image tokens [N, patches, width] of ``images`` float32 [N, 3, H, W] in −1..1."""
        return self.projector(self.vision(images))

    def embed_prefix(self, image_tokens: Tensor, text: Tensor) -> Tensor:
        """Return the prefix [1, S, width]: image tokens in order, then text tokens int64 [T].

        Text embeddings are scaled by √width, image tokens are not.
        """
        words = F.embedding(text, self.embedding) * math.sqrt(self.config.language.width)
        return torch.cat([image_tokens.flatten(0, 1), words])[None]

    def prefill(self, prefix: Tensor) -> int:
        """Fill the cache with the prefix [1, S, width]; return S, where the state goes."""
        length = prefix.shape[1]
        rope = self.rope[:, :length]
        for layer, cache in zip(self.prefix[:-1], self.cache, strict=False):
            prefix = layer(prefix, rope, cache, 0)
        cast('GemmaLayer', self.prefix[-1]).write(prefix, rope, self.cache[-1], 0)
        return length

    def append_state(self, state: Tensor, position: int) -> int:
        """Add the state, float32 [max_state_dim], to the cache; return where the actions go.

        The state token sees neither time nor actions: one pass serves every sampler step.
        """
        x = self.state_proj(state)[None, None].to(self.dtype)
        rope = self.rope[:, position : position + 1]
        for layer, cache in zip(self.expert[:-1], self.cache, strict=False):
            x = layer(x, rope, cache, position)
        cast('GemmaLayer', self.expert[-1]).write(x, rope, self.cache[-1], position)
        return position + 1

    def velocity(self, x: Tensor, time_bias: Tensor, position: int) -> Tensor:
        """Return the flow at ``x``, float32 [chunk_size, max_action_dim].

        Args:
            x: actions under denoising, float32 [chunk_size, max_action_dim].
            time_bias: one row of ``time_table``.
            position: where the actions go in the cache.

        """
        width = self.config.expert.width
        action_half = self.action_time_mlp_in.weight[:, :width]
        hidden = F.silu(F.linear(self.action_in_proj(x), action_half) + time_bias)
        tokens = self.action_time_mlp_out(hidden)[None].to(self.dtype)
        rope = self.rope[:, position : position + x.shape[0]]
        for layer, cache in zip(self.expert, self.cache, strict=True):
            tokens = layer(tokens, rope, cache, position)
        return self.action_out_proj(self.expert_norm(tokens)[0].float())

    def time_table(self, times: Tensor) -> Tensor:
        """Return what the time adds in the action MLP, float32 [steps, width].

        Args:
            times: float32 [steps]; t is rounded to float32 before anything is computed from it.

        The MLP's input is [action | emb(t)], so the time half of its product is a bias per step.

        """
        width = self.config.expert.width
        low, high = self.config.min_period, self.config.max_period
        fraction = torch.linspace(0.0, 1.0, width // 2, dtype=torch.float64)
        period = low * (high / low) ** fraction
        angle = 2.0 * math.pi * times.cpu().double()[:, None] / period
        embedding = torch.cat([angle.sin(), angle.cos()], dim=-1).float().to(self.device)
        mlp = self.action_time_mlp_in
        return F.linear(embedding, mlp.weight[:, width:], mlp.bias)


def _parameter(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape, device=device, dtype=dtype), requires_grad=False)


def _rope_table(length: int, head_dim: int, device: torch.device) -> Tensor:
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
