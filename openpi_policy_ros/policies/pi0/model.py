# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The networks of the π0 family: one prefix, an action expert of each kind, a static K/V cache.

Three stages run once per chunk (``embed_images``, ``prefill``, ``append_state``), one runs per
sampler step (``velocity``). No attention here needs a mask: masked cameras and text padding are
left out instead of computed and hidden (positions come from a cumulative sum over valid tokens, so
that nothing moves), and the groups of tokens enter the cache in the order in which they may see
one another: prefix, state (π0 alone), actions.

Under bfloat16 the transformers' matrices are bfloat16; norms, rotation, softmax sums, patch and
position embedding, the action and time projections and the sampler's x stay float32.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.layers import (
    AdaptiveLayer,
    GemmaLayer,
    Linear,
    RMSNorm,
    SigLip,
    modulated_norm,
    parameter,
    rope_table,
)


def make_model(config: Pi0Config, device: torch.device, dtype: torch.dtype) -> PiModel:
    """Return the network of the config's family, its weights undefined."""
    return (Pi05Model if config.family == 'pi05' else Pi0Model)(config, device, dtype)


class PiModel(nn.Module, ABC):
    """What π0 and π0.5 share; a caller need not know which one it has.

    Weights are undefined until a checkpoint has been read into them.

    Args:
        config: sizes.
        device: of everything.
        dtype: of the transformers' matrices.
        layer: a block of the action expert.
        state_tokens: that go between prefix and actions.

    """

    rope: Tensor
    cache: Tensor

    def __init__(
        self,
        config: Pi0Config,
        device: torch.device,
        dtype: torch.dtype,
        layer: type[GemmaLayer | AdaptiveLayer],
        state_tokens: int,
    ) -> None:
        super().__init__()
        self.config = config
        self.device, self.dtype = device, dtype
        language, expert = config.language, config.expert
        self.vision = SigLip(config, device, dtype)
        self.projector = Linear(config.vision.width, language.width, device, dtype, bias=True)
        self.embedding = parameter((config.vocab_size, language.width), device, dtype)
        # Nobody reads what the last prefix layer would compute beyond its keys and values.
        self.prefix = nn.ModuleList(
            GemmaLayer(language, device, dtype, kv_only=number == language.depth - 1)
            for number in range(language.depth)
        )
        self.expert = nn.ModuleList(layer(expert, device, dtype) for _ in range(expert.depth))
        self.action_in_proj = self._projection(config.max_action_dim, expert.width)
        self.action_out_proj = self._projection(expert.width, config.max_action_dim)

        length = config.max_prefix + state_tokens + config.chunk_size
        self.register_buffer('rope', rope_table(length, language.head_dim, device))
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
        """Fill the cache with the prefix [1, S, width]; return S, where the rest goes."""
        length = prefix.shape[1]
        rope = self.rope[:, :length]
        for layer, cache in zip(self.prefix[:-1], self.cache, strict=False):
            prefix = layer(prefix, rope, cache, 0)
        cast('GemmaLayer', self.prefix[-1]).write(prefix, rope, self.cache[-1], 0)
        return length

    @abstractmethod
    def append_state(self, state: Tensor, position: int) -> int:
        """Add the state, float32 [max_state_dim], to the cache; return where the actions go.

        That is ``position`` itself where the network has no token for it; the call may then be left
        out.
        """

    @abstractmethod
    def time_table(self, times: Tensor) -> Tensor:
        """Return all that ``velocity`` needs of each time, float32 [steps, …].

        Args:
            times: float32 [steps]; t is rounded to float32 before anything is computed from it.

        """

    @abstractmethod
    def velocity(self, x: Tensor, time_row: Tensor, position: int) -> Tensor:
        """Return the flow at ``x``, float32 [chunk_size, max_action_dim].

        Args:
            x: actions under denoising, float32 [chunk_size, max_action_dim].
            time_row: one row of ``time_table``.
            position: where the actions go in the cache.

        """

    def _projection(self, inputs: int, outputs: int) -> Linear:
        return Linear(inputs, outputs, self.device, torch.float32, bias=True)

    def _embed_times(self, times: Tensor) -> Tensor:
        """Return [sin | cos] of each time, float32 [steps, width], computed in float64."""
        low, high = self.config.min_period, self.config.max_period
        fraction = torch.linspace(0.0, 1.0, self.config.expert.width // 2, dtype=torch.float64)
        period = low * (high / low) ** fraction
        angle = 2.0 * math.pi * times.cpu().double()[:, None] / period
        return torch.cat([angle.sin(), angle.cos()], dim=-1).float().to(self.device)


class Pi0Model(PiModel):
    """π0: a token for the state; the time enters beside the actions."""

    def __init__(self, config: Pi0Config, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(config, device, dtype, GemmaLayer, state_tokens=1)
        width = config.expert.width
        self.expert_norm = RMSNorm(width, device)
        self.state_proj = self._projection(config.max_state_dim, width)
        self.action_time_mlp_in = self._projection(2 * width, width)
        self.action_time_mlp_out = self._projection(width, width)

    def append_state(self, state: Tensor, position: int) -> int:
        """Add the state; see ``PiModel.append_state``.

        The state token sees neither time nor actions: one pass serves every sampler step.
        """
        x = self.state_proj(state)[None, None].to(self.dtype)
        rope = self.rope[:, position : position + 1]
        for layer, cache in zip(self.expert[:-1], self.cache, strict=False):
            x = layer(x, rope, cache, position)
        cast('GemmaLayer', self.expert[-1]).write(x, rope, self.cache[-1], position)
        return position + 1

    def time_table(self, times: Tensor) -> Tensor:
        """Return what the time adds in the action MLP, float32 [steps, width].

        The MLP's input is [action | emb(t)], so the time half of its product is a bias per step.
        """
        mlp = self.action_time_mlp_in
        time_half = mlp.weight[:, self.config.expert.width :]
        return F.linear(self._embed_times(times), time_half, mlp.bias)

    def velocity(self, x: Tensor, time_row: Tensor, position: int) -> Tensor:
        """Return the flow at ``x``; see ``PiModel.velocity``."""
        action_half = self.action_time_mlp_in.weight[:, : self.config.expert.width]
        hidden = F.silu(F.linear(self.action_in_proj(x), action_half) + time_row)
        tokens = self.action_time_mlp_out(hidden)[None].to(self.dtype)
        rope = self.rope[:, position : position + x.shape[0]]
        for layer, cache in zip(self.expert, self.cache, strict=True):
            tokens = layer(tokens, rope, cache, position)
        return self.action_out_proj(self.expert_norm(tokens)[0].float())


class Pi05Model(PiModel):
    """π0.5: the state is part of the text; the time scales, shifts and gates the action expert.

    The products that turn the time into norms are fused into one, ``modulation``: for each block
    the norm before its attention and the one before its MLP, then the final norm.
    """

    def __init__(self, config: Pi0Config, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__(config, device, dtype, AdaptiveLayer, state_tokens=0)
        width = config.expert.width
        self.time_mlp_in = self._projection(width, width)
        self.time_mlp_out = self._projection(width, width)
        self.modulation = self._projection(width, (2 * config.expert.depth + 1) * 3 * width)

    def append_state(self, state: Tensor, position: int) -> int:
        """Return ``position``: this network has no token for the state, its text tells it."""
        return position

    def time_table(self, times: Tensor) -> Tensor:
        """Return factor (1 + scale), shift and gate of every norm, [steps, norms, 3, width].

        They depend on the time alone: no sampler step computes them again.
        """
        hidden = F.silu(self.time_mlp_in(self._embed_times(times)))
        condition = F.silu(self.time_mlp_out(hidden))
        table = self.modulation(condition).view(len(times), -1, 3, self.config.expert.width)
        table[:, :, 0] += 1.0
        return table

    def velocity(self, x: Tensor, time_row: Tensor, position: int) -> Tensor:
        """Return the flow at ``x``; see ``PiModel.velocity``."""
        tokens = self.action_in_proj(x)[None].to(self.dtype)
        rope = self.rope[:, position : position + x.shape[0]]
        norms = time_row[:-1].unflatten(0, (-1, 2))
        for layer, modulation, cache in zip(self.expert, norms, self.cache, strict=True):
            tokens = layer(tokens, modulation, rope, cache, position)
        # The final norm's gate has nothing to gate.
        return self.action_out_proj(modulated_norm(tokens, time_row[-1])[0].float())
