# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The control core on a clock that only we move: exact numbers, the same on every machine.

A camera sends a frame every 1/30 s, the inference takes as long as it is told to, the controller
ticks. What happens at the same nanosecond happens in that order.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from openpi_policy_ros.bench import control_rig as rig
from openpi_policy_ros.bench.statistics import quantiles
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import to_nanoseconds
from openpi_policy_ros.control.commands import ArrayCommand
from openpi_policy_ros.control.controller import Controller, Tick
from openpi_policy_ros.control.gates import Stream, StreamReport
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.policies.base import FloatArray

CAMERA = "camera 'wrist'"
FRAME_NS = to_nanoseconds(1.0 / 30.0)
LATENCIES = (0.1, 0.5, 1.5)
ACTION_RATES = (15.0, 50.0)
MODES = ('async', 'open_loop')
CONTROL_RATE = 50.0
DISAGREEMENT = 0.05
"""Standard deviation of what two chunks say of the same moment, rad."""

_START_NS = to_nanoseconds(1000.0)
_PATIENT = {'max_wait': 600.0, 'max_start_jump': 10.0}

ChunkOf = Callable[[int], FloatArray]
"""t_obs in ns → rows."""


@dataclass(frozen=True)
class Moment:
    """One tick.

    Attributes:
        at_ns: when it was, since the start.
        tick: its outcome.
        took_ns: CPU time that it took here, the only number that is not exact.

    """

    at_ns: int
    tick: Tick
    took_ns: int


class Simulation:
    """A controller, a camera and a policy.

    Attributes:
        last_frame_ns: when the camera sent last, ns since the start; None = not yet.

    """

    def __init__(
        self, robot: RobotConfig, latency: float, chunk_of: ChunkOf, *, first_frame_ns: int = 0
    ) -> None:
        """Start enabled, without a chunk.

        Args:
            robot: from ``control_rig``.
            latency: from the trigger to the chunk's arrival, s; ±10 %, seeded, so that it does not
                beat with the camera.
            chunk_of: the policy.
            first_frame_ns: when the camera begins.

        """
        axes, limits = rig.axes_and_limits(robot)
        self._controller = Controller(
            robot, rig.make_spec(), axes, inference_timeout=rig.INFERENCE_TIMEOUT, dry_run=False
        )
        self._controller.set_limits(limits)
        self._controller.activate()
        self._period_ns = to_nanoseconds(1.0 / robot.execution.control_rate)
        self._max_age_ns = to_nanoseconds(robot.timing.camera_max_age)
        self._latency = latency
        self._rng = np.random.default_rng(0)
        self._chunk_of = chunk_of
        self._next_frame_ns: int = first_frame_ns
        self._arrives_ns: int | None = None
        self._observed_ns = -1
        self.last_frame_ns: int | None = None
        self._controller.on_joints(rig.still(), _START_NS)
        done, text = self._controller.enable(True, _START_NS)
        assert done, text

    def run(self, seconds: float, *, silent_after_ns: int | None = None) -> Iterator[Moment]:
        """Yield every tick.

        Args:
            seconds: to simulate.
            silent_after_ns: no frame later than this; None = the camera never stops.

        """
        for at_ns in range(0, to_nanoseconds(seconds) + 1, self._period_ns):
            self._events_until(at_ns, silent_after_ns)
            now = _START_NS + at_ns
            self._controller.on_joints(rig.still(), now)
            age = None if self.last_frame_ns is None else at_ns - self.last_frame_ns
            streams = StreamReport({CAMERA: Stream(age, self._max_age_ns)})
            began = time.thread_time_ns()
            tick = self._controller.tick(now, now, streams)
            took = time.thread_time_ns() - began
            self._controller.sent(tick, now)
            yield Moment(at_ns, tick, took)

    def _events_until(self, at_ns: int, silent_after_ns: int | None) -> None:
        """Let frames and chunks arrive in their order; each may begin an inference."""
        while True:
            frame: int | None = self._next_frame_ns
            if silent_after_ns is not None and self._next_frame_ns > silent_after_ns:
                frame = None
            due = [time for time in (frame, self._arrives_ns) if time is not None]
            if not due or min(due) > at_ns:
                return
            event = min(due)
            if event == frame:
                self.last_frame_ns = event
                self._next_frame_ns = event + FRAME_NS
            else:
                self._arrives_ns = None
                self._deliver(_START_NS + event)
            self._trigger(event)

    def _deliver(self, now_ns: int) -> None:
        t_obs_ns = _START_NS + self._observed_ns
        chunk = rig.as_chunk(self._chunk_of(t_obs_ns))
        self._controller.on_inference_finished(now_ns)
        self._controller.on_chunk(chunk, t_obs_ns, 0, now_ns, now_ns)

    def _trigger(self, event_ns: int) -> None:
        """Begin an inference where one is due and there is an image that none has seen."""
        frame = self.last_frame_ns
        if frame is None or frame <= self._observed_ns:
            return
        if event_ns - frame > self._max_age_ns:
            return
        if self._controller.needs_inference(_START_NS + event_ns):
            self._controller.on_inference_started(_START_NS + event_ns)
            self._observed_ns = frame
            factor = self._rng.uniform(0.9, 1.1)
            self._arrives_ns = event_ns + to_nanoseconds(self._latency * factor)


def starvation(seconds: float) -> list[dict[str, Any]]:
    """Return ``starved`` for each mode, rate and latency."""
    return [
        starved(mode, rate, latency, seconds)
        for mode in MODES
        for rate in ACTION_RATES
        for latency in LATENCIES
    ]


def starved(mode: str, action_rate: float, latency: float, seconds: float) -> dict[str, Any]:
    """Return how much of the time no chunk says anything, from the first command on."""
    robot = rig.make_robot(
        action_rate=action_rate, control_rate=CONTROL_RATE, mode=mode, safety=_PATIENT
    )
    simulation = Simulation(robot, latency, lambda t: rig.swing(t, action_rate))
    waiting: list[bool] = []
    longest = run = 0
    for moment in simulation.run(seconds):
        waits = moment.tick.state is State.WAIT
        if waiting or not waits:
            waiting.append(waits)
            run = run + 1 if waits else 0
            longest = max(longest, run)
    counters = moment.tick.counters
    return {
        'mode': mode,
        'action_rate': action_rate,
        'horizon_s': rig.HORIZON / action_rate,
        'latency_s': latency,
        # No usable chunk ever: it waits from the beginning to the end.
        'waiting_share': sum(waiting) / len(waiting) if waiting else 1.0,
        'longest_wait_s': longest / CONTROL_RATE if waiting else seconds,
        'starved': counters.starved,
        'chunks': counters.chunks,
        'late': counters.late,
    }


def boundaries(seconds: float) -> list[dict[str, Any]]:
    """Return the largest step of any joint from tick to tick, with and without fading, rad.

    Every chunk is off by its own seeded offset.
    """
    found = []
    for action_rate in ACTION_RATES:
        own = np.abs(np.diff(rig.swing(0, action_rate)[:, :-1], axis=0)).max()
        steps = {str(blend): _largest_step(action_rate, blend, seconds) for blend in (0, 3)}
        found.append(
            {
                'action_rate': action_rate,
                'own_step': float(own) * min(1.0, action_rate / CONTROL_RATE),
                'largest_step': {blend: one['largest'] for blend, one in steps.items()},
                'chunks': steps['3']['chunks'],
            }
        )
    return found


def _largest_step(action_rate: float, blend_steps: int, seconds: float) -> dict[str, float]:
    rng = np.random.default_rng(0)

    def disagreeing(t_obs_ns: int) -> FloatArray:
        offset = rng.normal(0.0, DISAGREEMENT, len(rig.JOINTS))
        return rig.swing(t_obs_ns, action_rate, offset)

    robot = rig.make_robot(
        action_rate=action_rate,
        control_rate=CONTROL_RATE,
        blend_steps=blend_steps,
        safety=_PATIENT,
    )
    largest, before = 0.0, None
    for moment in Simulation(robot, LATENCIES[0], disagreeing).run(seconds):
        row = None
        for command in moment.tick.commands:
            if isinstance(command, ArrayCommand) and command.output == 'arm':
                row = np.array(command.values)
        if row is not None and before is not None:
            largest = max(largest, float(np.abs(row - before).max()))
        before = row
    return {'largest': largest, 'chunks': moment.tick.counters.chunks}


def reactions(phases: int) -> list[dict[str, Any]]:
    """Return the time from the last frame to WAIT and to HOLD, for inferences short and long.

    Args:
        phases: moments within a control period at which the camera falls silent.

    """
    return [
        _reaction(latency, control_rate, phases)
        for latency in (0.05, 0.3)
        for control_rate in (50.0, 100.0)
    ]


def _reaction(latency: float, control_rate: float, phases: int) -> dict[str, Any]:
    robot = rig.make_robot(action_rate=15.0, control_rate=control_rate, safety=_PATIENT)
    waits: list[float] = []
    holds: list[float] = []
    for phase in range(phases):
        # Frames and ticks keep their phase: 30 Hz and 50 Hz meet every 0.1 s.
        shift = to_nanoseconds(phase / phases / control_rate)
        simulation = Simulation(robot, latency, lambda t: rig.swing(t, 15.0), first_frame_ns=shift)
        silent = to_nanoseconds(2.0) + phase * FRAME_NS
        seen: dict[State, float] = {}
        for moment in simulation.run(4.0, silent_after_ns=silent):
            state = moment.tick.state
            if moment.at_ns > silent and state in (State.WAIT, State.HOLD) and state not in seen:
                assert simulation.last_frame_ns is not None
                seen[state] = (moment.at_ns - simulation.last_frame_ns) * 1e-9
        waits += [seen[State.WAIT]] if State.WAIT in seen else []
        holds.append(seen[State.HOLD])
    return {
        'latency_s': latency,
        'control_rate': control_rate,
        'max_age_s': robot.timing.camera_max_age,
        'stale_hold_s': robot.safety.stale_hold,
        'phases': phases,
        'wait_s': {'min': min(waits), 'max': max(waits)} if waits else None,
        'hold_s': {'min': min(holds), 'max': max(holds)},
    }


def tick_costs(seconds: float) -> list[dict[str, Any]]:
    """Return the CPU time of one tick of a driven robot, µs, for each type of output."""
    found = []
    for output in ('array', 'trajectory'):
        for action_rate in ACTION_RATES:
            robot = rig.make_robot(
                action_rate=action_rate,
                control_rate=CONTROL_RATE,
                output=output,
                safety=_PATIENT,
            )
            chunk_of = functools.partial(rig.swing, action_rate=action_rate)
            simulation = Simulation(robot, LATENCIES[0], chunk_of)
            took = [
                moment.took_ns * 1e-3
                for moment in simulation.run(seconds)
                if moment.tick.state is State.ENABLED
            ]
            found.append({'output': output, 'action_rate': action_rate, 'tick_us': quantiles(took)})
    return found
