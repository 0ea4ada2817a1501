# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the doors see of the engine besides the engine itself."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from openpi_policy_ros.errors import PolicyRosError


class Lane(enum.IntEnum):
    """Which door a request came through; the lower value goes first."""

    ROBOT = 0
    """The robot's own sensors. Only its newest observation is worth computing."""

    REMOTE = 1
    """A client that waits for an answer to every frame it sent."""


class Superseded(PolicyRosError):
    """A newer observation of the same robot took this one's place before it was started."""


class EngineStopped(PolicyRosError):
    """The engine takes no requests: not started, draining, closed, or its worker is dead."""


@dataclass(frozen=True)
class EngineHealth:
    """Whether the engine is fit to answer.

    Attributes:
        ready: what ``/readyz`` tells.
        reason: one sentence, never exception text; ``ready`` when ready.
        busy_for: seconds the longest running call has been running, 0 when idle.

    """

    ready: bool
    reason: str
    busy_for: float
