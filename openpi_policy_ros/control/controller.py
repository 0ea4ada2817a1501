# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Decide at every tick what leaves for the robot: the machine, the gates and the driver together.

Not a certified safety function. Two clocks, both int nanoseconds and both handed in: ``now_ns`` is
the node's ROS clock (stamps, chunks), ``steady_ns`` is monotonic (every timeout).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control import gates
from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.buffers import to_nanoseconds
from openpi_policy_ros.control.commands import Command
from openpi_policy_ros.control.driver import Driver
from openpi_policy_ros.control.executor import ChunkExecutor
from openpi_policy_ros.control.executor import Verdict as OfferVerdict
from openpi_policy_ros.control.gates import OK, Level, StreamReport, Verdict
from openpi_policy_ros.control.governor import chunk_problem
from openpi_policy_ros.control.limits import JointLimits
from openpi_policy_ros.control.machine import Machine, State
from openpi_policy_ros.control.tick import Counters, Tick
from openpi_policy_ros.policies.base import ActionChunk, PolicySpec

__all__ = ['PAUSE', 'Controller', 'Counters', 'Tick']

_FIRST = 'waiting for the first chunk after enabling'
_AFTER_RESET = 'waiting for the first chunk after a reset'
_ENDED = 'S15: starved: the last chunk has ended and no new one came'
_LATE = (
    'S14: the chunk came late: all of its actions had elapsed; inference is too slow for this '
    'horizon, or the observation was old'
)
_STEP_NS = 20_000_000
"""What a clock may get ahead at once without being set; those of simulations are coarse."""
PAUSE = 'the chunk has been played (open_loop); waiting for the next'
"""Reason of a WAIT that is meant."""


class Controller:
    """The control core of one robot. Its methods are called by one thread at a time.

    After each tick the caller sends its commands and then calls ``sent``, also if there were none:
    S9 goes by that, and the last hold is repeated until it is known to have left. Nothing of an
    earlier tick may be sent after something of a later one.

    Attributes:
        executor: the chunks that are played, for leftovers and delays of real-time chunking.

    """

    def __init__(
        self,
        robot: RobotConfig,
        spec: PolicySpec,
        axes: Axes,
        *,
        inference_timeout: float,
        dry_run: bool,
        disabled: frozenset[str] = frozenset(),
    ) -> None:
        """Start in INIT, without limits.

        Args:
            robot: a validated robot file with ``timing.action_rate``.
            spec: of the policy whose chunks come.
            axes: made of both.
            inference_timeout: seconds, S10.
            dry_run: never command anything.
            disabled: gates that are switched off, for tests.

        """
        rate = robot.timing.action_rate
        if rate is None:
            raise ValueError('timing.action_rate is None, expected the rate of the actions in Hz')
        self._disabled = disabled | gates.DISABLED
        safety = robot.safety
        self._axes = axes
        self._shape = (spec.horizon, spec.action_dim)
        self._driver = Driver(robot, axes, to_nanoseconds(1.0 / rate), self._disabled)
        self._open_loop = robot.execution.mode == 'open_loop'
        self._machine = Machine(dry_run=dry_run)
        self._s1 = gates.S1StaleAtTrigger()
        self._s2 = gates.S2StaleStream(safety.stale_hold)
        self._s3 = gates.S3Skew()
        self._s5 = gates.S5MissingJoints(robot.joints.names, safety.stale_hold)
        self._s9 = gates.S9Watchdog(self._driver.period_ns, safety.watchdog_periods)
        self._s10 = gates.S10SlowInference(inference_timeout)
        self._s11 = gates.S11Failures(safety.max_failures)
        self._s12 = gates.S12Interlock(safety.interlock_topic, safety.interlock_timeout)
        self._s13 = gates.S13ClockJump(safety.clock_jump)
        self._s15 = gates.S15Starved(safety.max_wait)
        self._s16 = gates.S16Engine()
        self._limits_missing = ['the limits of the joints are not known yet']
        self._measured: dict[str, float] = {}
        self._report = StreamReport()
        self._counters = Counters()
        self._driven = 0
        self._epoch = 0
        self._awaited = _FIRST
        self._driving = False
        self._waiting_since: int | None = None
        self._sent_ns = 0
        self._now_ns = 0
        self._steady_ns = 0
        self._owes_hold = False

    @property
    def executor(self) -> ChunkExecutor:
        """Return the chunks that are played."""
        return self._driver.executor

    @property
    def state(self) -> State:
        """Return where the robot's door stands."""
        return self._machine.state

    @property
    def reason(self) -> str:
        """Return why it waits or holds; '' elsewhere."""
        return self._machine.reason

    @property
    def counters(self) -> Counters:
        """Return what has happened so far."""
        return self._counters

    @property
    def driven(self) -> int:
        """Return at how many ticks actions were commanded, of which some may be clamped."""
        return self._driven

    def set_limits(self, limits: JointLimits, missing: Sequence[str] = ()) -> None:
        """Use these limits; not while the robot is enabled.

        Args:
            limits: of each axis.
            missing: what is not known of them; enabling is refused with it.

        Raises:
            RuntimeError: the robot is enabled.
            ConfigurationError: ``safety.position_margin`` leaves a joint no room.

        """
        if self._machine.active:
            raise RuntimeError('limits cannot change while the robot is enabled; disable it first')
        self._driver.set_limits(limits)
        self._limits_missing = list(missing)

    def tune(self, robot: RobotConfig) -> None:
        """Use other numbers from the next tick on; may come while the robot is enabled.

        Args:
            robot: as before, but for ``safety.velocity_scale``, ``execution.blend_steps`` and
                ``execution.ensemble_decay``.

        """
        self._driver.tune(robot)

    def activate(self) -> None:
        """Get ready to be enabled."""
        if self._machine.state is State.INIT:
            self._owes_hold = False
        self._machine.activate()

    def deactivate(self) -> None:
        """Stop commanding: ``final_hold`` must leave then, and no tick returns anything more."""
        was_active = self._machine.active
        self._machine.deactivate()
        self._stopped(was_active)

    def enable(self, on: bool, steady_ns: int) -> tuple[bool, str]:
        """Open or close the gate to the robot; return (done, one sentence for the operator)."""
        was_active = self._machine.active
        done, text = self._machine.enable(on, self._blocked(steady_ns) if on else '')
        self._stopped(was_active)
        if self._machine.active and not was_active:
            # A hold that has not left yet leaves with the first tick, while it waits.
            if self._owes_hold:
                self._driver.pause()
            else:
                self._driver.begin()
            self._owes_hold = False
            self._awaited = _FIRST
            self._driving = False
            self._waiting_since = None
            self._sent_ns = steady_ns
        return done, text

    def hold(self, reason: str) -> None:
        """Stop and stay stopped until enabled again; nothing to stop where nothing is enabled."""
        self._hold(reason)

    def reset(self, epoch: int = 0) -> None:
        """Drop the chunk that runs and the count of failures; HOLD stays.

        Args:
            epoch: results of older ones no longer count.

        """
        self.expect(epoch)
        self._driver.pause()
        self._s11.succeeded()
        self._awaited = _AFTER_RESET
        self._driving = False
        self._machine.reset(_AFTER_RESET)

    def expect(self, epoch: int) -> None:
        """Throw away results of older epochs; the chunk that runs goes on until a new one comes."""
        self._epoch = max(self._epoch, epoch)

    def needs_inference(self, now_ns: int) -> bool:
        """Return whether an inference is due and none is running."""
        return not self._s10.running and self.executor.needs_inference(now_ns)

    def on_inference_started(self, steady_ns: int) -> None:
        """Note that an inference was handed to the engine."""
        self._s10.started(steady_ns)

    def on_inference_finished(self, steady_ns: int) -> None:
        """Note that it ended, well or not; its result is told apart from that."""
        del steady_ns
        self._s10.finished()

    def on_chunk(
        self, chunk: ActionChunk, t_obs_ns: int, epoch: int, now_ns: int, steady_ns: int
    ) -> str:
        """Take over a chunk; return why it was not, '' = it was.

        Args:
            chunk: the policy's answer.
            t_obs_ns: stamp of the observation that it answers.
            epoch: of that observation.
            now_ns: arrival on the ROS clock.
            steady_ns: arrival on the steady clock.

        """
        del steady_ns
        if epoch < self._epoch:
            self._count('outdated')
            return 'the chunk answers an older prompt or session'
        problem = '' if 'S4' in self._disabled else chunk_problem(chunk.actions, self._shape)
        if problem:
            self.on_failure(problem)
            self._count('refused')
            self._awaited = problem
            return problem
        self._s11.succeeded()
        rows = self._axes.rows(chunk.actions)
        commanded = self._driver.commanded_at(now_ns)
        offer = self.executor.offer(rows, t_obs_ns, epoch, now_ns, chunk, commanded)
        if offer.verdict is OfferVerdict.LATE:
            self._count('late')
            self._awaited = _LATE
            return _LATE
        if offer.verdict is OfferVerdict.OUTDATED:
            self._count('outdated')
            return 'the chunk answers an older observation than the one that runs'
        self.executor.drop_older_than(epoch)
        self._epoch = max(self._epoch, epoch)
        self._awaited = PAUSE if self._open_loop else _ENDED
        self._count('chunks')
        self._count('dropped_actions', offer.dropped)
        return ''

    def on_failure(self, reason: str) -> None:
        """Count an inference that failed."""
        self._s11.failed(reason)
        self._count('failures')

    def on_joints(self, measured: Mapping[str, float], steady_ns: int) -> None:
        """Note measured positions (joint → ROS units); a message may carry any part of them."""
        self._measured.update(measured)
        self._s5.heard(measured, steady_ns)

    def on_interlock(self, value: bool, steady_ns: int) -> None:
        """Note a message of the interlock; false, or true after too long a silence, holds at once.

        Ticks would miss what lasts shorter than the time between two of them.
        """
        silent = self._s12.check(steady_ns)
        self._s12.heard(value, steady_ns)
        for verdict in (silent, self._s12.check(steady_ns)):
            if self._machine.active and self._apply('S12', verdict).level is Level.HOLD:
                self._hold(verdict.text)

    def on_engine(self, problem: str) -> None:
        """Note why the engine is dead; '' = it lives."""
        self._s16.report(problem)

    def sent(self, tick: Tick, steady_ns: int) -> None:
        """Note that everything a tick returned has left."""
        self._sent_ns = steady_ns
        # Stopped in between, the robot is still owed its hold.
        if tick.is_last and not self._machine.active:
            self._owes_hold = False

    def sent_in_part(self, tick: Tick, commands: Sequence[Command]) -> None:
        """Note that only these commands of a tick have left; a last hold is still owed then.

        The outputs that are stopped already stay where they were told to.
        """
        if tick.is_last and not self._machine.active:
            self._driver.stopped(commands, self._now_ns)

    def tick(self, now_ns: int, steady_ns: int, streams: StreamReport) -> Tick:
        """Return what is to be sent now.

        Args:
            now_ns: ROS clock.
            steady_ns: steady clock.
            streams: what the sensors' side says.

        """
        self._report = streams
        self._look_at_clock(now_ns, steady_ns)
        commands: tuple[Command, ...] = ()
        if self._machine.active:
            commands = self._act(now_ns, steady_ns)
        if self._stopping:
            commands = self._driver.hold(now_ns)
        return self._tick(commands)

    def watch(self, now_ns: int, steady_ns: int) -> Tick:
        """Return the hold to be sent where ticks fail to come (S9), like ``tick`` else.

        For a second thread, beside the one that ticks.
        """
        self._look_at_clock(now_ns, steady_ns)
        if self._machine.active:
            verdict = self._apply('S9', self._s9.check(self._sent_ns, steady_ns))
            if verdict.level is Level.HOLD:
                self._hold(verdict.text)
        return self._tick(self._driver.hold(now_ns) if self._stopping else ())

    def final_hold(
        self, now_ns: int | None = None, steady_ns: int | None = None
    ) -> tuple[Command, ...]:
        """Return the hold that is still to leave after the robot was stopped; none if it has left.

        Holding again later could pull back a robot that others have moved since.

        Args:
            now_ns: ROS clock; None = when it was last looked at.
            steady_ns: steady clock; None likewise.

        """
        if not self._owes_hold:
            return ()
        if now_ns is not None and steady_ns is not None:
            self._look_at_clock(now_ns, steady_ns)
        return self._driver.hold(self._now_ns if now_ns is None else now_ns)

    def _look_at_clock(self, now_ns: int, steady_ns: int) -> None:
        """S13: stop where the clock jumped; note by how much, for where the robot is now."""
        ahead = now_ns - self._now_ns - (steady_ns - self._steady_ns)
        jump = self._apply('S13', self._s13.check(now_ns, steady_ns))
        if jump.level is Level.HOLD:
            self._driver.clock_jumped(ahead)
            self._hold(jump.text)
        elif ahead > max(self._driver.period_ns, _STEP_NS):
            self._driver.clock_stepped(ahead)
        self._now_ns, self._steady_ns = now_ns, steady_ns

    def _act(self, now_ns: int, steady_ns: int) -> tuple[Command, ...]:
        """Return the commands of an enabled robot, and change its state as the gates demand."""
        verdict = self._verdict(now_ns, steady_ns)
        if verdict.level is Level.HOLD:
            self._hold(verdict.text)
            return ()
        if self._driving:
            self._measured.update(self._driver.moved(self._measured, now_ns))
        driven = None
        if verdict.level is Level.OK:
            driven = self._driver.drive(now_ns, self._measured)
        if driven is None:
            if verdict.text:
                self._awaited = f'waiting for a new chunk after {verdict.text}'
            elif self._driving and not self._open_loop:
                self._count('starved')
            self._driving = False
            self._wait(verdict.text or self._awaited, steady_ns)
            return self._driver.wait(now_ns) if self._machine.active else ()
        self._driven += 1
        self._count('clamped', driven.clamped)
        self._count('slowed', driven.slowed)
        if driven.stop:
            self._hold(driven.stop)
            return ()
        self._machine.run()
        self._driving = True
        self._waiting_since = None
        return driven.commands

    def _wait(self, reason: str, steady_ns: int) -> None:
        self._machine.wait(reason)
        if self._waiting_since is None:
            self._waiting_since = steady_ns
        verdict = self._apply('S15', self._s15.check(self._waiting_since, steady_ns, reason))
        if verdict.level is Level.HOLD:
            self._hold(verdict.text)

    def _verdict(self, now_ns: int, steady_ns: int) -> Verdict:
        """Return the first of the gravest verdicts."""
        found = [
            *self._standing(steady_ns),
            self._apply('S9', self._s9.check(self._sent_ns, steady_ns)),
        ]
        if self.needs_inference(now_ns):
            found += [
                self._apply('S1', self._s1.check(self._report)),
                self._apply('S3', self._s3.check(self._report)),
            ]
        return max(found, key=lambda verdict: verdict.level)

    def _standing(self, steady_ns: int) -> list[Verdict]:
        """Return the verdicts on what lasts, whether the robot is enabled or not."""
        return [
            self._apply('S16', self._s16.check()),
            self._apply('S12', self._s12.check(steady_ns)),
            self._apply('S10', self._s10.check(steady_ns)),
            self._apply('S11', self._s11.check()),
            self._apply('S2', self._s2.check(self._report)),
            self._apply('S5', self._s5.check(steady_ns)),
        ]

    def _blocked(self, steady_ns: int) -> str:
        """Return everything that would make the robot hold as soon as it is enabled."""
        texts = [v.text for v in self._standing(steady_ns) if v.level is Level.HOLD]
        return '; '.join([*self._limits_missing, *texts])

    def _apply(self, gate: str, verdict: Verdict) -> Verdict:
        """Return the verdict of a gate that is switched on."""
        return OK if gate in self._disabled else verdict

    def _hold(self, reason: str) -> None:
        was_active = self._machine.active
        self._machine.hold(reason)
        self._stopped(was_active)
        if was_active:
            self._count('holds')
            self._count('watchdog', reason.startswith('S9'))

    @property
    def _stopping(self) -> bool:
        """Return whether the robot is owed a hold that ticks return: not once deactivated."""
        return self._owes_hold and self._machine.state is not State.INIT

    def _stopped(self, was_active: bool) -> None:
        """Owe the robot a hold where it has just left the states in which commands leave."""
        if was_active and not self._machine.active:
            self._driver.pause()
            self._owes_hold = True

    def _count(self, name: str, by: int = 1) -> None:
        if by:
            total = getattr(self._counters, name) + int(by)
            self._counters = replace(self._counters, **{name: total})

    def _tick(self, commands: tuple[Command, ...]) -> Tick:
        machine = self._machine
        return Tick(machine.state, machine.reason, commands, self._counters, self._stopping)
