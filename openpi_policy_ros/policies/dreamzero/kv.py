# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Keys and values that DreamZero keeps: of the window's clean frames, and of text and picture.

All memory is taken when an object is made and stays where it is. Keys are stored as attention
reads them: normed, and rotated where they are rotated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.config import CLIP_TOKENS, DitConfig

Pair = tuple[Tensor, Tensor]
"""Keys and values, each [B, L, heads, head_dim]."""


def window_bytes(config: DitConfig, batch: int, itemsize: int) -> int:
    """Return the size of a ``KVWindow`` in bytes.

    Args:
        config: sizes.
        batch: branches of the guidance in it.
        itemsize: bytes of a number.

    """
    tokens = config.cached_frames * config.frame_seqlen
    return batch * tokens * token_bytes(config, itemsize)


def cross_bytes(config: DitConfig, batch: int, itemsize: int) -> int:
    """Return the size of a ``CrossKV`` in bytes; see ``window_bytes``."""
    return (batch * config.text_len + CLIP_TOKENS) * token_bytes(config, itemsize)


def token_bytes(config: DitConfig, itemsize: int) -> int:
    """Return the bytes of one token's keys and values over all layers."""
    return 2 * config.num_layers * config.dim * itemsize


class KVWindow:
    """Keys and values of the clean latent frames of one window.

    Args:
        config: sizes.
        batch: branches of the guidance, B.
        device, dtype: of the numbers.

    Attributes:
        frames: latent frames that are cached.

    """

    def __init__(
        self, config: DitConfig, batch: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.frames = 0
        self.batch = batch
        self.max_frames, self.frame_tokens = config.cached_frames, config.frame_seqlen
        tokens = self.max_frames * self.frame_tokens
        # [layer, key or value, B, L, H, D]
        shape = (config.num_layers, 2, batch, tokens, config.num_heads, config.head_dim)
        self.kv = torch.zeros(shape, device=device, dtype=dtype)

    @property
    def nbytes(self) -> int:
        """Return the size in bytes, all frames counted."""
        return self.kv.nbytes

    def clear(self) -> None:
        """Forget all frames; the memory stays."""
        self.frames = 0

    def read(self, layer: int, extra: int = 0) -> Pair:
        """Return what is cached for ``layer``, and the next ``extra`` frames; views."""
        length = (self.frames + extra) * self.frame_tokens
        return self.kv[layer, 0, :, :length], self.kv[layer, 1, :, :length]

    def write(self, layer: int, k: Tensor, v: Tensor) -> Pair:
        """Put the next frames' ``k`` and ``v`` [B, S, H, D] there; return all up to their end.

        They count as cached after ``advance``.
        """
        keys, values = self.read(layer, k.shape[1] // self.frame_tokens)
        keys[:, -k.shape[1] :] = k
        values[:, -v.shape[1] :] = v
        return keys, values

    def advance(self, frames: int) -> None:
        """Count ``frames`` that were written for every layer as cached."""
        self.frames += frames


class Workspace:
    """Where one layer's cached keys and values lie beside those of the block under denoising.

    There is one for all layers and sessions: attention wants them in one piece, and room for a
    block in every layer of every session would take 2 of the 9 frames' memory more.

    Args:
        config: sizes.
        batch: branches of the guidance.
        device, dtype: of the numbers.

    """

    def __init__(
        self, config: DitConfig, batch: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        registers = config.num_action_per_block + config.num_state_per_block
        tokens = config.local_attn_size * config.frame_seqlen + registers
        shape = (2, batch, tokens, config.num_heads, config.head_dim)
        self.kv = torch.empty(shape, device=device, dtype=dtype)

    def fits(self, batch: int, device: torch.device, dtype: torch.dtype) -> bool:
        """Return whether this one serves such a call."""
        return (self.kv.shape[1], self.kv.device, self.kv.dtype) == (batch, device, dtype)

    def join(self, cached: Pair, k: Tensor, v: Tensor) -> Pair:
        """Return ``cached`` with ``k`` and ``v`` [B, S, H, D] behind it, until the next call."""
        start = cached[0].shape[1]
        stop = start + k.shape[1]
        joined = self.kv[:, :, :stop]
        for target, old, new in zip(joined, cached, (k, v), strict=True):
            target[:, :start] = old
            target[:, start:] = new
        return joined[0], joined[1]


class CrossKV:
    """Keys and values of a window's text and picture, for every layer.

    Args:
        config: sizes.
        batch: branches of the guidance, which differ in their text.
        device, dtype: of the numbers.

    Attributes:
        text: [layers, 2, B, text_len, H, D].
        image: [layers, 2, 1, 257, H, D]: all branches see the same picture.

    """

    def __init__(
        self, config: DitConfig, batch: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        heads = (config.num_heads, config.head_dim)
        self.text = torch.zeros(
            (config.num_layers, 2, batch, config.text_len, *heads), device=device, dtype=dtype
        )
        self.image = torch.zeros(
            (config.num_layers, 2, 1, CLIP_TOKENS, *heads), device=device, dtype=dtype
        )

    @property
    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self.text.nbytes + self.image.nbytes
