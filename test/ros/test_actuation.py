# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N802
"""The control core at work: order on the wire, the watchdog, the last message, and time kept."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from rig import ARM_ARRAY, ARM_TRAJECTORY, GRIPPER, HORIZON, JOINTS, MS, PERIOD_NS, Rig

from openpi_policy_ros.control.commands import ArrayCommand, Command, GripperCommand
from openpi_policy_ros.control.controller import Tick
from openpi_policy_ros.control.gates import StreamReport
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.ros.actuation import Actuation
from openpi_policy_ros.ros.delivery import Outbox

WAIT = 5.0
LEFT = {**ARM_ARRAY, 'topic': 'left/commands', 'joints': ['shoulder'], 'action_indices': [0]}
RIGHT = {**ARM_ARRAY, 'topic': 'right/commands', 'joints': ['elbow'], 'action_indices': [1]}
TWO = {'left': LEFT, 'right': RIGHT}
RAMP = np.linspace([0.0, 0.0, 0.0], [0.4, 0.4, 0.0], HORIZON)


class Wire:
    """Where commands go; ``before`` may block or raise first."""

    def __init__(self) -> None:
        self.sent: list[Command] = []
        self.before: Callable[[Command], None] = lambda command: None

    def __call__(self, command: Command) -> None:
        self.before(command)
        self.sent.append(command)

    def last(self, output: str) -> Command:
        return [command for command in self.sent if command.output == output][-1]


class Gate:
    """Lets a thread wait at one place until it is opened."""

    def __init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.opened.wait(WAIT)


class Bench:
    """An actuation whose clocks stand still unless moved, and what it sent and said."""

    def __init__(self, real_time: bool = False, period_ns: int = PERIOD_NS, **rig: Any) -> None:
        self.rig = Rig(**rig)
        self.wire = Wire()
        self.reported: list[tuple[Command, int]] = []
        self.ticks: list[Tick] = []
        self.engine_problem = ''
        self.streams: Callable[[], StreamReport] = lambda: StreamReport(
            dict(self.rig.streams), self.rig.skew
        )
        clocks: dict[str, Any] = {'clock': time.time_ns}
        if not real_time:
            clocks = {'clock': lambda: self.rig.now_ns, 'steady': lambda: self.rig.steady_ns}
        self.actuation = Actuation(
            self.rig.controller,
            **clocks,
            send=self.wire,
            streams=lambda: self.streams(),
            engine_problem=lambda: self.engine_problem,
            report=self.ticks.append,
            sent=lambda command, now_ns: self.reported.append((command, now_ns)),
            period_ns=period_ns,
            execution=self.rig.robot.execution,
        )
        self.clock = clocks['clock']

    def step(self, by_ns: int = PERIOD_NS) -> None:
        self.rig.pass_time(by_ns)
        self.actuation.on_joints(dict.fromkeys(JOINTS, 0.0))
        self.actuation.step()

    def chunk(self, rows: Any = RAMP, epoch: int = 0, **fields: Any) -> str:
        actions = np.asarray(rows, np.float32)
        return self.actuation.on_chunk(
            ActionChunk({'actions': actions}, **fields), self.clock(), epoch
        )

    def drive(self, steps: int = 5) -> None:
        """Enable, and drive a while."""
        self.step()
        assert self.actuation.enable(True) == (True, 'enabled')
        assert self.chunk() == ''
        for _ in range(steps):
            self.step()
        assert self.actuation.state is State.ENABLED, self.actuation.reason
        assert self.wire.sent


def test_every_command_that_left_is_reported_and_no_other() -> None:
    bench = Bench(outputs=TWO)
    bench.drive()
    assert [command for command, _ in bench.reported] == bench.wire.sent
    assert bench.reported[-1][1] == bench.rig.now_ns

    def refuse_left(command: Command) -> None:
        if command.output == 'left':
            raise RuntimeError('the publisher is gone')

    bench.wire.before = refuse_left
    bench.step()
    assert [command for command, _ in bench.reported] == bench.wire.sent
    assert bench.reported[-1][0].output == 'right'
    bench.wire.before = lambda command: None
    bench.actuation.enable(False)
    bench.actuation.stop()
    assert [command for command, _ in bench.reported] == bench.wire.sent


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline, 'did not happen'
        time.sleep(0.002)


@pytest.fixture
def in_thread() -> Iterator[Callable[[Callable[[], None]], threading.Thread]]:
    threads: list[threading.Thread] = []

    def start(work: Callable[[], None]) -> threading.Thread:
        threads.append(threading.Thread(target=work, daemon=True))
        threads[-1].start()
        return threads[-1]

    yield start
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()


@pytest.mark.parametrize('end', ['hold', 'stop'])
def test_an_output_that_holds_moves_no_further_while_another_cannot_be_sent(end: str) -> None:
    bench = Bench(outputs={name: {**output, 'type': 'trajectory'} for name, output in TWO.items()})
    bench.drive()

    def broken(command: Command) -> None:
        if command.output == 'right':
            raise RuntimeError('publisher is gone')

    bench.wire.before = broken
    if end == 'hold':
        bench.actuation.hold('test')
        held = bench.wire.sent[-1]
        for _ in range(5):
            bench.step()
    else:
        bench.actuation.stop()
        held = bench.wire.sent[-1]
        bench.rig.pass_time(100 * MS)
        bench.actuation.stop()
    assert held.output == 'left'
    assert bench.wire.sent[-1] == held


def test_a_false_interlock_holds_before_the_next_tick() -> None:
    bench = Bench(safety={'interlock_topic': 'estop_ok'})
    bench.actuation.on_interlock(True)
    bench.drive(2)
    sent = len(bench.wire.sent)
    bench.actuation.on_interlock(False)
    assert bench.actuation.state is State.HOLD
    assert bench.wire.sent[sent:] == [bench.wire.sent[sent - 1]]
    bench.actuation.on_interlock(True)
    bench.step()
    assert bench.actuation.state is State.HOLD
    assert len(bench.wire.sent) == sent + 1


def test_what_a_hold_has_overtaken_is_not_sent_any_more(in_thread: Any) -> None:
    bench = Bench(outputs=TWO)
    bench.drive()
    gate = Gate()
    before = len(bench.wire.sent)

    def stuck(command: Command) -> None:
        if command.output == 'left' and not gate.reached.is_set():
            gate.pass_through()

    bench.wire.before = stuck
    late = in_thread(bench.step)
    assert gate.reached.wait(WAIT)
    bench.actuation.hold('an operator')
    gate.opened.set()
    late.join(WAIT)
    # The output that was not stuck has its hold; what the tick still had for it is kept back.
    held = [command for command in bench.wire.sent[before:] if command.output == 'right']
    assert len(held) == 1
    bench.step()
    assert bench.actuation.state is State.HOLD
    left = [command for command in bench.wire.sent if command.output == 'left']
    assert left[-1] == left[-2], 'held where the command that was stuck has sent it'
    assert bench.wire.last('right') == held[0]
    count = len(bench.wire.sent)
    bench.step()
    assert len(bench.wire.sent) == count, 'the hold has left, and nothing follows'


def test_a_tick_that_comes_back_late_does_not_tell_an_older_state(in_thread: Any) -> None:
    bench = Bench()
    bench.drive()
    gate = Gate()
    bench.wire.before = lambda command: None if gate.reached.is_set() else gate.pass_through()
    late = in_thread(bench.step)
    assert gate.reached.wait(WAIT)
    bench.actuation.hold('an operator')
    assert bench.ticks[-1].state is State.HOLD
    gate.opened.set()
    late.join(WAIT)
    assert bench.ticks[-1].state is State.HOLD


def test_a_stuck_publisher_holds_up_its_own_output_only(in_thread: Any) -> None:
    gate = Gate()
    sent: list[str] = []

    def send(command: Command) -> None:
        if command.output == 'left':
            gate.pass_through()
        sent.append(command.output)

    outbox = Outbox(send, patience_ns=10 * MS)
    first, second = ArrayCommand('left', (0.0,)), ArrayCommand('right', (0.0,))
    in_thread(lambda: outbox.deliver(outbox.number(), [first, second]))
    assert gate.reached.wait(WAIT)
    outcome = outbox.deliver(outbox.number(), [first, second])
    assert (outcome.failed, outcome.overtaken, outcome.complete) == ((first,), False, False)
    assert sent == ['right']
    gate.opened.set()
    until(lambda: sent == ['right', 'left'])


def test_S9_a_dead_publisher_holds_the_robot_until_its_hold_has_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(outputs=TWO)
    bench.drive()

    def dead(command: Command) -> None:
        if command.output == 'left':
            raise OSError('publisher is gone')

    bench.wire.before = dead
    with caplog.at_level(logging.INFO, 'openpi_policy_ros'):
        for _ in range(5):
            bench.step()
    assert bench.actuation.state is State.HOLD
    assert bench.actuation.reason.startswith('S9')
    held = bench.wire.last('right')
    assert caplog.text.count('publisher is gone') == 1
    # Repeated for as long as one output has not got it.
    count = len(bench.wire.sent)
    bench.step()
    assert bench.wire.sent[count:] == [held]
    bench.wire.before = lambda command: None
    with caplog.at_level(logging.INFO, 'openpi_policy_ros'):
        bench.step()
    assert [command.output for command in bench.wire.sent[count + 1 :]] == ['left', 'right']
    assert "'left': commands leave again" in caplog.text
    bench.step()
    assert len(bench.wire.sent) == count + 3


def test_S9_the_watchdog_sends_the_hold_where_ticks_fail_to_come() -> None:
    bench = Bench(outputs={'arm': ARM_TRAJECTORY})
    bench.drive()
    count = len(bench.wire.sent)
    bench.rig.pass_time(PERIOD_NS)
    bench.actuation.guard()
    assert len(bench.wire.sent) == count, 'one period is no silence'
    for _ in range(2):
        bench.rig.pass_time(PERIOD_NS)
        bench.actuation.guard()
    assert bench.actuation.state is State.HOLD
    assert bench.ticks[-1].reason.startswith('S9')
    (hold,) = bench.wire.sent[count:]
    assert len(hold.rows) == 1  # type: ignore[union-attr]


@pytest.mark.parametrize('failing', ['stuck', 'raising'])
def test_S9_a_dead_control_thread_is_noticed_by_the_watchdog_thread(
    failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(real_time=True, period_ns=20 * MS, outputs={'arm': ARM_ARRAY})
    gate = Gate()
    bench.actuation.start()
    try:
        bench.actuation.on_joints(dict.fromkeys(JOINTS, 0.0))
        assert bench.actuation.enable(True)[0]
        assert bench.chunk() == ''
        until(lambda: bench.wire.sent)
        report = bench.streams()

        def fail() -> StreamReport:
            if failing == 'raising':
                raise RuntimeError('a bug')
            gate.pass_through()
            return report

        bench.streams = fail
        until(lambda: bench.actuation.state is State.HOLD)
        assert bench.actuation.reason.startswith('S9')
        until(lambda: bench.ticks[-1].state is State.HOLD)
        held = bench.wire.sent[-1]
        gate.opened.set()
    finally:
        gate.opened.set()
        bench.actuation.stop()
    assert bench.wire.sent[-1] == held
    assert ('the control thread stumbled' in caplog.text) == (failing == 'raising')


@pytest.mark.parametrize('output', [ARM_ARRAY, ARM_TRAJECTORY], ids=['array', 'trajectory'])
def test_stopping_sends_the_hold_as_the_very_last_message(output: dict[str, Any]) -> None:
    bench = Bench(real_time=True, period_ns=10 * MS, outputs={'arm': output})
    bench.actuation.start()
    bench.actuation.on_joints(dict.fromkeys(JOINTS, 0.0))
    assert bench.actuation.enable(True)[0]
    assert bench.chunk() == ''
    until(lambda: len(bench.wire.sent) > 3)
    bench.actuation.stop()
    count = len(bench.wire.sent)
    last, driven = bench.wire.sent[-1], bench.wire.sent[-2]
    if isinstance(last, ArrayCommand):
        assert last == driven
    else:
        assert len(last.rows) == 1 < len(driven.rows)  # type: ignore[union-attr]
    assert bench.actuation.state is State.INIT
    time.sleep(0.05)
    bench.actuation.stop()
    assert len(bench.wire.sent) == count, 'nothing follows, not even the hold again'
    refused = bench.actuation.enable(True)
    assert refused == (False, 'refused: the node is not active; activate it first')


def test_a_command_that_was_stuck_while_all_was_stopped_is_followed_by_the_hold() -> None:
    bench = Bench(real_time=True, period_ns=10 * MS, outputs=TWO)
    gate = Gate()
    bench.actuation.start()
    bench.actuation.on_joints(dict.fromkeys(JOINTS, 0.0))
    assert bench.actuation.enable(True)[0]
    assert bench.chunk() == ''
    until(lambda: len(bench.wire.sent) > 3)

    def stuck(command: Command) -> None:
        if command.output == 'left' and not gate.reached.is_set():
            gate.pass_through()

    bench.wire.before = stuck
    assert gate.reached.wait(WAIT)
    threading.Timer(0.1, gate.opened.set).start()
    bench.actuation.stop()
    left = [command for command in bench.wire.sent if command.output == 'left']
    right = [command for command in bench.wire.sent if command.output == 'right']
    # What was stuck counts as commanded, and is where the robot holds.
    assert left[-1] == left[-2]
    assert right[-1] == right[-2]


def test_a_tick_in_the_middle_of_stopping_keeps_no_hold_back() -> None:
    bench = Bench(outputs=TWO)
    bench.drive()
    count = len(bench.wire.sent)
    bench.wire.before = lambda command: bench.actuation.step()
    bench.actuation.stop()
    assert [command.output for command in bench.wire.sent[count:]] == ['left', 'right']


def test_started_again_nothing_is_commanded_until_enabled() -> None:
    bench = Bench(real_time=True, period_ns=10 * MS)
    for _ in range(2):
        bench.actuation.start()
        bench.actuation.start()
        until(lambda: bench.ticks and bench.ticks[-1].state is State.READY)
        bench.actuation.stop()
        assert bench.wire.sent == []
        bench.ticks.clear()
    assert not [one for one in threading.enumerate() if one.name in ('control', 'watchdog')]


def test_disabling_and_holding_do_not_wait_for_the_next_tick() -> None:
    bench = Bench()
    bench.drive()
    count = len(bench.wire.sent)
    assert bench.actuation.enable(False) == (True, 'disabled')
    assert len(bench.wire.sent) == count + 1
    assert (bench.actuation.state, bench.actuation.enabled) == (State.READY, False)
    bench.step()
    assert len(bench.wire.sent) == count + 1
    bench.drive(2)
    count = len(bench.wire.sent)
    bench.actuation.hold('an operator')
    assert len(bench.wire.sent) == count + 1
    assert (bench.actuation.state, bench.actuation.reason) == (State.HOLD, 'an operator')


def test_a_goal_that_could_not_be_sent_is_tried_again_and_holds_the_robot_in_the_end() -> None:
    outputs = {'arm': ARM_ARRAY, 'hand': GRIPPER}
    bench = Bench(outputs=outputs, safety={'watchdog_periods': 4.0})
    tries: list[Command] = []

    def no_server(command: Command) -> None:
        if isinstance(command, GripperCommand):
            tries.append(command)
            if len(tries) < 3:
                raise RuntimeError('no action server')

    bench.wire.before = no_server
    bench.drive(6)
    goals = [command for command in bench.wire.sent if isinstance(command, GripperCommand)]
    assert len(tries) == 3, 'again until it left, and not again thereafter'
    assert goals == [GripperCommand('hand', 0.0, 5.0)]

    bench = Bench(outputs=outputs)
    tries.clear()

    def never(command: Command) -> None:
        if isinstance(command, GripperCommand):
            raise RuntimeError('no action server')

    bench.wire.before = never
    bench.step()
    assert bench.actuation.enable(True)[0]
    assert bench.chunk() == ''
    for _ in range(5):
        bench.step()
    assert bench.actuation.reason.startswith('S9')


def test_S16_what_the_engine_says_reaches_the_gates() -> None:
    bench = Bench()
    bench.drive()
    bench.engine_problem = 'the worker died'
    bench.step()
    assert (bench.actuation.state, bench.actuation.reason) == (State.HOLD, 'S16: the worker died')
    assert bench.actuation.enable(True) == (False, 'refused: S16: the worker died')


def test_chunks_are_always_wanted_while_not_enabled() -> None:
    bench = Bench(execution={'mode': 'open_loop'})
    bench.step()
    assert bench.chunk() == ''
    assert bench.actuation.needs_inference()
    bench.drive()
    assert not bench.actuation.needs_inference()
    assert bench.actuation.rows_left() > 0
    bench.actuation.hold('an operator')
    assert bench.actuation.needs_inference()


def test_the_leftover_of_the_running_chunk_guides_the_next_inference() -> None:
    bench = Bench(execution={'mode': 'rtc', 'rtc_horizon': 7})
    model = np.arange(2 * HORIZON, dtype=np.float32).reshape(HORIZON, 2)
    state = np.array([1.0, 2.0], np.float32)
    bench.step()
    assert bench.chunk(model_actions=model, state=state) == ''
    assert bench.actuation.rtc_prefix(bench.rig.now_ns, 0.05) is None, 'nobody executes it'
    assert bench.actuation.enable(True)[0]
    assert bench.chunk(model_actions=model, state=state) == ''
    started = bench.rig.now_ns
    bench.step()
    prefix = bench.actuation.rtc_prefix(started + 10 * 20 * MS, 0.05)
    assert prefix is not None
    np.testing.assert_array_equal(prefix.leftover, model[10:])
    np.testing.assert_array_equal(prefix.state, state)
    # 50 ms are two and a half actions of 20 ms.
    assert (prefix.inference_delay, prefix.execution_horizon) == (3, 7)
    assert bench.actuation.rows_needed(0.05) == 3
    assert bench.actuation.rtc_prefix(started + 10_000 * MS, 0.05) is None, 'all has elapsed'


def test_without_real_time_chunking_nothing_guides_the_next_inference() -> None:
    bench = Bench()
    bench.drive()
    assert bench.actuation.rtc_prefix(bench.rig.now_ns, 0.05) is None
