# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot's door says of itself, and how often it is logged."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from openpi_policy_ros.control.buffers import Reason

REPEAT = 10.0
"""Least seconds between two log lines of one reason that comes and goes."""

HUSH = 1.0
"""Seconds after enabling in which it is no news that no message has come since."""

Signature: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class DoorState:
    """What the door is doing.

    Attributes:
        reasons: why no chunk can be made; empty while chunks flow.

    """

    reasons: tuple[Reason, ...] = ()

    @property
    def failing(self) -> bool:
        """Return whether the policy or the engine failed, rather than a sensor."""
        return any(reason.kind in ('observation', 'inference') for reason in self.reasons)

    @property
    def signature(self) -> Signature:
        """Return what stays equal while nothing changes but ages."""
        return tuple(reason.signature for reason in self.reasons)

    @property
    def text(self) -> str:
        """Return every reason as one line."""
        return '; '.join(reason.text for reason in self.reasons)


class DoorLog:
    """Logs what changed, and what comes and goes once in a while. Any thread.

    Args:
        log: where to.
        clock: monotonic seconds.

    """

    def __init__(self, log: logging.Logger, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._said: Signature | None = None
        self._told: dict[Signature, float] = {}
        self._hush_until: float | None = None

    def begin(self) -> None:
        """Log the next state even if it is the last one again."""
        with self._lock:
            self._said = None

    def hush(self) -> None:
        """Leave out for a moment that messages are missing: they were just forgotten."""
        with self._lock:
            self._hush_until = self._clock() + HUSH

    def hushed(self, state: DoorState) -> bool:
        """Return whether a state is to be left out, and told only if it lasts."""
        with self._lock:
            return (
                self._hush_until is not None
                and self._clock() < self._hush_until
                and any(reason.kind == 'missing' for reason in state.reasons)
            )

    def tell(self, state: DoorState, error: BaseException | None = None) -> None:
        """Log a state where it changed."""
        mark = state.signature
        with self._lock:
            if mark == self._said:
                return
            # A reason that comes and goes is told once in a while; that it went, whenever it was
            # told.
            if not self._due(mark) and state.reasons:
                return
            self._said = mark
        if not state.reasons:
            self._log.info('chunks flow')
        elif state.failing:
            self._log.error('no chunk: %s', state.text, exc_info=error)
        else:
            self._log.warning('no inference: %s', state.text)

    def warn(self, what: str, text: str, *details: object) -> None:
        """Log a warning, but one on the same matter only once in a while."""
        with self._lock:
            due = self._due((('warning', what),))
        if due:
            self._log.warning(text, *details)

    def _due(self, mark: Signature) -> bool:
        """Return whether this has not been logged for a while; it counts as logged then."""
        now = self._clock()
        if now - self._told.get(mark, now - REPEAT) < REPEAT:
            return False
        self._told[mark] = now
        return True
