# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Listen to every inference, whichever door it came through; nothing depends on who listens."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from openpi_policy_ros.engine.types import Lane
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey

LOG = logging.getLogger('openpi_policy_ros.engine')

REPEAT = 60.0
"""Least seconds between two log lines about a tap that raises."""


class Tap(Protocol):
    """Hears of what the worker did, on the worker: be quick, keep no exception.

    Nothing it is handed may be changed; the arrays may be read later.
    """

    def inferred(
        self, request: InferenceRequest, lane: Lane, outcome: ActionChunk | BaseException
    ) -> None:
        """Hear of one request that ran; its caller is answered when this returns."""

    def session_closed(self, key: SessionKey) -> None:
        """Hear that a session is over; it may begin afresh under the same key."""


class GuardedTap:
    """A tap whose exceptions are logged once in a while and reach nobody.

    Args:
        tap: None = nobody listens.
        clock: monotonic seconds.

    """

    def __init__(self, tap: Tap | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._tap = tap
        self._clock = clock
        self._told: float | None = None

    def inferred(
        self, request: InferenceRequest, lane: Lane, outcome: ActionChunk | BaseException
    ) -> None:
        """Pass it on."""
        if self._tap is not None:
            try:
                self._tap.inferred(request, lane, outcome)
            except Exception:
                self._tell()

    def session_closed(self, key: SessionKey) -> None:
        """Pass it on."""
        if self._tap is not None:
            try:
                self._tap.session_closed(key)
            except Exception:
                self._tell()

    def _tell(self) -> None:
        now = self._clock()
        if self._told is None or now - self._told >= REPEAT:
            self._told = now
            LOG.exception('%s failed to note an inference', type(self._tap).__name__)
