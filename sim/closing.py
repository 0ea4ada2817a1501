# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is closed at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar

_Own = TypeVar('_Own', bound='Closing')


class Closing(ABC):
    """Something with a ``close``, for use in a ``with`` statement."""

    def __enter__(self: _Own) -> _Own:
        """Return itself; leaving the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Free what it holds."""
