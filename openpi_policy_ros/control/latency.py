# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How long an answer takes, judged by the recent ones: what real-time chunking and supply go by."""

from __future__ import annotations

import math
from collections import deque

WINDOW = 100
"""Answers that count: few enough to follow a device that throttles, enough for a percentile."""


class Latency:
    """Times of the newest answers of one lane.

    The first answer does not count once there is another: whatever the warm-up did not touch (a
    connection, the first real image) makes it slow, and it would be the percentile for long.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self._newest: deque[float] = deque(maxlen=window)
        self._warming_up = True

    def __len__(self) -> int:
        """Return how many answers count now."""
        return len(self._newest)

    def add(self, seconds: float) -> None:
        """Take in one answer's time, seconds."""
        if self._warming_up and self._newest:
            self._newest.clear()
            self._warming_up = False
        self._newest.append(seconds)

    def p95(self) -> float | None:
        """Return the 95th percentile, seconds: a time measured (nearest rank); None = none yet."""
        if not self._newest:
            return None
        return sorted(self._newest)[math.ceil(0.95 * len(self._newest)) - 1]
