# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What ``forward_command_controller`` does with the arrays it gets, without ROS.

A row counts at once and until the next one: a velocity controller that hears no more goes on at the
last speed. A row with the wrong number of values is an error and changes nothing, and so does one
that is not finite (earlier versions passed that on).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

NANOSECONDS = 1_000_000_000
Row = npt.NDArray[np.float64]


class ForwardController:
    """One controller of positions, from its activation at ``start`` on."""

    def __init__(self, joints: Sequence[str], start: Sequence[float]) -> None:
        self.joints = tuple(joints)
        self._row = np.array(start, np.float64)

    def take(self, values: Sequence[float], now_ns: int) -> str:
        """Command a row; return why it is refused, '' = it is not."""
        del now_ns
        problem = _problem(values, self.joints)
        if not problem:
            self._row = np.array(values, np.float64)
        return problem

    def desired(self, now_ns: int) -> Row:
        """Return where the joints are told to be, [n]."""
        del now_ns
        return self._row.copy()


class VelocityController:
    """One controller of velocities, and the joints that follow it.

    Args:
        joints: in the controller's order.
        start: where they are, [n].
        lower, upper: where they stop, [n]; ±inf = nowhere.
        speed: the most that they do, [n]; inf = anything.

    """

    def __init__(
        self,
        joints: Sequence[str],
        start: Sequence[float],
        *,
        lower: Sequence[float],
        upper: Sequence[float],
        speed: Sequence[float],
    ) -> None:
        self.joints = tuple(joints)
        self._row = np.array(start, np.float64)
        self._lower, self._upper = np.array(lower, np.float64), np.array(upper, np.float64)
        self._most = np.array(speed, np.float64)
        self._velocity = np.zeros(len(self.joints))
        self._known_ns: int | None = None

    def take(self, values: Sequence[float], now_ns: int) -> str:
        """Command velocities; return why they are refused, '' = they are not."""
        problem = _problem(values, self.joints)
        if not problem:
            self.desired(now_ns)
            self._velocity = np.clip(np.array(values, np.float64), -self._most, self._most)
        return problem

    def desired(self, now_ns: int) -> Row:
        """Return where the joints have got to, [n]."""
        if self._known_ns is not None and now_ns > self._known_ns:
            moved = self._velocity * ((now_ns - self._known_ns) / NANOSECONDS)
            self._row = np.clip(self._row + moved, self._lower, self._upper)
        self._known_ns = max(now_ns, self._known_ns or now_ns)
        return self._row.copy()


def _problem(values: Sequence[float], joints: Sequence[str]) -> str:
    if len(values) != len(joints):
        return f'{len(values)} values for {len(joints)} joints'
    if not np.isfinite(np.array(values, np.float64)).all():
        return f'not finite: {list(values)}'
    return ''
