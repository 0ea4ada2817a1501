# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Judge what comes from the robot: each camera, and its joint states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openpi_policy_ros.configuration.diagnostics import Diagnostics
from openpi_policy_ros.control.buffers import NANOSECONDS, StreamCount
from openpi_policy_ros.control.health import (
    Finding,
    Health,
    Level,
    above,
    below,
    judge,
    number,
    percent,
    share,
    share_above,
)
from openpi_policy_ros.control.images import Picture


@dataclass(frozen=True)
class CameraFacts:
    """What is known of one camera.

    Attributes:
        topic: resolved.
        max_age: oldest image that an inference may use, s.
        expected_rate: images per second, Hz; 0 = not known.
        count: so far.
        lost: images that the middleware knows were lost, so far.
        rate: usable images per second of late, Hz; None = cannot be told yet.
        lately: count of the window: received, refused, lost.
        picture: the newest image; None = there has been none.

    """

    topic: str
    max_age: float
    expected_rate: float
    count: StreamCount
    lost: int
    rate: float | None
    lately: Lately
    picture: Picture | None


@dataclass(frozen=True)
class Lately:
    """Messages of the window."""

    received: int = 0
    refused: int = 0
    lost: int = 0


@dataclass(frozen=True)
class JointFacts:
    """What is known of the joint states.

    Attributes:
        topic: resolved.
        max_age: oldest position that an inference may use, s.
        expected_rate: positions per second of each joint, Hz; 0 = not known.
        counts: joint → so far.
        rates: joint → usable positions per second of late, Hz; None = cannot be told yet.
        lately: positions of the window, of all joints together.

    """

    topic: str
    max_age: float
    expected_rate: float
    counts: Mapping[str, StreamCount]
    rates: Mapping[str, float | None]
    lately: Lately


def camera_health(facts: CameraFacts, limits: Diagnostics) -> Health:
    """Return the health of a camera."""
    count, lately = facts.count, facts.lately
    age = _seconds(count.age_ns)
    remedy = count.trouble or 'look at the camera driver and the link to it'
    if age is None:
        what = (
            f'no usable image on {facts.topic}' if count.received else f'no image on {facts.topic}'
        )
        level = Level.ERROR if count.received else Level.STALE
        findings = [Finding(level, f'{what} yet: {remedy}')]
    else:
        findings = [
            Finding(
                _age_level(age, facts.max_age, limits),
                f'the newest image on {facts.topic} is {age:.1f} s old (allowed '
                f'{facts.max_age:g} s): {remedy}',
            )
        ]
    if not findings[0].level:
        findings += [
            _rate(facts.rate, facts.expected_rate, limits.pair('camera_rate'), 'images'),
            _refused(lately, limits, 'images', count.trouble),
        ]
    sent = lately.received + lately.lost
    findings.append(
        Finding(
            share_above(lately.lost, sent, limits.pair('loss')),
            f'{percent(share(lately.lost, sent))} of the images were lost on their way: '
            f'{count.trouble or "see docs/cameras.md for the buffers of the middleware"}',
        )
    )
    values = {
        'topic': facts.topic,
        **_rates(facts.rate, facts.expected_rate),
        **_age(age, facts.max_age),
        'received': str(count.received),
        'refused': str(count.refused),
        'refused_share': number(share(lately.refused, lately.received), 3),
        'lost': str(facts.lost),
        'lost_share': number(share(lately.lost, sent), 3),
        **_picture(facts.picture),
    }
    return judge(findings, _well(facts.rate, 'images'), values)


def joint_health(facts: JointFacts, limits: Diagnostics) -> Health:
    """Return the health of the joint states; the slowest and the oldest joint count."""
    counts = facts.counts
    ages = {name: _seconds(one.age_ns) for name, one in counts.items()}
    missing = [name for name, age in ages.items() if age is None]
    heard = {name: age for name, age in ages.items() if age is not None}
    oldest = max(heard, key=lambda name: heard[name], default='')
    known = [one for name in heard if (one := facts.rates[name]) is not None]
    rate = min(known) if known and len(known) == len(heard) else None
    trouble = next((one.trouble for one in counts.values() if one.trouble), '')
    remedy = trouble or 'look at the joint_state_broadcaster, or the driver that publishes them'
    findings = []
    if missing:
        level = Level.ERROR if heard or trouble else Level.STALE
        findings.append(
            Finding(level, f'no position of {", ".join(missing)} on {facts.topic} yet: {remedy}')
        )
    age = heard.get(oldest)
    level = Level.OK if age is None else _age_level(age, facts.max_age, limits)
    if age is not None and level:
        findings.append(
            Finding(
                level,
                f'the newest position of {oldest} on {facts.topic} is {age:.1f} s old (allowed '
                f'{facts.max_age:g} s): {remedy}',
            )
        )
    elif age is not None:
        findings.append(_rate(rate, facts.expected_rate, limits.pair('joint_rate'), 'positions'))
        findings.append(_refused(facts.lately, limits, 'positions', trouble))
    values = {
        'topic': facts.topic,
        **_rates(0.0 if missing else rate, facts.expected_rate),
        **_age(age, facts.max_age),
        'joints': str(len(counts)),
        'missing': ','.join(missing),
        'oldest': oldest,
        'received': str(sum(one.received for one in counts.values())),
        'refused': str(sum(one.refused for one in counts.values())),
        'refused_share': number(share(facts.lately.refused, facts.lately.received), 3),
    }
    return judge(findings, _well(rate, 'positions'), values)


def _age_level(age: float, max_age: float, limits: Diagnostics) -> Level:
    if age > limits.stale_after:
        return Level.STALE
    return above(age / max_age, limits.pair('age'))


def _rate(
    rate: float | None, expected: float, thresholds: tuple[float, float], what: str
) -> Finding:
    if rate is None or not expected:
        return Finding(Level.OK, '')
    warn, error = thresholds
    return Finding(
        below(rate, (warn * expected, error * expected)),
        f'{rate:.1f} {what} per second, expected {expected:g}: raise the rate of the driver, or '
        f'free the link and the machine between it and this node',
    )


def _refused(lately: Lately, limits: Diagnostics, what: str, trouble: str) -> Finding:
    return Finding(
        share_above(lately.refused, lately.received, limits.pair('refused')),
        f'{percent(share(lately.refused, lately.received))} of the {what} cannot be used: '
        f'{trouble or "the log says why"}',
    )


def _seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / NANOSECONDS


def _rates(rate: float | None, expected: float) -> dict[str, str]:
    return {
        'rate_hz': '' if rate is None else number(rate, 2),
        'expected_rate_hz': number(expected, 2) if expected else '',
    }


def _age(age: float | None, max_age: float) -> dict[str, str]:
    return {
        'age_s': '' if age is None else number(age, 3),
        'max_age_s': number(max_age, 3),
    }


def _picture(picture: Picture | None) -> dict[str, str]:
    if picture is None:
        return {'encoding': '', 'width_px': '', 'height_px': '', 'size_bytes': ''}
    return {
        'encoding': picture.encoding,
        'width_px': str(picture.width or ''),
        'height_px': str(picture.height or ''),
        'size_bytes': str(picture.size),
    }


def _well(rate: float | None, what: str) -> str:
    return f'{what} come' if rate is None else f'{rate:.1f} {what} per second'
