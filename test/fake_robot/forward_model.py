# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What ``forward_command_controller`` does with the arrays it gets, without ROS.

A row counts at once and until the next one. One with the wrong number of values is an error and
changes nothing, and so does one that is not finite (earlier versions passed that on).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class ForwardController:
    """One controller of positions, from its activation at ``start`` on."""

    def __init__(self, joints: Sequence[str], start: Sequence[float]) -> None:
        self.joints = tuple(joints)
        self._row = np.array(start, np.float64)

    def take(self, values: Sequence[float], now_ns: int) -> str:
        """Command a row; return why it is refused, '' = it is not."""
        del now_ns
        if len(values) != len(self.joints):
            return f'{len(values)} values for {len(self.joints)} joints'
        row = np.array(values, np.float64)
        if not np.isfinite(row).all():
            return f'not finite: {list(values)}'
        self._row = row
        return ''

    def desired(self, now_ns: int) -> npt.NDArray[np.float64]:
        """Return where the joints are told to be, [n]."""
        del now_ns
        return self._row.copy()
