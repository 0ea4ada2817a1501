# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Classifier-free guidance: who runs the two branches, with the prompt and with the negative one.

The video's flow is v₋ + s·(v₊ − v₋); the actions are the conditional branch's alone (DreamZero
reference), and depend on the other one through the noisy video.
"""

from __future__ import annotations

import abc
import itertools
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.config import DitConfig
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.kv import CrossKV, KVWindow, cross_bytes, window_bytes


class Flow(NamedTuple):
    """What one sampler step asks for.

    Attributes:
        video: guided, [1, out_dim, F, h, w].
        action: of the conditional branch, [1, A, action_dim].

    """

    video: Tensor
    action: Tensor


def guided(conditional: Tensor, unconditional: Tensor, scale: float) -> Tensor:
    """Return the unconditional flow, led away from by ``scale`` towards the conditional one."""
    return unconditional + scale * (conditional - unconditional)


class Guidance(abc.ABC):
    """Runs both branches of any number of sessions, one call at a time.

    A session's memory is taken at ``open`` and freed at ``close``. A handle is never used twice.

    Attributes:
        dit: the transformer, of the conditional branch at least.
        device, dtype: of it.

    """

    dit: CausalWan
    device: torch.device
    dtype: torch.dtype

    @property
    @abc.abstractmethod
    def bytes_per_session(self) -> int:
        """Return what ``open`` takes of ``device``'s memory, in bytes."""

    @abc.abstractmethod
    def open(self) -> int:
        """Take memory for a session; return its handle.

        Raises:
            torch.OutOfMemoryError: there is none; nothing is kept.

        """

    @abc.abstractmethod
    def begin(self, handle: int, text: Tensor, text_neg: Tensor, clip: Tensor) -> None:
        """Start a new window: nothing is cached, text and picture are these.

        Args:
            handle: of the session.
            text, text_neg: features of prompt and negative prompt, [1, text_len, text_dim].
            clip: features of the picture, [1, 257, clip_dim].

        Raises:
            ValueError: no such session, or a wrong shape.

        """

    @abc.abstractmethod
    def prefill(self, handle: int, x: Tensor, y: Tensor, start_frame: int) -> None:
        """Write clean frames to the session's window; see ``CausalWan.prefill`` (batch 1)."""

    @abc.abstractmethod
    def denoise(
        self,
        handle: int,
        x: Tensor,
        y: Tensor,
        action: Tensor,
        state: Tensor,
        t_video: int,
        t_action: int,
        start_frame: int,
    ) -> Flow:
        """Return the flow of the session's next block; see ``CausalWan.denoise`` (batch 1)."""

    @abc.abstractmethod
    def close(self, handle: int) -> None:
        """Free a session's memory; its handle means nothing any more.

        Raises:
            ValueError: no such session.

        """

    def problem(self) -> str:
        """Return why no call will succeed any more, '' = no reason is known; for any thread."""
        return ''

    @abc.abstractmethod
    def shutdown(self) -> None:
        """Free everything; no call may follow."""


class Branches:
    """A session's keys and values for some branches, which run as one batch.

    Args:
        dit: the transformer.
        batch: number of branches.

    """

    def __init__(self, dit: CausalWan, batch: int) -> None:
        self._dit = dit
        self.window = KVWindow(dit.config, batch, dit.device, dit.dtype)
        self.cross = CrossKV(dit.config, batch, dit.device, dit.dtype)

    @staticmethod
    def nbytes(config: DitConfig, batch: int, itemsize: int) -> int:
        """Return what one takes, in bytes."""
        return window_bytes(config, batch, itemsize) + cross_bytes(config, batch, itemsize)

    def begin(self, text: Tensor, clip: Tensor) -> None:
        """Start a new window; ``text`` is [batch, text_len, text_dim]."""
        self.window.clear()
        self._dit.cross(text, clip, self.cross)

    def prefill(self, x: Tensor, y: Tensor, start_frame: int) -> None:
        """Write clean frames, the same to all branches."""
        self._dit.prefill(x, y, start_frame, self.cross, self.window)

    def denoise(
        self,
        x: Tensor,
        y: Tensor,
        action: Tensor,
        state: Tensor,
        t_video: int,
        t_action: int,
        start_frame: int,
    ) -> tuple[Tensor, Tensor]:
        """Return video and action of every branch, [batch, …]."""
        return self._dit.denoise(
            x, y, action, state, t_video, t_action, start_frame, self.cross, self.window
        )


@dataclass
class _Session:
    """Parts run one after the other: one of both branches, or one of each."""

    parts: tuple[Branches, ...]


class _Local(Guidance):
    """Both branches in this process.

    Args:
        dit: the transformer.
        cfg_scale: s; 1 = no guidance.

    """

    _batches: tuple[int, ...]

    def __init__(self, dit: CausalWan, cfg_scale: float) -> None:
        self.dit, self._scale = dit, cfg_scale
        self._sessions: dict[int, _Session] = {}
        self._handles = itertools.count()
        self.device, self.dtype = dit.device, dit.dtype

    @property
    def bytes_per_session(self) -> int:
        """Return what ``open`` takes of ``device``'s memory, in bytes."""
        size = self.dtype.itemsize
        return sum(Branches.nbytes(self.dit.config, batch, size) for batch in self._batches)

    def open(self) -> int:
        """Take memory for a session; see ``Guidance.open``."""
        session = _Session(tuple(Branches(self.dit, batch) for batch in self._batches))
        handle = next(self._handles)
        self._sessions[handle] = session
        return handle

    def begin(self, handle: int, text: Tensor, text_neg: Tensor, clip: Tensor) -> None:
        """Start a new window; see ``Guidance.begin``."""
        both = torch.cat([text, text_neg])
        parts = self._session(handle).parts
        for part, rows in zip(parts, both.split(self._batches), strict=True):
            part.begin(rows, clip)

    def prefill(self, handle: int, x: Tensor, y: Tensor, start_frame: int) -> None:
        """Write clean frames to the session's window; see ``Guidance.prefill``."""
        for part in self._session(handle).parts:
            part.prefill(x, y, start_frame)

    def denoise(
        self,
        handle: int,
        x: Tensor,
        y: Tensor,
        action: Tensor,
        state: Tensor,
        t_video: int,
        t_action: int,
        start_frame: int,
    ) -> Flow:
        """Return the flow of the session's next block; see ``Guidance.denoise``."""
        flows = [
            part.denoise(x, y, action, state, t_video, t_action, start_frame)
            for part in self._session(handle).parts
        ]
        conditional, unconditional = torch.cat([video for video, _ in flows]).split(1)
        return Flow(guided(conditional, unconditional, self._scale), flows[0][1][:1])

    def close(self, handle: int) -> None:
        """Free a session's memory; see ``Guidance.close``."""
        self._session(handle)
        del self._sessions[handle]

    def shutdown(self) -> None:
        """Free everything; no call may follow."""
        self._sessions.clear()

    def _session(self, handle: int) -> _Session:
        if handle not in self._sessions:
            raise ValueError(f'no session {handle}: it was closed, or never opened')
        return self._sessions[handle]


class OneBatch(_Local):
    """Both branches as one batch: the weights are read once for both."""

    _batches = (2,)


class TwoPasses(_Local):
    """One branch after the other: half the memory for what is computed on the way."""

    _batches = (1, 1)
