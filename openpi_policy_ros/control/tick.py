# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the control core says after each tick, and what it has counted so far."""

from __future__ import annotations

from dataclasses import dataclass

from openpi_policy_ros.control.commands import Command
from openpi_policy_ros.control.machine import State


@dataclass(frozen=True)
class Counters:
    """What has happened since the start.

    Attributes:
        chunks: taken over.
        refused: with wrong numbers or a wrong shape (S4).
        late: of which every action had elapsed (S14).
        outdated: of an older epoch or an older observation than the one that runs.
        dropped_actions: elapsed actions of the chunks taken over.
        failures: inferences that failed, refused chunks included.
        clamped: ticks at which a position limit changed a command (S6).
        slowed: ticks at which a velocity limit changed a command (S7).
        starved: times that driving ran out of actions (S15); pauses of open_loop do not count.
        holds: times that HOLD was entered.
        watchdog: of these, times that commands had failed to leave (S9).

    """

    chunks: int = 0
    refused: int = 0
    late: int = 0
    outdated: int = 0
    dropped_actions: int = 0
    failures: int = 0
    clamped: int = 0
    slowed: int = 0
    starved: int = 0
    holds: int = 0
    watchdog: int = 0


@dataclass(frozen=True)
class Tick:
    """The outcome of one tick.

    Attributes:
        state: where the robot's door stands now.
        reason: why it waits or holds; '' elsewhere.
        commands: to be sent now, in the order of the outputs.
        counters: so far.
        is_last: whether the commands are the hold after which nothing follows until enabled again.

    """

    state: State
    reason: str
    commands: tuple[Command, ...]
    counters: Counters
    is_last: bool = False
