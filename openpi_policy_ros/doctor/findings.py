# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a check found: one sentence, and one of what to do."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass


class Outcome(enum.Enum):
    """How grave a finding is."""

    OK = 'OK'
    WARN = 'WARN'
    """It works, or may work, and something speaks against it."""
    FAIL = 'FAIL'
    """It cannot work like that."""
    SKIPPED = 'SKIPPED'
    NOT_MADE = 'not made'
    """It was to be looked at, but no answer came in time: it may be well or not."""


@dataclass(frozen=True)
class Finding:
    """One result.

    Attributes:
        check: what was looked at, a few words.
        outcome: how grave it is.
        found: one sentence; of a check that was skipped or not made, why.
        remedy: what to do; '' = nothing.

    """

    check: str
    outcome: Outcome
    found: str
    remedy: str = ''


def ok(check: str, found: str) -> Finding:
    """Return that all is well."""
    return Finding(check, Outcome.OK, found)


def warn(check: str, found: str, remedy: str) -> Finding:
    """Return that something speaks against it."""
    return Finding(check, Outcome.WARN, found, remedy)


def fail(check: str, found: str, remedy: str) -> Finding:
    """Return that it cannot work like that."""
    return Finding(check, Outcome.FAIL, found, remedy)


def skipped(check: str, why: str) -> Finding:
    """Return that it was not looked at."""
    return Finding(check, Outcome.SKIPPED, why)


def not_made(check: str, why: str) -> Finding:
    """Return that it was to be looked at, but could not be in time."""
    return Finding(check, Outcome.NOT_MADE, why, 'ask again when the machine has less to do')


def failed(findings: Iterable[Finding], wanted: Collection[str] = ()) -> bool:
    """Return whether one of them is a FAIL, or a wanted check was not made.

    Args:
        findings: all of them.
        wanted: checks that were asked for by name.

    """
    return any(
        one.outcome is Outcome.FAIL or (one.outcome is Outcome.NOT_MADE and one.check in wanted)
        for one in findings
    )


def gigabytes(size: float) -> str:
    """Return a size as people read it."""
    return f'{size / 1e9:.1f} GB' if size >= 1e8 else f'{size / 1e6:.1f} MB'
