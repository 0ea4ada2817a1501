# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The reference algorithm of π0 and π0.5, as the served model's rival: same weights, no shortcut.

All cameras and all padding are computed and hidden by masks, every camera goes through SigLIP by
itself, q, k and v are three products, the last prefix layer is computed whole, and every sampler
step recomputes the state's token or what the time makes of each norm, and concatenates keys and
values. Only where a naive choice would compare kernels instead of algorithms it uses what the
served model uses: torch's fused attention (without a copy of K and V per head), linear and norm
functions, the same threads and dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.policies.pi0.config import GemmaSize, Pi0Config
from openpi_policy_ros.policies.weight_files import open_weights

ROOT = 'paligemma_with_expert'
TOWER = f'{ROOT}.paligemma.model.vision_tower.vision_model'
LANGUAGE = f'{ROOT}.paligemma.model.language_model'
EMBEDDING, HEAD = f'{LANGUAGE}.embed_tokens.weight', f'{ROOT}.paligemma.lm_head.weight'
EXPERT = f'{ROOT}.gemma_expert.model'
EPS = 1e-6
THETA = 10000.0


class NaivePi0:
    """The reference algorithm for one checkpoint.

    Args:
        directory: a checkpoint whose tensors carry LeRobot's names.
        config: of that checkpoint.
        device: where to compute.
        dtype: of the transformers' matrices; all else is float32, as in the served model.

    """

    def __init__(
        self, directory: Path, config: Pi0Config, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.config = config
        self.adaptive = config.family == 'pi05'
        self.device, self.dtype = device, dtype
        self._weights: dict[str, Tensor] = {}
        with open_weights(directory, 'model.safetensors') as stored:
            for full_name in stored.header:
                name = full_name.removeprefix('model.')
                matrix = name.startswith(ROOT) and 'norm' not in name
                wide = 'embeddings.p' in name or not matrix
                self._weights[name] = stored.tensor(full_name).to(
                    device, torch.float32 if wide else dtype, copy=True
                )
        # One table, which a file may hold once, under either name.
        if EMBEDDING not in self._weights:
            self._weights[EMBEDDING] = self._weights[HEAD]

    @torch.inference_mode()
    def chunk(
        self,
        images: Mapping[str, Tensor],
        tokens: Sequence[int],
        state: Tensor,
        noise: Tensor,
        steps: int,
    ) -> Tensor:
        """Return model-space actions, float32 [chunk_size, max_action_dim].

        Args:
            images: feature → float32 [3, H, W] in −1..1; absent ones are computed and masked.
            tokens: of the text, BOS included.
            state: float32 [max_state_dim]; π0.5 has it in its text, and does not read this.
            noise: x at t = 1, float32 [chunk_size, max_action_dim].
            steps: of the sampler.

        """
        config = self.config
        parts, valid = [], []
        for feature in config.image_features:
            image = images.get(feature)
            if image is None:
                image = torch.full((3, *config.image_resolution), -1.0, device=self.device)
            parts.append(self._image_tokens(image))
            valid += [feature in images] * config.patches
        padding = config.tokenizer_max_length - len(tokens)
        text = torch.tensor([*tokens, *[0] * padding], device=self.device)
        words = F.embedding(text, self._weights[EMBEDDING])
        parts.append(words * math.sqrt(config.language.width))
        valid += [True] * len(tokens) + [False] * padding
        mask = torch.tensor(valid, device=self.device)
        prefix = self._prefix(torch.cat(parts), mask)
        x = noise
        for step in range(steps):
            x = x - self._velocity(x, 1.0 - step / steps, state, prefix, mask) / steps
        return x

    def _image_tokens(self, image: Tensor) -> Tensor:
        """Return [patches, width] of one image [3, H, W]."""
        size, w = self.config.vision, self._weights
        x = F.conv2d(
            image[None],
            w[f'{TOWER}.embeddings.patch_embedding.weight'],
            w[f'{TOWER}.embeddings.patch_embedding.bias'],
            stride=size.patch_size,
        )
        x = x.flatten(2).transpose(1, 2) + w[f'{TOWER}.embeddings.position_embedding.weight']
        x = x.to(self.dtype)
        for layer in range(size.depth):
            name = f'{TOWER}.encoder.layers.{layer}'
            y = self._layer_norm(x, f'{name}.layer_norm1')
            q, k, v = (
                self._linear(y, f'{name}.self_attn.{part}_proj')
                .unflatten(-1, (size.num_heads, -1))
                .transpose(1, 2)
                for part in 'qkv'
            )
            mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = x + self._linear(mixed, f'{name}.self_attn.out_proj')
            y = self._linear(self._layer_norm(x, f'{name}.layer_norm2'), f'{name}.mlp.fc1')
            x = x + self._linear(F.gelu(y, approximate='tanh'), f'{name}.mlp.fc2')
        x = self._layer_norm(x, f'{TOWER}.post_layernorm')
        return self._linear(x, f'{ROOT}.paligemma.model.multi_modal_projector.linear')[0]

    def _prefix(self, x: Tensor, valid: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return keys and values of each layer, all tokens of the padded prefix included."""
        # A row that may see nothing at all would be NaN: a padded token sees itself.
        mask = valid[None, :].expand(len(valid), -1) | torch.eye(
            len(valid), dtype=torch.bool, device=self.device
        )
        positions = valid.cumsum(0) - 1
        rope, cached = self._rope(positions), []
        for layer in range(self.config.language.depth):
            name = f'{LANGUAGE}.layers.{layer}'
            x, kv = self._gemma(x, name, self.config.language, rope, mask)
            cached.append(kv)
        return cached

    def _velocity(
        self,
        x: Tensor,
        time: float,
        state: Tensor,
        prefix: Sequence[tuple[Tensor, Tensor]],
        valid: Tensor,
    ) -> Tensor:
        """Return the flow at ``x``, the state's token computed along where there is one."""
        emb = self._time_embedding(time)
        actions, condition = self._linear(x, 'action_in_proj'), None
        if self.adaptive:
            hidden = F.silu(self._linear(emb, 'time_mlp_in'))
            condition = F.silu(self._linear(hidden, 'time_mlp_out'))
            tokens = actions
        else:
            hidden = torch.cat([actions, emb.expand(len(x), -1)], -1)
            hidden = F.silu(self._linear(hidden, 'action_time_mlp_in'))
            actions = self._linear(hidden, 'action_time_mlp_out')
            tokens = torch.cat([self._linear(state, 'state_proj')[None], actions])
        tokens = tokens.to(self.dtype)
        count = len(tokens)
        own = torch.ones(count, count, dtype=torch.bool, device=self.device)
        own[: count - len(x), -len(x) :] = False
        mask = torch.cat([valid[None].expand(count, -1), own], -1)
        positions = valid.sum() + torch.arange(count, device=self.device)
        rope = self._rope(positions)
        for layer, kv in enumerate(prefix):
            name = f'{EXPERT}.layers.{layer}'
            tokens, _ = self._gemma(tokens, name, self.config.expert, rope, mask, kv, condition)
        normed, _ = self._rms_norm(tokens, f'{EXPERT}.norm', condition)
        return self._linear(normed[-len(x) :].float(), 'action_out_proj')

    def _time_embedding(self, time: float) -> Tensor:
        """Return [sin | cos], float32 [width]."""
        low, high = self.config.min_period, self.config.max_period
        fraction = torch.linspace(0.0, 1.0, self.config.expert.width // 2, dtype=torch.float64)
        rounded = torch.tensor(time, dtype=torch.float32).double()
        angle = 2.0 * math.pi * rounded / (low * (high / low) ** fraction)
        return torch.cat([angle.sin(), angle.cos()]).float().to(self.device)

    def _gemma(
        self,
        x: Tensor,
        name: str,
        size: GemmaSize,
        rope: tuple[Tensor, Tensor],
        mask: Tensor,
        earlier: tuple[Tensor, Tensor] | None = None,
        condition: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return a block's output and its own keys and values [KV, S, D]."""
        y, gate = self._rms_norm(x, f'{name}.input_layernorm', condition)
        q, k, v = (
            self._linear(y, f'{name}.self_attn.{part}_proj')
            .unflatten(-1, (-1, size.head_dim))
            .transpose(0, 1)
            for part in 'qkv'
        )
        q, k = _rotate(q, rope), _rotate(k, rope)
        own = (k, v)
        if earlier is not None:
            k, v = torch.cat([earlier[0], k], 1), torch.cat([earlier[1], v], 1)
        share = size.num_heads // size.num_kv_heads
        k, v = (t[:, None].expand(-1, share, -1, -1).flatten(0, 1) for t in (k, v))
        mixed = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)
        mixed = self._linear(mixed[0].transpose(0, 1).flatten(1), f'{name}.self_attn.o_proj')
        x = _residual(x, mixed, gate)
        y, gate = self._rms_norm(x, f'{name}.post_attention_layernorm', condition)
        hidden = F.gelu(self._linear(y, f'{name}.mlp.gate_proj'), approximate='tanh')
        hidden = hidden * self._linear(y, f'{name}.mlp.up_proj')
        return _residual(x, self._linear(hidden, f'{name}.mlp.down_proj'), gate), own

    def _linear(self, x: Tensor, name: str) -> Tensor:
        weight = self._weights[f'{name}.weight']
        return F.linear(x.to(weight.dtype), weight, self._bias(name, weight.dtype))

    def _bias(self, name: str, dtype: torch.dtype) -> Tensor | None:
        bias = self._weights.get(f'{name}.bias')
        return None if bias is None else bias.to(dtype)

    def _layer_norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self._weights[f'{name}.weight'], self._weights[f'{name}.bias']
        return F.layer_norm(x.float(), weight.shape, weight, bias, EPS).to(x.dtype)

    def _rms_norm(
        self, x: Tensor, name: str, condition: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return ``x`` normed, in its dtype, and the gate of what is made of it, if it has one."""
        if condition is None:
            weight = 1.0 + self._weights[f'{name}.weight']
            return F.rms_norm(x.float(), weight.shape, weight, EPS).to(x.dtype), None
        scale, shift, gate = self._linear(condition, f'{name}.dense').chunk(3)
        normed = F.rms_norm(x.float(), scale.shape, None, EPS) * (1.0 + scale) + shift
        return normed.to(x.dtype), gate

    def _rope(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin, float32 [S, head_dim / 2]."""
        size = self.config.language.head_dim
        exponent = torch.arange(0, size, 2, device=self.device, dtype=torch.float32) / size
        angle = positions[:, None] / THETA**exponent
        return angle.cos(), angle.sin()


def _residual(x: Tensor, y: Tensor, gate: Tensor | None) -> Tensor:
    return x + y if gate is None else (x.float() + y.float() * gate).to(x.dtype)


def _rotate(x: Tensor, rope: tuple[Tensor, Tensor]) -> Tensor:
    """Return ``x`` [H, S, D] with the pairs (i, i + D/2) rotated, in the dtype of ``x``."""
    cos, sin = rope
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)
