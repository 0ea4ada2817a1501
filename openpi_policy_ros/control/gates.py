# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The gates that watch streams, times and the engine, each in one class under its id.

S4, S6, S7 and S8 judge numbers and live in ``governor``; S14 judges the times of a chunk and lives
in ``executor``. Nothing here reads a clock: ``steady_ns`` is monotonic, ``now_ns`` the node's ROS
clock (which S13 watches). No gate acts: the controller does what the verdict says.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from openpi_policy_ros.control.buffers import seconds, to_nanoseconds

GATES: Mapping[str, str] = {
    'S1': 'stream stale at trigger',
    'S2': 'stream stale for long',
    'S3': 'streams too far apart',
    'S4': 'NaN, Inf or wrong shape in a chunk',
    'S5': 'joint missing from joint_states',
    'S6': 'position limit',
    'S7': 'velocity limit',
    'S8': 'first command far from the measured joints',
    'S9': 'no command for too long',
    'S10': 'inference running too long',
    'S11': 'consecutive inference failures',
    'S12': 'interlock false or stale',
    'S13': 'clock jump',
    'S14': 'late chunk',
    'S15': 'starved',
    'S16': 'engine dead',
}
"""Every gate: id → what it stops."""

DISABLED: frozenset[str] = frozenset()
"""Gates that are switched off: none, ever, except where scripts/mutate_gates.py shows that a test
would notice. Neither a parameter nor the environment leads here."""


class Level(enum.IntEnum):
    """How severe a verdict is."""

    OK = 0
    WAIT = 1
    HOLD = 2


@dataclass(frozen=True)
class Verdict:
    """What a gate demands, and one sentence for the operator that begins with the gate's id."""

    level: Level
    text: str = ''


OK = Verdict(Level.OK)


@dataclass(frozen=True)
class Stream:
    """How old the newest message of one stream is.

    Attributes:
        age_ns: on the steady clock; None = nothing usable has come since the start.
        max_age_ns: oldest that an inference may use.

    """

    age_ns: int | None
    max_age_ns: int


@dataclass(frozen=True)
class StreamReport:
    """What the sensors' side says at a tick.

    Attributes:
        streams: name for the operator (``camera 'wrist'``, ``joint_states``) → its age.
        skew: what the last try to build an observation found to lie too far apart; '' = nothing.

    """

    streams: Mapping[str, Stream] = field(default_factory=dict)
    skew: str = ''


class S1StaleAtTrigger:
    """S1: a stream is older than its ``max_age`` when an inference is due → WAIT."""

    id: ClassVar[str] = 'S1'

    def check(self, report: StreamReport) -> Verdict:
        """Judge every stream; only called when an inference is due."""
        found = []
        for name, stream in report.streams.items():
            if stream.age_ns is None:
                found.append(f'{name} has sent nothing usable yet')
            elif stream.age_ns > stream.max_age_ns:
                allowed = f'(allowed {seconds(stream.max_age_ns)})'
                found.append(f'{name} is {seconds(stream.age_ns)} old {allowed}')
        return Verdict(Level.WAIT, f'S1: {"; ".join(found)}') if found else OK


class S2StaleStream:
    """S2: a stream that did send has been silent for ``stale_hold`` → HOLD."""

    id: ClassVar[str] = 'S2'

    def __init__(self, stale_hold: float) -> None:
        self._limit_ns = to_nanoseconds(stale_hold)

    def check(self, report: StreamReport) -> Verdict:
        """Judge every stream."""
        found = [
            f'{name} is {seconds(stream.age_ns)} old'
            for name, stream in report.streams.items()
            if stream.age_ns is not None and stream.age_ns > self._limit_ns
        ]
        if not found:
            return OK
        return Verdict(
            Level.HOLD,
            f'S2: {"; ".join(found)} (safety.stale_hold {seconds(self._limit_ns)}); look after '
            'its driver',
        )


class S3Skew:
    """S3: the streams lie further apart than ``max_skew`` when an inference is due → WAIT."""

    id: ClassVar[str] = 'S3'

    def check(self, report: StreamReport) -> Verdict:
        """Pass on what the sensors' side found; only called when an inference is due."""
        return Verdict(Level.WAIT, f'S3: {report.skew}') if report.skew else OK


class S5MissingJoints:
    """S5: a joint of the profile never heard since start → WAIT; one that vanished → HOLD."""

    id: ClassVar[str] = 'S5'

    def __init__(self, joints: Sequence[str], stale_hold: float) -> None:
        """Watch ``joints``; one not heard for ``stale_hold`` seconds has vanished."""
        self._heard: dict[str, int | None] = dict.fromkeys(joints)
        self._limit_ns = to_nanoseconds(stale_hold)

    def heard(self, names: Iterable[str], steady_ns: int) -> None:
        """Note whose positions came; joints that are not watched are ignored."""
        for name in names:
            if name in self._heard:
                self._heard[name] = steady_ns

    def check(self, steady_ns: int) -> Verdict:
        """Judge every joint; a vanished one is worse than one that never came."""
        gone = [
            name
            for name, last in self._heard.items()
            if last is not None and steady_ns - last > self._limit_ns
        ]
        if gone:
            return Verdict(
                Level.HOLD,
                f'S5: {", ".join(gone)} vanished from joint_states (not heard for '
                f'{seconds(self._limit_ns)}, safety.stale_hold)',
            )
        never = [name for name, last in self._heard.items() if last is None]
        if never:
            return Verdict(
                Level.WAIT, f'S5: joint_states has never named {", ".join(never)} since the start'
            )
        return OK


class S9Watchdog:
    """S9: no command has left for ``watchdog_periods`` control periods while enabled → HOLD."""

    id: ClassVar[str] = 'S9'

    def __init__(self, period_ns: int, periods: float) -> None:
        self._limit_ns = round(period_ns * periods)

    def check(self, sent_ns: int, steady_ns: int) -> Verdict:
        """Judge the time since the last command left, both on the steady clock."""
        silent = steady_ns - sent_ns
        if silent <= self._limit_ns:
            return OK
        return Verdict(
            Level.HOLD,
            f'S9: no command left for {seconds(silent)} (allowed {seconds(self._limit_ns)}, '
            'safety.watchdog_periods); the control thread or a publisher is stuck, or the '
            'machine is overloaded',
        )


class S10SlowInference:
    """S10: one inference has been running longer than ``inference_timeout`` → HOLD."""

    id: ClassVar[str] = 'S10'

    def __init__(self, inference_timeout: float) -> None:
        self._limit_ns = to_nanoseconds(inference_timeout)
        self._since_ns: int | None = None

    @property
    def running(self) -> bool:
        """Return whether an inference is running."""
        return self._since_ns is not None

    def started(self, steady_ns: int) -> None:
        """Note that an inference was handed over."""
        self._since_ns = steady_ns

    def finished(self) -> None:
        """Note that it ended, well or not."""
        self._since_ns = None

    def check(self, steady_ns: int) -> Verdict:
        """Judge the inference that runs, if any."""
        if self._since_ns is None or steady_ns - self._since_ns <= self._limit_ns:
            return OK
        return Verdict(
            Level.HOLD,
            f'S10: the inference has been running for {seconds(steady_ns - self._since_ns)} '
            f'(inference_timeout {seconds(self._limit_ns)})',
        )


class S11Failures:
    """S11: ``max_failures`` inferences in a row failed → HOLD."""

    id: ClassVar[str] = 'S11'

    def __init__(self, max_failures: int) -> None:
        self._limit = max_failures
        self._reason = ''
        self.count = 0

    def failed(self, reason: str) -> None:
        """Count one failure."""
        self.count += 1
        self._reason = reason

    def succeeded(self) -> None:
        """Begin to count afresh."""
        self.count = 0

    def check(self) -> Verdict:
        """Judge the failures since the last success."""
        if self.count < self._limit:
            return OK
        return Verdict(
            Level.HOLD,
            f'S11: {self.count} inferences in a row failed (safety.max_failures {self._limit}), '
            f'the last one: {self._reason}',
        )


class S12Interlock:
    """S12: the interlock says false, or has said nothing for ``interlock_timeout`` → HOLD."""

    id: ClassVar[str] = 'S12'

    def __init__(self, topic: str, timeout: float) -> None:
        """Watch ``topic`` ('' = the robot has no interlock: always fine)."""
        self._topic = topic
        self._limit_ns = to_nanoseconds(timeout)
        self._value = False
        self._heard_ns: int | None = None

    def heard(self, value: bool, steady_ns: int) -> None:
        """Note a message of the interlock."""
        self._value, self._heard_ns = value, steady_ns

    def check(self, steady_ns: int) -> Verdict:
        """Judge the newest message."""
        if not self._topic:
            return OK
        if self._heard_ns is None:
            return Verdict(Level.HOLD, f'S12: the interlock {self._topic} has never been heard')
        if not self._value:
            return Verdict(Level.HOLD, f'S12: the interlock {self._topic} is false')
        age = steady_ns - self._heard_ns
        if age <= self._limit_ns:
            return OK
        return Verdict(
            Level.HOLD,
            f'S12: the interlock {self._topic} was last heard {seconds(age)} ago '
            f'(safety.interlock_timeout {seconds(self._limit_ns)})',
        )


class S13ClockJump:
    """S13: the ROS clock went back, or forward by ``clock_jump`` more than time did → HOLD."""

    id: ClassVar[str] = 'S13'

    def __init__(self, clock_jump: float) -> None:
        self._limit_ns = to_nanoseconds(clock_jump)
        self._last: tuple[int, int] | None = None

    def check(self, now_ns: int, steady_ns: int) -> Verdict:
        """Judge the step since the last call: each jump is told once.

        A stalled caller is no jump: both clocks ran on. ``now_ns`` ≤ 0 = no /clock message yet.
        """
        last, self._last = self._last, (now_ns, steady_ns) if now_ns > 0 else None
        if last is None:
            return OK
        if now_ns < last[0]:
            back = seconds(last[0] - now_ns)
            return Verdict(Level.HOLD, f'S13: the clock jumped back by {back}')
        ahead = (now_ns - last[0]) - (steady_ns - last[1])
        if ahead <= self._limit_ns:
            return OK
        return Verdict(
            Level.HOLD,
            f'S13: the clock jumped forward by {seconds(ahead)} (safety.clock_jump '
            f'{seconds(self._limit_ns)})',
        )


class S15Starved:
    """S15: without a usable chunk → WAIT; for longer than ``max_wait`` → HOLD."""

    id: ClassVar[str] = 'S15'

    def __init__(self, max_wait: float) -> None:
        self._limit_ns = to_nanoseconds(max_wait)

    def check(self, since_ns: int, steady_ns: int, why: str) -> Verdict:
        """Judge how long the robot has waited; ``why`` it waits is told on."""
        waited = steady_ns - since_ns
        if waited <= self._limit_ns:
            return OK
        return Verdict(
            Level.HOLD,
            f'S15: waited {seconds(waited)} (safety.max_wait {seconds(self._limit_ns)}): {why}',
        )


class S16Engine:
    """S16: the worker or the engine is dead → HOLD."""

    id: ClassVar[str] = 'S16'

    def __init__(self) -> None:
        self._problem = ''

    def report(self, problem: str) -> None:
        """Note why the engine cannot answer; '' = it can."""
        self._problem = problem

    def check(self) -> Verdict:
        """Judge the newest report."""
        return Verdict(Level.HOLD, f'S16: {self._problem}') if self._problem else OK
