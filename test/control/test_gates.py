# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every gate does what the table of gates says.

Each test bears the id of its gate and drives the whole control core. scripts/mutate_gates.py
switches the gates off one by one and demands that a test of this file fails.
"""
# ruff: noqa: N802

import numpy as np
import pytest
from rig import (
    ARM_ARRAY,
    ARM_TRAJECTORY,
    HORIZON,
    MARGIN,
    MS,
    PERIOD_NS,
    SPEED,
    UPPER,
    VELOCITY_SCALE,
    Rig,
)

from openpi_policy_ros.control.commands import ArrayCommand, TrajectoryCommand
from openpi_policy_ros.control.controller import Tick
from openpi_policy_ros.control.gates import Stream
from openpi_policy_ros.control.machine import State

WRIST = "camera 'wrist'"
STEP = SPEED * VELOCITY_SCALE * PERIOD_NS / 1e9
"""Largest step between two commands, rad."""


def assert_waits(tick: Tick, rig: Rig, gate: str) -> None:
    """The gate made it wait: the last command is sent again, and a new chunk goes on."""
    assert tick.state is State.WAIT
    assert tick.reason.startswith(f'{gate}: ')
    before = rig.wire[-1 - len(tick.commands)]
    assert tick.commands == (before,)


def assert_holds(tick: Tick, rig: Rig, gate: str, *, moved: bool = True) -> None:
    """The gate latched HOLD: the last command once more, then nothing until enabled again."""
    assert tick.state is State.HOLD
    assert tick.reason.startswith(f'{gate}: ')
    assert tick.counters.holds == 1
    if moved:
        assert tick.commands == (rig.wire[-2],)
    rig.offer([0.0, 0.0, 0.0])
    later = rig.tick()
    assert (later.state, later.reason, later.commands) == (State.HOLD, tick.reason, ())


def test_S1_a_stale_stream_at_the_trigger_waits() -> None:
    rig = Rig()
    rig.run()
    rig.streams[WRIST] = Stream(160 * MS, 150 * MS)
    tick = rig.tick()
    assert_waits(tick, rig, 'S1')
    assert WRIST in tick.reason
    rig.streams[WRIST] = Stream(10 * MS, 150 * MS)
    assert rig.tick().state is State.WAIT
    rig.offer([0.1, 0.1, 0.0])
    assert rig.tick().state is State.ENABLED


def test_S1_a_stream_that_never_came_waits() -> None:
    rig = Rig()
    rig.run()
    rig.streams['joint_states'] = Stream(None, 100 * MS)
    assert_waits(rig.tick(), rig, 'S1')


def test_S2_a_stream_that_is_stale_for_long_holds() -> None:
    rig = Rig()
    rig.run()
    # Even while an inference is running, so that none is due.
    rig.controller.on_inference_started(rig.steady_ns)
    rig.streams[WRIST] = Stream(500 * MS, 150 * MS)
    assert rig.tick().state is State.ENABLED
    rig.streams[WRIST] = Stream(501 * MS, 150 * MS)
    tick = rig.tick()
    assert_holds(tick, rig, 'S2')
    assert WRIST in tick.reason
    assert not rig.controller.enable(True, rig.steady_ns)[0]


def test_S3_streams_too_far_apart_wait() -> None:
    rig = Rig()
    rig.run()
    rig.skew = f'{WRIST} is 0.200 s older than joint_states'
    tick = rig.tick()
    assert_waits(tick, rig, 'S3')
    assert WRIST in tick.reason


@pytest.mark.parametrize(
    ('actions', 'says'),
    [
        (np.full((HORIZON, 3), np.nan), 'not finite'),
        (np.full((HORIZON, 3), np.inf), 'not finite'),
        (np.zeros((HORIZON + 1, 3)), 'shape'),
    ],
)
def test_S4_a_wrong_chunk_is_refused_and_is_a_failure(actions: np.ndarray, says: str) -> None:
    rig = Rig()
    rig.tick()
    rig.enable()
    for count in (1, 2):
        problem = rig.offer(actions)
        assert problem.startswith('S4: ')
        assert says in problem
        tick = rig.tick()
        assert (tick.state, tick.commands) == (State.WAIT, ())
        assert (tick.counters.refused, tick.counters.failures, tick.counters.chunks) == (
            count,
            count,
            0,
        )
    rig.offer(actions)
    tick = rig.tick()
    assert tick.state is State.HOLD
    assert 'S4' in tick.reason


def test_S5_a_joint_never_heard_since_the_start_waits_with_its_name() -> None:
    rig = Rig(measured={'shoulder': 0.0, 'elbow': 0.0, 'another': 1.0})
    rig.tick()
    rig.enable()
    rig.offer([0.1, 0.1, 0.0])
    tick = rig.ticks(5)
    assert tick.state is State.WAIT
    assert tick.reason.startswith('S5: ')
    assert 'finger' in tick.reason
    assert 'elbow' not in tick.reason
    assert tick.commands == ()


def test_S5_a_joint_that_vanished_holds() -> None:
    rig = Rig()
    rig.run()
    rig.measured = {'shoulder': 0.0, 'finger': 0.0}
    assert rig.ticks(25).state is State.ENABLED
    tick = rig.tick()
    assert_holds(tick, rig, 'S5')
    assert 'elbow' in tick.reason
    assert 'shoulder' not in tick.reason


def test_S6_a_position_limit_clamps_and_counts() -> None:
    rig = Rig(measured={'shoulder': 1.97, 'elbow': 0.0, 'finger': 0.0})
    tick = rig.run([UPPER + 0.1, 0.0, 0.0], ticks=10)
    assert tick.commands == (ArrayCommand('arm', (UPPER - MARGIN, 0.0)),)
    assert tick.counters.clamped == 10


def test_S6_a_waypoint_is_clamped_too() -> None:
    rig = Rig({'arm': ARM_TRAJECTORY}, measured={'shoulder': 1.97, 'elbow': 0.0, 'finger': 0.0})
    (command,) = rig.run([UPPER + 0.1, 0.0, 0.0], ticks=1).commands
    assert isinstance(command, TrajectoryCommand)
    assert max(row[0] for row in command.rows) == UPPER - MARGIN


def test_S6_far_beyond_a_position_limit_holds() -> None:
    rig = Rig(measured={'shoulder': 1.97, 'elbow': 0.0, 'finger': 0.0})
    rig.run([1.97, 0.0, 0.0])
    actions = np.tile([1.97, 0.0, 0.0], (HORIZON, 1))
    actions[10:, 0] = UPPER - MARGIN + 0.21
    rig.offer(actions)
    while (tick := rig.tick()).state is State.ENABLED:
        assert tick.counters.clamped < HORIZON
    assert_holds(tick, rig, 'S6')
    assert 'shoulder' in tick.reason


@pytest.mark.parametrize('joint_states', ['stop', 'come'])
def test_S6_a_velocity_leads_no_joint_beyond_its_limit_while_joint_states_are_silent(
    joint_states: str,
) -> None:
    rig = Rig(action_space='joint_velocity')
    rig.measured = dict.fromkeys(('shoulder', 'elbow', 'finger'), 1.6)
    rig.tick()
    rig.enable()
    rig.offer([1.0, 0.0, 0.0])
    # No inference is due, so that S1 does not ask; S5 holds only after stale_hold.
    rig.controller.on_inference_started(rig.steady_ns)
    position = 1.6
    for _ in range(24):
        if joint_states == 'stop':
            rig.measured = None
        else:
            rig.measured = {'shoulder': position, 'elbow': 1.6, 'finger': 1.6}
        tick = rig.tick()
        assert tick.state is State.ENABLED
        (command,) = tick.commands
        assert isinstance(command, ArrayCommand)
        position += command.values[0] * PERIOD_NS / 1e9
    assert 1.8 < position <= UPPER - MARGIN


def test_S7_a_row_goes_no_faster_than_allowed() -> None:
    rig = Rig()
    rig.tick()
    rig.enable()
    rig.offer([0.19, -0.19, 0.0])
    for count in range(1, 6):
        tick = rig.tick()
        (command,) = tick.commands
        assert isinstance(command, ArrayCommand)
        assert command.values == pytest.approx((count * STEP, -count * STEP))
        assert tick.counters.slowed == count


def test_S7_a_velocity_is_clamped() -> None:
    rig = Rig(action_space='joint_velocity')
    tick = rig.run([5.0, -0.3, 0.0], ticks=1)
    assert tick.commands == (ArrayCommand('arm', (1.0, pytest.approx(-0.3))),)


def test_S7_a_trajectory_is_stretched() -> None:
    rig = Rig({'arm': ARM_TRAJECTORY})
    tick = rig.run([0.19, 0.0, 0.0], ticks=1)
    (command,) = tick.commands
    assert isinstance(command, TrajectoryCommand)
    assert command.rows[0] == pytest.approx((0.19, 0.0))
    assert command.times_ns[0] == pytest.approx(0.19 / (SPEED * VELOCITY_SCALE) * 1e9)
    assert tick.counters.slowed == 1


def test_S8_a_first_command_far_from_the_measured_joints_holds() -> None:
    rig = Rig()
    rig.tick()
    rig.enable()
    rig.offer([0.21, 0.0, 0.0])
    tick = rig.tick()
    assert_holds(tick, rig, 'S8', moved=False)
    assert tick.commands == ()
    assert 'shoulder' in tick.reason


@pytest.mark.parametrize(('now', 'first_waypoint', 'holds'), [(0.0, 0.21, True), (0.5, 0.1, False)])
def test_S8_a_trajectory_is_judged_by_its_first_waypoint(
    now: float, first_waypoint: float, holds: bool
) -> None:
    rig = Rig({'arm': ARM_TRAJECTORY})
    rig.tick()
    rig.enable()
    actions = np.tile([first_waypoint, 0.0, 0.0], (HORIZON, 1))
    actions[0, 0] = now
    rig.offer(actions)
    # The first row is due at this tick, and so is no waypoint any more.
    tick = rig.tick()
    if holds:
        assert_holds(tick, rig, 'S8', moved=False)
        assert tick.commands == ()
        assert 'shoulder by 0.210' in tick.reason
    else:
        assert tick.state is State.ENABLED, tick.reason
        (command,) = tick.commands
        assert isinstance(command, TrajectoryCommand)
        assert command.rows[0] == pytest.approx((first_waypoint, 0.0))


@pytest.mark.parametrize('output', [ARM_ARRAY, ARM_TRAJECTORY], ids=['array', 'trajectory'])
def test_S8_a_first_command_is_judged_before_it_is_clamped(output: dict[str, object]) -> None:
    rig = Rig({'arm': output})
    rig.measured = {'shoulder': 1.9, 'elbow': 0.0, 'finger': 0.0}
    rig.tick()
    rig.enable()
    # S6 would bring it to 1.98, which is near.
    rig.offer([2.15, 0.0, 0.0])
    tick = rig.tick()
    assert_holds(tick, rig, 'S8', moved=False)
    assert tick.commands == ()
    assert 'shoulder by 0.250' in tick.reason


def test_S8_a_first_command_after_a_wait_is_compared_again() -> None:
    rig = Rig()
    rig.run()
    rig.skew = 'streams apart'
    rig.tick()
    rig.skew = ''
    rig.offer([0.3, 0.1, 0.0])
    assert_holds(rig.tick(), rig, 'S8')


def test_S8_a_first_command_after_an_open_loop_pause_is_compared_again() -> None:
    rig = Rig(execution={'mode': 'open_loop', 'open_loop_steps': 10})
    rig.run()
    while (tick := rig.tick()).state is State.ENABLED:
        assert len(rig.wire) < 20
    assert 'open_loop' in tick.reason
    assert tick.counters.starved == 0
    rig.offer([0.3, 0.1, 0.0])
    assert_holds(rig.tick(), rig, 'S8')


def test_S9_a_late_tick_holds() -> None:
    rig = Rig()
    rig.run()
    assert rig.tick(2 * PERIOD_NS).state is State.ENABLED
    assert_holds(rig.tick(2 * PERIOD_NS + 1), rig, 'S9')


def test_S9_commands_that_do_not_leave_hold() -> None:
    rig = Rig()
    rig.run()
    assert rig.tick(delivered=False).state is State.ENABLED
    assert rig.tick(delivered=False).state is State.ENABLED
    assert_holds(rig.tick(), rig, 'S9', moved=False)


def test_S9_a_second_thread_holds_where_no_tick_comes() -> None:
    rig = Rig()
    rig.run()
    rig.pass_time(2 * PERIOD_NS)
    assert rig.controller.watch(rig.now_ns, rig.steady_ns).commands == ()
    rig.pass_time(1)
    tick = rig.controller.watch(rig.now_ns, rig.steady_ns)
    rig.wire += tick.commands
    rig.controller.sent(tick, rig.steady_ns)
    assert_holds(tick, rig, 'S9')


def test_S10_an_inference_that_runs_too_long_holds() -> None:
    rig = Rig(inference_timeout=0.1)
    rig.run()
    rig.controller.on_inference_started(rig.steady_ns)
    assert rig.ticks(5).state is State.ENABLED
    assert_holds(rig.tick(), rig, 'S10')
    assert 'S10' in rig.controller.enable(True, rig.steady_ns)[1]
    rig.controller.on_inference_finished(rig.steady_ns)
    rig.enable()


def test_S11_failures_in_a_row_hold() -> None:
    rig = Rig()
    rig.run()
    for _ in range(2):
        rig.controller.on_failure('CUDA error')
    assert rig.tick().state is State.ENABLED
    rig.offer([0.1, 0.1, 0.0])
    for _ in range(2):
        rig.controller.on_failure('CUDA error')
    assert rig.tick().state is State.ENABLED
    rig.controller.on_failure('out of memory')
    tick = rig.tick()
    assert 'out of memory' in tick.reason
    assert_holds(tick, rig, 'S11')


def test_S11_a_reset_begins_to_count_failures_afresh() -> None:
    rig = Rig()
    rig.run()
    for _ in range(2):
        rig.controller.on_failure('CUDA error')
    rig.controller.reset(1)
    for _ in range(2):
        rig.controller.on_failure('CUDA error')
    assert rig.tick().state is State.WAIT
    rig.controller.on_failure('out of memory')
    assert_holds(rig.tick(), rig, 'S11')


def interlocked() -> Rig:
    rig = Rig(safety={'interlock_topic': 'estop_ok'})
    rig.controller.on_interlock(True, rig.steady_ns)
    rig.run()
    rig.controller.on_interlock(True, rig.steady_ns)
    return rig


def test_S12_a_false_interlock_holds() -> None:
    rig = interlocked()
    assert rig.tick().state is State.ENABLED
    rig.controller.on_interlock(False, rig.steady_ns)
    assert_holds(rig.tick(), rig, 'S12')
    assert 'S12' in rig.controller.enable(True, rig.steady_ns)[1]
    rig.controller.on_interlock(True, rig.steady_ns)
    rig.enable()


def test_S12_a_silent_interlock_holds() -> None:
    rig = interlocked()
    assert rig.ticks(10).state is State.ENABLED
    assert_holds(rig.tick(), rig, 'S12')


def test_S12_an_interlock_that_fails_between_two_ticks_holds() -> None:
    rig = interlocked()
    assert rig.tick().state is State.ENABLED
    rig.controller.on_interlock(False, rig.steady_ns)
    rig.controller.on_interlock(True, rig.steady_ns)
    assert_holds(rig.tick(), rig, 'S12')


def test_S12_an_interlock_that_was_silent_between_two_ticks_holds() -> None:
    rig = interlocked()
    assert rig.tick().state is State.ENABLED
    rig.controller.on_interlock(True, rig.steady_ns + 201 * MS)
    assert_holds(rig.tick(), rig, 'S12')


def test_S12_without_its_interlock_the_robot_is_not_enabled() -> None:
    rig = Rig(safety={'interlock_topic': 'estop_ok'})
    rig.tick()
    done, text = rig.controller.enable(True, rig.steady_ns)
    assert not done
    assert 'S12' in text


@pytest.mark.parametrize('jump_ns', [-1 - PERIOD_NS, -3_600_000 * MS, 1000 * MS + 1])
def test_S13_a_clock_jump_clears_and_holds(jump_ns: int) -> None:
    rig = Rig()
    rig.run()
    rig.now_ns += jump_ns
    tick = rig.tick()
    assert tick.state is State.HOLD
    assert rig.controller.executor.remaining(rig.now_ns) == 0
    assert_holds(tick, rig, 'S13')


def test_S13_a_step_forward_within_the_tolerance_goes_on() -> None:
    # The gate must be there (above) and must not be stricter than it says.
    rig = Rig(horizon=200)
    rig.run()
    rig.now_ns += 1000 * MS
    assert rig.tick().state is State.ENABLED


def test_S14_a_late_chunk_is_dropped_and_waits() -> None:
    rig = Rig()
    rig.run()
    rig.controller.reset()
    text = rig.offer([0.1, 0.1, 0.0], t_obs_ns=rig.now_ns - HORIZON * PERIOD_NS)
    assert text.startswith('S14: ')
    tick = rig.tick()
    assert_waits(tick, rig, 'S14')
    assert tick.counters.late == 1
    assert tick.counters.chunks == 1


def test_S15_starved_waits_with_the_held_command_then_holds() -> None:
    rig = Rig()
    rig.run()
    while (tick := rig.tick()).state is State.ENABLED:
        assert len(rig.wire) < 2 * HORIZON
    assert_waits(tick, rig, 'S15')
    assert tick.counters.starved == 1
    # max_wait is 2 s.
    for _ in range(100):
        tick = rig.tick()
        assert_waits(tick, rig, 'S15')
    assert_holds(rig.tick(), rig, 'S15')


def test_S16_a_dead_engine_holds() -> None:
    rig = Rig()
    rig.run()
    rig.controller.on_engine('the worker thread died: segmentation fault')
    tick = rig.tick()
    assert 'the worker thread died' in tick.reason
    assert_holds(tick, rig, 'S16')
    assert 'S16' in rig.controller.enable(True, rig.steady_ns)[1]
    rig.controller.on_engine('')
    rig.enable()
