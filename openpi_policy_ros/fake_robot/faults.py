# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Trouble on demand: what is wrong with the fake robot, and from when to when."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openpi_policy_ros.errors import ConfigurationError

KINDS = {
    'camera': 'the camera is silent',
    'skew': 'the stamps of the camera lag behind by so many seconds',
    'joints': 'joint_states is silent, or leaves out the one joint that is named',
    'stuck': 'the joints stand still, whatever is commanded',
    'interlock': 'the interlock says false',
    'interlock_silent': 'the interlock is silent',
}
"""Name → what it does."""

_NUMBER = r'\d+(?:\.\d+)?'
_FAULT = re.compile(
    rf'(?P<kind>\w+)(?::(?P<target>[^=@]+))?(?:=(?P<value>-?{_NUMBER}))?'
    rf'@(?P<start>{_NUMBER})\.\.(?P<end>{_NUMBER})?'
)
EXAMPLE = 'KIND[:NAME][=VALUE]@START..[END], e.g. camera:wrist@5..8'


@dataclass(frozen=True)
class Fault:
    """One trouble.

    Attributes:
        kind: one of ``KINDS``.
        target: camera or joint; '' = all.
        value: of ``skew``, s.
        start, end: seconds since the robot began; inf = it stays.

    """

    kind: str
    target: str
    value: float
    start: float
    end: float


def parse_faults(
    texts: Iterable[str], cameras: Sequence[str], joints: Sequence[str]
) -> list[Fault]:
    """Return the faults that texts like ``camera:wrist@5..8`` ask for.

    Args:
        texts: see ``EXAMPLE``.
        cameras, joints: that the robot has.

    Raises:
        ConfigurationError: every text that cannot be read, or names what the robot lacks.

    """
    faults, problems = [], []
    for text in texts:
        try:
            faults.append(_parse(text, cameras, joints))
        except ValueError as error:
            problems.append(f'--fault {text}: {error}')
    if problems:
        raise ConfigurationError('fake robot', problems)
    return faults


def active(faults: Iterable[Fault], kind: str, target: str, elapsed: float) -> Fault | None:
    """Return the fault of this kind that counts for a camera or joint now, if any.

    Args:
        faults: all.
        kind: one of ``KINDS``.
        target: camera or joint; '' = only what concerns all of them.
        elapsed: seconds since the robot began.

    """
    for fault in faults:
        if (
            fault.kind == kind
            and fault.target in ('', target)
            and (fault.start <= elapsed < fault.end)
        ):
            return fault
    return None


def _parse(text: str, cameras: Sequence[str], joints: Sequence[str]) -> Fault:
    match = _FAULT.fullmatch(text)
    if match is None:
        raise ValueError(f'expected {EXAMPLE}')
    kind, target = match['kind'], match['target'] or ''
    if kind not in KINDS:
        raise ValueError(f'no such fault; expected one of {", ".join(KINDS)}')
    known = {'camera': cameras, 'skew': cameras, 'joints': joints}.get(kind, ())
    if target and target not in known:
        has = f'the robot has {", ".join(known)}' if known else f'{kind} takes no name'
        raise ValueError(f'{target!r} is not known; {has}')
    if (match['value'] is not None) != (kind == 'skew'):
        raise ValueError(
            'skew needs seconds, e.g. skew:wrist=0.5@5..8' if kind == 'skew' else 'takes no value'
        )
    start = float(match['start'])
    end = math.inf if match['end'] is None else float(match['end'])
    if end <= start:
        raise ValueError('ends before it begins')
    return Fault(kind, target, float(match['value'] or 0.0), start, end)
