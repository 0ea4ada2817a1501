# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How many robot clients may be connected at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class Admission:
    """Counts clients from the end of their handshake to the end of their TCP connection.

    Who has not finished the handshake, or asks for health, takes no place. Event loop only.

    Args:
        limit: most clients, 0 = any number.

    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._inside: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        """Return how many are inside."""
        return len(self._inside)

    def admit(self, wait_gone: Callable[[], Awaitable[None]]) -> bool:
        """Take a place until ``wait_gone`` returns, if there is one; return whether there was."""
        if self._limit and len(self._inside) >= self._limit:
            return False
        leaving = asyncio.ensure_future(wait_gone())
        self._inside.add(leaving)
        leaving.add_done_callback(self._inside.discard)
        return True
