# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A digest of weights, computed beside their copying.

SHA-256 alone costs as much time as the copying does. Blocks are hashed by other threads while they
are copied, so that each page is read once, and what a load waits for is the slower of the two.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

_MOST_THREADS = 4


class WeightDigest:
    """SHA-256 over the SHA-256 of every block that was added, in the order of adding.

    To be used in a ``with`` block, which ends the threads.
    """

    def __init__(self) -> None:
        self._threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
        self._pool = ThreadPoolExecutor(self._threads, 'weight-digest')
        self._running: deque[Future[bytes]] = deque()
        self._digest = hashlib.sha256()

    def __enter__(self) -> WeightDigest:
        """Return the digest."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the threads, after the blocks they are at."""
        self._pool.shutdown(cancel_futures=True)

    def add(self, label: str, block: Any) -> None:
        """Begin to hash a block.

        Args:
            label: what the block is; counts like its bytes.
            block: object with the buffer interface; must not change until ``hexdigest``.

        """
        # Far behind the copying, pages might have to be read a second time.
        while len(self._running) >= self._threads:
            self._digest.update(self._running.popleft().result())
        self._running.append(self._pool.submit(_hash, label.encode(), block))

    def hexdigest(self) -> str:
        """Return the digest of all that was added, 64 hexadecimal digits."""
        while self._running:
            self._digest.update(self._running.popleft().result())
        return self._digest.hexdigest()


def _hash(label: bytes, block: Any) -> bytes:
    digest = hashlib.sha256(label)
    digest.update(block)
    return digest.digest()
