# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Say which streams stand in the way of an inference, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from openpi_policy_ros.control.buffers import Latest, Reason, Refusal, Sample, stale_text

T = TypeVar('T')


def camera_reasons(
    cameras: Mapping[str, Latest[Any]], topic: Callable[[str], str], now: int
) -> list[Reason]:
    """Return one reason for each camera whose newest image cannot be used.

    Args:
        cameras: by name.
        topic: returns the full name of a camera's topic.
        now: node's clock, ns.

    """
    reasons: list[Reason] = []
    for name, buffer in cameras.items():
        streams = (buffer.name,)
        if buffer.refusal is not None:
            reasons.append(refused(streams, buffer.name, buffer.refusal))
        elif buffer.sample is None:
            hint = f' ({buffer.hint})' if buffer.hint else ''
            text = f'{buffer.name}: no image on {topic(name)} yet{hint}'
            reasons.append(Reason('missing', streams, text, buffer.hint))
        elif buffer.is_stale(now):
            text = stale_text(buffer.sample, buffer.max_age_ns, now)
            hint = f'; {buffer.hint}' if buffer.hint else ''
            reasons.append(Reason('stale', streams, f'{buffer.name} {text}{hint}', buffer.hint))
    return reasons


def joint_reasons(
    joints: Mapping[str, Latest[float]], topic: Callable[[], str], now: int
) -> list[Reason]:
    """Return one reason for each kind of trouble, naming all its joints.

    Args:
        joints: by name.
        topic: returns the full name of their topic.
        now: node's clock, ns.

    """
    reasons: list[Reason] = []
    missing = [name for name, one in joints.items() if one.sample is None and one.refusal is None]
    if missing:
        text = f'joint_states: no message on {topic()} has named {_list(missing)} yet'
        reasons.append(Reason('missing', tuple(missing), text))
    unusable: dict[str, tuple[Refusal, list[str]]] = {}
    for name, one in joints.items():
        if one.refusal is not None:
            unusable.setdefault(one.refusal.detail, (one.refusal, []))[1].append(name)
    for refusal, names in unusable.values():
        reasons.append(refused(tuple(names), f'joint_states: {_list(names)}', refusal))
    stale = [name for name, one in joints.items() if one.is_stale(now)]
    if stale:
        oldest = min((joints[name] for name in stale), key=lambda one: newest(one).stamp_ns)
        text = stale_text(newest(oldest), oldest.max_age_ns, now)
        reasons.append(Reason('stale', tuple(stale), f'joint_states: {_list(stale)} {text}'))
    return reasons


def newest(buffer: Latest[T]) -> Sample[T]:
    """Return the sample of a buffer that has one."""
    assert buffer.sample is not None
    return buffer.sample


def refused(streams: tuple[str, ...], who: str, refusal: Refusal) -> Reason:
    """Return the reason for a refused message of ``who``."""
    # The text of an InvalidObservation names its stream already.
    named = refusal.text.startswith(('camera ', 'joint_states'))
    text = refusal.text if named else f'{who} {refusal.text}'
    return Reason('refused', streams, text, refusal.detail)


def _list(names: Sequence[str]) -> str:
    return ', '.join(names)
