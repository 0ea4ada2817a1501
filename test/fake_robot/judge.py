# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tell every command that a robot must never get, from a record of what it got and when.

Of the package only the model of a controller is used, so that nobody marks their own work. Each
command is compared with where that model stands at that moment. All times are nanoseconds of the
system clock: of sending where the middleware tells it, so that a slow receiver blames nobody.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.fake_robot.trajectory_controller import Trajectory, TrajectoryController

NANOSECONDS = 1_000_000_000
MOVING = ('ENABLED', 'WAIT')
"""States in which commands other than a hold may leave."""

SLACK_NS = 25_000_000
"""Between the clock reading that a command was made for and its sending, on a busy machine."""
LAST_WORDS_NS = 200_000_000
"""After the node has said that it stopped, its holds arrive within so much; then nothing does."""
WINDOW_NS = 400_000_000
"""Over which a stream of rows may not be faster than a joint, beside from row to row."""
EPSILON = 1e-6

Kind = Literal['command', 'status', 'asked', 'answered', 'killed']
Row = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """One output.

    Attributes:
        name: of it.
        kind: of its messages.
        joints: in the order that messages must have.
        lower, upper: positions that may be commanded, margin applied.
        speed: fastest that each may be commanded, scale applied, per second.
        home: where the joints are at first.

    """

    name: str
    kind: Literal['trajectory', 'array']
    joints: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    speed: tuple[float, ...]
    home: tuple[float, ...]


@dataclass(frozen=True)
class Record:
    """Something that happened.

    Attributes:
        kind: command = a message on an output; status = the node's state; asked, answered = a call
            of ~/enable and its success; killed = the node's process was killed.
        time_ns: system clock.
        name: the output.
        value: Trajectory or a row; the state; whether to enable; whether it was done.
        steady_ns, ros_ns: its arrival by the robot's other clocks.

    """

    kind: Kind
    time_ns: int
    name: str = ''
    value: Trajectory | tuple[float, ...] | str | bool = ''
    steady_ns: int = 0
    ros_ns: int = 0


@dataclass(frozen=True)
class Violation:
    """A command that should not have come.

    Attributes:
        rule: in one word.
        output: where.
        time_ns: when.
        text: what was found.

    """

    rule: str
    output: str
    time_ns: int
    text: str

    def __str__(self) -> str:
        """Return one line."""
        return f'{self.output}: {self.rule}: {self.text}'


@dataclass
class _Span:
    """The node may move the robot from ``opened`` to ``closed``; None = it still may.

    ``held``: when the holds began that ended a trajectory of it.
    """

    opened: int
    closed: int | None = None
    killed: bool = False
    held: int | None = None


class Judge:
    """Judges a record of one robot's outputs.

    Args:
        outputs: all of them.
        period_ns: of the control loop.
        max_lookahead_ns: longest trajectory.

    """

    def __init__(self, outputs: Sequence[Judged], period_ns: int, max_lookahead_ns: int) -> None:
        self._outputs = {one.name: one for one in outputs}
        self._period_ns = period_ns
        self._lookahead_ns = max_lookahead_ns

    def violations(self, records: Iterable[Record]) -> list[Violation]:
        """Return everything that broke a rule, in the order of time."""
        ordered = sorted(records, key=lambda one: one.time_ns)
        spans = _spans(ordered)
        found: list[Violation] = []
        # Trajectories first: what holds them tells of the others.
        for output in sorted(self._outputs.values(), key=lambda one: one.kind != 'trajectory'):
            commands = [one for one in ordered if (one.kind, one.name) == ('command', output.name)]
            stream = _TrajectoryStream if output.kind == 'trajectory' else _ArrayStream
            found += stream(output, self._period_ns, self._lookahead_ns).judge(commands, spans)
        unknown = [o for o in ordered if o.kind == 'command' and o.name not in self._outputs]
        found += [Violation('output', o.name, o.time_ns, 'nobody owns it') for o in unknown]
        return sorted(found, key=lambda one: one.time_ns)


def told(found: Sequence[Violation], records: Sequence[Record], around_ns: int = 60_000_000) -> str:
    """Return violations as text, and what happened around the first one; '' = there are none."""
    if not found:
        return ''
    at = found[0].time_ns
    near = [
        one
        for one in sorted(records, key=lambda one: one.time_ns)
        if abs(one.time_ns - at) < around_ns
        or (one.kind != 'command' and 0 < at - one.time_ns < 5 * NANOSECONDS)
    ]
    lines = [f'{len(found)} violations', *map(str, found[:8]), 'around the first one (ms):']
    lines += [
        f'{(one.time_ns - at) / 1e6:+8.2f} {one.kind} {one.name} {str(one.value)[:300]}'
        for one in near
    ]
    return '\n'.join(lines)


def _spans(ordered: Sequence[Record]) -> list[_Span]:
    """Return when the robot may be moved: from being asked to, until the node says otherwise."""
    spans: list[_Span] = []
    current: _Span | None = None
    moving = False
    for one in ordered:
        if one.kind == 'asked':
            if one.value and current is None:
                current, moving = _Span(one.time_ns), False
                spans.append(current)
            continue
        if one.kind == 'answered':
            ended = not moving and not one.value
        elif one.kind == 'status':
            # Until it has said that it moves, what it says may be of before the question.
            ended = moving and one.value not in MOVING
            moving = one.value in MOVING
        else:
            ended = one.kind == 'killed'
        if ended and current is not None:
            current.closed, current.killed = one.time_ns, one.kind == 'killed'
            current = None
    return spans


class _Stream(abc.ABC):
    """The commands of one output.

    Attributes:
        tells_holds: whether a hold looks unlike any other command.

    """

    tells_holds = False

    def __init__(self, output: Judged, period_ns: int, lookahead_ns: int) -> None:
        self.output = output
        self.period_ns = period_ns
        self.lookahead_ns = lookahead_ns
        self.lower, self.upper = np.array(output.lower), np.array(output.upper)
        self.speed = np.array(output.speed)
        self.found: list[Violation] = []

    def judge(self, commands: Sequence[Record], spans: Sequence[_Span]) -> list[Violation]:
        """Return the violations."""
        holds = [self._judge(one) for one in commands]
        for one, hold in zip(commands, holds, strict=True):
            self._allowed(one, hold, spans)
        for span, after in zip(spans, [*spans[1:], None], strict=True):
            self._ends(span, after, commands, holds)
        return self.found

    @abc.abstractmethod
    def _judge(self, one: Record) -> bool:
        """Judge one command by itself and after the ones before; return whether it is a hold."""

    def blame(self, rule: str, one: Record, text: str) -> None:
        """Note a violation."""
        self.found.append(Violation(rule, self.output.name, one.time_ns, text))

    def _allowed(self, one: Record, hold: bool, spans: Sequence[_Span]) -> None:
        span = next((s for s in reversed(spans) if s.opened <= one.time_ns), None)
        if span is None:
            self.blame('gate', one, 'a command before anybody enabled the robot')
        elif span.closed is not None and one.time_ns > span.closed + LAST_WORDS_NS:
            late = (one.time_ns - span.closed) / NANOSECONDS
            self.blame('gate', one, f'a command {late:.3f} s after the robot was stopped')
        elif span.closed is not None and one.time_ns > span.closed + SLACK_NS and not hold:
            self.blame('gate', one, 'a motion after the robot was stopped')

    def _ends(
        self,
        span: _Span,
        after: _Span | None,
        commands: Sequence[Record],
        holds: Sequence[bool],
    ) -> None:
        if span.closed is None or span.killed:
            return
        end = span.closed + LAST_WORDS_NS
        if after is not None:
            end = min(end, after.opened)
        inside = [
            (one, hold)
            for one, hold in zip(commands, holds, strict=True)
            if span.opened <= one.time_ns <= end
        ]
        if not inside:
            return
        last, hold = inside[-1]
        if not hold and not self._held_with_others(span, last):
            self.blame('hold', last, 'the last command before the stop is no hold')
        for one, hold in reversed(inside):
            if not hold:
                break
            span.held = one.time_ns if self.tells_holds else span.held

    def _held_with_others(self, span: _Span, last: Record) -> bool:
        return False

    def _positions(self, one: Record, rows: Row) -> None:
        if not np.isfinite(rows).all():
            self.blame('finite', one, f'{rows.tolist()}')
        below, above = rows < self.lower - EPSILON, rows > self.upper + EPSILON
        if below.any() or above.any():
            self.blame('position', one, f'{rows.tolist()} leaves {self.lower} to {self.upper}')

    def _speeds(self, one: Record, what: str, distance: Row, time_ns: int) -> None:
        reach = self.speed * time_ns / NANOSECONDS + EPSILON
        if (np.abs(distance) > reach).any():
            self.blame(
                'velocity',
                one,
                f'{what}: {np.abs(distance).max():.4f} in {time_ns / NANOSECONDS:.4f} s, allowed '
                f'{reach}',
            )


class _TrajectoryStream(_Stream):
    tells_holds = True

    def __init__(self, output: Judged, period_ns: int, lookahead_ns: int) -> None:
        super().__init__(output, period_ns, lookahead_ns)
        self.model = TrajectoryController(output.joints, output.home)

    def _judge(self, one: Record) -> bool:
        message = one.value
        assert isinstance(message, Trajectory)
        if message.joints != self.output.joints:
            self.blame('joints', one, f'{message.joints}, expected {self.output.joints}')
        if message.extras:
            self.blame('fields', one, f'{message.extras} are filled in, expected positions only')
        if message.stamp_ns:
            self.blame('stamp', one, f'{message.stamp_ns}, expected 0: start now')
        times = np.array(message.times_ns, np.int64)
        if len(times) and (times[0] <= 0 or (np.diff(times) <= 0).any()):
            self.blame('times', one, f'{times.tolist()} do not rise from above 0')
        if len(times) and times[-1] > self.lookahead_ns:
            self.blame('length', one, f'{times[-1]} ns, allowed {self.lookahead_ns} ns')
        before = self.model.desired(one.time_ns)
        ahead = self.model.desired(one.time_ns + (message.times_ns or (0,))[0])
        refused = self.model.take(message, one.time_ns)
        if refused:
            self.blame('refused', one, refused)
            return False
        rows = np.array(message.rows, np.float64)
        if rows.shape[1] != len(self.speed) or message.joints != self.output.joints:
            return False
        self._positions(one, rows)
        self._speeds(one, 'to the first point', rows[0] - before, int(times[0]) + SLACK_NS)
        for gap, distance in zip(np.diff(times), np.diff(rows, axis=0), strict=True):
            # Of which the sender could not know the fractions of a nanosecond.
            self._speeds(one, 'between points', distance, int(gap) + 1)
        drift = self.speed * SLACK_NS / NANOSECONDS + EPSILON
        return len(rows) == 1 and bool((np.abs(rows[0] - ahead) <= drift).all())


class _ArrayStream(_Stream):
    def __init__(self, output: Judged, period_ns: int, lookahead_ns: int) -> None:
        super().__init__(output, period_ns, lookahead_ns)
        self.past: list[tuple[int, Row]] = [(0, np.array(output.home))]

    def _judge(self, one: Record) -> bool:
        assert isinstance(one.value, tuple)
        row = np.array(one.value, np.float64)
        if row.shape != self.speed.shape:
            self.blame('joints', one, f'{len(row)} values, expected {len(self.speed)}')
            return False
        self._positions(one, row)
        step = row - self.past[-1][1]
        # However late a tick is, it does not catch up: not more than a period's worth of a step.
        self._speeds(one, 'a step', step, self.period_ns)
        while len(self.past) > 1 and self.past[1][0] <= one.time_ns - WINDOW_NS:
            del self.past[0]
        before, earlier = self.past[0]
        self._speeds(one, 'over a while', row - earlier, one.time_ns - before + SLACK_NS)
        self.past.append((one.time_ns, row))
        return bool((np.abs(step) <= EPSILON).all())

    def _held_with_others(self, span: _Span, last: Record) -> bool:
        # A row that was decided, and overtaken by the hold before it was sent, is what is held:
        # a step like any other, and the last one, after the hold of a trajectory.
        return span.held is not None and last.time_ns >= span.held
