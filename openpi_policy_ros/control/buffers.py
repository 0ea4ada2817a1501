# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep the newest message of a stream, with its stamp, and judge whether it may be used.

All times are int nanoseconds, handed in: nothing here reads a clock. They are those of the node's
clock (ROS time, or sim time), except where they are called steady.
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
        steady_ns: when it came in, on the steady clock.

    """

    value: T
    stamp_ns: int
    arrival_ns: int
    steady_ns: int

    @property
    def mark(self) -> _Mark:
        """Return what of it tells how fresh its stream is."""
        return _Mark(max(self.arrival_ns - self.stamp_ns, 0), self.steady_ns)


@dataclass(frozen=True)
class _Mark:
    """How old a message was when it came (ns), and when that was on the steady clock."""

    age_ns: int
    steady_ns: int


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


@dataclass(frozen=True)
class StreamCount:
    """What came of one stream since it was subscribed.

    Attributes:
        received: messages.
        refused: of these, how many cannot be used; those that nobody tried to read are not known.
        age_ns: how old the last usable one is; None = there has been none.
        trouble: why the newest cannot be used, or what is known of a silence; '' = nothing.

    """

    received: int
    refused: int
    age_ns: int | None
    trouble: str


class Latest(Generic[T]):
    """The newest message of one stream: a usable sample, a refusal, or nothing yet.

    A refused message replaces the sample before it: the newest word of a stream is that it sends
    something unusable. How long ago the last usable one came is kept all the same.

    Attributes:
        hint: what is known of why nothing comes, e.g. an incompatible QoS.

    """

    def __init__(self, name: str, max_age: float) -> None:
        self.name = name
        self.max_age_ns = to_nanoseconds(max_age)
        self.sample: Sample[T] | None = None
        self.refusal: Refusal | None = None
        self.hint = ''
        self._usable: _Mark | None = None
        self._read: _Mark | None = None
        self._doubted = False
        self._received = self._refused = 0

    def accept(self, value: T, stamp_ns: int, arrival_ns: int, steady_ns: int) -> None:
        """Keep a message."""
        self._received += 1
        self.sample = Sample(value, stamp_ns, arrival_ns, steady_ns)
        self.refusal = None
        if not self._doubted:
            self._usable = self.sample.mark

    def refuse(self, refusal: Refusal) -> None:
        """Note that the newest message cannot be used."""
        self._received += 1
        self._refuse(refusal)

    def could_read(self, sample: Sample[T]) -> None:
        """Note that a message, accepted before, could be read, which only now was tried."""
        self._read = sample.mark
        if self._doubted:
            self._usable, self._doubted = self._read, False

    def could_not_read(self, sample: Sample[T], refusal: Refusal) -> None:
        """Note that it could not; until one can be read, none counts as usable."""
        self._usable, self._doubted = self._read, True
        if self.sample is sample:
            self._refuse(refusal)
        else:
            self._refused += 1

    def _refuse(self, refusal: Refusal) -> None:
        self._refused += 1
        self.sample, self.refusal = None, refusal

    def clear(self) -> None:
        """Forget the messages, but not when the last usable one came."""
        self.sample = self.refusal = None

    def is_stale(self, now_ns: int) -> bool:
        """Return whether there is a sample, but too old a one."""
        return self.sample is not None and now_ns - self.sample.stamp_ns > self.max_age_ns

    def age_ns(self, steady_ns: int) -> int | None:
        """Return how old the last usable message is, ns; None = there has been none.

        Its age when it came, and what has passed since on the steady clock: a clock that stands
        still or jumps makes nothing fresh.
        """
        if self._usable is None:
            return None
        return self._usable.age_ns + steady_ns - self._usable.steady_ns

    def count(self, steady_ns: int) -> StreamCount:
        """Return what came so far."""
        trouble = self.hint if self.refusal is None else self.refusal.text
        return StreamCount(self._received, self._refused, self.age_ns(steady_ns), trouble)


class ClockWatch:
    """Notice that the node's clock jumped: a bag that loops, a simulation that was reset.

    Args:
        forward: seconds by which it may get ahead of the steady clock from one look to the next.

    """

    def __init__(self, forward: float) -> None:
        self._forward_ns = to_nanoseconds(forward)
        self._last: tuple[int, int] | None = None

    def jump_ns(self, now_ns: int, steady_ns: int) -> int:
        """Return by how much the clock jumped since the last look, once; 0 = it did not.

        Args:
            now_ns: the node's clock; ≤ 0 = no /clock message yet.
            steady_ns: the steady clock.

        """
        last, self._last = self._last, (now_ns, steady_ns)
        if last is None:
            return 0
        moved = now_ns - last[0]
        if moved < 0:
            return moved
        ahead = moved - (steady_ns - last[1])
        return ahead if last[0] > 0 and ahead > self._forward_ns else 0


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
