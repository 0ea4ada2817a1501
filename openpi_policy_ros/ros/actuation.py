# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run the control core in time: one thread ticks, another watches that the ticks come.

The lock is held around calls of the core only, never while something is sent. What a later decision
(a hold, say) has overtaken does not leave any more. Nothing of ROS in here, and no clock is read
but those handed in.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from openpi_policy_ros.configuration.execution import Execution
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.control.commands import Command, GripperCommand
from openpi_policy_ros.control.controller import Controller, Counters, Tick
from openpi_policy_ros.control.gates import StreamReport
from openpi_policy_ros.control.limits import JointLimits
from openpi_policy_ros.control.machine import ACTIVE, State
from openpi_policy_ros.policies.base import ActionChunk, RtcPrefix
from openpi_policy_ros.ros.delivery import Delivered, Outbox, Pace
from openpi_policy_ros.ros.realtime import go_first

_log = logging.getLogger('openpi_policy_ros.ros.actuation')

_JOIN = 1.0
"""Seconds to wait for a thread that may be stuck in a publisher."""

_REPEAT = 10.0
"""Least seconds between two log lines of ticks that fail."""


class Actuation:
    """The control core of one robot at work, from ``start`` to ``stop``; may be started again.

    All methods may be called from any thread.

    Args:
        controller: in INIT, with nothing else calling it.
        clock: returns now in nanoseconds on the node's ROS clock.
        send: publishes one command; raises where it cannot.
        streams: returns what the sensors' side says of its streams.
        engine_problem: returns why the engine is dead, '' = it lives.
        report: called after every tick; must be cheap.
        sent: called with every command that has left and the ROS time in nanoseconds; must be
            cheap, and not raise.
        period_ns: of the control ticks.
        steady: monotonic nanoseconds.
        execution: the robot file's, for real-time chunking; None = without.
        realtime: run both threads before all others, where that is permitted.

    """

    def __init__(
        self,
        controller: Controller,
        *,
        clock: Callable[[], int],
        send: Callable[[Command], None],
        streams: Callable[[], StreamReport],
        engine_problem: Callable[[], str],
        report: Callable[[Tick], None],
        sent: Callable[[Command, int], None] | None = None,
        period_ns: int,
        steady: Callable[[], int] = time.monotonic_ns,
        execution: Execution | None = None,
        realtime: bool = False,
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._streams = streams
        self._engine_problem = engine_problem
        self._report = report
        self._sent = sent
        self._period_ns = period_ns
        self._steady = steady
        self._realtime = realtime
        self._rtc = execution if execution is not None and execution.mode == 'rtc' else None
        self._lock = threading.Lock()
        self._outbox = Outbox(send, patience_ns=period_ns)
        # A goal is decided once: one that did not leave is tried again while the robot is driven.
        self._goals: dict[str, GripperCommand] = {}
        self._life = threading.Lock()
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self._stumbled_ns: int | None = None

    @property
    def state(self) -> State:
        """Return where the robot's door stands."""
        with self._lock:
            return self._controller.state

    @property
    def reason(self) -> str:
        """Return why it waits or holds; '' elsewhere."""
        with self._lock:
            return self._controller.reason

    @property
    def counters(self) -> Counters:
        """Return what has happened so far."""
        with self._lock:
            return self._controller.counters

    def account(self) -> tuple[Tick, int]:
        """Return how it stands, without commands, and at how many ticks actions were commanded."""
        with self._lock:
            controller = self._controller
            now = Tick(controller.state, controller.reason, (), controller.counters)
            return now, controller.driven

    @property
    def enabled(self) -> bool:
        """Return whether commands leave: ENABLED or WAIT."""
        return self.state in ACTIVE

    def start(self) -> None:
        """Get ready to be enabled, and begin to tick."""
        with self._life:
            if self._threads:
                return
            with self._lock:
                self._controller.activate()
            # Of its own: a thread of before that was left stuck must not go on.
            self._ending = threading.Event()
            self._threads = [
                threading.Thread(
                    target=self._run, args=(work, self._ending, delay_ns), name=name, daemon=True
                )
                for name, work, delay_ns in (
                    ('control', self.step, 0),
                    # Between two ticks, where it meets none.
                    ('watchdog', self.guard, self._period_ns // 2),
                )
            ]
            for thread in self._threads:
                thread.start()

    def stop(self) -> None:
        """Be disarmed; the hold is the last message on every output that was commanded."""
        with self._life:
            with self._lock:
                self._controller.deactivate()
            self._ending.set()
            self._send_final_hold(last_try=not self._threads)
            for thread in self._threads:
                thread.join(_JOIN)
                if thread.is_alive():
                    _log.error('the %s thread does not end; it is left alone', thread.name)
            if self._threads:
                # What was stuck may be free now.
                self._send_final_hold(last_try=True)
            self._threads = []

    def enable(self, on: bool) -> tuple[bool, str]:
        """Open or close the gate to the robot; return (done, one sentence for the operator).

        Closed, the hold leaves at once, not with the next tick.
        """
        with self._lock:
            done, text = self._controller.enable(on, self._steady())
        if not on:
            self.guard()
        return done, text

    def hold(self, text: str) -> None:
        """Stop until enabled again; the hold leaves at once, not with the next tick."""
        with self._lock:
            self._controller.hold(text)
        self.guard()

    def reset(self, epoch: int) -> None:
        """Drop the chunk that runs; results of epochs before ``epoch`` no longer count."""
        with self._lock:
            self._controller.reset(epoch)

    def expect(self, epoch: int) -> None:
        """Throw away results of older epochs; the chunk that runs goes on until a new one."""
        with self._lock:
            self._controller.expect(epoch)

    def set_limits(self, limits: JointLimits, missing: Sequence[str] = ()) -> None:
        """Use these limits; raises as ``Controller.set_limits``."""
        with self._lock:
            self._controller.set_limits(limits, missing)

    def tune(self, robot: RobotConfig) -> None:
        """Use other numbers from the next tick on, as ``Controller.tune``."""
        with self._lock:
            self._controller.tune(robot)

    def on_joints(self, measured: Mapping[str, float]) -> None:
        """Note measured positions: joint → finite, ROS units."""
        with self._lock:
            self._controller.on_joints(measured, self._steady())

    def on_interlock(self, value: bool) -> None:
        """Note a message of the interlock; the hold leaves at once, not with the next tick."""
        with self._lock:
            self._controller.on_interlock(value, self._steady())
            holds = self._controller.state is State.HOLD
        if holds:
            self.guard()

    def needs_inference(self) -> bool:
        """Return whether an inference is due: always while not enabled, for others to look at."""
        with self._lock:
            if self._controller.state not in ACTIVE:
                return True
            return self._controller.needs_inference(self._clock())

    def inference_started(self) -> None:
        """Note that an inference was handed to the engine."""
        with self._lock:
            self._controller.on_inference_started(self._steady())

    def inference_finished(self) -> None:
        """Note that it ended, well or not."""
        with self._lock:
            self._controller.on_inference_finished(self._steady())

    def on_chunk(self, chunk: ActionChunk, t_obs_ns: int, epoch: int) -> str:
        """Take over a chunk that came now; return why it was not, '' = it was."""
        with self._lock:
            return self._controller.on_chunk(chunk, t_obs_ns, epoch, self._clock(), self._steady())

    def on_failure(self, reason: str) -> None:
        """Count an inference that failed."""
        with self._lock:
            self._controller.on_failure(reason)

    def rows_left(self) -> int:
        """Return how many actions of the running chunk are left to play."""
        with self._lock:
            return self._controller.executor.remaining(self._clock())

    def rows_needed(self, latency_s: float) -> int:
        """Return how many actions elapse in so many seconds, rounded up."""
        with self._lock:
            return self._controller.executor.delay_steps(latency_s)

    def rtc_prefix(self, t_obs_ns: int, latency_s: float) -> RtcPrefix | None:
        """Return what the policy is to continue, None = nothing, or ``execution.mode`` is not rtc.

        Nothing either while not enabled: nobody executes those chunks.

        Args:
            t_obs_ns: stamp of the observation of the request.
            latency_s: measured, from observation to arrival.

        """
        if self._rtc is None:
            return None
        with self._lock:
            if self._controller.state not in ACTIVE:
                return None
            executor = self._controller.executor
            rows, chunk = executor.leftover(t_obs_ns), executor.playing
            delay = executor.delay_steps(latency_s)
        if rows is None or chunk is None:
            return None
        return RtcPrefix(rows, delay, self._rtc.rtc_horizon, chunk.state)

    def step(self) -> None:
        """Tick once, as the control thread does."""
        problem, streams = self._engine_problem(), self._streams()
        with self._lock:
            self._controller.on_engine(problem)
            tick = self._controller.tick(self._clock(), self._steady(), streams)
            if tick.state is State.INIT:
                # Stopped meanwhile: nothing may overtake the last hold.
                return
            number = self._outbox.number()
        self._send(tick, number)

    def guard(self) -> None:
        """Send the hold where it is owed or ticks fail to come, as the watchdog thread does."""
        with self._lock:
            tick = self._controller.watch(self._clock(), self._steady())
            if not tick.is_last:
                # That it looked is no sign that commands leave.
                return
            number = self._outbox.number()
        self._send(tick, number)

    def _send(self, tick: Tick, number: int) -> None:
        commands = [*tick.commands, *self._belated(tick)]
        outcome = self._deliver(number, commands)
        for command in commands:
            if isinstance(command, GripperCommand):
                self._goals.pop(command.output, None)
        for command in outcome.failed:
            if isinstance(command, GripperCommand):
                self._goals[command.output] = command
        if outcome.overtaken:
            return
        with self._lock:
            if outcome.complete:
                self._controller.sent(tick, self._steady())
            else:
                self._controller.sent_in_part(tick, outcome.left)
        self._report(tick)

    def _deliver(self, number: int, commands: Sequence[Command]) -> Delivered:
        outcome = self._outbox.deliver(number, commands)
        if self._sent is not None and outcome.left:
            now_ns = self._clock()
            for command in outcome.left:
                self._sent(command, now_ns)
        return outcome

    def _belated(self, tick: Tick) -> list[Command]:
        """Return the goals that did not leave before and still stand."""
        if tick.state is not State.ENABLED:
            return []
        decided = {command.output for command in tick.commands}
        return [goal for output, goal in self._goals.items() if output not in decided]

    def _send_final_hold(self, *, last_try: bool) -> None:
        with self._lock:
            controller = self._controller
            number = self._outbox.number()
            commands = controller.final_hold(self._clock(), self._steady())
            tick = Tick(controller.state, controller.reason, commands, controller.counters, True)
        outcome = self._deliver(number, commands)
        with self._lock:
            if outcome.complete:
                controller.sent(tick, self._steady())
            elif not outcome.overtaken:
                controller.sent_in_part(tick, outcome.left)
        if outcome.failed and last_try:
            names = ', '.join(command.output for command in outcome.failed)
            _log.error('the last hold could not be sent to %s', names)

    def _run(self, work: Callable[[], None], ending: threading.Event, wait_ns: int) -> None:
        if self._realtime:
            why_not = go_first()
            _log.info(
                'the %s thread runs at %s',
                threading.current_thread().name,
                f'normal priority: {why_not}' if why_not else 'real-time priority',
            )
        pace = Pace(self._period_ns, self._steady() + wait_ns)
        while not ending.wait(wait_ns / NANOSECONDS):
            try:
                work()
            except Exception:
                # The other thread goes on: ticks that fail are as good as none, which is S9.
                self._tell_stumble(threading.current_thread().name)
            wait_ns = pace.wait_ns(self._steady())

    def _tell_stumble(self, thread: str) -> None:
        now, last = self._steady(), self._stumbled_ns
        if last is None or now - last >= _REPEAT * NANOSECONDS:
            self._stumbled_ns = now
            _log.exception('the %s thread stumbled', thread)
