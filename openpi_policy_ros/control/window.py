# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What counters have gained of late: rates and shares of the last seconds, not since the start."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

MINUTE = 60.0
"""How far back it can be asked, s; rare events are told of the last minute."""


class CounterWindow:
    """Readings of rising counters; ``add`` them at regular times, once a second say."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, dict[str, int]]] = deque()

    def add(self, now: float, counters: Mapping[str, int]) -> None:
        """Take a reading.

        Args:
            now: monotonic seconds, later than the last time.
            counters: by name; what is new here counted nothing before.

        """
        self._readings.append((now, dict(counters)))
        # One reading older than the window stays, from which to count.
        while len(self._readings) > 2 and self._readings[1][0] <= now - MINUTE:
            self._readings.popleft()

    def gained(self, name: str, seconds: float) -> int:
        """Return how much a counter rose in the last ``seconds``, or since the first reading."""
        if not self._readings:
            return 0
        base = self._before(seconds)
        return self._readings[-1][1].get(name, 0) - self._readings[base][1].get(name, 0)

    def rate(self, name: str, seconds: float) -> float | None:
        """Return how much a counter rose per second; None = it cannot be told yet.

        A stream that has just begun is measured from its first reading above 0: the time before
        would make it look slow. One that has never come has the rate 0.
        """
        if len(self._readings) < 2:
            return None
        base = self._before(seconds)
        last = len(self._readings) - 1
        if self._readings[last][1].get(name, 0) == 0:
            return 0.0
        while self._readings[base][1].get(name, 0) == 0:
            base += 1
        if base == last:
            return None
        (then, before), (now, after) = self._readings[base], self._readings[last]
        return (after[name] - before[name]) / (now - then)

    def _before(self, seconds: float) -> int:
        """Return the reading, but not the last, that lies nearest to so many seconds ago."""
        last = len(self._readings) - 1
        wanted = self._readings[last][0] - seconds
        one = last
        while one > 0 and self._readings[one][0] > wanted:
            one -= 1
        # Between two, the nearer one.
        if one + 1 < last and self._readings[one + 1][0] - wanted < wanted - self._readings[one][0]:
            one += 1
        return one
