# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The only code that calls a policy: one worker off everybody's event loop.

A policy that lives elsewhere (``spec.max_in_flight`` > 1) gets that many worker threads instead;
callers cannot tell. All waiting is decided by ``FairQueue``, all answers pass ``guard``.
"""

from __future__ import annotations

import enum
import logging
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import replace
from typing import TypeAlias

from openpi_policy_ros.engine.guard import check_result, check_results
from openpi_policy_ros.engine.queue import Batch, Closing, FairQueue, Job, Work
from openpi_policy_ros.engine.stats import EngineStats, Ledger
from openpi_policy_ros.engine.tap import Tap, Taps
from openpi_policy_ros.engine.types import EngineHealth, EngineStopped, Lane, Superseded
from openpi_policy_ros.errors import PolicyLost
from openpi_policy_ros.policies.base import (
    INFER,
    QUEUE,
    ActionChunk,
    InferenceRequest,
    Policy,
    PolicySpec,
    SessionKey,
)

LOG = logging.getLogger('openpi_policy_ros.engine')

JOIN_TIMEOUT = 10.0
"""Seconds ``close`` gives an idle worker to free the device."""

MAX_CAUSES = 16
"""How far a chain of exceptions is followed; a policy could make it a circle."""

Outcome: TypeAlias = ActionChunk | BaseException


class Phase(enum.Enum):
    """Life of an engine; the value is the reason told while it is not ready."""

    NEW = 'not started'
    STARTING = 'starting: warming up'
    SERVING = 'ready'
    DRAINING = 'draining: finishing what is in flight'
    STOPPED = 'stopped'
    DEAD = 'the inference worker died (see the log); restart the server'


class Engine:
    """Runs requests from any thread on the policy's worker.

    Args:
        policy: loaded, not yet warmed up. The engine owns it from here on and closes it.
        inference_timeout: seconds after which a running call makes ``health`` not ready. It never
            cuts a call: the answer is delivered whenever it comes.
        clock: monotonic seconds.

    """

    def __init__(
        self,
        policy: Policy,
        *,
        inference_timeout: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy = policy
        self._spec = policy.spec
        self._timeout = inference_timeout
        self._clock = clock
        self._threads: list[threading.Thread] = []
        # Guards everything below; notified on every change that someone may wait for.
        self._changed = threading.Condition()
        self._phase = Phase.NEW
        self._queue = FairQueue()
        self._running: dict[Work, float] = {}
        self._alive = 0
        self._overdue = False
        self._ledger = Ledger()
        self._taps = Taps()

    @property
    def spec(self) -> PolicySpec:
        """Return what the policy says of itself."""
        return self._spec

    @property
    def started(self) -> bool:
        """Return whether it is warmed up and not closed: only then may a door open."""
        with self._changed:
            return self._phase is Phase.SERVING

    def add_tap(self, tap: Tap) -> None:
        """Let ``tap`` hear of every inference from now on, beside others; not of the warm-up."""
        self._taps.add(tap)

    def remove_tap(self, tap: Tap) -> None:
        """Let ``tap`` hear nothing more; it may be in the middle of a call."""
        self._taps.remove(tap)

    def start(self) -> None:
        """Warm the policy up on its worker; returns when it is ready to answer.

        Raises:
            RuntimeError: called twice.
            EngineStopped: closed by another thread meanwhile.
            BaseException: whatever the warm-up raised; the policy is closed then.

        """
        with self._changed:
            if self._phase is not Phase.NEW:
                raise RuntimeError('an Engine starts once; make a new one')
            self._phase = Phase.STARTING
        warmed: Future[None] = Future()
        # Daemons: a call that never returns must not keep the process from ending.
        self._threads = [
            threading.Thread(target=self._first_worker, args=(warmed,), name='inference-0')
        ] + [
            threading.Thread(target=self._worker, name=f'inference-{number}')
            for number in range(1, self._spec.max_in_flight)
        ]
        self._alive = len(self._threads)
        for thread in self._threads:
            thread.daemon = True
            thread.start()
        try:
            warmed.result()
        except Exception:
            self._join()
            raise

    def submit(self, request: InferenceRequest, lane: Lane) -> Future[ActionChunk]:
        """Queue a request; thread-safe, returns at once.

        Requests of one connection run in the order they came, one at a time. Cancelling the
        future withdraws a request that was not started; one that runs is finished and its result
        dropped. Callbacks of the future run on the worker: keep them short.

        The future's result is the chunk, its ``timing_ms`` extended by ``queue`` and ``infer``.
        Its exceptions: ``InvalidObservation``, ``InvalidOutput``, ``Superseded`` (robot lane),
        ``EngineStopped``, or whatever the policy raised.
        """
        future: Future[ActionChunk] = Future()
        job = Job(request, lane, future, self._clock())
        replaced: list[Job] = []
        with self._changed:
            phase = self._phase
            if phase is Phase.SERVING:
                replaced = self._queue.push(job)
                self._ledger.superseded += len(replaced)
                self._changed.notify_all()
        if phase is not Phase.SERVING:
            future.set_exception(_stopped(phase))
            return future
        _settle_all(replaced, [Superseded('a newer observation took its place')] * len(replaced))
        future.add_done_callback(self._withdraw)
        return future

    def close_session(self, key: SessionKey) -> None:
        """Free a session's state after everything its connection has submitted so far.

        Thread-safe, returns at once; runs on the worker. Nothing to do once the engine stopped:
        the policy frees everything then.
        """
        with self._changed:
            if self._phase in (Phase.SERVING, Phase.DRAINING):
                self._queue.push_closing(key)
                self._changed.notify_all()

    def health(self) -> EngineHealth:
        """Return whether the engine is fit to answer.

        Not ready while starting, draining, stopped or dead, while a call has been running longer
        than ``inference_timeout``, after such a call until one succeeds, and once the policy can
        answer nobody any more.
        """
        with self._changed:
            now = self._clock()
            busy_for = max((now - began for began in self._running.values()), default=0.0)
            if self._phase is not Phase.SERVING:
                return EngineHealth(False, self._phase.value, busy_for)
            lost = self._policy.problem()
            if lost:
                return EngineHealth(False, lost, busy_for)
            if busy_for > self._timeout:
                reason = f'a call has been running for more than {self._timeout:g} s'
                return EngineHealth(False, reason, busy_for)
            if self._overdue:
                reason = f'the last call took more than {self._timeout:g} s and failed'
                return EngineHealth(False, reason, busy_for)
            return EngineHealth(True, Phase.SERVING.value, busy_for)

    def problem(self) -> str:
        """Return why nothing that is submitted now will be answered; '' = it will, if late.

        Its worker died, it was closed, it was not started, or its policy is lost. A call that takes
        too long is no such problem: ``health`` tells of it.
        """
        with self._changed:
            return self._policy.problem() if self._phase is Phase.SERVING else self._phase.value

    def stats(self) -> EngineStats:
        """Return counts and timings so far, without the warm-up."""
        with self._changed:
            running = sum(len(w.jobs) for w in self._running if isinstance(w, Batch))
            return self._ledger.stats(waiting=self._queue.waiting_jobs, running=running)

    def close(self, drain_timeout: float = 0.0) -> None:
        """Stop: refuse new requests, finish what was submitted, free the device.

        What has not finished after ``drain_timeout`` seconds fails with ``EngineStopped``; a call
        that cannot be interrupted goes on alone and the device is freed when it returns.
        Idempotent.
        """
        with self._changed:
            if self._phase is Phase.SERVING:
                self._phase = Phase.DRAINING
                self._changed.wait_for(
                    lambda: (
                        self._phase is not Phase.DRAINING or not (len(self._queue) or self._running)
                    ),
                    timeout=drain_timeout,
                )
            never_started = self._phase is Phase.NEW
            if self._phase is not Phase.DEAD:
                self._phase = Phase.STOPPED
            abandoned = self._abandon()
            busy = bool(self._running)
            self._changed.notify_all()
        _settle_all(abandoned, [_stopped(Phase.STOPPED)] * len(abandoned))
        if never_started:
            self._policy.close()
        elif busy:
            LOG.warning(
                'a call is still running after %g s of draining; it is left alone and the device '
                'freed when it returns',
                drain_timeout,
            )
        else:
            self._join()

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT)
            if thread.is_alive():
                LOG.warning('thread %s does not end; it is left alone', thread.name)

    def _first_worker(self, warmed: Future[None]) -> None:
        try:
            self._policy.warm_up()
        except BaseException as error:
            with self._changed:
                self._phase = Phase.STOPPED
                self._changed.notify_all()
            self._leave()
            warmed.set_exception(error)
            return
        with self._changed:
            if self._phase is Phase.STARTING:
                self._phase = Phase.SERVING
            phase = self._phase
        if phase is Phase.SERVING:
            warmed.set_result(None)
        else:
            warmed.set_exception(_stopped(phase))  # close() came in between.
        self._worker()

    def _worker(self) -> None:
        try:
            while self._step():
                pass
        except BaseException:
            # A bug of ours: without a worker nobody would ever be answered, nor told so.
            LOG.critical('the inference worker died; no more requests are served', exc_info=True)
            self._die(None)
        self._leave()

    def _leave(self) -> None:
        """Close the policy if this is the last worker to go."""
        with self._changed:
            self._alive -= 1
            last = self._alive == 0
        if last:
            try:
                self._policy.close()
            except Exception:
                LOG.exception('closing the policy failed')

    def _step(self) -> bool:
        """Do one piece of work; False = stop. A method, so that nothing outlives its request."""
        with self._changed:
            while True:
                if self._phase in (Phase.STOPPED, Phase.DEAD):
                    return False
                work = self._queue.take(self._spec.max_batch)
                if work is not None:
                    break
                self._changed.wait()
            self._running[work] = self._clock()
            jobs = work.jobs if isinstance(work, Batch) else []
            # Under the lock, so that close() finds it either waiting or running.
            wanted = [job for job in jobs if _future(job).set_running_or_notify_cancel()]
            self._ledger.cancelled += len(jobs) - len(wanted)
        try:
            if isinstance(work, Closing):
                self._close_session(work)
            else:
                self._infer(work, wanted)
        except BaseException:
            # Not any Exception of the policy (that fails one batch), but the end of this thread:
            # PolicyLost, after which it will answer nobody, and what is no Exception.
            LOG.critical('the inference worker died; no more requests are served', exc_info=True)
            self._die(work)
            return False
        del work, jobs, wanted  # See the end of _infer.
        return True

    def _die(self, work: Work | None) -> None:
        """Stop for good; everybody who waits hears of it only then."""
        with self._changed:
            self._phase = Phase.DEAD
            abandoned = self._abandon()
            if work is not None:
                self._running.pop(work, None)
            self._changed.notify_all()
        _settle_all(abandoned, [_stopped(Phase.DEAD)] * len(abandoned))

    def _close_session(self, work: Closing) -> None:
        try:
            self._policy.close_session(work.key)
        except Exception:
            LOG.exception('session %s: the policy failed to free it', work.key)
        self._taps.session_closed(work.key)
        self._finish(work)

    def _infer(self, work: Batch, wanted: Sequence[Job]) -> None:
        began = self._clock()
        outcomes = self._call(wanted, began) if wanted else []
        took = self._clock() - began
        with self._changed:
            if wanted:
                self._account(wanted, outcomes, began, took)
        if took > self._timeout:
            LOG.warning(
                'a call took %.2f s, longer than the inference timeout of %g s: use a faster '
                'device, a smaller model, or a larger inference timeout',
                took,
                self._timeout,
            )
        _clear_frames(outcomes)
        # While it is still this source's turn, so that a tap hears a session in its order.
        self._tap_all(wanted, outcomes)
        # Before anybody hears of the result: who submits again at once finds its turn free.
        self._finish(work)
        lost = next((outcome for outcome in outcomes if isinstance(outcome, PolicyLost)), None)
        if lost is not None:
            with self._changed:
                # Who hears of it finds the engine not ready.
                self._phase = Phase.DEAD
        _settle_all(wanted, outcomes)
        # An exception holds this frame, and this frame would hold the exception.
        del wanted, work, outcomes
        if lost is not None:
            raise lost

    def _tap_all(self, jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> None:
        for job, outcome in zip(jobs, outcomes, strict=True):
            self._taps.inferred(job.request, job.lane, outcome)

    def _call(self, jobs: Sequence[Job], began: float) -> list[Outcome]:
        """Call the policy and return one guarded outcome per job."""
        try:
            results = check_results(self._policy.infer([job.request for job in jobs]), len(jobs))
        except Exception as error:
            return [error] * len(jobs)
        infer_ms = 1e3 * (self._clock() - began)
        outcomes: list[Outcome] = []
        for job, result in zip(jobs, results, strict=True):
            try:
                answer = check_result(result, self._spec.output_shapes)
            except Exception as error:
                outcomes.append(error)
                continue
            if isinstance(answer, ActionChunk):
                stages = {name: float(ms) for name, ms in answer.timing_ms.items()}
                stages |= {QUEUE: 1e3 * (began - job.submitted), INFER: infer_ms}
                answer = replace(answer, timing_ms=stages)
            outcomes.append(answer)
        return outcomes

    def _account(
        self, jobs: Sequence[Job], outcomes: Sequence[Outcome], began: float, took: float
    ) -> None:
        """Count one call of the policy and judge how long it took; holds the lock."""
        waited_ms = [1e3 * (began + took - job.submitted) for job in jobs]
        if self._ledger.batch(outcomes, waited_ms):
            self._overdue = False
        elif took > self._timeout:
            self._overdue = True

    def _finish(self, work: Work) -> None:
        with self._changed:
            self._queue.done(work)
            del self._running[work]
            self._changed.notify_all()

    def _abandon(self) -> list[Job]:
        """Return every request that will not be answered any more; holds the lock."""
        jobs = self._queue.drain()
        for work in self._running:
            if isinstance(work, Batch):
                jobs += work.jobs
        return jobs

    def _withdraw(self, future: Future[ActionChunk]) -> None:
        """Drop a cancelled request now: its observation may be megabytes."""
        if future.cancelled():
            with self._changed:
                if self._queue.discard(future):
                    self._ledger.cancelled += 1
                    # A closing behind it may be due now, or a drain complete.
                    self._changed.notify_all()


def _future(job: Job) -> Future[ActionChunk]:
    ticket = job.ticket
    assert isinstance(ticket, Future)
    return ticket


def _clear_frames(outcomes: Sequence[Outcome]) -> None:
    """Let go of what the frames of failed calls hold: observations and tensors.

    Otherwise they live as long as the exception, and in a cycle with it.
    """
    for outcome in outcomes:
        error = outcome if isinstance(outcome, BaseException) else None
        for _ in range(MAX_CAUSES):
            if error is None:
                break
            traceback.clear_frames(error.__traceback__)
            error = error.__cause__ or error.__context__


def _settle_all(jobs: Sequence[Job], outcomes: Sequence[Outcome]) -> None:
    """Hand every outcome to its caller, unless somebody settled the future before."""
    for job, outcome in zip(jobs, outcomes, strict=True):
        try:
            if isinstance(outcome, BaseException):
                _future(job).set_exception(outcome)
            else:
                _future(job).set_result(outcome)
        except InvalidStateError:
            LOG.debug('dropped a late result of session %s', job.request.session)


def _stopped(phase: Phase) -> EngineStopped:
    return EngineStopped(f'the engine takes no requests: {phase.value}')
