# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A chunk laid out in time: what its rows say at any moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.policies.base import ActionChunk

Row: TypeAlias = npt.NDArray[np.float64]
"""float64 [N], one number for each axis."""
Rows: TypeAlias = npt.NDArray[np.float64]
"""float64 [M, N]."""


@dataclass(frozen=True)
class TimedChunk:
    """One chunk; row i belongs to the time from start_ns + i · dt_ns to its due time, one dt later.

    Attributes:
        rows: float64 [H, N], H ≥ 1.
        start_ns: t_obs, or the arrival in open loop; ROS clock.
        dt_ns: one action step, > 0.
        epoch: of the request that it answers.
        chunk: as the policy gave it, for the leftover of real-time chunking.

    """

    rows: Rows
    start_ns: int
    dt_ns: int
    epoch: int
    chunk: ActionChunk | None = None

    @property
    def end_ns(self) -> int:
        """Return when the last row is due."""
        return self.due_ns(len(self.rows) - 1)

    def due_ns(self, row: int) -> int:
        """Return when a row is due."""
        return self.start_ns + (row + 1) * self.dt_ns

    def first_due(self, time_ns: int) -> int:
        """Return the first row due at ``time_ns`` or later; H where all have elapsed."""
        return int(np.clip(self._row_of(np.array([time_ns], np.int64))[0], 0, len(self.rows)))

    def at(self, times_ns: npt.NDArray[np.int64], held: npt.NDArray[np.bool_]) -> Rows:
        """Return what the chunk says at some times, float64 [M, N].

        Linear between the points. Before the first point it is the first row, after the last one
        the last row.

        Args:
            times_ns: [M], ROS clock.
            held: [N]; these axes take the row that belongs to the time instead.

        """
        row = np.clip(self._row_of(times_ns), 0, len(self.rows) - 1)
        due = self.start_ns + (row + 1) * self.dt_ns
        left = np.clip((due - times_ns) / self.dt_ns, 0.0, 1.0)
        target = self.rows[row]
        between = target + (self.rows[np.maximum(row - 1, 0)] - target) * left[:, np.newaxis]
        return np.where(held, target, between)

    def _row_of(self, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        # Rounds up in integers: floats lose some nanoseconds of a clock's seconds since 1970.
        return -((self.start_ns - times_ns) // self.dt_ns) - 1
