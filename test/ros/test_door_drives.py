# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From messages to commands: door, engine and control core together, in real time."""
# ruff: noqa: N802

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import EchoPolicy, SlowPolicy
from rig import JOINTS, LOWER, SPEED, UPPER, make_robot, make_spec

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.axes import make_axes
from openpi_policy_ros.control.commands import ArrayCommand, Command
from openpi_policy_ros.control.controller import Controller
from openpi_policy_ros.control.limits import JointLimits
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.control.observation import Assembler
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.base import ACTIONS, ActionChunk, InferenceRequest, InferenceResult
from openpi_policy_ros.ros.actuation import Actuation
from openpi_policy_ros.ros.door import RobotDoor

WAIT = 10.0
TIMEOUT = 0.3
"""Inference timeout of these robots, s."""


class Scripted(SlowPolicy):
    """Answers with a chunk that leads both arm joints to ``target``; blocks if told to."""

    def __init__(self) -> None:
        super().__init__(replace(make_spec(), supports_rtc=True))
        self.target = 0.05
        self.script: list[Callable[[], None]] = []
        self.slow = False

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Follow the script, then answer."""
        if self.script:
            self.script.pop(0)()
        return super().infer(requests) if self.slow else EchoPolicy.infer(self, requests)

    def answer(self, one: InferenceRequest) -> InferenceResult:
        """Return the chunk."""
        rows = np.full((self.spec.horizon, 3), self.target, np.float32)
        return ActionChunk({ACTIONS: rows}, model_actions=10.0 * rows, state=rows[0])


class Robot:
    """Sensors that speak a hundred times a second, and a wire that is written down."""

    def __init__(self, config: RobotConfig) -> None:
        self.policy = Scripted()
        self.engine = Engine(self.policy, inference_timeout=TIMEOUT)
        self.engine.start()
        spec = self.policy.spec
        self.wire: list[Command] = []
        self.seen: list[Any] = []
        self.states: list[Any] = []
        axes = make_axes(config, spec)
        controller = Controller(config, spec, axes, inference_timeout=TIMEOUT, dry_run=False)
        count = len(axes.names)
        controller.set_limits(
            JointLimits(np.full(count, LOWER), np.full(count, UPPER), np.full(count, SPEED))
        )
        self.sensors = Assembler(config, time.time_ns)
        self.sensors.set_prompt('go')
        self.actuation = Actuation(
            controller,
            clock=time.time_ns,
            send=self.wire.append,
            streams=self.sensors.streams,
            engine_problem=self.engine.problem,
            report=lambda tick: None,
            period_ns=20_000_000,
            execution=config.execution,
        )
        self.door = RobotDoor(
            self.sensors,
            self.engine,
            'ros:/robot',
            seed=lambda: None,
            publish=lambda chunk, t_obs_ns: self.seen.append((chunk, t_obs_ns)),
            report=self.states.append,
            actuation=self.actuation,
        )
        self._ending = threading.Event()
        self._speaker = threading.Thread(target=self._speak)
        self.actuation.start()
        self.door.start()
        self._speaker.start()
        self.until(lambda: not self.policy.slow and self.seen, 'chunks flow')

    def _speak(self) -> None:
        while not self._ending.wait(0.01):
            now = time.time_ns()
            stamp = SimpleNamespace(sec=now // 10**9, nanosec=now % 10**9)
            header = SimpleNamespace(stamp=stamp)
            message = SimpleNamespace(header=header, name=JOINTS, position=[0.0] * 3)
            self.actuation.on_joints(self.sensors.add_joints(message))
            self.door.wake()

    def until(self, condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not condition():
            assert time.monotonic() < deadline, f'never: {what}; {self.actuation.reason}'
            time.sleep(0.005)

    def state(self, *states: State) -> None:
        """Wait for one of these states."""
        self.until(lambda: self.actuation.state in states, f'{states}')

    def drive(self) -> None:
        """Enable and wait until the arm is led."""
        assert self.door.enable(True) == (True, 'enabled')
        self.until(lambda: self.commanded, 'a command')
        self.state(State.ENABLED)

    @property
    def commanded(self) -> list[tuple[float, ...]]:
        return [one.values for one in list(self.wire) if isinstance(one, ArrayCommand)]

    def close(self) -> None:
        self._ending.set()
        self._speaker.join(WAIT)
        self.policy.slow = False
        self.policy.release(100)
        self.door.stop()
        self.actuation.stop()
        self.engine.close()


@pytest.fixture
def robot() -> Iterator[Callable[..., Robot]]:
    made: list[Robot] = []

    def make(**sections: Any) -> Robot:
        # Control threads of a loaded machine come late; S9 is not what is tested here.
        safety = {'watchdog_periods': 100.0, **sections.pop('safety', {})}
        made.append(Robot(make_robot(safety=safety, **sections)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def no_answer() -> None:
    raise RuntimeError('no device')


def death() -> None:
    raise SystemExit


def test_chunks_move_the_robot_once_it_is_enabled_and_the_hold_comes_last(robot: Any) -> None:
    one = robot()
    assert one.wire == []
    one.drive()
    one.until(lambda: one.commanded[-1] == pytest.approx((0.05, 0.05)), 'the target')
    one.door.stop()
    one.actuation.stop()
    sent = len(one.wire)
    assert one.commanded[-1] == pytest.approx((0.05, 0.05))
    time.sleep(0.06)
    assert len(one.wire) == sent


def test_a_chunk_from_before_enabling_does_not_move_the_robot(robot: Any) -> None:
    one = robot(safety={'max_wait': 60.0})
    one.policy.slow, one.policy.target = True, 0.15
    one.policy.wait_started()
    assert one.door.enable(True)[0]
    one.state(State.WAIT)
    shown = len(one.seen)
    one.policy.release()
    one.policy.wait_started()
    assert len(one.seen) == shown
    assert one.wire == []
    one.policy.target, one.policy.slow = -0.05, False
    one.policy.release()
    one.until(lambda: len(one.commanded) > 5, 'commands')
    assert all(value <= 0.0 for row in one.commanded for value in row)


def test_S10_a_call_that_hangs_makes_the_robot_hold_and_its_late_answer_moves_nothing(
    robot: Any,
) -> None:
    one = robot(safety={'max_wait': 60.0})
    one.drive()
    one.policy.slow, one.policy.target = True, 0.15
    one.state(State.HOLD)
    assert one.actuation.reason.startswith('S10: ')
    assert not one.engine.health().ready
    assert one.engine.problem() == ''
    time.sleep(0.06)
    sent = len(one.wire)
    held = one.commanded[-1]
    one.policy.slow = False
    one.policy.release(2)
    one.until(lambda: one.engine.health().ready, 'the answer')
    time.sleep(0.06)
    assert len(one.wire) == sent
    assert one.commanded[-1] == held
    assert one.actuation.state is State.HOLD
    one.policy.target = -0.05
    one.until(lambda: one.seen[-1][0].actions[0, 0] < 0.0, 'a new answer')
    one.drive()
    one.until(lambda: len(one.wire) > sent + 5, 'commands')
    assert max(one.commanded[sent:])[0] <= held[0]


@pytest.mark.parametrize('fault', ['nan', 'raises', 'refuses'])
def test_S11_failures_in_a_row_make_the_robot_hold(robot: Any, fault: str) -> None:
    one = robot()
    one.drive()
    if fault == 'nan':
        one.policy.target = float('nan')
    else:
        one.policy.script = [no_answer] * (2 if fault == 'refuses' else 1000)
    if fault == 'refuses':
        one.until(lambda: not one.policy.script, 'two failures')
        time.sleep(0.1)
        assert one.actuation.state in (State.ENABLED, State.WAIT), 'two are not three'
        one.policy.target = float('inf')
    one.state(State.HOLD)
    expected = 'RuntimeError' if fault == 'raises' else 'InvalidOutput'
    assert re.match(r'S11: \d+ inferences in a row failed', one.actuation.reason)
    assert expected in one.actuation.reason
    assert np.isfinite(one.commanded).all()


def test_S16_a_dead_worker_makes_the_robot_hold(robot: Any) -> None:
    one = robot(safety={'max_failures': 1000})
    one.drive()
    one.policy.script = [death]
    one.state(State.HOLD)
    assert one.actuation.reason.startswith('S16: the inference worker died')
    assert not one.engine.health().ready
    done, text = one.door.enable(True)
    assert not done
    assert 'S16' in text


def test_S2_sensors_that_fall_silent_make_the_robot_hold(robot: Any) -> None:
    one = robot(safety={'stale_hold': 0.3})
    one.drive()
    one._ending.set()
    one.state(State.HOLD)
    assert 'S2: joint_states is ' in one.actuation.reason or 'S5: ' in one.actuation.reason


def test_open_loop_infers_only_when_the_chunk_has_been_played(robot: Any) -> None:
    one = robot(execution={'mode': 'open_loop', 'open_loop_steps': 10})
    one.drive()
    one.until(lambda: len(one.policy.requests) > 1, 'inferences')
    before = len(one.policy.requests)
    began = time.monotonic()
    one.until(lambda: len(one.policy.requests) >= before + 3, 'further chunks')
    # Ten steps of 20 ms each; without the wait there would be one for each message.
    assert time.monotonic() - began > 0.3
    assert one.actuation.state in (State.ENABLED, State.WAIT)


def test_real_time_chunking_continues_the_chunk_that_runs(robot: Any) -> None:
    one = robot(execution={'mode': 'rtc', 'rtc_horizon': 7})
    assert all(call.rtc is None for call in one.policy.requests), 'not followed'
    one.drive()
    one.until(lambda: one.policy.requests[-1].rtc is not None, 'a prefix')
    prefix = one.policy.requests[-1].rtc
    assert 0 < len(prefix.leftover) <= one.policy.spec.horizon
    assert (prefix.leftover == np.float32(0.5)).all()
    assert prefix.state == pytest.approx([0.05] * 3)
    assert prefix.inference_delay >= 1
    assert prefix.execution_horizon == 7
    one.door.reset()
    one.state(State.WAIT, State.ENABLED)
    one.until(lambda: one.policy.requests[-1].session.session_id == '1', 'a new session')
    first = next(call for call in one.policy.requests if call.session.session_id == '1')
    assert first.rtc is None


@pytest.mark.parametrize(('rate', 'short'), [(50.0, False), (200.0, True)])
def test_supply_is_judged_by_what_is_left_to_play(
    robot: Any, caplog: Any, rate: float, short: bool
) -> None:
    """Fifty actions: at 50 Hz they outlast two calls of 0.15 s, at 200 Hz they do not."""
    caplog.set_level(logging.WARNING, 'openpi_policy_ros')
    one = robot(timing={'action_rate': rate}, safety={'max_wait': 60.0})
    one.drive()
    one.policy.script = [lambda: time.sleep(0.15)] * 6
    one.until(lambda: not one.policy.script, 'slow answers')
    latency = one.door.stats.latency
    assert latency is not None
    assert latency >= 0.15
    assert (one.door.stats.short_supply > 0) == short
    assert ('actions left and the next one takes' in caplog.text) == short
