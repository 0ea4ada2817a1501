# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A queue between threads that must not wait and one that writes to a disk."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """One piece of work for the writer.

    Attributes:
        work: does it.
        size: bytes it holds in memory.
        messages: how many are lost where it is dropped.
        must: takes its place however full the queue is.

    """

    work: Callable[[], object]
    size: int
    messages: int = 1
    must: bool = False


class Outbox:
    """Holds at most so many bytes; what does not fit is not taken. Thread-safe.

    Args:
        limit: bytes.

    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def waiting(self) -> int:
        """Return the bytes that wait."""
        with self._changed:
            return self._bytes

    def put(self, item: Item) -> bool:
        """Take an item, at once; return whether there was room for it, and it is open."""
        with self._changed:
            if self._closed:
                return False
            # One larger than the limit still goes through alone.
            if not item.must and self._bytes and self._bytes + item.size > self._limit:
                return False
            self._items.append(item)
            self._bytes += item.size
            self._changed.notify()
            return True

    def take(self, timeout: float) -> Item | None:
        """Remove and return the oldest item; None = none came within ``timeout`` seconds.

        Its bytes count until ``done``: they are still in memory.
        """
        with self._changed:
            if not self._items and not self._closed:
                self._changed.wait(timeout)
            return self._items.popleft() if self._items else None

    def done(self, item: Item) -> None:
        """Note that the work of an item was done."""
        with self._changed:
            self._bytes -= item.size

    @property
    def over(self) -> bool:
        """Return whether it was closed and everything taken."""
        with self._changed:
            return self._closed and not self._items

    def close(self) -> None:
        """Take nothing any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
