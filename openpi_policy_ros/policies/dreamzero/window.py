# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a session stands in its window of latent frames, and what a call does there. Pure.

A window starts from one image: latent frame 0 is written at position 0, a block is denoised behind
it. Each later call writes what the robot saw meanwhile where the last block was imagined, and
denoises the next block. When the next block would not fit, everything is dropped and the window
starts again from the newest image (DreamZero's reference, ``current_start_frame``; every 4 calls
for the published DROID checkpoint). What was imagined is never fed back.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

BLOCK_FRAMES = 4
"""Images of each camera that a call sees, but for the first of a session, which sees one."""


class Restart(enum.Enum):
    """Why a window starts; the value goes into the log."""

    FIRST = 'the first call of the session'
    PROMPT = 'the instruction changed'
    FULL = 'the window is full'
    FAILED = 'the call before failed'

    @property
    def routine(self) -> bool:
        """Return whether it comes by itself in every session."""
        return self in (Restart.FIRST, Restart.FULL)


@dataclass(frozen=True)
class Turn:
    """What one call does with its window.

    Attributes:
        restart: why a new window starts, None = it goes on.
        prefill_start: latent frame at which observed latents are written.
        prefill_frames: how many.
        denoise_start: latent frame at which the imagined block begins.
        next_start: ``denoise_start`` of the next call if the window goes on; 0 is never one.

    """

    restart: Restart | None
    prefill_start: int
    prefill_frames: int
    denoise_start: int
    next_start: int


def plan_turn(
    start: int,
    *,
    first: bool,
    prompt_changed: bool,
    block: int,
    most: int,
    failed: bool = False,
) -> Turn:
    """Return what a call does.

    Args:
        start: ``next_start`` of the last call that succeeded; any where ``first``.
        first: no call has been made since the session was opened or reset.
        prompt_changed: whether the tokens of the instruction differ from the last call's.
        block: latent frames per block.
        most: latent frame from which on a window is full (``local_attn_size``).
        failed: whether the last call left the window in an unknown state.

    """
    if first:
        restart: Restart | None = Restart.FIRST
    elif prompt_changed:
        restart = Restart.PROMPT
    elif failed:
        restart = Restart.FAILED
    else:
        restart = Restart.FULL if start >= most else None
    if restart is not None:
        return Turn(restart, 0, 1, 1, 1 + block)
    return Turn(None, start - block, block, start, start + block)


def condition_frames(turn: Turn, total: int, block: int) -> tuple[slice, slice]:
    """Return which frames of the conditioning go with the prefill and with the denoised block.

    Args:
        turn: of this call.
        total: latent frames of the conditioning.
        block: latent frames per block; past the end, the last so many are used.

    """

    def at(start: int, count: int) -> slice:
        return (
            slice(start, start + count) if start + count <= total else slice(total - block, total)
        )

    return at(turn.prefill_start, turn.prefill_frames), at(turn.denoise_start, block)


def history_offsets(horizon: int) -> tuple[int, ...]:
    """Return which images a call sees, in action steps from the newest, oldest first.

    Four that divide the chunk of ``horizon`` steps into thirds, the oldest being the first one
    after the chunk before was begun: (-23, -16, -8, 0) for the 24 steps DreamZero is trained with,
    (-5, -4, -2, 0) for 6. Fewer where a chunk has less than four steps.
    """
    offsets = {-(horizon - 1), -(2 * horizon // 3), -(horizon // 3), 0}
    return tuple(sorted(offset for offset in offsets if offset > -horizon))
