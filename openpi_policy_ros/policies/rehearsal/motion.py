# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The motion of a rehearsal: from where the robot was found, to one side and back, for ever.

    q(t) = q0 + A (1 - cos(2πt / T)) / 2        its rate: A (π / T) sin(2πt / T)

It begins and ends at rest at q0, and its largest speed is A π / T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float64]


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

    def place(self, anchor: Row, elapsed: float) -> Row:
        """Return the positions q after so many seconds, float64 [D]."""
        share = (1.0 - math.cos(math.tau * elapsed / self.period)) / 2.0
        return np.asarray(anchor + self.amplitude * share)

    def rows(self, anchor: Row, elapsed: float, step: float, count: int) -> Rows:
        """Return the actions of ``count`` steps, the first one step after ``elapsed``, [count, D].

        Args:
            anchor: q0, float64 [D], action units.
            elapsed: seconds since the motion began.
            step: seconds from one row to the next.
            count: of rows.

        """
        phase = math.tau * (elapsed + step * (np.arange(count) + 1.0)) / self.period
        share = ((1.0 - np.cos(phase)) / 2.0)[:, np.newaxis]
        slope = (math.pi / self.period * np.sin(phase))[:, np.newaxis]
        return np.where(self.rate, self.amplitude * slope, anchor + self.amplitude * share)

    def is_elsewhere(self, anchor: Row, measured: Row) -> bool:
        """Return whether a robot is further from its way than the way is long.

        The way of a column leads from ``anchor`` to ``anchor`` + A. Columns that are rates, and
        those that stay, are not looked at: the former are not measured in the unit of A.
        """
        moved = (self.amplitude != 0.0) & ~self.rate
        low = anchor + np.minimum(self.amplitude, 0.0)
        high = anchor + np.maximum(self.amplitude, 0.0)
        beyond = np.maximum(low - measured, measured - high)
        return bool((beyond[moved] > np.abs(self.amplitude[moved])).any())


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
