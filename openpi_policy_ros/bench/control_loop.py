# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The node's control thread in a process of its own, beside a real policy, without ROS.

Threads as in the node: control and watchdog (``ros.actuation``), one that brings joints and images
100 times a second, one that asks the engine for the next chunk, the engine's worker. Commands are
built and not published.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import random
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from openpi_policy_ros.bench import control_rig as rig
from openpi_policy_ros.bench.child import answer_commands
from openpi_policy_ros.bench.model import example_observation
from openpi_policy_ros.bench.statistics import quantiles
from openpi_policy_ros.control.controller import Controller, Tick
from openpi_policy_ros.control.gates import Stream, StreamReport
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.policies.loading import load_policy

if TYPE_CHECKING:
    from openpi_policy_ros.ros.actuation import Actuation

CONTROL_RATE = 100.0
ACTION_RATE = 10.0
"""Chunks of 5 s, so that a slow policy still drives all the time."""
SENSOR_PERIOD = 0.01
IDLE_CHUNKS = 1.0
"""Seconds between chunks where the policy is idle: they come from nowhere."""
SETTLE = 0.5
PATIENCE = 10.0
_CAMERA = "camera 'wrist'"
_MAX_AGE_NS = 150_000_000


def may_hurry() -> bool:
    """Return whether a thread may have a real-time priority."""
    from openpi_policy_ros.ros.realtime import go_first

    told: list[str] = []
    # In a thread of its own, which takes its priority with it.
    thread = threading.Thread(target=lambda: told.append(go_first()))
    thread.start()
    thread.join()
    return told == ['']


class TimedController(Controller):
    """Notes when each tick began and ended, and its state.

    Attributes:
        ticks: (begin ns, end ns, state) on the steady clock.
        realtime: whether the thread that ticks is still to be given real-time priority.

    """

    ticks: list[tuple[int, int, State]]
    realtime: bool

    def tick(self, now_ns: int, steady_ns: int, streams: StreamReport) -> Tick:
        """Tick."""
        if self.realtime:
            from openpi_policy_ros.ros.realtime import go_first

            self.realtime = False
            go_first()
        began = time.monotonic_ns()
        tick = super().tick(now_ns, steady_ns, streams)
        self.ticks.append((began, time.monotonic_ns(), tick.state))
        return tick


@dataclass
class Camera:
    """A stream that can fall silent."""

    silent: bool = False
    heard_ns: int = field(default_factory=time.monotonic_ns)

    def report(self) -> StreamReport:
        """Return its age."""
        return StreamReport({_CAMERA: Stream(time.monotonic_ns() - self.heard_ns, _MAX_AGE_NS)})


@dataclass
class Driven:
    """An enabled robot and its threads."""

    controller: TimedController
    actuation: Actuation
    camera: Camera
    inferences: list[float]


class Bench:
    """Runs one measurement at a time."""

    def __init__(self, engine: Engine, request: InferenceRequest, seconds: float) -> None:
        """Measure with a started engine.

        Args:
            engine: started.
            request: what it is asked again and again.
            seconds: of each measurement.

        """
        self._engine = engine
        self._request = request
        self._seconds = seconds

    def jitter(self, inferring: bool, realtime: bool = False) -> dict[str, Any]:
        """Return how far ticks lie from one period apart, ms.

        Args:
            inferring: whether the engine works meanwhile.
            realtime: give the control thread real-time priority.

        """
        with self._driven(inferring, realtime=realtime) as driven:
            time.sleep(SETTLE)
            before, begun = len(driven.inferences), len(driven.controller.ticks)
            time.sleep(self._seconds)
            inferences = driven.inferences[before:]
            ticks = driven.controller.ticks[begun:]
        starts = np.array([began for began, _, _ in ticks])
        gaps = np.diff(starts) * 1e-6
        period = 1e3 / CONTROL_RATE
        states = [state for _, _, state in ticks]
        return {
            'ticks': len(ticks),
            'jitter_ms': quantiles(np.abs(gaps - period).tolist()),
            'longest_gap_ms': float(gaps.max()),
            # Two periods at 100 Hz, and at the 50 Hz that are the default: S9 would hold.
            'gaps_20_ms': int((gaps > 20.0).sum()),
            'gaps_40_ms': int((gaps > 40.0).sum()),
            'tick_ms': quantiles([(ended - began) * 1e-6 for began, ended, _ in ticks]),
            'driving_share': states.count(State.ENABLED) / len(states),
            'inferences': len(inferences),
            'inference_ms': quantiles([1e3 * took for took in inferences]) if inferences else None,
        }

    def infer(self) -> dict[str, Any]:
        """Infer for as long as another process measures."""
        count, ending = 0, time.monotonic() + self._seconds + 2.0 * SETTLE
        while time.monotonic() < ending:
            self._engine.submit(self._request, Lane.ROBOT).result()
            count += 1
        return {'inferences': count}

    def reaction(self, inferring: bool) -> dict[str, Any]:
        """Return the time from the last image to the ticks that wait and hold, ms."""
        waits: list[float] = []
        holds: list[float] = []
        ending = time.monotonic() + self._seconds
        # The policy works for somebody else: an inference of the robot's own puts off WAIT.
        with self._driven(inferring, feed=False) as driven:
            while not holds or time.monotonic() < ending:
                self._enable(driven)
                begun = len(driven.controller.ticks)
                self._offer(driven)
                self._until(driven, State.ENABLED, begun)
                time.sleep(0.1 + random.random() / CONTROL_RATE)
                begun = len(driven.controller.ticks)
                driven.camera.silent = True
                self._until(driven, State.HOLD, begun)
                last = driven.camera.heard_ns
                seen: dict[State, float] = {}
                for _, ended, state in driven.controller.ticks[begun:]:
                    if ended > last:
                        seen.setdefault(state, (ended - last) * 1e-6)
                # A machine that stalls between the two limits goes straight to HOLD.
                waits += [seen[State.WAIT]] if State.WAIT in seen else []
                holds.append(seen[State.HOLD])
                driven.camera.silent = False
        return {
            'trials': len(holds),
            'wait_ms': quantiles(waits) if waits else None,
            'hold_ms': quantiles(holds),
        }

    @contextlib.contextmanager
    def _driven(
        self, inferring: bool, *, feed: bool = True, realtime: bool = False
    ) -> Iterator[Driven]:
        """Drive a robot; end every thread.

        Args:
            inferring: whether the engine works all the time.
            feed: whether chunks keep coming.
            realtime: give the control thread real-time priority.

        """
        from openpi_policy_ros.ros.actuation import Actuation

        robot = rig.make_robot(
            action_rate=ACTION_RATE,
            control_rate=CONTROL_RATE,
            output='trajectory',
            # S9 would end it at the first gap; gaps are counted instead.
            safety={'max_start_jump': 10.0, 'max_wait': 600.0, 'watchdog_periods': 1000.0},
        )
        axes, limits = rig.axes_and_limits(robot)
        controller = TimedController(
            robot, rig.make_spec(), axes, inference_timeout=rig.INFERENCE_TIMEOUT, dry_run=False
        )
        controller.ticks, controller.realtime = [], realtime
        camera = Camera()
        actuation = Actuation(
            controller,
            clock=time.time_ns,
            send=lambda command: None,
            streams=camera.report,
            engine_problem=lambda: '',
            report=lambda tick: None,
            period_ns=round(1e9 / CONTROL_RATE),
        )
        driven = Driven(controller, actuation, camera, [])
        ending = threading.Event()
        threads = [threading.Thread(target=self._sense, args=(driven, ending), name='sensors')]
        if inferring or feed:
            chunks = functools.partial(self._feed, driven, ending, inferring, feed)
            threads.append(threading.Thread(target=chunks, name='robot-door'))
        actuation.set_limits(limits, [])
        actuation.start()
        try:
            actuation.on_joints(rig.still())
            for thread in threads:
                thread.start()
            self._enable(driven)
            self._offer(driven)
            self._until(driven, State.ENABLED, 0)
            yield driven
        finally:
            ending.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            actuation.stop()

    def _sense(self, driven: Driven, ending: threading.Event) -> None:
        while not ending.wait(SENSOR_PERIOD):
            driven.actuation.on_joints(rig.still())
            if not driven.camera.silent:
                driven.camera.heard_ns = time.monotonic_ns()

    def _feed(self, driven: Driven, ending: threading.Event, inferring: bool, feed: bool) -> None:
        """Ask for chunks as the robot's door does; what is played is smooth, whatever it says."""
        while not ending.is_set():
            if inferring:
                began = time.monotonic()
                if feed:
                    driven.actuation.inference_started()
                self._engine.submit(self._request, Lane.ROBOT).result()
                driven.inferences.append(time.monotonic() - began)
            else:
                ending.wait(IDLE_CHUNKS)
            if feed:
                if inferring:
                    driven.actuation.inference_finished()
                self._offer(driven)

    def _offer(self, driven: Driven) -> None:
        # As if observed just now: here nothing is to be late.
        stamp = time.time_ns()
        chunk = rig.as_chunk(rig.swing(stamp, ACTION_RATE))
        driven.actuation.on_chunk(chunk, stamp, 0)

    def _enable(self, driven: Driven) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            done, text = driven.actuation.enable(True)
            if done:
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f'not enabled within {PATIENCE:g} s: {text}')
            # The next tick hears of the camera that sends again.
            time.sleep(SENSOR_PERIOD)

    def _until(self, driven: Driven, state: State, begun: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while not any(seen is state for _, _, seen in driven.controller.ticks[begun:]):
            if time.monotonic() > deadline:
                controller = driven.controller
                raise RuntimeError(
                    f'not {state.value} within {PATIENCE:g} s, but {controller.state.value}: '
                    f'{controller.reason}'
                )
            time.sleep(0.01)


def run() -> None:
    """Measure what the parent asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument('model')
    parser.add_argument('--seconds', type=float, required=True)
    parser.add_argument('--threads', type=int)
    parser.add_argument('--switch-interval', type=float)
    options = parser.parse_args()
    if options.switch_interval is not None:
        sys.setswitchinterval(options.switch_interval)
    policy = load_policy(options.model)
    if options.threads is not None:
        import torch

        torch.set_num_threads(options.threads)
    inputs = example_observation(policy, len(policy.spec.cameras))
    engine = Engine(policy, inference_timeout=rig.INFERENCE_TIMEOUT)
    engine.start()
    try:
        request = InferenceRequest(inputs, SessionKey('bench', 'bench'))
        bench = Bench(engine, request, options.seconds)
        answer_commands(
            {'switch_interval': sys.getswitchinterval(), 'realtime': may_hurry()},
            {
                'jitter idle': lambda: bench.jitter(False),
                'jitter inferring': lambda: bench.jitter(True),
                'jitter realtime': lambda: bench.jitter(True, realtime=True),
                'infer': bench.infer,
                'reaction idle': lambda: bench.reaction(False),
                'reaction inferring': lambda: bench.reaction(True),
            },
        )
    finally:
        engine.close(drain_timeout=rig.INFERENCE_TIMEOUT)


if __name__ == '__main__':
    run()
