# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The control core: what is commanded when, what a hold is, and what enabling asks for."""

from __future__ import annotations

import numpy as np
import pytest
from rig import ARM_ARRAY, ARM_TRAJECTORY, GRIPPER, HORIZON, MS, PERIOD_NS, Rig, make_spec

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control import gates
from openpi_policy_ros.control.commands import ArrayCommand, GripperCommand, TrajectoryCommand
from openpi_policy_ros.control.controller import Controller, Tick
from openpi_policy_ros.control.gates import Stream
from openpi_policy_ros.control.machine import State

WRIST = "camera 'wrist'"
RAMP = np.linspace([0.0, 0.0, 0.0], [0.4, 0.0, 0.0], HORIZON)
"""A chunk that moves the shoulder by 0.4 rad in a second."""


@pytest.mark.parametrize('jump_ms', [-5000, 5000])
@pytest.mark.parametrize('end', ['hold', 'deactivate'])
def test_a_hold_just_after_a_clock_jump_stops_the_arm_where_it_is(jump_ms: int, end: str) -> None:
    rig = Rig({'arm': ARM_TRAJECTORY})
    rig.run(np.linspace([0.0, 0.0, 0.0], [0.5, 0.5, 0.0], HORIZON), ticks=10)
    path = rig.wire[-1]
    assert isinstance(path, TrajectoryCommand)
    rig.pass_time(PERIOD_NS // 2)
    rig.now_ns += jump_ms * MS
    if end == 'hold':
        rig.controller.hold('test')
        (hold,) = rig.controller.watch(rig.now_ns, rig.steady_ns).commands
    else:
        rig.controller.deactivate()
        (hold,) = rig.controller.final_hold(rig.now_ns, rig.steady_ns)
    assert isinstance(hold, TrajectoryCommand)
    first, second = np.array(path.rows[:2])
    np.testing.assert_allclose(hold.rows[0], (first + second) / 2, atol=1e-6)


def test_no_gate_is_switched_off_as_shipped() -> None:
    assert frozenset() == gates.DISABLED
    assert list(gates.GATES) == [f'S{number}' for number in range(1, 17)]


def array(tick: Tick) -> tuple[float, ...]:
    (command,) = tick.commands
    assert isinstance(command, ArrayCommand)
    return command.values


def test_nothing_is_commanded_before_it_is_enabled() -> None:
    rig = Rig()
    rig.offer([0.1, 0.1, 0.0])
    assert rig.ticks(5).state is State.READY
    assert rig.wire == []
    assert rig.controller.final_hold() == ()


def test_a_chunk_from_before_enabling_is_not_played() -> None:
    rig = Rig()
    rig.tick()
    rig.offer([0.1, 0.1, 0.0])
    rig.enable()
    tick = rig.tick()
    assert (tick.state, tick.commands) == (State.WAIT, ())
    assert 'first chunk' in tick.reason
    rig.offer([0.1, 0.1, 0.0])
    assert rig.tick().state is State.ENABLED


def test_a_dry_run_takes_chunks_and_commands_nothing() -> None:
    rig = Rig(dry_run=True)
    rig.tick()
    done, text = rig.controller.enable(True, rig.steady_ns)
    assert not done
    assert 'dry_run' in text
    assert rig.offer([0.1, 0.1, 0.0]) == ''
    tick = rig.ticks(3)
    assert (tick.state, tick.counters.chunks, rig.wire) == (State.DRY_RUN, 1, [])


def test_without_limits_it_cannot_be_enabled_and_says_which_are_missing() -> None:
    rig = Rig()
    controller = Controller(rig.robot, make_spec(), rig.axes, inference_timeout=5.0, dry_run=False)
    controller.activate()
    assert 'limits' in controller.enable(True, 0)[1]
    controller.set_limits(rig.limits, ['elbow: no velocity limit in the URDF'])
    assert controller.enable(True, 0) == (False, 'refused: elbow: no velocity limit in the URDF')
    controller.set_limits(rig.limits)
    assert controller.enable(True, 0)[0]
    with pytest.raises(RuntimeError, match='disable it first'):
        controller.set_limits(rig.limits)


def test_a_robot_without_the_rate_of_its_actions_is_refused() -> None:
    rig = Rig()
    with pytest.raises(ValueError, match=r'timing\.action_rate'):
        Controller(RobotConfig(), make_spec(), rig.axes, inference_timeout=5.0, dry_run=False)


def test_a_hold_is_repeated_until_it_has_left() -> None:
    rig = Rig()
    last = array(rig.run())
    rig.controller.hold('~/hold')
    for _ in range(3):
        tick = rig.tick(delivered=False)
        assert (tick.state, tick.reason, tick.is_last) == (State.HOLD, '~/hold', True)
        assert array(tick) == last
    assert array(rig.tick()) == last
    assert rig.tick().commands == ()


def test_a_hold_that_comes_while_a_command_is_on_its_way_is_not_lost() -> None:
    rig = Rig()
    rig.run()
    tick = rig.tick(delivered=False)
    rig.controller.hold('~/hold')
    rig.controller.sent(tick, rig.steady_ns)
    assert array(rig.tick()) == array(tick)


def test_disabling_holds_once_and_enabling_begins_where_the_arm_is_now() -> None:
    rig = Rig()
    last = array(rig.run([0.1, 0.1, 0.0], ticks=20))
    assert rig.controller.enable(False, rig.steady_ns) == (True, 'disabled')
    tick = rig.tick()
    assert (tick.state, array(tick)) == (State.READY, last)
    assert rig.tick().commands == ()
    # Somebody moves the arm by hand.
    rig.measured = {'shoulder': 1.0, 'elbow': -1.0, 'finger': 0.0}
    rig.enable()
    assert rig.tick().commands == ()
    rig.offer([1.1, -1.1, 0.0])
    assert array(rig.tick()) == pytest.approx((1.02, -1.02))


def test_enabling_again_before_the_hold_has_left_still_sends_it() -> None:
    rig = Rig()
    last = array(rig.run())
    rig.controller.enable(False, rig.steady_ns)
    rig.enable()
    tick = rig.tick()
    assert (tick.state, array(tick)) == (State.WAIT, last)


def test_deactivating_owes_the_hold_and_after_it_nothing_leaves() -> None:
    rig = Rig(action_space='joint_velocity')
    rig.run([0.5, -0.5, 0.0])
    rig.controller.deactivate()
    assert rig.tick().commands == ()
    assert rig.controller.final_hold() == (ArrayCommand('arm', (0.0, 0.0)),)
    rig.controller.activate()
    assert rig.tick().state is State.READY
    assert rig.controller.final_hold() == ()


def test_once_disabled_deactivating_does_not_pull_the_arm_back() -> None:
    rig = Rig()
    rig.run()
    rig.controller.enable(False, rig.steady_ns)
    rig.tick()
    rig.controller.deactivate()
    assert rig.controller.final_hold() == ()


def test_hold_where_nothing_is_enabled_changes_nothing() -> None:
    rig = Rig()
    rig.controller.hold('~/hold')
    assert (rig.tick().state, rig.controller.reason) == (State.READY, '')


def test_a_hold_stops_a_trajectory_a_period_ahead_on_its_path() -> None:
    rig = Rig({'arm': ARM_TRAJECTORY})
    (command,) = rig.run(RAMP, ticks=10).commands
    assert isinstance(command, TrajectoryCommand)
    rig.controller.hold('~/hold')
    (hold,) = rig.tick().commands
    assert isinstance(hold, TrajectoryCommand)
    expected = np.interp(2 * PERIOD_NS, command.times_ns, [row[0] for row in command.rows])
    assert hold.rows == ((pytest.approx(expected), 0.0),)
    assert hold.times_ns == (PERIOD_NS,)


def test_a_trajectory_reaches_no_further_than_max_lookahead() -> None:
    rig = Rig({'arm': ARM_TRAJECTORY}, execution={'max_lookahead': 0.1})
    rig.run(RAMP)
    for _ in range(20):
        (command,) = rig.tick().commands
        assert isinstance(command, TrajectoryCommand)
        assert 0 < command.times_ns[0] < command.times_ns[-1] <= 100 * MS


def test_a_trajectory_ends_at_the_last_row_of_a_chunk() -> None:
    rig = Rig({'arm': ARM_TRAJECTORY})
    rig.run(RAMP)
    while rig.tick().state is State.ENABLED:
        assert len(rig.wire) < 2 * HORIZON
    last = rig.wire[-1]
    assert isinstance(last, TrajectoryCommand)
    assert last.rows == ((pytest.approx(0.4), 0.0),)


def test_each_output_gets_its_joints_in_its_order() -> None:
    left = {**ARM_TRAJECTORY, 'joints': ['elbow'], 'action_indices': [1]}
    right = {**ARM_ARRAY, 'joints': ['finger', 'shoulder'], 'action_indices': [2, 0]}
    rig = Rig({'left': left, 'right': right})
    first, second = rig.run([0.1, 0.2 - 1e-3, 0.15], ticks=20).commands
    assert isinstance(first, TrajectoryCommand)
    assert (first.output, first.joints) == ('left', ('elbow',))
    assert first.rows[-1] == pytest.approx((0.199,))
    assert second == ArrayCommand('right', pytest.approx((0.15, 0.1)))


def test_a_gripper_gets_a_goal_only_when_it_changes_and_none_for_a_hold() -> None:
    rig = Rig({'arm': ARM_ARRAY, 'hand': GRIPPER})
    actions = np.tile([0.1, 0.1, 0.0], (HORIZON, 1))
    actions[10:, 2] = 1.0
    rig.run(actions, ticks=25)
    rig.controller.hold('~/hold')
    assert [type(command) for command in rig.tick().commands] == [ArrayCommand]
    goals = [command for command in rig.wire if isinstance(command, GripperCommand)]
    assert goals == [GripperCommand('hand', 0.0, 5.0), GripperCommand('hand', 0.8, 5.0)]


def test_after_a_changed_prompt_the_chunk_runs_on_until_one_of_the_new_prompt_comes() -> None:
    rig = Rig()
    shoulder = array(rig.run(RAMP, ticks=5))[0]
    step = RAMP[1, 0] - RAMP[0, 0]
    rig.controller.expect(1)
    for _ in range(10):
        tick = rig.tick()
        assert tick.state is State.ENABLED, tick.reason
        shoulder += step
        assert array(tick)[0] == pytest.approx(shoulder)
    # What the old prompt still brings would turn the arm round.
    assert 'older prompt' in rig.offer(RAMP[::-1], epoch=0)
    for _ in range(10):
        tick = rig.tick()
        assert tick.state is State.ENABLED, tick.reason
        shoulder += step
        assert array(tick)[0] == pytest.approx(shoulder)
    assert rig.offer([0.05, 0.0, 0.0], epoch=1) == ''
    tick = rig.ticks(15)
    assert array(tick) == pytest.approx((0.05, 0.0))
    assert (tick.counters.outdated, tick.counters.chunks) == (1, 2)


def test_a_reset_waits_for_a_chunk_of_the_new_session() -> None:
    rig = Rig()
    last = array(rig.run())
    rig.controller.reset(1)
    assert rig.controller.state is State.WAIT
    assert 'older prompt or session' in rig.offer([0.1, 0.1, 0.0], epoch=0)
    tick = rig.tick()
    assert (tick.state, array(tick), tick.counters.starved) == (State.WAIT, last, 0)
    rig.offer([0.1, 0.1, 0.0], epoch=1)
    assert rig.tick().state is State.ENABLED


def test_a_reset_leaves_hold_as_it_is() -> None:
    rig = Rig()
    rig.run()
    rig.controller.hold('~/hold')
    rig.controller.reset(1)
    assert (rig.tick().state, rig.controller.reason) == (State.HOLD, '~/hold')


def test_a_stale_stream_between_the_triggers_of_open_loop_lets_the_chunk_end() -> None:
    rig = Rig(execution={'mode': 'open_loop'})
    rig.run()
    rig.streams[WRIST] = Stream(300 * MS, 150 * MS)
    assert rig.tick().state is State.ENABLED
    while (tick := rig.tick()).state is State.ENABLED:
        assert len(rig.wire) < 2 * HORIZON
    assert tick.reason.startswith('S1: ')


def test_an_inference_is_due_only_while_none_is_running() -> None:
    rig = Rig()
    assert rig.controller.needs_inference(rig.now_ns)
    rig.controller.on_inference_started(rig.steady_ns)
    assert not rig.controller.needs_inference(rig.now_ns)
    rig.controller.on_inference_finished(rig.steady_ns)
    assert rig.controller.needs_inference(rig.now_ns)


def test_a_clock_jump_before_enabling_only_clears() -> None:
    rig = Rig()
    rig.tick()
    rig.offer([0.1, 0.1, 0.0])
    rig.now_ns -= 10_000 * MS
    assert rig.tick().state is State.READY
    assert rig.controller.executor.remaining(rig.now_ns) == 0


def test_enabling_after_a_hold_counts_failures_until_one_inference_succeeds() -> None:
    rig = Rig()
    rig.run()
    for _ in range(3):
        rig.controller.on_failure('it raised')
    rig.tick()
    assert 'S11' in rig.controller.enable(True, rig.steady_ns)[1]
    rig.offer([0.1, 0.1, 0.0])
    rig.enable()


def test_a_reset_after_too_many_failures_lets_the_robot_be_enabled() -> None:
    rig = Rig()
    rig.run()
    for _ in range(3):
        rig.controller.on_failure('it raised')
    assert rig.tick().state is State.HOLD
    assert 'S11' in rig.controller.enable(True, rig.steady_ns)[1]
    rig.controller.reset(1)
    rig.enable()


def test_a_gripper_stays_closed_through_a_wait_and_is_judged_afresh_once_enabled() -> None:
    # Closed from 0.5 up, and once it is, down to 0.4.
    rig = Rig({'arm': ARM_ARRAY, 'hand': GRIPPER})
    rig.run([0.1, 0.1, 0.55])
    rig.controller.reset()
    rig.tick()
    rig.offer([0.1, 0.1, 0.45])
    assert rig.ticks(3).state is State.ENABLED

    def goals() -> list[float]:
        return [one.position for one in rig.wire if isinstance(one, GripperCommand)]

    assert goals() == [0.8]
    rig.controller.enable(False, rig.steady_ns)
    rig.tick()
    rig.enable()
    rig.offer([0.1, 0.1, 0.45])
    assert rig.ticks(3).state is State.ENABLED
    assert goals() == [0.8, 0.0]


def test_a_jump_of_the_clock_holds_where_the_arm_is_and_not_where_the_new_time_says() -> None:
    rig = Rig({'arm': ARM_TRAJECTORY})
    (command,) = rig.run(RAMP, ticks=10).commands
    assert isinstance(command, TrajectoryCommand)
    rig.now_ns += 60_000 * MS
    (hold,) = rig.tick().commands
    assert isinstance(hold, TrajectoryCommand)
    expected = np.interp(2 * PERIOD_NS, command.times_ns, [row[0] for row in command.rows])
    assert hold.rows[0][0] == pytest.approx(expected)


@pytest.mark.parametrize('output', [ARM_ARRAY, ARM_TRAJECTORY])
def test_the_step_between_chunks_is_faded_from_where_the_commands_are(
    output: dict[str, object],
) -> None:
    # A chunk far faster than S7 lets through: the plan runs ahead of the robot.
    rig = Rig(outputs={'arm': output}, execution={'blend_steps': 10}, safety={'max_start_jump': 3})
    ramp = np.stack([np.linspace(0.0, 1.9, HORIZON)] * 2 + [np.zeros(HORIZON)], axis=1)
    rig.run(ramp, ticks=20)
    assert rig.controller.counters.slowed

    def commanded() -> np.ndarray:
        row = rig.controller._driver.commanded_at(rig.now_ns)
        assert row is not None
        return row

    there = commanded()
    assert there[0] < 0.6 < ramp[20, 0]
    # The next one wants to stay where the robot is. Faded from the plan, which is elsewhere, it
    # would go on towards it.
    assert not rig.offer([*there, 0.0])
    seen = []
    for _ in range(10):
        rig.tick()
        seen.append(commanded())
    assert np.abs(np.array(seen) - there).max() < 0.03


def test_ticks_that_command_an_action_are_counted_and_so_are_holds_of_the_watchdog() -> None:
    rig = Rig()
    rig.run(ticks=5)
    driven = rig.controller.driven
    assert driven > 0
    rig.ticks(3)
    assert rig.controller.driven == driven + 3
    rig.controller.hold('~/hold was called')
    tick = rig.tick()
    assert (tick.counters.holds, tick.counters.watchdog) == (1, 0)
    assert rig.controller.driven == driven + 3
    rig.enable()
    rig.run(ticks=2)
    tick = rig.tick(10 * PERIOD_NS)
    assert tick.reason.startswith('S9')
    assert (tick.counters.holds, tick.counters.watchdog) == (2, 1)
