# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever comes in whatever order, what leaves keeps the limits and ends in a hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rig import (
    ARM_ARRAY,
    ARM_TRAJECTORY,
    HORIZON,
    JOINTS,
    MARGIN,
    MS,
    PERIOD_NS,
    SPEED,
    UPPER,
    VELOCITY_SCALE,
    Rig,
)

from openpi_policy_ros.control.commands import ArrayCommand, Command, TrajectoryCommand
from openpi_policy_ros.control.gates import Stream
from openpi_policy_ros.control.machine import ACTIVE, State

WRIST = "camera 'wrist'"
ALLOWED = SPEED * VELOCITY_SCALE
LOOKAHEAD_NS = 300 * MS
EPSILON = 1e-6
FURTHEST = UPPER - MARGIN


@dataclass
class Motion:
    """What a robot does of itself with what it receives: the judge of the properties below.

    ``points`` is the arm's polyline in steady time, begun where the joints were measured.
    """

    rig: Rig
    follows_clock: bool = True
    points: list[tuple[int, np.ndarray]] = field(default_factory=list)
    messages: int = 0

    def at(self, steady_ns: int) -> np.ndarray:
        times = [float(time - steady_ns) for time, _ in self.points]
        return np.array(
            [np.interp(0.0, times, axis) for axis in zip(*(r for _, r in self.points), strict=True)]
        )

    def held(self, steady_ns: int) -> np.ndarray:
        """Return where a hold that leaves at this time has to stop the arm."""
        return np.zeros(2) if self.rig.axes.velocity else self.at(steady_ns + PERIOD_NS)

    def skip(self, by_ns: int) -> None:
        """Let a controller that goes by the ROS clock jump along its path, as that clock did."""
        if len(self.points) > 1 and self.follows_clock:
            self.points = [(time - by_ns, row) for time, row in self.points]

    def measured(self) -> np.ndarray:
        assert self.rig.measured is not None
        return np.array([self.rig.measured[name] for name in JOINTS[:2]])

    def receive(self, command: Command, *, first: bool) -> None:
        """Take in a command and check it against the limits."""
        self.messages += 1
        now = self.rig.steady_ns
        if first or not self.points:
            # Enabled afresh: it begins where the arm is, from a period ago.
            self.points = [(now - PERIOD_NS, self.measured())]
        if isinstance(command, ArrayCommand) and self.rig.axes.velocity:
            assert (np.abs(command.values) <= ALLOWED).all()
            self.points = [(now, np.array(command.values))]
        elif isinstance(command, ArrayCommand):
            before_ns, before = self.points[-1]
            self.check(before, np.array(command.values), now - before_ns)
            self.points = [(now, np.array(command.values))]
        elif isinstance(command, TrajectoryCommand):
            assert command.joints == tuple(JOINTS[:2])
            assert command.times_ns[-1] <= LOOKAHEAD_NS
            points = [(now, self.at(now))]
            for after_ns, row in zip(command.times_ns, command.rows, strict=True):
                assert now + after_ns > points[-1][0]
                self.check(points[-1][1], np.array(row), now + after_ns - points[-1][0])
                points.append((now + after_ns, np.array(row)))
            self.points = points

    @staticmethod
    def check(before: np.ndarray, after: np.ndarray, elapsed_ns: int) -> None:
        assert np.isfinite(after).all()
        assert (np.abs(after - before) <= ALLOWED * elapsed_ns / 1e9 + EPSILON).all()
        # A joint that begins beyond its margin may come back at its pace.
        inside = np.abs(after) <= FURTHEST + EPSILON
        assert (inside | (np.abs(after) <= np.abs(before) + EPSILON)).all()


def near(motion: Motion, seed: int) -> np.ndarray:
    """A chunk as a sane policy answers: it begins where the arm is."""
    random = np.random.default_rng(seed)
    slope = random.uniform(-2.0, 2.0, 2) * random.choice([0.2, 1.0])
    steps = np.arange(1, HORIZON + 1)[:, None] / HORIZON
    arm = motion.measured() + slope * steps + random.normal(0.0, 0.005, (HORIZON, 2))
    return np.hstack([arm, random.uniform(0.0, 1.0, (HORIZON, 1))])


def wild(motion: Motion, seed: int) -> np.ndarray:
    """A chunk of anything."""
    random = np.random.default_rng(seed)
    return random.normal(0.0, random.choice([0.1, 1.0, 30.0]), (HORIZON, 3))


def broken(motion: Motion, seed: int) -> np.ndarray:
    """A chunk with a number that is none."""
    rows = near(motion, seed)
    rows[seed % HORIZON, seed % 3] = [np.nan, np.inf, -np.inf][seed % 3]
    return rows


CHUNKS: dict[str, Callable[[Motion, int], np.ndarray]] = {
    'near': near,
    'wild': wild,
    'broken': broken,
}
OPERATIONS = st.one_of(
    st.tuples(st.just('ticks'), st.integers(1, 12)),
    st.tuples(st.just('ticks'), st.integers(1, 12)),
    st.tuples(st.just('chunk'), st.just('near'), st.integers(0, 99), st.integers(-50, 100)),
    st.tuples(
        st.just('chunk'), st.sampled_from(list(CHUNKS)), st.integers(0, 99), st.integers(-50, 1500)
    ),
    st.tuples(st.just('enable'), st.just(True)),
    st.tuples(st.just('enable'), st.booleans()),
    st.tuples(st.just('pause'), st.integers(0, 100)),
    st.tuples(st.just('age'), st.sampled_from([10, 200, 600])),
    st.tuples(st.just('skew'), st.booleans()),
    st.tuples(st.just('joints'), st.booleans()),
    st.tuples(st.just('moved'), st.floats(-2.1, 2.1)),
    st.tuples(st.just('jump'), st.sampled_from([-5000, -30, 500, 2000])),
    st.tuples(st.just('failure')),
    st.tuples(st.just('engine'), st.booleans()),
    st.tuples(st.just('inference'), st.booleans()),
    st.tuples(st.just('hold')),
    st.tuples(st.just('reset')),
)


def play(rig: Rig, operations: list[tuple[Any, ...]], *, follows_clock: bool = True) -> Motion:
    """Apply the operations; check every tick and the stop at the end."""
    motion = Motion(rig, follows_clock)
    controller = rig.controller
    assert rig.measured is not None
    fresh = True
    epoch = 0

    def tick(by_ns: int = PERIOD_NS) -> None:
        nonlocal fresh
        before, reason = controller.state, controller.reason
        follows = motion.points and not fresh and not rig.axes.velocity
        if follows and controller.state in ACTIVE:
            rig.measured.update(
                zip(JOINTS, motion.at(rig.steady_ns + by_ns).tolist(), strict=False)
            )
        stopped_at = motion.held(rig.steady_ns + by_ns) if motion.points else None
        came = rig.tick(by_ns)
        if before is State.HOLD:
            assert (came.state, came.reason) == (before, reason)
        assert bool(came.reason) == (came.state in (State.WAIT, State.HOLD))
        for command in came.commands:
            assert came.state in ACTIVE or came.is_last
            motion.receive(command, first=fresh)
            fresh = False
        if came.commands and came.is_last and follows_clock:
            assert stopped_at is not None
            np.testing.assert_allclose(motion.points[-1][1], stopped_at, atol=EPSILON)

    tick()
    for operation, *values in operations:
        if operation == 'ticks':
            for _ in range(values[0]):
                tick()
        elif operation == 'chunk':
            kind, seed, late_ms = values
            rig.offer(CHUNKS[kind](motion, seed), t_obs_ns=rig.now_ns - late_ms * MS, epoch=epoch)
        elif operation == 'enable':
            before = controller.state
            owed = bool(controller.final_hold())
            done, _ = controller.enable(values[0], rig.steady_ns)
            if values[0] and done and before not in ACTIVE and not owed:
                fresh = True
        elif operation == 'pause':
            tick(max(values[0] * MS, 1))
        elif operation == 'age':
            rig.streams[WRIST] = Stream(values[0] * MS, 150 * MS)
        elif operation == 'skew':
            rig.skew = 'streams apart' if values[0] else ''
        elif operation == 'joints':
            if values[0]:
                rig.measured.setdefault('finger', 0.0)
            else:
                rig.measured.pop('finger', None)
        elif operation == 'moved':
            if controller.state not in ACTIVE:
                rig.measured['shoulder'] = values[0]
        elif operation == 'jump':
            rig.now_ns += values[0] * MS
            if 0 < values[0] <= 1000:
                motion.skip(values[0] * MS)
            tick()
        elif operation == 'failure':
            controller.on_failure('it raised')
        elif operation == 'engine':
            controller.on_engine('the worker died' if values[0] else '')
        elif operation == 'inference':
            if values[0]:
                controller.on_inference_started(rig.steady_ns)
            else:
                controller.on_inference_finished(rig.steady_ns)
        elif operation == 'repair':
            rig.streams[WRIST] = Stream(10 * MS, 150 * MS)
            rig.skew = ''
            rig.measured.setdefault('finger', 0.0)
            controller.on_engine('')
            controller.on_inference_finished(rig.steady_ns)
            tick()
        elif operation == 'hold':
            controller.hold('~/hold was called')
        else:
            epoch += 1
            controller.reset(epoch)
    was_active = controller.state in ACTIVE
    last = controller.final_hold() or None
    controller.deactivate()
    held = controller.final_hold()
    assert controller.state is State.INIT
    if motion.messages and was_active and not fresh:
        (command,) = held
        assert isinstance(command, ArrayCommand | TrajectoryCommand)
        (numbers,) = [command.values] if isinstance(command, ArrayCommand) else command.rows
        if follows_clock:
            np.testing.assert_allclose(numbers, motion.held(rig.steady_ns), atol=EPSILON)
        motion.receive(command, first=False)
    elif last is None:
        assert held == ()
    rig.controller.enable(True, rig.steady_ns)
    for _ in range(3):
        after = rig.tick()
        assert after.state is State.INIT
        assert after.commands == ()
    return motion


DRIVE = st.tuples(st.integers(0, 99), st.integers(0, 100), st.integers(1, 20)).map(
    lambda drawn: [
        ('repair',),
        ('enable', True),
        ('chunk', 'near', drawn[0], drawn[1]),
        ('ticks', drawn[2]),
    ]
)
SEQUENCES = st.lists(
    st.one_of(DRIVE, DRIVE, OPERATIONS.map(lambda operation: [operation])), min_size=10, max_size=30
).map(lambda parts: [operation for part in parts for operation in part])
DRIVES = [('enable', True), ('chunk', 'near', 3, 20), ('ticks', 12), ('chunk', 'near', 4, 60)]


LIMITS_SEQUENCES = [
    [*DRIVES, ('ticks', 12), ('hold',), ('ticks', 3)],
    [*DRIVES, ('ticks', 12), ('jump', -5000), ('ticks', 3), *DRIVES, ('ticks', 9)],
    [('moved', 2.1), ('enable', True), ('chunk', 'near', 2, 0), ('ticks', 12)],
]


@pytest.mark.parametrize('mode', ['async', 'open_loop', 'ensemble'])
@pytest.mark.parametrize('output', [ARM_ARRAY, ARM_TRAJECTORY], ids=['array', 'trajectory'])
def test_no_sequence_leads_beyond_the_limits_or_past_a_hold(
    output: dict[str, Any], mode: str
) -> None:
    @settings(deadline=None, max_examples=40)
    @example(LIMITS_SEQUENCES[0])
    @example(LIMITS_SEQUENCES[1])
    @example(LIMITS_SEQUENCES[2])
    @given(SEQUENCES)
    def check(operations: list[tuple[Any, ...]]) -> None:
        play(Rig({'arm': output}, execution={'mode': mode}), operations)

    check()


@pytest.mark.parametrize('mode', ['async', 'open_loop'])
def test_a_controller_that_does_not_go_by_the_stepping_clock_keeps_the_limits_too(
    mode: str,
) -> None:
    @settings(deadline=None, max_examples=40)
    @example([*DRIVES, ('jump', 500), ('ticks', 3)])
    @example([*DRIVES, ('jump', 500), ('jump', 500), ('ticks', 2), ('hold',), ('ticks', 3)])
    @example([*DRIVES, ('jump', 500), ('ticks', 2), ('reset',), ('ticks', 3)])
    @given(SEQUENCES)
    def check(operations: list[tuple[Any, ...]]) -> None:
        rig = Rig({'arm': ARM_TRAJECTORY}, execution={'mode': mode})
        play(rig, operations, follows_clock=False)

    check()


@settings(deadline=None, max_examples=40)
@example(LIMITS_SEQUENCES[0])
@given(SEQUENCES)
def test_no_sequence_leads_a_velocity_beyond_its_limit_or_past_a_hold(
    operations: list[tuple[Any, ...]],
) -> None:
    play(Rig(action_space='joint_velocity'), operations)


@pytest.mark.parametrize('output', [ARM_ARRAY, ARM_TRAJECTORY], ids=['array', 'trajectory'])
@pytest.mark.parametrize('gate', ['S6', 'S7'])
def test_the_judge_of_these_sequences_sees_motion_and_notices_a_missing_gate(
    output: dict[str, Any], gate: str
) -> None:
    sequence = [
        ('moved', 1.9),
        ('enable', True),
        *(step for seed in range(9) for step in (('chunk', 'near', seed, 20), ('ticks', 20))),
    ]
    assert play(Rig({'arm': output}), sequence).messages > 20
    with pytest.raises(AssertionError):
        play(Rig({'arm': output}, disabled=frozenset((gate,))), sequence)
