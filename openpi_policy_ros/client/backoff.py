# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How long to wait before the next attempt to connect."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Backoff:
    """Exponential back-off with jitter, so that a fleet does not come back all at once.

    Attributes:
        first: longest wait before the second attempt, seconds.
        limit: longest wait at all, seconds.
        draw: uniform random numbers from [0, 1).

    """

    first: float = 0.1
    limit: float = 3.0
    draw: Callable[[], float] = field(default=random.random)

    def delay(self, failures: int) -> float:
        """Return seconds to wait after ``failures`` failed attempts in a row, 0 after none.

        Between half and the whole of ``first`` · 2^(failures - 1), at most ``limit``.
        """
        if failures <= 0:
            return 0.0
        whole = min(self.limit, self.first * 2.0 ** min(failures - 1, 32))
        return whole * (0.5 + 0.5 * self.draw())
