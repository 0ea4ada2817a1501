# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Let commands leave in the order in which they were decided, and keep time without drift.

Nothing of ROS in here: what sends is handed in.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openpi_policy_ros.control.commands import Command

_log = logging.getLogger('openpi_policy_ros.ros.actuation')


class Pace:
    """Deadlines that lie one period apart, whatever the work between them takes."""

    def __init__(self, period_ns: int, start_ns: int) -> None:
        self._period_ns = period_ns
        self._due_ns = start_ns

    def wait_ns(self, now_ns: int) -> int:
        """Return how long to sleep until the next deadline, 0 where it has passed.

        Whole periods that were missed are left out; those to come stay where they were.
        """
        self._due_ns += self._period_ns
        late = now_ns - self._due_ns
        if late >= self._period_ns:
            self._due_ns += late // self._period_ns * self._period_ns
        return max(self._due_ns - now_ns, 0)


@dataclass(frozen=True)
class Delivered:
    """What became of the commands of one decision.

    Attributes:
        left: those that have left.
        failed: those that did not leave.
        overtaken: whether a later decision kept some of them back.

    """

    left: tuple[Command, ...] = ()
    failed: tuple[Command, ...] = ()
    overtaken: bool = False

    @property
    def complete(self) -> bool:
        """Return whether all of them have left."""
        return not self.failed and not self.overtaken


class Outbox:
    """Sends commands from any thread; none of an earlier decision follows one of a later.

    Each decision takes a number when it is made. A publisher that is stuck holds up its own output
    alone.

    Args:
        send: publishes one command; what it raises is told and counts as not sent.
        patience_ns: how long to wait for another thread that is sending on the same output.

    """

    def __init__(self, send: Callable[[Command], None], patience_ns: int) -> None:
        self._send = send
        self._patience = patience_ns / 1e9
        self._lock = threading.Lock()
        self._newest = 0
        self._busy: dict[str, threading.Lock] = {}
        self._troubles: dict[str, str] = {}

    def number(self) -> int:
        """Return the number of a decision just made; earlier ones send nothing from now on."""
        with self._lock:
            self._newest += 1
            return self._newest

    def deliver(self, number: int, commands: Sequence[Command]) -> Delivered:
        """Send commands of the decision ``number``, each output for itself."""
        left: list[Command] = []
        failed: list[Command] = []
        for command in commands:
            busy = self._busy_with(command.output)
            if not busy.acquire(timeout=self._patience):
                self._note(command.output, 'its publisher is stuck')
                failed.append(command)
                continue
            try:
                if number != self._newest:
                    return Delivered(tuple(left), tuple(failed), overtaken=True)
                self._send(command)
            except Exception as error:
                self._note(command.output, f'{type(error).__name__}: {error}')
                failed.append(command)
            else:
                left.append(command)
                self._note(command.output, '')
            finally:
                busy.release()
        return Delivered(tuple(left), tuple(failed), overtaken=number != self._newest)

    def _busy_with(self, output: str) -> threading.Lock:
        with self._lock:
            return self._busy.setdefault(output, threading.Lock())

    def _note(self, output: str, trouble: str) -> None:
        """Log a trouble once, and its end."""
        if self._troubles.get(output, '') == trouble:
            return
        self._troubles[output] = trouble
        if trouble:
            _log.error('output %r: a command could not be sent: %s', output, trouble)
        else:
            _log.info('output %r: commands leave again', output)
