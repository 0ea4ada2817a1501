# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The engine's health, its end, and the death of its worker."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest
from fakes import WAIT, EchoPolicy, FailingPolicy, SlowPolicy, make_spec, request

from openpi_policy_ros.engine import Engine, EngineStopped, Lane
from openpi_policy_ros.engine.queue import FairQueue
from openpi_policy_ros.errors import PolicyLost
from openpi_policy_ros.policies.base import ActionChunk, SessionKey


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def submit(engine: Engine, *args: object, **fields: object) -> Future[ActionChunk]:
    return engine.submit(request(*args, **fields), Lane.REMOTE)


def test_a_call_past_its_time_makes_the_engine_not_ready_until_it_succeeds():
    policy, clock = SlowPolicy(), Clock()
    engine = Engine(policy, inference_timeout=5.0, clock=clock)
    engine.start()
    assert engine.health().ready
    future = submit(engine)
    policy.wait_started()
    clock.now += 4.0
    assert engine.health().ready
    assert engine.health().busy_for == 4.0
    clock.now += 2.0
    health = engine.health()
    assert not health.ready
    assert health.reason == 'a call has been running for more than 5 s'
    assert health.busy_for == 6.0
    policy.release()
    assert future.result(WAIT) is not None
    assert engine.health() == type(health)(True, 'ready', 0.0)
    engine.close()


def test_a_late_call_that_failed_leaves_the_engine_not_ready_until_one_succeeds():
    clock = Clock()

    def late(_: object) -> list[ActionChunk]:
        clock.now += 6.0
        raise ValueError('late and wrong')

    engine = Engine(FailingPolicy(late, ValueError('quick')), inference_timeout=5.0, clock=clock)
    engine.start()
    assert submit(engine).exception(WAIT) is not None
    assert 'took more than 5 s' in engine.health().reason
    assert submit(engine).exception(WAIT) is not None
    assert not engine.health().ready
    submit(engine).result(WAIT)
    assert engine.health().ready
    engine.close()


def test_the_engine_is_not_ready_before_and_while_warming_up():
    entered, leave = threading.Event(), threading.Event()

    class Cold(EchoPolicy):
        def warm_up(self) -> None:
            entered.set()
            assert leave.wait(WAIT)

    engine = Engine(Cold())
    assert engine.health().reason == 'not started'
    starter = threading.Thread(target=engine.start)
    starter.start()
    assert entered.wait(WAIT)
    assert (engine.health().ready, engine.started) == (False, False)
    assert engine.health().reason.startswith('starting')
    with pytest.raises(EngineStopped, match='starting'):
        submit(engine).result(WAIT)
    leave.set()
    starter.join(WAIT)
    assert engine.health().ready
    engine.close()


@pytest.mark.parametrize('death', [SystemExit(3), KeyboardInterrupt()])
def test_a_dead_worker_fails_everybody_at_once_and_is_told(death, caplog):
    policy = FailingPolicy(None, death)
    gate = threading.Event()
    inner = policy.answer
    policy.answer = lambda one: (gate.wait(WAIT), inner(one))[1]
    engine = Engine(policy)
    engine.start()
    first = submit(engine, 'a', value=1)
    fatal = submit(engine, 'b')
    waiting = submit(engine, 'c')
    gate.set()
    assert first.result(WAIT).actions[0, 0] == 1
    for future in (fatal, waiting, submit(engine, 'd')):
        with pytest.raises(EngineStopped, match='died'):
            future.result(WAIT)
    health = engine.health()
    assert not health.ready
    assert 'died' in health.reason
    assert type(death).__name__ not in health.reason
    assert type(death).__name__ in caplog.text
    engine.close_session(SessionKey('a', 'default'))
    engine.close(WAIT)
    assert not engine.health().ready
    assert policy.closed == 1


def test_a_worker_that_dies_outside_of_any_call_fails_everybody_and_is_told(monkeypatch, caplog):
    engine = Engine(EchoPolicy())
    engine.start()
    submit(engine, value=1).result(WAIT)

    def broken(self: FairQueue, max_batch: int = 1) -> None:
        raise MemoryError('no room')

    monkeypatch.setattr(FairQueue, 'take', broken)
    with pytest.raises(EngineStopped, match='died'):
        submit(engine, value=2).result(WAIT)
    for thread in threading.enumerate():
        if thread.name.startswith('inference'):
            thread.join(WAIT)
            assert not thread.is_alive()
    assert 'died' in engine.problem()
    assert not engine.health().ready
    assert 'no room' in caplog.text
    with pytest.raises(EngineStopped, match='died'):
        submit(engine, value=3).result(WAIT)
    engine.close()


def test_a_dead_worker_is_a_problem_and_a_slow_call_is_none():
    policy, clock = SlowPolicy(), Clock()
    engine = Engine(policy, inference_timeout=5.0, clock=clock)
    assert engine.problem() == 'not started'
    engine.start()
    future = submit(engine)
    policy.wait_started()
    clock.now += 600.0
    assert not engine.health().ready
    assert engine.problem() == ''
    policy.release()
    future.result(WAIT)
    engine.close()
    assert engine.problem() == 'stopped'
    dead = Engine(FailingPolicy(SystemExit()))
    dead.start()
    assert submit(dead).exception(WAIT) is not None
    assert 'died' in dead.problem()
    dead.close()
    assert 'died' in dead.problem()


def test_a_lost_policy_ends_the_engine_with_its_own_error_first(caplog):
    lost = PolicyLost('rank 1 died', remedy='restart the server')
    policy = FailingPolicy(None, RuntimeError('one bad batch'), lost)
    engine = Engine(policy)
    engine.start()
    submit(engine).result(WAIT)
    with pytest.raises(RuntimeError, match='one bad batch'):
        submit(engine).result(WAIT)
    assert engine.health().ready
    with pytest.raises(PolicyLost, match='rank 1 died; restart the server'):
        submit(engine).result(WAIT)
    assert not engine.health().ready
    assert 'died' in engine.health().reason
    assert 'rank 1' not in engine.health().reason
    with pytest.raises(EngineStopped, match='died'):
        submit(engine).result(WAIT)
    engine.close()
    assert policy.closed == 1
    assert 'rank 1 died' in caplog.text


def test_a_policy_that_is_lost_between_calls_makes_the_engine_not_ready(monkeypatch):
    policy = EchoPolicy()
    engine = Engine(policy)
    engine.start()
    assert (engine.health().ready, engine.problem()) == (True, '')
    monkeypatch.setattr(policy, 'problem', lambda: 'a device is gone')
    assert (engine.health().ready, engine.health().reason) == (False, 'a device is gone')
    assert engine.problem() == 'a device is gone'
    engine.close()
    assert engine.problem() == 'stopped'


def test_one_dead_thread_of_several_stops_the_engine():
    policy = FailingPolicy(SystemExit(), spec=make_spec(max_in_flight=3))
    engine = Engine(policy)
    engine.start()
    with pytest.raises(EngineStopped):
        submit(engine).result(WAIT)
    with pytest.raises(EngineStopped):
        submit(engine).result(WAIT)
    engine.close()
    assert policy.closed == 1


def test_draining_finishes_what_was_submitted_and_accepts_no_more():
    policy = SlowPolicy()
    engine = Engine(policy)
    engine.start()
    running, waiting = submit(engine, 'a', value=1), submit(engine, 'b', value=2)
    engine.close_session(SessionKey('a', 'default'))
    policy.wait_started()
    closer = threading.Thread(target=engine.close, args=(WAIT,))
    closer.start()
    deadline = time.monotonic() + WAIT
    while engine.health().ready and time.monotonic() < deadline:
        time.sleep(0.01)
    assert engine.health().reason.startswith('draining')
    with pytest.raises(EngineStopped, match='draining'):
        submit(engine, 'c').result(WAIT)
    policy.release(2)
    closer.join(WAIT)
    assert not closer.is_alive()
    assert (running.result(0).actions[0, 0], waiting.result(0).actions[0, 0]) == (1, 2)
    assert policy.closed_sessions == [SessionKey('a', 'default')]
    assert policy.closed == 1
    assert engine.health().reason == 'stopped'


def test_closing_without_draining_fails_what_waits_and_what_runs_and_frees_the_device_later():
    policy = SlowPolicy()
    engine = Engine(policy)
    engine.start()
    running, waiting = submit(engine, 'a'), submit(engine, 'b')
    policy.wait_started()
    engine.close()
    for future in (running, waiting):
        with pytest.raises(EngineStopped, match='stopped'):
            future.result(0)
    assert policy.closed == 0
    policy.release()
    for thread in threading.enumerate():
        if thread.name.startswith('inference'):
            thread.join(WAIT)
    assert policy.closed == 1
    assert policy.values == [0.0]


def test_closing_during_the_warm_up_is_told_to_who_started():
    entered, leave = threading.Event(), threading.Event()

    class Cold(EchoPolicy):
        def warm_up(self) -> None:
            entered.set()
            assert leave.wait(WAIT)

    policy = Cold()
    engine = Engine(policy)
    raised: list[type[BaseException]] = []

    def start() -> None:
        try:
            engine.start()
        except EngineStopped as error:
            raised.append(type(error))

    starter = threading.Thread(target=start)
    starter.start()
    assert entered.wait(WAIT)
    closer = threading.Thread(target=engine.close)
    closer.start()
    leave.set()
    for thread in (starter, closer):
        thread.join(WAIT)
    # Either may win: stopped while starting, or started and then stopped.
    assert raised in ([EngineStopped], [])
    assert not engine.started
    assert policy.closed == 1


def test_closing_while_requests_start_never_kills_the_worker(caplog):
    for _ in range(30):
        engine = Engine(EchoPolicy())
        engine.start()
        futures = [submit(engine, f'c{n}') for n in range(20)]
        engine.close()
        assert all(future.done() for future in futures)
        assert engine.health().reason == 'stopped'
    assert 'died' not in caplog.text


def test_closing_twice_or_without_a_start_is_fine():
    policy = EchoPolicy()
    engine = Engine(policy)
    engine.close()
    engine.close()
    assert policy.closed == 1
    with pytest.raises(RuntimeError, match='starts once'):
        engine.start()
