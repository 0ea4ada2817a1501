# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Rotary positions of DreamZero's tokens: three axes for video, one for actions and state.

Angles are computed in float64 (Wan 2.1), the rotation itself in float32: the angles are what
loses digits. Tables depend on positions alone and are made once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.config import PATCH, DitConfig

THETA = 10000.0


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Return ``x`` [B, S, H, D] turned by ``table`` complex64 [S, 1, D/2], in the dtype of ``x``.

    Neighbouring numbers are one complex number.
    """
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * table).flatten(-2).to(x.dtype)


def video_angles(config: DitConfig, start: int, frames: int, height: int, width: int) -> Tensor:
    """Return the angles of video tokens, float64 [frames · height · width, head_dim/2].

    Args:
        config: sizes.
        start: of the first frame, counted from the begin of the window.
        frames: latent frames.
        height, width: tokens of a frame; both axes start at 0.

    """
    side = 2 * (config.head_dim // 6)
    shape = (frames, height, width)
    axes = [
        _angles(torch.arange(start, start + frames), config.head_dim - 2 * side)[:, None, None],
        _angles(torch.arange(height), side)[None, :, None],
        _angles(torch.arange(width), side)[None, None],
    ]
    return torch.cat([axis.expand(*shape, axis.shape[-1]) for axis in axes], dim=-1).flatten(0, 2)


def register_angles(config: DitConfig, start: int) -> Tensor:
    """Return the angles of the action and state tokens beside a block, float64 [A + S, head_dim/2].

    Actions and states of the window are counted on, each for itself: the block's number is
    (``start`` − 1) / frames per block, since the window's first frame is no part of a block.
    """
    block = (start - 1) // config.num_frame_per_block
    positions = [
        block * count + torch.arange(count)
        for count in (config.num_action_per_block, config.num_state_per_block)
    ]
    return _angles(torch.cat(positions), config.head_dim)


class RopeTables:
    """Makes a table once for every place in a window.

    Args:
        config: sizes.

    """

    def __init__(self, config: DitConfig) -> None:
        self._config = config
        self._made: dict[tuple[int, int, int, int, bool, torch.device], Tensor] = {}

    def get(
        self,
        start: int,
        frames: int,
        height: int,
        width: int,
        *,
        registers: bool,
        device: torch.device,
    ) -> Tensor:
        """Return the table of a forward, complex64 [S, 1, head_dim/2].

        Args:
            start, frames: latent frames of the window.
            height, width: of a frame, in latents.
            registers: whether action and state tokens follow the video's.
            device: where it is used.

        """
        key = (start, frames, height, width, registers, device)
        if key not in self._made:
            rows, columns = height // PATCH, width // PATCH
            angles = video_angles(self._config, start, frames, rows, columns)
            if registers:
                angles = torch.cat([angles, register_angles(self._config, start)])
            table = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
            self._made[key] = table[:, None].to(device)
        return self._made[key]


def _angles(positions: Tensor, size: int) -> Tensor:
    """Return position · θ^(−2i/size), float64 [positions, size/2]."""
    frequencies = THETA ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    return torch.outer(positions.double(), frequencies)
