# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Count what goes through the server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from openpi_policy_ros.engine import Stages, Timing


@dataclass(frozen=True)
class ServerStats:
    """What the server did since it started.

    Attributes:
        clients: robot clients connected now.
        connections: robot clients ever.
        requests: frames received, resets and invalid ones included.
        failures: requests answered with an inference error.
        rejected: of these, because the robot beside the server was enabled.
        invalid_payloads: frames that were no request.
        stages: ``decode`` and ``encode``, milliseconds.

    """

    clients: int = 0
    connections: int = 0
    requests: int = 0
    failures: int = 0
    rejected: int = 0
    invalid_payloads: int = 0
    stages: Mapping[str, Timing] = field(default_factory=dict)


class Traffic:
    """Adds up ``ServerStats``; the server's loop writes, any thread reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(
            ('clients', 'connections', 'requests', 'failures', 'rejected', 'invalid_payloads'), 0
        )
        self._stages = Stages()

    def add(self, name: str, count: int = 1) -> None:
        """Add to one of the counts, a field of ``ServerStats``."""
        with self._lock:
            self._counts[name] += count

    def time(self, stage: str, seconds: float) -> None:
        """Add one duration."""
        with self._lock:
            self._stages.add({stage: 1e3 * seconds})

    def stats(self) -> ServerStats:
        """Return the sums."""
        with self._lock:
            return ServerStats(**self._counts, stages=self._stages.timings())
