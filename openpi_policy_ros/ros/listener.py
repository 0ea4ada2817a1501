# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Let others hear what goes in and out on the robot's side, without being able to disturb it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from sensor_msgs.msg import JointState

from openpi_policy_ros.control.commands import Command
from openpi_policy_ros.control.controller import Tick
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.ros.publishers import Status

_log = logging.getLogger('openpi_policy_ros.ros.listener')

REPEAT = 10.0
"""Least seconds between two log lines about one listener."""


class RobotListener:
    """Hears what happens on the robot's side; every method does nothing until overridden.

    All must be quick: they are called by the threads that drive the robot. The node's transitions
    wait for ``close``, after which nothing is called any more.
    """

    @property
    def facts(self) -> Mapping[str, str]:
        """Return what ``~/status`` tells of it, any time."""
        return {}

    def on_chunk(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        """Hear a chunk that counts, in the thread of the robot's door.

        Args:
            chunk: as the policy made it, ungated.
            t_obs_ns: when what it answers was observed, ROS time.

        """

    def on_command(self, command: Command, now_ns: int) -> None:
        """Hear a command that has left, in the control thread or the watchdog's.

        Args:
            command: what was published.
            now_ns: ROS time.

        """

    def on_joints(self, message: JointState, now_ns: int) -> None:
        """Hear every message of joints, usable or not, in the executor's thread.

        Args:
            message: as it came.
            now_ns: ROS time.

        """

    def on_tick(self, tick: Tick) -> None:
        """Hear the outcome of every control tick, after its commands have left."""

    def on_status(self, status: Status) -> None:
        """Hear what ``~/status`` says, in any thread, when it is published."""

    def close(self) -> None:
        """Give back whatever is held."""


class Listeners(RobotListener):
    """Passes everything on to each listener; what one raises is logged and ends there.

    Args:
        clock: monotonic seconds.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: tuple[RobotListener, ...] = ()
        self._lock = threading.Lock()
        self._told: dict[str, float] = {}

    @property
    def facts(self) -> Mapping[str, str]:
        """Return what ``~/status`` tells of all of them."""
        found: dict[str, str] = {}
        self._each(lambda one: found.update(one.facts))
        return found

    def add(self, listener: RobotListener) -> None:
        """Pass on to one more from now on."""
        self._all = (*self._all, listener)

    def on_chunk(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        """Pass on a chunk."""
        self._each(lambda one: one.on_chunk(chunk, t_obs_ns))

    def on_command(self, command: Command, now_ns: int) -> None:
        """Pass on a command."""
        self._each(lambda one: one.on_command(command, now_ns))

    def on_joints(self, message: JointState, now_ns: int) -> None:
        """Pass on a message of joints."""
        self._each(lambda one: one.on_joints(message, now_ns))

    def on_tick(self, tick: Tick) -> None:
        """Pass on a control tick."""
        self._each(lambda one: one.on_tick(tick))

    def on_status(self, status: Status) -> None:
        """Pass on a status."""
        self._each(lambda one: one.on_status(status))

    def close(self) -> None:
        """Close every listener, the last added first; nothing is passed on any more."""
        closing, self._all = self._all, ()
        for one in reversed(closing):
            self._call(one, RobotListener.close.__name__, one.close)

    def _each(self, call: Callable[[RobotListener], None]) -> None:
        for one in self._all:
            self._call(one, 'call', lambda one=one: call(one))  # type: ignore[misc]

    def _call(self, listener: RobotListener, what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            name = type(listener).__name__
            if self._due(f'{name} {what}'):
                _log.exception('%s failed; the robot goes on without it', name)

    def _due(self, mark: str) -> bool:
        with self._lock:
            now = self._clock()
            if now - self._told.get(mark, now - REPEAT) < REPEAT:
                return False
            self._told[mark] = now
            return True
