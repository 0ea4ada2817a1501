# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a session keeps from call to call."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.window import BLOCK_FRAMES, Turn

Frame = npt.NDArray[np.uint8]
"""The three views of one moment, tiled: [2h, 2w, 3]."""


@dataclass
class Session:
    """One session's images and where its window stands.

    Its keys and values lie with whoever runs the network, under ``handle``. Nothing here changes
    before a call has succeeded, but for ``failed``: a call that fails half way leaves the images
    and the instruction as they were and a window nobody can trust, so that the next call starts a
    new one, from its newest image.

    Attributes:
        handle: of ``Guidance.open``.
        name: for log lines.
        frames: the newest images, at most ``BLOCK_FRAMES``; outlive a window.
        first: no call has succeeded since the session was opened or reset.
        failed: the last call failed after it had begun to change the window.
        prompt: token ids of the last call's instruction.
        start: latent frame at which the next block begins, if the window goes on.
        window: number of the window in this session, from 1; 0 before the first.
        conditioning: of the window's first image, [1, 20, t, h, w].
        seen: observed latents of this window, oldest first, each [1, 16, f, h, w]; kept only where
            the imagined future is decoded, which needs its past.

    """

    handle: int
    name: str = ''
    frames: deque[Frame] = field(default_factory=lambda: deque(maxlen=BLOCK_FRAMES))
    first: bool = True
    failed: bool = False
    prompt: tuple[int, ...] = ()
    start: int = 0
    window: int = 0
    conditioning: Tensor | None = None
    seen: tuple[Tensor, ...] = ()

    def look(self, new: Sequence[Frame], *, reset: bool = False) -> list[Frame]:
        """Return what a call that brings ``new`` (at least one, oldest first) sees.

        The newest one in a first call, else ``BLOCK_FRAMES``, the oldest repeated in front where
        there are fewer. Changes nothing.
        """
        if self.first or reset:
            return list(new[-1:])
        known = [*self.frames, *new][-BLOCK_FRAMES:]
        return [known[0]] * (BLOCK_FRAMES - len(known)) + known

    def finish(
        self, new: Sequence[Frame], prompt: tuple[int, ...], turn: Turn, *, reset: bool = False
    ) -> None:
        """Take note that a call succeeded."""
        if reset:
            self.frames.clear()
        self.frames.extend(new)
        self.first = self.failed = False
        self.prompt = prompt
        self.start = turn.next_start

    @property
    def nbytes(self) -> int:
        """Return the bytes held here, without the keys and values."""
        tensors = list(self.seen)
        if self.conditioning is not None:
            tensors.append(self.conditioning)
        return sum(one.nbytes for one in self.frames) + sum(one.nbytes for one in tensors)
