# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the robot was last told to be: a row per tick, or a path that a controller follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.timed_chunk import Row, Rows

_SAME = 1e-9
"""Rad or m between places that count as one."""


@dataclass(frozen=True)
class _Path:
    """Points [K, n] due at times_ns [K]; before the first and after the last it stands still."""

    times_ns: npt.NDArray[np.int64]
    rows: Rows

    def at(self, time_ns: int) -> Row:
        # Relative: a float holds an absolute time in nanoseconds only to the microsecond.
        times = (self.times_ns - time_ns).astype(np.float64)
        return np.array([np.interp(0.0, times, column) for column in self.rows.T])

    def later(self, by_ns: int) -> _Path:
        return _Path(self.times_ns + by_ns, self.rows)


class Commanded:
    """The last command of every output, as a position (or velocity) at any time.

    All times are on the node's ROS clock; rows are float64 in ROS units. A controller may go by
    that clock or by a steady one, so that after a step of the clock it may be at either of two
    places on its path, until both have reached the next point.
    """

    def __init__(self, axes: Axes) -> None:
        self._axes = axes
        self._paths: dict[str, _Path] = {}
        # The paths of controllers that a step of the clock has left behind.
        self._behind: dict[str, _Path] = {}
        self._start = np.full(len(axes.names), np.nan)

    def begin(self) -> None:
        """Forget every command: the robot may have been moved by others since."""
        self._paths.clear()
        self._behind.clear()
        self._start[:] = np.nan

    def start_from(self, measured: Mapping[str, float]) -> None:
        """Take the measured positions for outputs that nothing has commanded since ``begin``."""
        for axis in np.flatnonzero(self._axes.position):
            self._start[axis] = measured.get(self._axes.names[axis], np.nan)

    def has(self, output: str) -> bool:
        """Return whether anything was commanded since ``begin``."""
        return output in self._paths

    def at(self, output: str, time_ns: int) -> Row:
        """Return where an output is commanded to be, [n]; NaN on axes that nobody knows of."""
        path = self._paths.get(output)
        return self._start[self._axes.outputs[output]] if path is None else path.at(time_ns)

    def others_at(self, output: str, time_ns: int) -> Rows:
        """Return where an output may be instead, [0 or 1, n]."""
        path = self._behind.get(output)
        width = self._axes.outputs[output].stop - self._axes.outputs[output].start
        return np.empty((0, width)) if path is None else path.at(time_ns)[None]

    def all_at(self, time_ns: int) -> Row:
        """Return where every axis is commanded to be, [N]."""
        row = self._start.copy()
        for output, path in self._paths.items():
            row[self._axes.outputs[output]] = path.at(time_ns)
        return row

    def held(self, output: str, time_ns: int) -> Row:
        """Return the command that stops an output there, [n]: zeros for velocities."""
        position = self._axes.position[self._axes.outputs[output]]
        return np.where(position, self.at(output, time_ns), 0.0)

    def shift(self, by_ns: int) -> None:
        """Move every path in time, as a jump of the clock did to everything but the robot."""
        self._paths = {output: path.later(by_ns) for output, path in self._paths.items()}
        self._behind = {output: path.later(by_ns) for output, path in self._behind.items()}

    def step(self, by_ns: int) -> None:
        """Note that the clock got ahead by so much, which controllers follow or not."""
        for output, path in self._paths.items():
            if len(path.times_ns) > 1:
                self._behind[output] = self._behind.get(output, path).later(by_ns)

    def set_row(self, output: str, row: Row) -> None:
        """Note a row [n] that counts until the next command."""
        self._paths[output] = _Path(np.zeros(1, np.int64), row[None].copy())
        self._behind.pop(output, None)

    def set_path(
        self,
        output: str,
        times_ns: npt.NDArray[np.int64],
        rows: Rows,
        now_ns: int,
    ) -> None:
        """Note waypoints [M, n] at times [M] from now; the path leads from here to the first."""
        start = self.at(output, now_ns)
        start = np.where(np.isnan(start), rows[0], start)
        times_ns = np.concatenate([[now_ns], now_ns + times_ns])
        behind = self._behind.pop(output, None)
        if behind is not None:
            other = behind.at(now_ns)
            if not np.allclose(other, start, rtol=0.0, atol=_SAME, equal_nan=True):
                self._behind[output] = _Path(times_ns, np.vstack([other, rows]))
        self._paths[output] = _Path(times_ns, np.vstack([start, rows]))
