# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep simulated time at a rate of real time, or behind it where the machine is slower."""

from __future__ import annotations

import time
from collections.abc import Callable

from openpi_policy_ros_sim.errors import SimulationError

CATCH_UP_NS = 50_000_000
"""Most real time that is made up for; what is lost beyond that stays lost."""


class Pace:
    """When the next step of simulated time is due.

    Simulated time never runs at more than ``rate`` for longer than ``CATCH_UP_NS``: drawing takes a
    moment in which it stands still, and that moment is made up for.

    Args:
        rate: simulated seconds per second, 0 = as fast as it goes.
        steady_ns: returns monotonic nanoseconds.

    Raises:
        SimulationError: the rate is below 0.

    """

    def __init__(self, rate: float, steady_ns: Callable[[], int] = time.monotonic_ns) -> None:
        if not rate >= 0.0:
            raise SimulationError(f'rate {rate}', expected='more than 0, or 0 for unpaced')
        self._rate = rate
        self._steady_ns = steady_ns
        self._due_ns = steady_ns()
        self.begin()

    def advance(self, by_ns: int) -> int:
        """Note a step of simulated time; return after how many nanoseconds the next one is due.

        0 = it is due, or overdue.
        """
        self._simulated_ns += by_ns
        if self._rate == 0.0:
            return 0
        now_ns = self._steady_ns()
        self._due_ns = max(self._due_ns + round(by_ns / self._rate), now_ns - CATCH_UP_NS)
        return max(self._due_ns - now_ns, 0)

    def begin(self) -> None:
        """Measure ``factor`` from now on."""
        self._began_ns, self._simulated_ns = self._steady_ns(), 0

    def factor(self) -> float:
        """Return simulated seconds per second since ``begin``."""
        return self._simulated_ns / max(self._steady_ns() - self._began_ns, 1)
