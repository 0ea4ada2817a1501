# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where every joint was at a moment of the last seconds."""

from __future__ import annotations

import bisect
import threading
from collections import deque
from collections.abc import Sequence

from openpi_policy_ros.control.buffers import NANOSECONDS

STEP_NS = 10_000_000
"""Finest distance in time of what is kept: joints publish up to 1000 times a second."""

SPAN_NS = 10 * NANOSECONDS
"""How far back it goes."""

BACK_NS = NANOSECONDS
"""A stamp that lies back by more than this says that time began anew."""

_MOST = SPAN_NS // STEP_NS


class MeasuredJoints:
    """Positions of all joints as messages told them. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, float] = {}
        self._kept: deque[tuple[int, dict[str, float]]] = deque(maxlen=_MOST)

    def add(self, names: Sequence[str], positions: Sequence[float], stamp_ns: int) -> None:
        """Take in one message, which may hold some of the joints.

        One that is no pairs of names and positions is left out.
        """
        if len(names) != len(positions):
            return
        with self._lock:
            kept = self._kept
            if kept and stamp_ns < kept[-1][0] - BACK_NS:
                kept.clear()
                self._newest.clear()
            self._newest.update(zip(names, positions, strict=True))
            # Messages of several publishers may overtake each other.
            if not kept or stamp_ns >= kept[-1][0] + STEP_NS:
                kept.append((stamp_ns, dict(self._newest)))

    def at(self, time_ns: int) -> dict[str, float]:
        """Return joint → position at a time, or the oldest that is known of it."""
        with self._lock:
            kept = list(self._kept)
            newest = dict(self._newest)
        if not kept:
            return newest
        index = bisect.bisect_right(kept, time_ns, key=lambda one: one[0])
        # A joint that was first heard of later is where it was heard of.
        return {**newest, **kept[max(index - 1, 0)][1]}
