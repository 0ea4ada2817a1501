# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How soon to ask again a policy that fails: at once, then ever less often."""

from __future__ import annotations

FIRST, LONGEST = 0.04, 1.0
"""Seconds from one call to the next after two failures in a row, and after many."""


class Retry:
    """Counts failures in a row.

    A policy that refuses at once, as one without memory for another session does, would otherwise
    be asked with every message that comes in, and keep a core from those whom it serves.
    """

    def __init__(self) -> None:
        self._failures = 0

    @property
    def pause(self) -> float:
        """Return the least seconds between two calls: none after a single failure."""
        if self._failures < 2:
            return 0.0
        # 2**5 * FIRST is beyond LONGEST; more of a power is of no use.
        return min(LONGEST, FIRST * 2.0 ** min(self._failures - 2, 5))

    def failed(self) -> None:
        """Note that a call failed."""
        self._failures += 1

    def forget(self) -> None:
        """Begin anew: a call succeeded."""
        self._failures = 0
