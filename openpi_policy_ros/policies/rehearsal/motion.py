# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The motion of a rehearsal: to one side of a centre and back, for ever, from wherever it starts.

    q(t) = c + A (1 - cos(2πt / T)) / 2         its rate: A (π / T) sin(2πt / T)

It begins and ends at rest at the centre c, and its largest speed is A π / T. A robot that starts
elsewhere, at q0, is brought to c first, from rest to rest, no faster and with no more acceleration:

    q(t) = c + (q0 - c) (1 + cos(πt / h)) / 2   with h = T / 2 · max(w, √w) and w = |q0 - c| / A
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float64]


LAG = 0.5
"""How far behind the motion a robot may be, s, and still be following it."""

_TOLERANCE = 0.25
"""How far off the motion a robot may be, in shares of A, and still be following it."""

_LOOKS = 11
"""Places of the last ``LAG`` that are compared with where a robot is."""


@dataclass(frozen=True)
class Start:
    """Where and when a motion begins.

    Attributes:
        centre: c, float64 [D], action units.
        place: q0, float64 [D].
        began: seconds on the policy's clock.
        side: 1 or -1: the side to which columns that are rates go. Nothing brings those back to a
            centre, so that they take sides by turns.

    """

    centre: Row
    place: Row
    began: float
    side: float = 1.0


@dataclass(frozen=True)
class Motion:
    """Which way each of D columns goes.

    Attributes:
        amplitude: A, float64 [D]; 0 = the column stays.
        period: T, s.
        rate: whether each column is a rate, bool [D]; the others are positions.

    """

    amplitude: Row
    period: float
    rate: npt.NDArray[np.bool_]

    def places(self, start: Start, elapsed: Row) -> Rows:
        """Return q, or its rate, so many seconds after the beginning, float64 [len(elapsed), D]."""
        off, homing = self._homing(start)
        home = np.clip(elapsed / homing, 0.0, 1.0)[:, np.newaxis] if homing else 1.0
        phase = (math.tau * np.maximum(elapsed - homing, 0.0) / self.period)[:, np.newaxis]
        share = (1.0 - np.cos(phase)) / 2.0
        slope = math.pi / self.period * np.sin(phase) * start.side
        left = off * (1.0 + np.cos(math.pi * home)) / 2.0
        return np.where(
            self.rate, self.amplitude * slope, start.centre + left + self.amplitude * share
        )

    def rows(self, start: Start, elapsed: float, step: float, count: int) -> Rows:
        """Return the actions of ``count`` steps, the first one step after ``elapsed``, [count, D].

        Args:
            start: of the motion.
            elapsed: seconds since it began.
            step: seconds from one row to the next.
            count: of rows.

        """
        return self.places(start, elapsed + step * (np.arange(count, dtype=np.float64) + 1.0))

    def is_followed(self, start: Start, elapsed: float, measured: Row) -> bool:
        """Return whether a robot is about where the motion was within the last ``LAG``."""
        moved = self._moved
        back = np.linspace(0.0, LAG, _LOOKS, dtype=np.float64)
        looks = np.asarray(np.maximum(elapsed - back, 0.0), np.float64)
        off = np.abs(self.places(start, looks)[:, moved] - measured[moved])
        return bool((off <= _TOLERANCE * np.abs(self.amplitude[moved])).all(axis=1).any())

    def is_elsewhere(self, centre: Row, measured: Row) -> bool:
        """Return whether a robot is further from its way than the way is long.

        The way of a column leads from the centre to the centre + A. Columns that are rates, and
        those that stay, are not looked at: the former are not measured in the unit of A.
        """
        moved = self._moved
        low = centre + np.minimum(self.amplitude, 0.0)
        high = centre + np.maximum(self.amplitude, 0.0)
        beyond = np.maximum(low - measured, measured - high)
        return bool((beyond[moved] > np.abs(self.amplitude[moved])).any())

    @property
    def _moved(self) -> npt.NDArray[np.bool_]:
        return np.asarray((self.amplitude != 0.0) & ~self.rate)

    def _homing(self, start: Start) -> tuple[Row, float]:
        """Return how far each column is from its centre, and how long the way there takes."""
        moved = self._moved
        off = np.where(moved, start.place - start.centre, 0.0)
        if not off.any():
            return off, 0.0
        ways = float(np.max(np.abs(off[moved] / self.amplitude[moved])))
        return off, self.period / 2.0 * max(ways, math.sqrt(ways))


def alternating(amplitude: float, still: npt.NDArray[np.bool_]) -> Row:
    """Return A for each column, with alternating sign, and 0 where ``still``, float64 [D]."""
    signs = np.where(np.arange(len(still)) % 2, -1.0, 1.0)
    return np.where(still, 0.0, amplitude * signs)


def continued(rows: Rows, leftover: npt.NDArray[np.float32], delay: int, guided: int) -> Rows:
    """Return ``rows`` that begin as the running chunk goes on, float64 [H, D].

    The rows that will have been executed by the time the chunk arrives are those of ``leftover``;
    from there to ``guided`` rows it changes over to ``rows`` in equal steps.

    Args:
        rows: float64 [H, D].
        leftover: rows of the running chunk from the same moment on, float32 [T, D].
        delay: rows that will have been executed, 0 or more.
        guided: rows that ``leftover`` has a say in, at least ``delay``.

    """
    count = min(len(rows), len(leftover), max(guided, delay))
    over = max(count - delay, 0)
    weights = np.ones(count)
    weights[count - over :] = 1.0 - (np.arange(over) + 1.0) / (over + 1.0)
    result = rows.copy()
    pull = weights[:, np.newaxis] * (leftover[:count] - rows[:count])
    result[:count] += pull
    return result
