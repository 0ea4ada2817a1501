# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Too many clients, requests that take too long, and policies without memory for one more."""

from __future__ import annotations

import gc
import socket
import threading
import weakref

import numpy as np
import pytest
from fakes import WAIT, FailingPolicy, SlowPolicy, StatefulPolicy
from serving import FAILED, actions_of, eventually
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from openpi_policy_ros.errors import NoCapacity
from openpi_policy_ros.policies.base import SessionKey
from openpi_policy_ros.server import thread
from openpi_policy_ros.wire import Dialect, Session

both = pytest.mark.parametrize('dialect', list(Dialect))


def refused(served, dialect: Dialect = Dialect.OPENPI) -> bool:
    """Return whether a client is sent away; it must not hang."""
    try:
        with connect(served.url(dialect), open_timeout=WAIT):
            return False
    except InvalidStatus as error:
        answer = error.response
    body = answer.body.decode()
    assert (answer.status_code, answer.headers['Retry-After']) == (503, '5')
    assert 'All places for robot clients are taken' in body
    return True


def test_one_client_too_many_is_refused_on_either_path_and_health_is_not(loopback, caplog):
    served = loopback(max_connections=2)
    with served.client(Dialect.OPENPI) as first, served.client(Dialect.STOCK) as second:
        for dialect in Dialect:
            assert refused(served, dialect)
        assert served.get('/healthz')[0] == 200
        assert served.get('/readyz')[0] == 200
        assert served.get('/nothing')[0] == 404
        assert first.actions(value=1.0)[0, 0] == 1.0
        assert second.actions(value=2.0)[0, 0] == 2.0
        assert served.server.stats().connections == 2
    assert 'refused (503): all places for robot clients are taken (2)' in caplog.text


@pytest.mark.parametrize('leave', ['close', 'vanish'])
def test_a_client_that_leaves_makes_room(loopback, leave):
    served = loopback(max_connections=1)
    for _ in range(3):
        client = served.client()
        assert refused(served)
        getattr(client, leave)()
        eventually(lambda: not refused(served), 'there is room again')


def test_a_client_that_leaves_during_inference_makes_room_at_once(loopback):
    policy = SlowPolicy()
    served = loopback(policy, max_connections=1)
    client = served.client()
    client.send(value=1.0)
    policy.wait_started()
    assert refused(served)
    client.vanish()
    eventually(lambda: not refused(served), 'there is room again')
    policy.release()


def test_half_open_refused_and_curious_connections_take_no_place(loopback, monkeypatch):
    monkeypatch.setattr(thread, 'OPEN_TIMEOUT', 0.5)
    monkeypatch.setenv('OPENPI_API_KEY', 'key-0123456789abcdef')
    served = loopback(max_connections=1)
    headers = {'additional_headers': {'Authorization': 'Bearer key-0123456789abcdef'}}
    address = ('127.0.0.1', served.port)
    with (
        socket.create_connection(address, timeout=WAIT) as silent,
        socket.create_connection(address, timeout=WAIT) as slow,
    ):
        slow.sendall(b'GET / HTTP/1.1\r\nHost: x\r\n')
        assert served.get('/')[0] == 401
        with socket.create_connection(address, timeout=WAIT) as browser:
            browser.sendall(b'GET / HTTP/1.1\r\nAuthorization: Bearer key-0123456789abcdef\r\n\r\n')
            assert b' 426 ' in browser.recv(1000)
        with served.client(**headers) as client:
            assert client.actions(value=1.0)[0, 0] == 1.0
        # They are cut off, too.
        for one in (silent, slow):
            one.recv(1000)
            assert one.recv(1000) == b''


def test_a_burst_of_clients_never_exceeds_the_limit(loopback):
    served = loopback(max_connections=3)
    gate, leave = threading.Barrier(12), threading.Event()
    outcomes: list[int] = []

    def come() -> None:
        gate.wait(WAIT)
        try:
            with connect(served.url(Dialect.STOCK), open_timeout=WAIT):
                outcomes.append(101)
                leave.wait(WAIT)
        except InvalidStatus as error:
            outcomes.append(error.response.status_code)

    threads = [threading.Thread(target=come) for _ in range(12)]
    for one in threads:
        one.start()
    eventually(lambda: len(outcomes) == 12, 'everybody has an answer')
    leave.set()
    for one in threads:
        one.join(WAIT)
    assert sorted(outcomes) == [101] * 3 + [503] * 9
    eventually(lambda: not refused(served), 'there is room again')


def test_without_a_limit_everybody_gets_in(loopback):
    served = loopback()
    clients = [served.client() for _ in range(20)]
    assert served.server.stats().clients == 20
    for client in clients:
        client.close()


@both
def test_past_the_request_timeout_an_error_is_sent_and_the_next_request_works_in_order(
    loopback, dialect, caplog
):
    policy = SlowPolicy()
    served = loopback(policy, request_timeout=0.3)
    with served.client(dialect) as client:
        assert client.infer(value=1.0) == client.error(FAILED)
        policy.wait_started()
        assert served.engine.stats().running == 1, 'the call is not cut'
        client.send(value=2.0)
        policy.release(2)
        assert actions_of(client.answer())[0, 0] == 2.0
        policy.release()
        assert client.actions(value=3.0)[0, 0] == 3.0
    assert policy.values == [1.0, 2.0, 3.0]
    # The first one did not count: only after the second is the session under way.
    assert [one.reset for one in policy.requests] == [True, True, False]
    assert not policy.overlapped
    assert 'no answer within the request timeout of 0.3 s' in caplog.text
    assert served.server.stats().failures == 1


def test_a_request_whose_time_is_up_before_its_turn_costs_no_inference(loopback):
    policy = SlowPolicy()
    served = loopback(policy, request_timeout=0.3)
    with served.client() as first, served.client() as second:
        first.send(value=1.0)
        policy.wait_started()
        assert second.infer(value=2.0) == second.error(FAILED)
        assert served.engine.stats().waiting == 0
        policy.release(2)
        assert first.answer() == first.error(FAILED)
        assert second.actions(value=3.0)[0, 0] == 3.0
    assert policy.values == [1.0, 3.0]


def test_without_a_request_timeout_an_answer_is_waited_for(loopback):
    policy = SlowPolicy()
    with loopback(policy, inference_timeout=0.1).client() as client:
        client.send(value=1.0)
        policy.wait_started()
        with pytest.raises(TimeoutError):
            client.socket.recv(timeout=0.5)
        policy.release()
        assert client.answer()[0, 0] == 1.0


def test_a_reset_after_a_late_call_is_answered_and_frees_the_session_in_order(loopback):
    policy = SlowPolicy()
    served = loopback(policy, request_timeout=0.3)
    with served.client() as client:
        assert client.infer(session_id='a') == client.error(FAILED)
        assert client.reset() == {'status': 'reset successful'}
        assert policy.closed_sessions == [], 'not under the call that uses it'
        policy.release(2)
        eventually(lambda: policy.closed_sessions == [SessionKey('c1', 'a')], 'session freed')


def test_a_frame_whose_time_is_up_while_it_is_decoded_is_not_submitted(loopback, monkeypatch):
    leave = threading.Event()
    decode = Session.decode

    def slow(session: Session, frame: bytes | str) -> object:
        assert leave.wait(WAIT)
        return decode(session, frame)

    policy = StatefulPolicy()
    served = loopback(policy, request_timeout=0.2)
    with served.client() as client:
        client.actions(session_id='a')
        monkeypatch.setattr(Session, 'decode', slow)
        for content in ({'session_id': 'a'}, {'endpoint': 'reset'}):
            leave.clear()
            client.send(**content)
            threading.Timer(0.5, leave.set).start()
            answer = client.answer()
            if 'endpoint' in content:
                assert answer == {'status': 'reset successful'}
            else:
                assert answer == client.error(FAILED)
                assert policy.flags == [('a', True)]
    assert policy.flags == [('a', True)]


def test_a_late_call_and_a_timer_hold_no_frame_once_the_call_is_over(loopback, monkeypatch):
    images: list[weakref.ref[np.ndarray]] = []
    decode = Session.decode

    def spy(session: Session, frame: bytes | str) -> object:
        command = decode(session, frame)
        images.append(weakref.ref(command.observation['image']))
        return command

    monkeypatch.setattr(Session, 'decode', spy)
    policy = SlowPolicy()
    with loopback(policy, request_timeout=0.3).client() as client:
        gc.disable()
        try:
            for late in (True, False):
                if not late:
                    policy.release()
                answer = client.infer(image=np.zeros((480, 640, 3), np.uint8))
                assert isinstance(answer, dict) is late
                policy.wait_started()
                if late:
                    policy.release()
                policy.batches.clear()
                eventually(lambda: images[-1]() is None, 'the image is let go')
        finally:
            gc.enable()


@both
def test_a_policy_without_memory_for_another_session_sends_the_client_away(
    loopback, dialect, caplog
):
    error = NoCapacity('3 sessions of 4.1 GB, 2.0 GB are free', remedy='lower max_sessions')
    policy = FailingPolicy(error)
    served = loopback(policy)
    with served.client(dialect) as client:
        assert client.infer(value=1.0) == client.error(FAILED)
        with pytest.raises(ConnectionClosed) as closed:
            client.receive()
        assert closed.value.rcvd.code == 1013
        assert closed.value.rcvd.reason == 'no memory for another session'
    assert 'no capacity: 3 sessions of 4.1 GB, 2.0 GB are free; lower max_sessions' in caplog.text
    assert 'Traceback' not in caplog.text
    with served.client(dialect) as client:
        assert client.actions(value=2.0)[0, 0] == 2.0


def test_a_session_that_lives_is_not_sent_away(loopback):
    policy = FailingPolicy(None, NoCapacity('full'))
    with loopback(policy).client() as client:
        client.actions(value=1.0)
        assert client.infer(value=2.0) == client.error(FAILED)
        assert client.actions(value=3.0)[0, 0] == 3.0
