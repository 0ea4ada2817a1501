# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The engine's promises to the doors: order, sessions, batches, what comes back."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from fakes import WAIT, EchoPolicy, FailingPolicy, SlowPolicy, StatefulPolicy, make_spec, request

from openpi_policy_ros.engine import Engine, EngineStopped, Lane, Superseded
from openpi_policy_ros.errors import InvalidObservation, InvalidOutput
from openpi_policy_ros.policies.base import (
    ActionChunk,
    InferenceRequest,
    InferenceResult,
    Policy,
    SessionKey,
)


@pytest.fixture
def started() -> Iterator[Callable[[Policy], Engine]]:
    """Return a starter of engines that are closed at the end, whatever still runs."""
    engines: list[Engine] = []

    def start(policy: Policy, **settings: object) -> Engine:
        engine = Engine(policy, **settings)
        engines.append(engine)
        engine.start()
        return engine

    yield start
    for engine in engines:
        if isinstance(engine._policy, SlowPolicy):
            engine._policy.release(1000)
        engine.close(WAIT)


def infer(engine: Engine, *args: object, lane: Lane = Lane.REMOTE, **fields: object) -> ActionChunk:
    return engine.submit(request(*args, **fields), lane).result(WAIT)


def settled(engine: Engine) -> None:
    """Wait until everything submitted so far has run, session closings included."""
    infer(engine, 'settle')


def test_a_request_gets_its_own_chunk_with_the_time_it_waited(started):
    engine = started(EchoPolicy())
    chunk = infer(engine, value=4.0, seed=9)
    assert chunk.actions[0, :2].tolist() == [4.0, 9.0]
    assert chunk.timing_ms['queue'] >= 0.0
    assert chunk.timing_ms['model'] == 1.5


def test_the_policy_is_warmed_up_on_its_worker_before_anything_is_accepted():
    policy = EchoPolicy()
    engine = Engine(policy)
    assert not engine.started
    with pytest.raises(EngineStopped, match='not started'):
        engine.submit(request(), Lane.ROBOT).result(WAIT)
    engine.start()
    assert engine.started
    assert policy.warmed_up == 1
    infer(engine)
    assert len(policy.threads) == 1
    assert threading.current_thread().name not in policy.threads
    engine.close()
    assert policy.closed == 1


def test_a_failing_warm_up_is_raised_by_start_and_frees_the_device():
    policy = FailingPolicy(warm_up_error=ZeroDivisionError('no'))
    engine = Engine(policy)
    with pytest.raises(ZeroDivisionError):
        engine.start()
    assert policy.closed == 1
    assert not engine.health().ready
    with pytest.raises(EngineStopped):
        engine.submit(request(), Lane.ROBOT).result(WAIT)
    engine.close()
    assert policy.closed == 1


def test_an_engine_starts_once(started):
    engine = started(EchoPolicy())
    with pytest.raises(RuntimeError, match='starts once'):
        engine.start()


def test_the_robot_overtakes_remote_clients_and_clients_take_turns(started):
    policy = SlowPolicy()
    engine = started(policy)
    futures = [engine.submit(request('first', value=1), Lane.REMOTE)]
    policy.wait_started()
    for connection, value in (('greedy', 2), ('greedy', 3), ('greedy', 4), ('modest', 5)):
        futures.append(engine.submit(request(connection, value=value), Lane.REMOTE))
    futures.append(engine.submit(request('ros', value=6), Lane.ROBOT))
    policy.release(6)
    for future in futures:
        future.result(WAIT)
    assert policy.values == [1, 6, 2, 5, 3, 4]


def test_a_newer_observation_of_the_robot_replaces_the_waiting_one(started):
    policy = SlowPolicy()
    engine = started(policy)
    running = engine.submit(request('ros', value=1), Lane.ROBOT)
    policy.wait_started()
    old = engine.submit(request('ros', value=2, reset=True), Lane.ROBOT)
    new = engine.submit(request('ros', value=3), Lane.ROBOT)
    with pytest.raises(Superseded):
        old.result(WAIT)
    policy.release(2)
    assert running.result(WAIT).actions[0, 0] == 1
    assert new.result(WAIT).actions[0, 0] == 3
    assert policy.values == [1, 3]
    assert policy.requests[1].reset is True
    assert engine.stats().superseded == 1


def test_sessions_are_closed_in_order_on_the_worker(started):
    policy = StatefulPolicy()
    engine = started(policy)
    futures = [engine.submit(request('c', 'a', reset=True), Lane.REMOTE)]
    engine.close_session(SessionKey('c', 'a'))
    futures.append(engine.submit(request('c', 'a'), Lane.REMOTE))
    futures.append(engine.submit(request('c', 'a', reset=True), Lane.REMOTE))
    futures.append(engine.submit(request('c', 'a'), Lane.REMOTE))
    assert futures[0].result(WAIT).actions[0, 0] == 1
    with pytest.raises(InvalidObservation, match='not alive'):
        futures[1].result(WAIT)
    assert futures[2].result(WAIT).actions[0, 0] == 1
    assert futures[3].result(WAIT).actions[0, 0] == 2


def test_a_session_is_never_closed_under_a_running_call(started):
    policy = SlowPolicy()
    engine = started(policy)
    future = engine.submit(request('c'), Lane.REMOTE)
    policy.wait_started()
    engine.close_session(SessionKey('c', 'default'))
    engine.close_session(SessionKey('other', 'default'))
    policy.release()
    future.result(WAIT)
    policy.release()
    settled(engine)
    assert set(policy.closed_sessions) == {
        SessionKey('c', 'default'),
        SessionKey('other', 'default'),
    }
    assert not policy.overlapped


def test_a_policy_that_fails_to_close_a_session_goes_on(started, caplog):
    class Sticky(EchoPolicy):
        def close_session(self, key: SessionKey) -> None:
            raise OSError('stuck')

    engine = started(Sticky())
    engine.close_session(SessionKey('c', 'default'))
    settled(engine)
    assert 'session c/default' in caplog.text
    assert engine.health().ready


def test_a_local_policy_is_called_from_one_thread_by_many_callers(started):
    policy = StatefulPolicy()
    engine = started(policy)

    def client(number: int) -> None:
        for step in range(20):
            infer(engine, f'c{number}', reset=step == 0)
        engine.close_session(SessionKey(f'c{number}', 'default'))

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    settled_request = engine.submit(request('end', reset=True), Lane.REMOTE)
    assert settled_request.result(WAIT).actions[0, 0] == 1
    assert len(policy.threads) == 1
    assert not policy.overlapped
    assert set(policy.live) == {SessionKey('end', 'default')}
    assert engine.stats().succeeded == 161


def test_a_remote_policy_runs_as_many_calls_as_it_declares_and_each_session_in_order(started):
    policy = SlowPolicy(make_spec(max_in_flight=3))
    engine = started(policy)
    futures = [engine.submit(request(f'c{n}', value=n), Lane.REMOTE) for n in range(4)]
    second = engine.submit(request('c0', value=10), Lane.REMOTE)
    for _ in range(3):
        policy.wait_started()
    assert not policy.started.acquire(blocking=False)
    assert engine.stats().running == 3
    policy.release(5)
    for future in [*futures, second]:
        future.result(WAIT)
    assert not policy.overlapped
    assert policy.values.index(0) < policy.values.index(10)


def test_waiting_requests_are_batched_and_each_gets_its_own_result(started):
    policy = SlowPolicy(make_spec(max_batch=3))
    engine = started(policy)
    engine.submit(request('blocker'), Lane.REMOTE)
    policy.wait_started()
    futures = [engine.submit(request(f'c{n}', value=n), Lane.REMOTE) for n in range(4)]
    policy.release(3)
    assert [future.result(WAIT).actions[0, 0] for future in futures] == [0, 1, 2, 3]
    assert [len(batch) for batch in policy.batches] == [1, 3, 1]
    assert engine.stats().batches == 3


def test_one_bad_observation_in_a_batch_does_not_touch_the_others(started):
    refused = InvalidObservation('state', 'holds NaN')

    class Picky(SlowPolicy):
        def answer(self, one: InferenceRequest) -> InferenceResult:
            return refused if one.observation['value'] == 1 else super().answer(one)

    policy = Picky(make_spec(max_batch=2))
    engine = started(policy)
    engine.submit(request('blocker'), Lane.REMOTE)
    policy.wait_started()
    bad = engine.submit(request('a', value=1), Lane.REMOTE)
    good = engine.submit(request('b', value=2), Lane.REMOTE)
    policy.release(2)
    assert bad.exception(WAIT) is refused
    assert good.result(WAIT).actions[0, 0] == 2
    assert [len(batch) for batch in policy.batches] == [1, 2]
    stats = engine.stats()
    assert (stats.invalid_observations, stats.failures) == (1, 0)


@pytest.mark.parametrize('results', [[], [None] * 3, None])
def test_the_wrong_number_of_results_fails_every_request(started, results):
    engine = started(FailingPolicy(lambda _: results))
    with pytest.raises(InvalidOutput):
        infer(engine)
    assert infer(engine, value=2).actions[0, 0] == 2


@pytest.mark.parametrize('bad', [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_never_leaves_the_engine(started, bad):
    def poisoned(requests: object) -> list[ActionChunk]:
        actions = np.zeros((50, 32), np.float32)
        actions[7, 3] = bad
        return [ActionChunk({'actions': actions})]

    engine = started(FailingPolicy(poisoned))
    with pytest.raises(InvalidOutput, match=r'\[7, 3\]'):
        infer(engine)
    infer(engine)
    assert (engine.stats().failures, engine.stats().consecutive_failures) == (1, 0)


def test_a_policy_that_raises_fails_that_request_and_serves_the_next(started):
    engine = started(FailingPolicy(ValueError('bad luck'), MemoryError('too big')))
    with pytest.raises(ValueError, match='bad luck'):
        infer(engine)
    with pytest.raises(MemoryError):
        infer(engine)
    assert engine.stats().consecutive_failures == 2
    assert infer(engine, value=1).actions[0, 0] == 1
    assert engine.health().ready


def test_a_cancelled_request_never_reaches_the_policy_and_is_let_go_at_once(started):
    policy = SlowPolicy()
    engine = started(policy)
    running = engine.submit(request('a', value=1), Lane.REMOTE)
    policy.wait_started()
    image = np.zeros((4, 4, 3), np.uint8)
    alive = weakref.ref(image)
    waiting = engine.submit(request('b', observation={'image': image}), Lane.REMOTE)
    del image
    assert waiting.cancel()
    assert alive() is None
    policy.release(2)
    running.result(WAIT)
    settled(engine)
    assert [one.session.connection for one in policy.requests] == ['a', 'settle']
    assert engine.stats().cancelled == 1


def test_the_result_of_a_caller_that_left_is_dropped(started):
    policy = SlowPolicy()
    engine = started(policy)
    running = engine.submit(request('a'), Lane.REMOTE)
    policy.wait_started()
    assert not running.cancel()
    engine.close_session(SessionKey('a', 'default'))
    policy.release(2)
    settled(engine)
    assert policy.closed_sessions == [SessionKey('a', 'default')]


def raising(requests: object) -> list[ActionChunk]:
    raise ValueError('bad luck')


def raising_from_another(requests: object) -> list[ActionChunk]:
    try:
        raising(requests)
    except ValueError:
        raise KeyError('worse') from None
    return []


@pytest.mark.parametrize('step', [None, raising, raising_from_another, lambda requests: [None]])
def test_no_observation_outlives_its_request(started, step):
    policy = FailingPolicy(step)
    engine = started(policy)
    image = np.zeros((4, 4, 3), np.uint8)
    alive = weakref.ref(image)
    gc.disable()
    try:
        future = engine.submit(request('a', observation={'image': image}), Lane.REMOTE)
        del image
        future.exception(WAIT)
        del future
        settled(engine)
        policy.batches.clear()
        assert alive() is None
    finally:
        gc.enable()


def test_who_hears_of_a_result_finds_its_turn_over(started):
    policy = SlowPolicy()
    engine = started(policy)
    seen: list[tuple[int, float]] = []
    future = engine.submit(request('a'), Lane.REMOTE)
    future.add_done_callback(
        lambda _: seen.append((engine.stats().running, engine.health().busy_for))
    )
    policy.release(2)
    future.result(WAIT)
    settled(engine)
    assert seen == [(0, 0.0)]


def test_counts_and_percentiles_leave_the_warm_up_out(started):
    engine = started(EchoPolicy())
    assert engine.stats().latency.count == 0
    for _ in range(3):
        infer(engine)
    stats = engine.stats()
    assert stats.succeeded == stats.batches == stats.latency.count == 3
    assert stats.stages['model'].p95 == 1.5
    assert set(stats.stages) == {'preprocess', 'model', 'queue', 'infer'}
    assert (stats.waiting, stats.running) == (0, 0)
