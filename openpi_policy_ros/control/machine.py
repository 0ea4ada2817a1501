# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The states of the robot's door: nothing moves until enabled, and a hold stays until released."""

from __future__ import annotations

import enum


class State(enum.Enum):
    """Where the robot's door stands.

    INIT: not active. READY: active, nothing is commanded. DRY_RUN: like READY, and cannot be
    enabled. ENABLED: chunks drive the robot. WAIT: enabled, but no usable chunk: the held command
    is sent again. HOLD: stopped at the last command, for a reason that stays until released.
    """

    INIT = 'INIT'
    READY = 'READY'
    DRY_RUN = 'DRY_RUN'
    ENABLED = 'ENABLED'
    WAIT = 'WAIT'
    HOLD = 'HOLD'


class Event(enum.Enum):
    """What can happen to it."""

    ACTIVATE = 'activate'
    DEACTIVATE = 'deactivate'
    ENABLE = 'enable'
    DISABLE = 'disable'
    RUN = 'run'
    WAIT = 'wait'
    HOLD = 'hold'
    RESET = 'reset'


ACTIVE = frozenset((State.ENABLED, State.WAIT))
"""The states in which commands leave; every way out of them owes the robot a hold."""

OPENED = 'enabled'
"""What enabling answers where it opened the gate; another text where it was open already."""

_RELEASED = (State.READY, State.ENABLED, State.WAIT, State.HOLD)
_TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.INIT, Event.ACTIVATE): State.READY,
    **{(state, Event.DEACTIVATE): State.INIT for state in State},
    # Enabling what is enabled changes nothing: a WAIT ends with a chunk, not with a service call.
    (State.READY, Event.ENABLE): State.ENABLED,
    (State.HOLD, Event.ENABLE): State.ENABLED,
    **{(state, Event.DISABLE): State.READY for state in _RELEASED},
    (State.WAIT, Event.RUN): State.ENABLED,
    (State.ENABLED, Event.WAIT): State.WAIT,
    (State.ENABLED, Event.HOLD): State.HOLD,
    (State.WAIT, Event.HOLD): State.HOLD,
    (State.ENABLED, Event.RESET): State.WAIT,
}
"""(state, event) → next state; an event that is not listed changes nothing."""


class Machine:
    """The present state and why it is that one.

    Attributes:
        state: where the door stands.
        reason: why it waits or holds; '' elsewhere.

    """

    def __init__(self, *, dry_run: bool) -> None:
        """Start in INIT. ``dry_run``: activate to DRY_RUN, from which nothing can be enabled."""
        self.dry_run = dry_run
        self.state = State.INIT
        self.reason = ''

    @property
    def active(self) -> bool:
        """Return whether commands leave."""
        return self.state in ACTIVE

    def activate(self) -> None:
        """Get ready to be enabled."""
        self._apply(Event.ACTIVATE)
        if self.dry_run and self.state is State.READY:
            self.state = State.DRY_RUN

    def deactivate(self) -> None:
        """Go back to INIT from anywhere."""
        self._apply(Event.DEACTIVATE)

    def enable(self, on: bool, blocked: str = '') -> tuple[bool, str]:
        """Open or close the gate to the robot.

        Args:
            on: True leaves READY and HOLD for ENABLED; False leaves all of them for READY.
            blocked: what would make the robot hold at once; '' = nothing. Only for ``on``.

        Returns:
            (done, one sentence for the operator).

        """
        if not on:
            self._apply(Event.DISABLE)
            return True, 'disabled'
        if self.state is State.INIT:
            return False, 'refused: the node is not active; activate it first'
        if self.state is State.DRY_RUN:
            return False, 'refused: dry_run is true, so nothing may move; restart with it false'
        if self.active:
            return True, f'already enabled ({self.state.value})'
        if blocked:
            return False, f'refused: {blocked}'
        self._apply(Event.ENABLE)
        return True, OPENED

    def run(self) -> None:
        """Note that a usable chunk drives the robot."""
        self._apply(Event.RUN)

    def wait(self, reason: str) -> None:
        """Note that there is no usable chunk; a later reason replaces the former one."""
        self._apply(Event.WAIT)
        if self.state is State.WAIT:
            self.reason = reason

    def hold(self, reason: str) -> None:
        """Latch HOLD with its first reason; where nothing is commanded, nothing changes."""
        if self._apply(Event.HOLD):
            self.reason = reason

    def reset(self, reason: str) -> None:
        """Drop what runs: ENABLED waits for a new chunk, HOLD stays."""
        if self._apply(Event.RESET):
            self.reason = reason

    def _apply(self, event: Event) -> bool:
        """Return whether the event led to another state; its reason is empty then."""
        following = _TRANSITIONS.get((self.state, event), self.state)
        if following is self.state:
            return False
        self.state = following
        self.reason = ''
        return True
