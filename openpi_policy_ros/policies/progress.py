# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Say how far a long load is, and nothing about a short one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger('openpi_policy_ros.policies')

EVERY = 5.0
"""Seconds between two lines."""


class Progress:
    """Logs bytes done, bytes in all and the mean rate every few seconds.

    Args:
        what: is being read, the line begins with it.
        total: bytes.
        clock: seconds, monotonic.

    """

    def __init__(self, what: str, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._total, self._clock = what, total, clock
        self._done = 0
        self._start = self._said = clock()

    def advance(self, count: int) -> None:
        """Count ``count`` more bytes as done."""
        self._done += count
        now = self._clock()
        if now - self._said < EVERY or self._done >= self._total:
            return
        self._said = now
        logger.info(
            '%s: %.1f of %.1f GB read, %.0f MB/s',
            self._what,
            self._done / 1e9,
            self._total / 1e9,
            self._done / 1e6 / (now - self._start),
        )
