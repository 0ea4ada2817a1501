# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's own door to the engine: a thread that turns new observations into chunks.

It sleeps until something happens (a message, a finished inference, a reset), so that no inference
and no image decoding ever runs in a ROS callback or timer. One inference is in flight at most and
the newest observation goes next. Nothing of ROS in here: the node hands in what to call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass

from openpi_policy_ros.control.buffers import NANOSECONDS, Reason
from openpi_policy_ros.control.latency import Latency
from openpi_policy_ros.control.machine import OPENED
from openpi_policy_ros.control.observation import Assembler, Blocked, Ready
from openpi_policy_ros.engine import Engine, EngineStopped, Lane, Superseded
from openpi_policy_ros.errors import InvalidObservation, PolicyRosError
from openpi_policy_ros.policies.base import (
    ActionChunk,
    InferenceRequest,
    RtcPrefix,
    SessionKey,
)
from openpi_policy_ros.ros.actuator import Actuator
from openpi_policy_ros.ros.door_log import DoorLog, DoorState
from openpi_policy_ros.ros.retry import Retry

__all__ = ['DoorState', 'DoorStats', 'RobotDoor']

_log = logging.getLogger('openpi_policy_ros.ros.door')

IDLE = 0.1
"""Longest sleep, s: how late a stream that fell silent is noticed."""

NOT_DUE = 0.02
"""Sleep while no chunk is wanted, s: how late the end of an open-loop chunk is noticed."""

_JOIN = 10.0


@dataclass(frozen=True)
class DoorStats:
    """How fast chunks come.

    Attributes:
        latency: 95th percentile from trigger to chunk of the calls of late, s; None = none yet.
        short_supply: inferences that were started with fewer actions left to play than elapse
            while one runs, so that the robot had to wait (S15) unless this one was faster.

    """

    latency: float | None
    short_supply: int


@dataclass(frozen=True)
class _InFlight:
    observed: Ready
    future: Future[ActionChunk]
    triggered: float
    submitted: float


class RobotDoor:
    """Runs from ``start`` to ``stop``; may be started again.

    Args:
        assembler: holds the newest messages; ``wake`` is to be called after each one.
        engine: started.
        connection: unique name of this robot among the engine's clients.
        seed: asked for at every inference; None = a new one each time.
        publish: called with every chunk that still counts, and its t_obs in nanoseconds.
        report: called with every state, often; must be cheap.
        rate: most inferences per second, 0 = as fast as the policy goes.
        clock: monotonic seconds.
        actuation: drives the robot; None = nothing does.

    """

    def __init__(
        self,
        assembler: Assembler,
        engine: Engine,
        connection: str,
        *,
        seed: Callable[[], int | None],
        publish: Callable[[ActionChunk, int], None],
        report: Callable[[DoorState], None],
        rate: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        actuation: Actuator | None = None,
    ) -> None:
        self._assembler = assembler
        self._engine = engine
        self._connection = connection
        self._seed = seed
        self._publish = publish
        self._report = report
        self._clock = clock
        self._actuation = actuation
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        # Orders a reset, a prompt or an enabling against a chunk going out: none of before comes
        # after.
        self._lock = threading.Lock()
        self._in_flight: _InFlight | None = None
        self._seen = -1
        self._triggered: float | None = None
        self.set_rate(rate)
        self._session_used: int | None = None
        self._session_known: int | None = None
        self._session_told = assembler.session
        self._latency = Latency()
        self._stats = DoorStats(None, 0)
        self._is_short = False
        self._failing = False
        self._blocked = False
        self._retry = Retry()
        self._told = DoorLog(_log, clock)

    @property
    def stats(self) -> DoorStats:
        """Return how fast chunks come; any thread, and it waits for none."""
        return self._stats

    def start(self) -> None:
        """Begin to trigger inferences."""
        self._stopping = False
        self._seen = -1
        self._failing = False
        self._thread = threading.Thread(target=self._run, name='robot-door', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, drop what is in flight and free the session; returns when no chunk can follow."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_JOIN)
            if self._thread.is_alive():
                _log.error('the robot door does not end; it is left alone')
            self._thread = None
        self.reset()
        self._told.begin()

    def wake(self) -> None:
        """Look at the sensors soon: something came in."""
        self._wake.set()

    def reset(self) -> SessionKey:
        """Clear the buffers and begin a new session; no chunk of before follows. Any thread."""
        with self._lock:
            self._assembler.restart()
            self._leave_old_session()
            key = self._key(self._assembler.session)
        self._wake.set()
        return key

    def set_prompt(self, prompt: str) -> bool:
        """Use another instruction; no chunk for the old one follows. Any thread."""
        with self._lock:
            changed = self._assembler.set_prompt(prompt)
            if changed and self._actuation is not None:
                self._actuation.expect(self._assembler.epoch)
        self._wake.set()
        return changed

    def set_rate(self, rate: float) -> None:
        """Trigger so many inferences per second at most, 0 = as many as go. Any thread."""
        self._period = 1.0 / rate if rate > 0.0 else 0.0
        self._wake.set()

    def enable(self, on: bool) -> tuple[bool, str]:
        """Open or close the gate to the robot; return (done, one sentence). Any thread.

        What was seen before never moves the robot: the first chunk answers an observation of
        which every message came after this call, and what a policy remembers from call to call
        starts afresh with it.

        Raises:
            RuntimeError: there is nothing to enable.

        """
        if self._actuation is None:
            raise RuntimeError('a door without an actuation has nothing to enable')
        with self._lock:
            done, text = self._actuation.enable(on)
            # Not asked before: a hold may come between.
            if (done, text) == (True, OPENED):
                self._told.hush()
                self._assembler.forget()
                # A policy with a memory believes that what it asked for meanwhile was done.
                self._session_known = None
                self._actuation.expect(self._assembler.epoch)
        self._wake.set()
        return done, text

    def cycle(self) -> float:
        """Do what can be done now; return seconds after which to look again at the latest."""
        with self._lock:
            # Looks at the clock, whose jump ends a session though nothing may come any more.
            _ = self._assembler.epoch
            self._leave_old_session()
        if self._in_flight is not None:
            if not self._in_flight.future.done():
                self._tell_running()
                return IDLE
            finished, self._in_flight = self._in_flight, None
            self._collect(finished)
        if self._triggered is not None:
            wait = self._triggered + max(self._period, self._retry.pause) - self._clock()
            if wait > 0.0:
                return min(wait, IDLE)
        if self._actuation is not None and not self._actuation.needs_inference():
            return NOT_DUE
        triggered = self._clock()
        observed = self._assembler.snapshot(self._session_known)
        if isinstance(observed, Blocked):
            self._tell(DoorState(observed.reasons))
        elif observed.serial != self._seen:
            self._trigger(observed, triggered)
        return IDLE

    def _run(self) -> None:
        wait = 0.0
        while not self._stopping:
            self._wake.wait(wait)
            self._wake.clear()
            if self._stopping:
                return
            try:
                wait = self.cycle()
            except Exception as error:
                # A bug of ours or a publisher that is gone: told, and not the end of the door.
                _log.exception('the robot door stumbled')
                self._tell(DoorState((_failure('inference', error),)))
                wait = IDLE

    def _trigger(self, observed: Ready, triggered: float) -> None:
        self._seen = observed.serial
        self._triggered = triggered
        with self._lock:
            self._leave_old_session()
            self._session_used = observed.session
            request = InferenceRequest(
                observed.observation,
                self._key(observed.session),
                # Only a call that succeeded has begun the session.
                reset=self._session_known != observed.session,
                seed=self._seed(),
                rtc=self._rtc_prefix(observed),
            )
            self._watch_supply()
            submitted = self._clock()
            future = self._engine.submit(request, Lane.ROBOT)
            self._in_flight = _InFlight(observed, future, triggered, submitted)
            if self._actuation is not None:
                self._actuation.inference_started()
        future.add_done_callback(lambda _: self._wake.set())

    def _rtc_prefix(self, observed: Ready) -> RtcPrefix | None:
        """Return what is left of the chunk that moves the robot, where the policy can use it."""
        latency = self._latency.p95()
        if latency is None or self._actuation is None or not self._engine.spec.supports_rtc:
            return None
        if not self._actuation.enabled:
            # Chunks are shown but not followed: the robot is nowhere on the last one.
            return None
        return self._actuation.rtc_prefix(
            observed.t_obs_ns, latency + observed.age_ns / NANOSECONDS
        )

    def _watch_supply(self) -> None:
        """Notice that the running chunk will end before the next one comes; holds the lock."""
        latency = self._latency.p95()
        if latency is None or self._actuation is None or not self._actuation.enabled:
            return
        left, needed = self._actuation.rows_left(), self._actuation.rows_needed(latency)
        # None left: the robot waits already, or is meant to (open_loop).
        short = 0 < left < needed
        self._stats = DoorStats(latency, self._stats.short_supply + short)
        if short and not self._is_short:
            self._told.warn(
                'supply',
                'the running chunk has %d actions left and the next one takes %d (95%% of '
                'inferences within %.3f s), so that the robot waits in between; use a faster '
                'device, fewer sampler steps or a longer horizon',
                left,
                needed,
                latency,
            )
        self._is_short = short

    def _collect(self, done: _InFlight) -> None:
        if self._actuation is not None:
            self._actuation.inference_finished()
        try:
            chunk = done.future.result(timeout=0)
        except (Superseded, CancelledError):
            return
        except InvalidObservation as error:
            self._fail(done, _failure('observation', error))
            return
        except (PolicyRosError, EngineStopped) as error:
            self._fail(done, _failure('inference', error))
            return
        except Exception as error:
            self._fail(done, _failure('inference', error), error)
            return
        finished = self._clock()
        refusal = ''
        with self._lock:
            self._latency.add(finished - done.triggered)
            self._stats = DoorStats(self._latency.p95(), self._stats.short_supply)
            if done.observed.epoch != self._assembler.epoch:
                _log.debug('dropped a chunk from before a reset, an enabling or another prompt')
                return
            self._session_known = done.observed.session
            self._retry.forget()
            if self._actuation is not None:
                refusal = self._actuation.on_chunk(
                    chunk, done.observed.t_obs_ns, done.observed.epoch
                )
            self._publish(chunk, done.observed.t_obs_ns)
        if refusal:
            self._told.warn(refusal.partition(':')[0], 'a chunk was not played: %s', refusal)
        published = self._clock()
        self._tell(DoorState())
        _log.debug(
            'chunk: assemble %.2f ms, engine %.2f ms (%s), publish %.2f ms',
            1e3 * (done.submitted - done.triggered),
            1e3 * (finished - done.submitted),
            ', '.join(f'{stage} {ms:.2f}' for stage, ms in chunk.timing_ms.items()),
            1e3 * (published - finished),
            # In numbers, for whoever listens (bench/topic_node.py).
            extra={
                'timing_ms': {
                    **chunk.timing_ms,
                    'assemble': 1e3 * (done.submitted - done.triggered),
                    'publish': 1e3 * (published - finished),
                    'total': 1e3 * (published - done.triggered),
                }
            },
        )

    def _fail(self, done: _InFlight, reason: Reason, error: BaseException | None = None) -> None:
        """Report a failed inference, and count it unless it answers what counts no more."""
        with self._lock:
            self._retry.failed()
            if self._actuation is not None and done.observed.epoch == self._assembler.epoch:
                self._actuation.on_failure(reason.text)
        self._tell(DoorState((reason,)), error)

    def _tell_running(self) -> None:
        """Report that a call runs, late or not: what was reported before it holds no more."""
        # Why the last call failed says more than that this one is late.
        if self._failing:
            return
        health = self._engine.health()
        if health.ready:
            if self._blocked:
                self._blocked = False
                self._report(DoorState())
            return
        # Not logged here: the server's watch over the engine does that.
        text = f'no answer from the policy yet: {health.reason}'
        self._report(DoorState((Reason('inference', (), text, health.reason),)))

    def _leave_old_session(self) -> None:
        """Let go of what belongs to a session that is over; holds the lock."""
        session = self._assembler.session
        if self._session_told != session:
            self._session_told = session
            if self._actuation is not None:
                self._actuation.reset(self._assembler.epoch)
        if self._session_used not in (None, session):
            assert self._session_used is not None
            self._engine.close_session(self._key(self._session_used))
            self._session_used = None

    def _key(self, session: int) -> SessionKey:
        return SessionKey(self._connection, str(session))

    def _tell(self, state: DoorState, error: BaseException | None = None) -> None:
        """Report the state, and log it where it changed."""
        if self._told.hushed(state):
            return
        self._told.tell(state, error)
        self._failing = state.failing
        self._blocked = bool(state.reasons)
        self._report(state)


def _failure(kind: str, error: BaseException) -> Reason:
    if kind == 'observation':
        return Reason('observation', (), f'the policy refuses the observation: {error}', str(error))
    name = type(error).__name__
    return Reason('inference', (), f'inference failed: {name}: {error}', name)
