# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real node in a process of its own, with one ear at what its door logs of each chunk."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any

from openpi_policy_ros.bench.child import answer_commands, usage
from openpi_policy_ros.ros import main as node

DOOR = 'openpi_policy_ros.ros.door'


class Chunks(logging.Filter):
    """Keeps the numbers of the door's debug lines, and keeps those lines from being written."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: list[dict[str, float]] = []
        self._total = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Note a chunk; let everything above debug pass."""
        timing = getattr(record, 'timing_ms', None)
        if timing is not None:
            self._total += 1
            self._seen.append({name: float(ms) for name, ms in timing.items()})
        return record.levelno > logging.DEBUG

    def mark(self) -> dict[str, Any]:
        """Forget what came so far."""
        self._seen = []
        return {'total': self._total, **usage()}

    def report(self) -> dict[str, Any]:
        """Return the chunks since the mark, each as stage → milliseconds."""
        return {'chunks': self._seen, 'total': self._total, **usage()}


def run() -> int:
    """Run the node until the parent closes our input."""
    chunks = Chunks()
    door = logging.getLogger(DOOR)
    door.setLevel(logging.DEBUG)
    door.addFilter(chunks)

    def listen() -> None:
        answer_commands({}, {'mark': chunks.mark, 'report': chunks.report})
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=listen, name='commands', daemon=True).start()
    return node.main()


if __name__ == '__main__':
    sys.exit(run())
