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


class Taps:
    """Passes everything on to each tap; what one raises is logged once in a while and ends there.

    Args:
        clock: monotonic seconds.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Replaced, never changed: the worker may be going through it.
        self._all: tuple[Tap, ...] = ()
        self._told: dict[str, float] = {}

    def add(self, tap: Tap) -> None:
        """Pass on to one more from now on."""
        self._all = (*self._all, tap)

    def remove(self, tap: Tap) -> None:
        """Pass nothing on to it any more; an unknown one is fine."""
        self._all = tuple(one for one in self._all if one is not tap)

    def inferred(
        self, request: InferenceRequest, lane: Lane, outcome: ActionChunk | BaseException
    ) -> None:
        """Pass it on."""
        for tap in self._all:
            try:
                tap.inferred(request, lane, outcome)
            except Exception:
                self._tell(tap)

    def session_closed(self, key: SessionKey) -> None:
        """Pass it on."""
        for tap in self._all:
            try:
                tap.session_closed(key)
            except Exception:
                self._tell(tap)

    def _tell(self, tap: Tap) -> None:
        name, now = type(tap).__name__, self._clock()
        told = self._told.get(name)
        if told is None or now - told >= REPEAT:
            self._told[name] = now
            LOG.exception('%s failed to note an inference', name)
