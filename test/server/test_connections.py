# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One connection's life: limits, idling, leaving, and where the work is done."""

from __future__ import annotations

import gc
import logging
import socket
import threading
import time
import weakref

import numpy as np
import pytest
from fakes import WAIT, EchoPolicy, FailingPolicy, SlowPolicy, StatefulPolicy, make_spec
from serving import FAILED, INVALID, eventually
from websockets.exceptions import ConnectionClosed

from openpi_policy_ros.policies.base import SessionKey
from openpi_policy_ros.server.thread import MAX_SIZE
from openpi_policy_ros.wire import MAX_FRAME_BYTES, Dialect, Session

both = pytest.mark.parametrize('dialect', list(Dialect))


@both
@pytest.mark.parametrize('frame', ['hello', '', b''], ids=['text', 'empty text', 'empty'])
def test_text_and_empty_frames_are_answered(loopback, dialect, frame):
    with loopback().client(dialect) as client:
        assert client.ask(frame) == client.error(INVALID)
        assert client.actions(value=5.0)[0, 0] == 5.0


def test_one_byte_too_many_is_answered_and_not_cut_off(loopback):
    with loopback().client() as client:
        assert client.ask(bytes(MAX_FRAME_BYTES + 1)) == client.error(INVALID)
        assert client.actions(value=5.0)[0, 0] == 5.0


def test_a_frame_beyond_the_websocket_limit_ends_that_connection_only(loopback, caplog):
    served = loopback()
    with served.client() as client, pytest.raises((ConnectionClosed, OSError)):
        client.ask(bytes(MAX_SIZE + 1))
    with served.client() as client:
        assert client.actions(value=5.0)[0, 0] == 5.0
    (line,) = [one for one in caplog.messages if 'cut off' in one]
    assert line.startswith('c1: cut off: 1009')
    assert f'exceeds limit of {MAX_SIZE} bytes' in line
    assert 'resize images' in line


def test_a_client_that_closes_with_an_error_of_its_own_was_not_cut_off(loopback, caplog):
    caplog.set_level(logging.INFO)
    served = loopback()
    with served.client() as client:
        client.socket.close(1009, 'chunk too large for me')
    eventually(lambda: 'c1: closed (1009)' in caplog.text, 'c1 closed')
    assert 'cut off' not in caplog.text


def test_a_client_that_sends_nothing_is_closed_plainly(loopback):
    with loopback(idle_timeout=0.3).client() as client:
        client.actions(value=1.0)
        with pytest.raises(ConnectionClosed) as closed:
            client.receive()
    assert closed.value.rcvd.code == 1000


def test_the_stock_path_and_a_timeout_of_zero_wait_for_ever(loopback):
    served = loopback(idle_timeout=0.1)
    forever = loopback(idle_timeout=0.0)
    with served.client(Dialect.STOCK) as stock, forever.client() as openpi:
        time.sleep(0.5)
        assert stock.actions(value=1.0)[0, 0] == 1.0
        assert openpi.actions(value=1.0)[0, 0] == 1.0


def test_inference_is_not_idling(loopback):
    policy = SlowPolicy()
    with loopback(policy, idle_timeout=0.2).client() as client:
        client.send(value=1.0)
        policy.wait_started()
        time.sleep(0.6)
        policy.release()
        assert client.answer()[0, 0] == 1.0


def test_pings_are_answered_during_inference(loopback):
    policy = SlowPolicy()
    with loopback(policy).client() as client:
        client.send(value=1.0)
        policy.wait_started()
        assert client.socket.ping().wait(WAIT)
        policy.release()
        client.answer()


def test_frames_are_decoded_off_the_event_loop_and_the_policy_runs_on_neither(
    loopback, monkeypatch
):
    threads: list[str] = []
    decode = Session.decode

    def spy(session: Session, frame: bytes | str) -> object:
        threads.append(threading.current_thread().name)
        return decode(session, frame)

    monkeypatch.setattr(Session, 'decode', spy)
    policy = EchoPolicy()
    with loopback(policy).client() as client:
        client.actions(value=1.0)
    assert [name.startswith('codec') for name in threads] == [True]
    assert not policy.threads & {'openpi-server', *threads}


def test_a_decoder_that_fails_unexpectedly_is_an_invalid_payload(loopback, monkeypatch, caplog):
    def broken(frame: bytes | str) -> object:
        raise RecursionError('too deep')

    with monkeypatch.context() as patch, loopback().client() as client:
        patch.setattr(Session, 'decode', staticmethod(broken))
        assert client.infer() == client.error(INVALID)
        patch.undo()
        assert client.actions(value=1.0)[0, 0] == 1.0
    assert 'decoding failed' in caplog.text


@pytest.mark.parametrize('step', [None, lambda _: 1 / 0, lambda _: []])
def test_an_idle_connection_holds_nothing_of_its_last_frame(loopback, monkeypatch, step):
    images: list[weakref.ref[np.ndarray]] = []
    decode = Session.decode

    def spy(session: Session, frame: bytes | str) -> object:
        command = decode(session, frame)
        images.append(weakref.ref(command.observation['image']))
        return command

    monkeypatch.setattr(Session, 'decode', spy)
    policy = FailingPolicy(step)
    # With a timer that must not hold it either.
    with loopback(policy, request_timeout=3 * WAIT).client() as client:
        gc.disable()
        try:
            client.infer(image=np.zeros((480, 640, 3), np.uint8))
            policy.batches.clear()
            eventually(lambda: images[0]() is None, 'the image is let go')
        finally:
            gc.enable()
        assert client.socket.ping().wait(WAIT)


def test_large_replies_are_encoded_off_the_event_loop(loopback, monkeypatch):
    threads: list[str] = []
    succeeded = Session.succeeded

    def spy(self: Session, *arguments: object) -> bytes:
        threads.append(threading.current_thread().name)
        return succeeded(self, *arguments)

    monkeypatch.setattr(Session, 'succeeded', spy)
    with loopback(EchoPolicy(make_spec(600, 64))).client() as client:
        assert client.actions(value=2.0).shape == (600, 64)
    with loopback(EchoPolicy(make_spec(50, 32))).client() as client:
        assert client.actions(value=2.0).shape == (50, 32)
    assert threads[0].startswith('codec')
    assert threads[1] == 'openpi-server'


@both
def test_a_policy_that_raises_serves_the_next_request(loopback, dialect):
    policy = FailingPolicy(ValueError('boom'), lambda _: [], lambda _: 1 / 0)
    with loopback(policy).client(dialect) as client:
        for _ in range(3):
            assert client.infer() == client.error(FAILED)
        assert client.actions(value=4.0)[0, 0] == 4.0


def test_a_chunk_with_nan_is_never_sent(loopback, caplog):
    def poisoned(_: object) -> list[object]:
        (chunk,) = EchoPolicy().infer([request_of()])
        chunk.actions[3, 1] = np.nan
        return [chunk]

    with loopback(FailingPolicy(poisoned)).client() as client:
        assert client.infer() == client.error(FAILED)
        assert np.isfinite(client.actions()).all()
    assert 'invalid output: actions holds 1 values that are not finite' in caplog.text
    assert 'Traceback' not in caplog.text


def request_of() -> object:
    from fakes import request

    return request()


def test_the_session_of_a_client_that_vanishes_during_inference_is_freed_after_the_call(loopback):
    policy = SlowPolicy(make_spec(stateful=True))
    served = loopback(policy)
    client = served.client()
    client.send(value=1.0)
    policy.wait_started()
    client.vanish()
    eventually(lambda: served.server.stats().clients == 0, 'the connection ends')
    assert policy.closed_sessions == []
    policy.release()
    eventually(lambda: policy.closed_sessions == [SessionKey('c1', 'default')], 'session freed')
    policy.release()
    with served.client() as other:
        assert other.actions(value=2.0)[0, 0] == 2.0
    assert not policy.overlapped


def test_a_request_whose_client_left_before_its_turn_is_withdrawn(loopback):
    policy = SlowPolicy()
    served = loopback(policy)
    with served.client() as first:
        first.send(value=1.0)
        policy.wait_started()
        second = served.client()
        second.send(value=2.0)
        eventually(lambda: served.engine.stats().waiting == 1, 'the second waits')
        second.vanish()
        eventually(lambda: served.engine.stats().waiting == 0, 'the second is withdrawn')
        policy.release(2)
        assert first.answer()[0, 0] == 1.0
    assert policy.values == [1.0]


def test_a_client_that_leaves_while_its_frame_is_decoded_costs_no_inference(loopback, monkeypatch):
    entered, leave = threading.Event(), threading.Event()
    decode = Session.decode

    def slow(session: Session, frame: bytes | str) -> object:
        entered.set()
        assert leave.wait(WAIT)
        return decode(session, frame)

    policy = EchoPolicy()
    served = loopback(policy)
    monkeypatch.setattr(Session, 'decode', slow)
    client = served.client()
    client.send(value=1.0)
    assert entered.wait(WAIT)
    client.vanish()
    # The connection is over for TCP; its conversation waits for the decoder.
    time.sleep(0.2)
    leave.set()
    eventually(lambda: served.server.stats().clients == 0, 'the connection ends')
    assert policy.requests == []


@both
def test_reset_id_change_and_the_end_free_sessions_in_order(loopback, dialect):
    policy = StatefulPolicy()
    served = loopback(policy)
    with served.client(dialect) as client:
        client.infer(session_id='a')
        client.infer(session_id='a')
        client.reset()
        client.infer(session_id='a')
        client.infer(session_id='b')
    eventually(lambda: not policy.live, 'all sessions freed')
    assert policy.flags == [('a', True), ('a', False), ('a', True), ('b', True)]
    assert policy.most_live == 1


def test_a_port_scanner_gets_no_traceback_into_the_log(loopback, caplog):
    served = loopback()
    for garbage in (b'\x16\x03\x01\x02\x00', b'SSH-2.0-x\r\n\r\n', b'GET /\r\n\r\n', b''):
        with socket.create_connection(('127.0.0.1', served.port), timeout=WAIT) as scanner:
            scanner.sendall(garbage)
            scanner.shutdown(socket.SHUT_WR)
            scanner.recv(1000)
    with served.client() as client:
        assert client.actions(value=1.0)[0, 0] == 1.0
    assert 'Traceback' not in caplog.text


def test_statistics_count_clients_requests_and_codec_times(loopback):
    served = loopback(FailingPolicy(ValueError('boom')))
    with served.client() as first, served.client(Dialect.STOCK):
        first.infer()
        first.infer(value=1.0)
        first.ask(b'\xc1')
        first.reset()
        stats = served.server.stats()
        assert (stats.clients, stats.connections) == (2, 2)
    assert (stats.requests, stats.failures, stats.invalid_payloads) == (4, 1, 1)
    assert stats.stages['decode'].count == 3
    assert stats.stages['encode'].count == 1
    eventually(lambda: served.server.stats().clients == 0, 'both gone')
