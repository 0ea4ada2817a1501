# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Log what becomes of the robot: each state once when it is entered, a wait only if it lasts."""

from __future__ import annotations

import logging
from collections.abc import Callable

from openpi_policy_ros.control.controller import PAUSE, Tick
from openpi_policy_ros.control.machine import State

MOMENT = 1.0
"""How long a WAIT lasts before it is told, s: chunks that come one by one have shorter ones."""

REPEAT = 10.0
"""Least seconds between two that are told."""


class StateLog:
    """Is shown every tick, and logs few. One thread at a time.

    Args:
        log: where to.
        asked: reason of a HOLD that is no fault, as the operator asked for it.
        clock: monotonic seconds.

    """

    def __init__(self, log: logging.Logger, asked: str, clock: Callable[[], float]) -> None:
        self._log = log
        self._asked = asked
        self._clock = clock
        self._waited: float | None = None
        self.begin()

    def begin(self) -> None:
        """Log the next state even if it is the last one again."""
        self._told: State | None = None
        self._waiting_since: float | None = None

    def see(self, tick: Tick) -> None:
        """Log the state where it is news."""
        state = tick.state
        if state is State.WAIT:
            self._see_wait(tick)
            return
        self._waiting_since = None
        if state is self._told:
            return
        self._told = state
        level = logging.INFO
        if state is State.HOLD:
            level = logging.WARNING if tick.reason == self._asked else logging.ERROR
        self._say(level, tick)

    def _see_wait(self, tick: Tick) -> None:
        # Between two chunks of open_loop: meant, however long the policy takes.
        if self._told is State.WAIT or tick.reason == PAUSE:
            return
        now = self._clock()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since < MOMENT:
            return
        if self._waited is not None and now - self._waited < REPEAT:
            return
        self._told, self._waited = State.WAIT, now
        self._say(logging.WARNING, tick)

    def _say(self, level: int, tick: Tick) -> None:
        text = f': {tick.reason}' if tick.reason else ''
        self._log.log(level, 'robot: %s%s', tick.state.value, text)
