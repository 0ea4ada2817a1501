# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep the newest message of a stream, with its stamp, and judge whether it may be used.

All times are int nanoseconds on the node's clock (ROS time, or sim time), handed in: nothing here
reads a clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from openpi_policy_ros.configuration.robot import Timing

T = TypeVar('T')

NANOSECONDS = 1_000_000_000
_FOREIGN_CLOCK = 3600 * NANOSECONDS
"""An age beyond this is another clock's, not a late message's."""
_NUMBER = re.compile(r'[-+]?\d+(\.\d+)?(e[-+]?\d+)?')

Kind = Literal['missing', 'refused', 'stale', 'skew', 'prompt', 'clock', 'observation', 'inference']


def to_nanoseconds(seconds: float) -> int:
    """Return seconds as whole nanoseconds."""
    return round(seconds * NANOSECONDS)


def seconds(nanoseconds: int) -> str:
    """Return nanoseconds as text, to the millisecond."""
    return f'{nanoseconds / NANOSECONDS:.3f} s'


@dataclass(frozen=True)
class Reason:
    """Why no inference can run now.

    Attributes:
        kind: what is wrong.
        streams: whose message, e.g. ``camera 'wrist'``; empty where it is no stream's.
        text: one sentence for the operator, with ages and the remedy.
        detail: tells two refusals of one stream apart; numbers in it do not count.

    """

    kind: Kind
    streams: tuple[str, ...]
    text: str
    detail: str = ''

    @property
    def signature(self) -> tuple[str, ...]:
        """Return what stays equal while the same thing is wrong, for edge-triggered logging."""
        return (self.kind, _NUMBER.sub('#', self.detail), *self.streams)


@dataclass(frozen=True)
class Sample(Generic[T]):
    """One accepted message.

    Attributes:
        value: the message, or what was read from it.
        stamp_ns: when it was measured.
        arrival_ns: when it came in.

    """

    value: T
    stamp_ns: int
    arrival_ns: int


@dataclass(frozen=True)
class Refusal:
    """Why the newest message of a stream cannot be used."""

    text: str
    detail: str


def check_stamp(stamp_ns: int, now_ns: int, timing: Timing) -> int | Refusal:
    """Return the stamp to go by, or why it cannot be trusted.

    Args:
        stamp_ns: ``header.stamp`` of the message; 0 = its publisher set none.
        now_ns: its arrival on the node's clock.
        timing: tolerance for stamps in the future; whether unstamped messages count.

    """
    if now_ns <= 0:
        return Refusal(
            'came before the first /clock message; use_sim_time is on, so publish /clock '
            '(or set use_sim_time: false)',
            'no clock',
        )
    if stamp_ns == 0:
        if timing.allow_unstamped:
            return now_ns
        return Refusal(
            'has no stamp (0), so its age is unknown; let its publisher stamp it, or set '
            'timing.allow_unstamped: true to go by arrival',
            'unstamped',
        )
    ahead = stamp_ns - now_ns
    if ahead > to_nanoseconds(timing.future_tolerance):
        return Refusal(
            f'is stamped {seconds(ahead)} in the future (tolerated '
            f'{timing.future_tolerance:.3f} s): clocks not synchronised; synchronise the '
            f'machines (chrony, PTP){_sim_time_hint(ahead)}',
            'future',
        )
    return stamp_ns


class Latest(Generic[T]):
    """The newest message of one stream: a usable sample, a refusal, or nothing yet.

    A refused message replaces the sample before it: the newest word of a stream is that it sends
    something unusable.

    Attributes:
        hint: what is known of why nothing comes, e.g. an incompatible QoS.

    """

    def __init__(self, name: str, max_age: float) -> None:
        self.name = name
        self.max_age_ns = to_nanoseconds(max_age)
        self.sample: Sample[T] | None = None
        self.refusal: Refusal | None = None
        self.hint = ''

    def accept(self, value: T, stamp_ns: int, arrival_ns: int) -> None:
        """Keep a message."""
        self.sample, self.refusal = Sample(value, stamp_ns, arrival_ns), None

    def refuse(self, refusal: Refusal) -> None:
        """Note that the newest message cannot be used."""
        self.sample, self.refusal = None, refusal

    def clear(self) -> None:
        """Forget everything."""
        self.sample = self.refusal = None

    def is_stale(self, now_ns: int) -> bool:
        """Return whether there is a sample, but too old a one."""
        return self.sample is not None and now_ns - self.sample.stamp_ns > self.max_age_ns


class ClockWatch:
    """Notice that the clock went backwards: a bag that loops, a simulation that was reset."""

    def __init__(self) -> None:
        self._last_ns = 0

    def jumped_back(self, now_ns: int) -> bool:
        """Return True once for each step backwards."""
        back = now_ns < self._last_ns
        self._last_ns = now_ns
        return back


def stale_text(sample: Sample[T], max_age_ns: int, now_ns: int) -> str:
    """Return how old a sample is, how old it may be, and what that may mean."""
    age = now_ns - sample.stamp_ns
    delay = sample.arrival_ns - sample.stamp_ns
    late = f', it came {seconds(delay)} after its stamp' if delay > max_age_ns else ''
    return f'is {seconds(age)} old (allowed {seconds(max_age_ns)}){late}{_sim_time_hint(age)}'


def skew_reason(stamps: Iterable[tuple[str, str, int]], max_skew: float) -> Reason | None:
    """Return why these (stream, what of it, stamp) lie too far apart, or None if they do not."""
    ordered = sorted(stamps, key=lambda one: one[2])
    if not ordered:
        return None
    (oldest, what, first), (newest, than, last) = ordered[0], ordered[-1]
    if last - first <= to_nanoseconds(max_skew):
        return None
    return Reason(
        'skew',
        (oldest, newest),
        f'{what} is {seconds(last - first)} older than {than} (allowed {max_skew:.3f} s); '
        'raise the slower rate, or timing.max_skew if the policy bears it',
    )


def _sim_time_hint(distance_ns: int) -> str:
    if distance_ns < _FOREIGN_CLOCK:
        return ''
    return '; is use_sim_time set alike on both sides?'
