# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Judge numbers against thresholds: a level, what is worst and what to do, and every number.

Each part of the node has its own judgement in ``health_streams`` and ``health_work``. Nothing of
ROS in here, and no clock.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FEWEST = 5
"""Messages below which no share of them is judged."""


class Level(enum.IntEnum):
    """As those of ``diagnostic_msgs/DiagnosticStatus``."""

    OK = 0
    WARN = 1
    ERROR = 2
    STALE = 3


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        level: how bad it is; OK = it is as it should be.
        text: what it is and what to do.

    """

    level: Level
    text: str


@dataclass(frozen=True)
class Health:
    """The judgement of one part of the node.

    Attributes:
        level: of the worst finding.
        message: the findings, the worst first, or how well it goes.
        values: every number, as text; its unit is in the key.

    """

    level: Level
    message: str
    values: Mapping[str, str]


def judge(findings: Iterable[Finding], well: str, values: Mapping[str, str]) -> Health:
    """Return the health of a part with these findings; ``well`` is said where all are OK."""
    bad = sorted((one for one in findings if one.level), key=lambda one: -one.level)
    if not bad:
        return Health(Level.OK, well, values)
    return Health(bad[0].level, '; '.join(one.text for one in bad), values)


def inactive(health: Health) -> Health:
    """Return what is said while the node is not active, when nothing is expected of this part."""
    text = f'inactive; {health.message}' if health.level else 'inactive'
    return Health(Level.OK, text, health.values)


def above(value: float, thresholds: tuple[float, float]) -> Level:
    """Return how bad a number is of which more is worse.

    Args:
        value: to be judged.
        thresholds: (warn, error), neither of which is exceeded by itself.

    """
    warn, error = thresholds
    return Level.ERROR if value > error else Level.WARN if value > warn else Level.OK


def below(value: float, thresholds: tuple[float, float]) -> Level:
    """Return how bad a number is of which less is worse; as ``above``."""
    warn, error = thresholds
    return Level.ERROR if value < error else Level.WARN if value < warn else Level.OK


def share_above(part: int, whole: int, thresholds: tuple[float, float]) -> Level:
    """Return how bad a share is; that of very few is not judged."""
    return above(share(part, whole), thresholds) if whole >= FEWEST else Level.OK


def share(part: int, whole: int) -> float:
    """Return a share, 0 of nothing."""
    return part / whole if whole else 0.0


def number(value: float, digits: int) -> str:
    """Return a number as text for a key's value."""
    return f'{value:.{digits}f}'


def percent(value: float) -> str:
    """Return a share as text for a message; one that is not 0 never reads as 0."""
    return f'{100 * value:.0f} %' if value >= 0.01 or not value else 'less than 1 %'
