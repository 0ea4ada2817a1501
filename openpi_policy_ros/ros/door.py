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
from typing import TypeAlias

from openpi_policy_ros.control.buffers import Reason
from openpi_policy_ros.control.observation import Assembler, Blocked, Ready
from openpi_policy_ros.engine import Engine, EngineStopped, Lane, Superseded
from openpi_policy_ros.errors import InvalidObservation, PolicyRosError
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey

_log = logging.getLogger('openpi_policy_ros.ros.door')

IDLE = 0.1
"""Longest sleep, s: how late a stream that fell silent is noticed."""

REPEAT = 10.0
"""Least seconds between two log lines of one reason that comes and goes."""

_JOIN = 10.0

Signature: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class DoorState:
    """What the door is doing.

    Attributes:
        reasons: why no chunk can be made; empty while chunks flow.

    """

    reasons: tuple[Reason, ...] = ()

    @property
    def failing(self) -> bool:
        """Return whether the policy or the engine failed, rather than a sensor."""
        return any(reason.kind in ('observation', 'inference') for reason in self.reasons)

    @property
    def signature(self) -> Signature:
        """Return what stays equal while nothing changes but ages."""
        return tuple(reason.signature for reason in self.reasons)

    @property
    def text(self) -> str:
        """Return every reason as one line."""
        return '; '.join(reason.text for reason in self.reasons)


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
    ) -> None:
        self._assembler = assembler
        self._engine = engine
        self._connection = connection
        self._seed = seed
        self._publish = publish
        self._report = report
        self._period = 1.0 / rate if rate > 0.0 else 0.0
        self._clock = clock
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        # Orders a reset or a prompt against a chunk going out: none of before comes after.
        self._lock = threading.Lock()
        self._in_flight: _InFlight | None = None
        self._seen = -1
        self._due = 0.0
        self._session_used: int | None = None
        self._session_known: int | None = None
        self._failing = False
        self._logged: Signature | None = None
        self._told: dict[Signature, float] = {}

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
        self._logged = None

    def wake(self) -> None:
        """Look at the sensors soon: something came in."""
        self._wake.set()

    def reset(self) -> SessionKey:
        """Clear the buffers and begin a new session; no chunk of before follows. Any thread."""
        with self._lock:
            self._assembler.restart()
            self._free_old_session()
            key = self._key(self._assembler.session)
        self._wake.set()
        return key

    def set_prompt(self, prompt: str) -> bool:
        """Use another instruction; no chunk for the old one follows. Any thread."""
        with self._lock:
            changed = self._assembler.set_prompt(prompt)
        self._wake.set()
        return changed

    def cycle(self) -> float:
        """Do what can be done now; return seconds after which to look again at the latest."""
        if self._in_flight is not None:
            if not self._in_flight.future.done():
                self._tell_overdue()
                return IDLE
            finished, self._in_flight = self._in_flight, None
            self._collect(finished)
        wait = self._due - self._clock()
        if wait > 0.0:
            return min(wait, IDLE)
        triggered = self._clock()
        observed = self._assembler.snapshot()
        if isinstance(observed, Blocked):
            with self._lock:
                self._free_old_session()
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
        self._due = triggered + self._period
        with self._lock:
            self._free_old_session()
            self._session_used = observed.session
            request = InferenceRequest(
                observed.observation,
                self._key(observed.session),
                # Only a call that succeeded has begun the session.
                reset=self._session_known != observed.session,
                seed=self._seed(),
            )
            submitted = self._clock()
            future = self._engine.submit(request, Lane.ROBOT)
        self._in_flight = _InFlight(observed, future, triggered, submitted)
        future.add_done_callback(lambda _: self._wake.set())

    def _collect(self, done: _InFlight) -> None:
        try:
            chunk = done.future.result(timeout=0)
        except (Superseded, CancelledError):
            return
        except InvalidObservation as error:
            self._tell(DoorState((_failure('observation', error),)))
            return
        except (PolicyRosError, EngineStopped) as error:
            self._tell(DoorState((_failure('inference', error),)))
            return
        except Exception as error:
            self._tell(DoorState((_failure('inference', error),)), error)
            return
        finished = self._clock()
        with self._lock:
            if done.observed.epoch != self._assembler.epoch:
                _log.debug('dropped a chunk from before a reset or another prompt')
                return
            self._session_known = done.observed.session
            self._publish(chunk, done.observed.t_obs_ns)
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

    def _tell_overdue(self) -> None:
        """Report that chunks are late: what was reported before the call holds no more."""
        # Why the last call failed says more than that this one is late.
        if self._failing:
            return
        health = self._engine.health()
        if not health.ready:
            # Not logged here: the server's watch over the engine does that.
            text = f'no answer from the policy yet: {health.reason}'
            self._report(DoorState((Reason('inference', (), text, health.reason),)))

    def _free_old_session(self) -> None:
        """Free model-side state that no observation will use again; holds the lock."""
        if self._session_used not in (None, self._assembler.session):
            assert self._session_used is not None
            self._engine.close_session(self._key(self._session_used))
            self._session_used = None

    def _key(self, session: int) -> SessionKey:
        return SessionKey(self._connection, str(session))

    def _tell(self, state: DoorState, error: BaseException | None = None) -> None:
        """Report the state, and log it where it changed."""
        now = self._clock()
        mark = state.signature
        # A reason that comes and goes is told once in a while; that it went, whenever it was told.
        due = not state.reasons or now - self._told.get(mark, now - REPEAT) >= REPEAT
        if mark != self._logged and due:
            self._told[mark] = now
            self._logged = mark
            if not state.reasons:
                _log.info('chunks flow')
            elif state.failing:
                _log.error('no chunk: %s', state.text, exc_info=error)
            else:
                _log.warning('no inference: %s', state.text)
        self._failing = state.failing
        self._report(state)


def _failure(kind: str, error: BaseException) -> Reason:
    if kind == 'observation':
        return Reason('observation', (), f'the policy refuses the observation: {error}', str(error))
    name = type(error).__name__
    return Reason('inference', (), f'inference failed: {name}: {error}', name)
