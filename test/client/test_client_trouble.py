# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Servers that are late, gone, wrong or mad: every wait ends, no answer is taken for another."""

from __future__ import annotations

import logging
import socket
import threading
import time

import numpy as np
import pytest
from fakes import WAIT, EchoPolicy
from scripted import CHUNK, HANDSHAKE, Line, Scripted, good
from serving import eventually, serving

from openpi_policy_ros.client import (
    Backoff,
    ClientConfig,
    ConnectionLost,
    OpenPiClient,
    TimedOut,
    Unreachable,
)
from openpi_policy_ros.wire import Dialect
from openpi_policy_ros.wire.peer import NotOpenPi, PeerError

T = 10.0
QUICK = ClientConfig(connect_timeout=2.0, handshake_timeout=0.3, backoff=Backoff(0.01, 0.05))
OLD, NEW = CHUNK, CHUNK + 100


@pytest.fixture
def client_of():
    clients = []

    def make(far: Scripted, path: str = '/v1/realtime/robot/openpi') -> OpenPiClient:
        clients.append(OpenPiClient(far.url(path), QUICK))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def test_a_late_reply_is_never_taken_for_the_next_observation(client_of) -> None:
    late = threading.Event()

    def slow(line: Line) -> None:
        line.greet().hear()
        assert late.wait(WAIT)
        line.say(OLD)

    def fast(line: Line) -> None:
        line.greet().serve(NEW)

    with Scripted(slow, fast) as far:
        client = client_of(far)
        with pytest.raises(TimedOut, match=r'within 0\.2 s'):
            client.infer({'number': 1}, timeout=0.2)
        assert not client.connected
        late.set()
        reply = client.infer({'number': 2}, timeout=T)
        np.testing.assert_array_equal(reply.actions, NEW)
        assert reply.fresh
        assert len(far.lines) == 2
    assert [request['number'] for request in far.heard] == [1, 2]


def test_a_frame_that_answers_nothing_ends_the_connection(client_of) -> None:
    def twice(line: Line) -> None:
        line.greet().hear()
        line.say(OLD)
        line.say(OLD)
        line.hear()

    def fast(line: Line) -> None:
        line.greet().serve(NEW)

    with Scripted(twice, fast) as far:
        client = client_of(far)
        np.testing.assert_array_equal(client.infer({'number': 1}, timeout=T).actions, OLD)
        eventually(lambda: not client.connected, 'the second frame is noticed')
        reply = client.infer({'number': 2}, timeout=T)
        np.testing.assert_array_equal(reply.actions, NEW)
        assert reply.fresh
    assert [request['number'] for request in far.heard] == [1, 2]


@pytest.mark.parametrize('code', [1000, 1001, 1006, 1012, 1013])
@pytest.mark.parametrize('when', ['idle', 'asked', 'before the handshake'])
def test_after_these_closes_the_client_comes_back_and_says_so(client_of, code, when) -> None:
    def close(line: Line) -> None:
        if code == 1006:
            line.vanish()
        else:
            line.socket.close(code, 'why')

    def first(line: Line) -> None:
        if when == 'before the handshake':
            close(line)
            return
        line.greet().hear()
        line.say(OLD)
        if when == 'asked':
            line.hear()
        close(line)

    with Scripted(first, good) as far:
        client = client_of(far)
        assert client.infer({'number': 1}, timeout=T).fresh
        if when == 'idle':
            eventually(lambda: not client.connected, 'the close is noticed')
        reply = client.infer({'number': 2}, timeout=T)
        assert reply.fresh is (when != 'before the handshake')
        assert len(far.lines) == 2


@pytest.mark.parametrize('code', [1002, 1003, 1007, 1008, 1009, 1011, 4000])
def test_other_closes_are_told_with_their_reason_and_not_repeated(client_of, code) -> None:
    def close(line: Line) -> None:
        line.greet().hear()
        line.socket.close(code, 'because of this')

    with Scripted(close) as far:
        client = client_of(far)
        with pytest.raises(ConnectionLost, match='because of this') as caught:
            client.infer({}, timeout=T)
        assert caught.value.code == code
        assert len(far.lines) == 1


@pytest.mark.parametrize(('code', 'waits'), [(1012, [1]), (1001, [1]), (1000, [])])
def test_after_a_restart_clients_do_not_come_back_at_once(code, waits) -> None:
    asked: list[int] = []

    class Recording(Backoff):
        def delay(self, failures: int) -> float:
            if failures:
                asked.append(failures)
            return 0.0

    def first(line: Line) -> None:
        line.greet().hear()
        line.say(OLD)
        line.socket.close(code, 'restart')

    with (
        Scripted(first, good) as far,
        OpenPiClient(far.url(), ClientConfig(backoff=Recording())) as client,
    ):
        client.infer({}, timeout=T)
        eventually(lambda: not client.connected, 'the close is noticed')
        client.infer({}, timeout=T)
    assert asked == waits


def test_an_idle_close_is_no_news(client_of, caplog) -> None:
    caplog.set_level(logging.INFO, 'openpi_policy_ros.client')
    with serving(EchoPolicy(), idle_timeout=0.1) as served:
        client = OpenPiClient(served.url(Dialect.OPENPI), QUICK)
        assert client.infer({}, timeout=T).fresh
        eventually(lambda: not client.connected, 'the idle close')
        assert client.infer({}, timeout=T).fresh
        client.close()
    assert [r for r in caplog.records if r.name.startswith('openpi_policy_ros.client')] == []


def test_an_observation_that_kills_every_connection_gives_up(client_of) -> None:
    def dies(line: Line) -> None:
        line.greet().hear()
        line.vanish()

    with Scripted(dies) as far:
        client = client_of(far)
        with pytest.raises(ConnectionLost) as caught:
            client.infer({}, timeout=T)
        assert caught.value.code == 1006
        assert len(far.lines) == 4


def test_the_deadline_covers_a_server_that_never_comes_back(client_of) -> None:
    with Scripted(good) as far:
        client = client_of(far)
        client.infer({}, timeout=T)
    began = time.monotonic()
    with pytest.raises(Unreachable, match='nothing listens'):
        client.infer({}, timeout=0.3)
    assert time.monotonic() - began < T
    with Scripted(good, port=far.port):
        assert client.infer({}, timeout=T).fresh


def test_calls_shorter_than_the_waits_come_back_all_the_same() -> None:
    with Scripted(good) as far:
        client = OpenPiClient(far.url(), ClientConfig(backoff=Backoff(0.3, 0.3)))
        client.infer({}, timeout=T)
    failures = 0
    while failures < 5:
        with pytest.raises(PeerError):
            client.infer({}, timeout=0.05)
        failures += 1
    with Scripted(good, port=far.port) as far:

        def answers() -> bool:
            try:
                return client.infer({}, timeout=0.1).fresh
            except PeerError:
                return False

        eventually(answers, 'it connects again')
        client.close()


def test_connecting_waits_for_a_server_that_starts() -> None:
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    client = OpenPiClient(f'ws://127.0.0.1:{port}/v1/realtime/robot/openpi', QUICK)
    with pytest.raises(Unreachable, match='nothing listens'):
        client.connect(0.0)
    got = []
    thread = threading.Thread(target=lambda: got.append(client.connect(T)))
    thread.start()
    time.sleep(0.1)
    with Scripted(good, port=port):
        thread.join(T)
        assert got == [HANDSHAKE]
        client.close()


def test_a_server_that_never_greets_is_given_up(client_of) -> None:
    with Scripted(lambda line: line.socket.recv(timeout=WAIT)) as far:
        with pytest.raises(Unreachable, match='no handshake'):
            client_of(far).connect(5.0)
        assert len(far.lines) == 1


def test_a_port_that_accepts_and_says_nothing_is_given_up() -> None:
    config = ClientConfig(connect_timeout=0.2, backoff=Backoff(0.01, 0.05))
    with socket.create_server(('127.0.0.1', 0)) as mute:
        client = OpenPiClient(f'ws://127.0.0.1:{mute.getsockname()[1]}/', config)
        with pytest.raises(Unreachable, match='no answer in time'):
            client.connect(0.0)
        with pytest.raises(PeerError):
            client.infer({}, timeout=0.3)
        client.close()


def test_a_server_that_does_not_read_cannot_hold_the_caller(client_of) -> None:
    done = threading.Event()

    def deaf(line: Line) -> None:
        line.greet()
        assert done.wait(WAIT)

    with Scripted(deaf, max_queue=1) as far:
        client = client_of(far)
        with pytest.raises(TimedOut):
            client.infer({'image': np.zeros(30_000_000, np.uint8)}, timeout=0.5)
        done.set()


@pytest.mark.parametrize(
    'answer', [b'HTTP/1.1 200 OK\r\n\r\n', b'SSH-2.0-OpenSSH_9\r\n', b'\x00' * 9]
)
def test_something_else_on_the_port_is_not_a_websocket_server(answer: bytes) -> None:
    def serve() -> None:
        connection, _ = other.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(answer)

    with socket.create_server(('127.0.0.1', 0)) as other:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        client = OpenPiClient(f'ws://127.0.0.1:{other.getsockname()[1]}/', QUICK)
        with pytest.raises(Unreachable, match='cannot connect'):
            client.connect(0.0)
        client.close()
        thread.join(T)


@pytest.mark.parametrize('greeting', ['hello', b'\xc1garbage', b'', b'\x93\x01\x02\x03'])
def test_a_wrong_handshake_is_refused_at_once(client_of, greeting) -> None:
    def wrong(line: Line) -> None:
        line.socket.send(greeting)
        line.socket.recv(timeout=WAIT)

    with Scripted(wrong) as far:
        with pytest.raises(NotOpenPi, match='greet'):
            client_of(far).connect(5.0)
        assert len(far.lines) == 1


def test_a_garbage_reply_is_refused_and_its_connection_left(client_of) -> None:
    def mad(line: Line) -> None:
        line.greet().hear()
        line.socket.send(b'\xc1')
        line.serve()

    with Scripted(mad, good) as far:
        client = client_of(far)
        with pytest.raises(NotOpenPi, match='not MessagePack'):
            client.infer({}, timeout=T)
        assert not client.connected
        assert client.infer({}, timeout=T).fresh
        assert len(far.lines) == 2


def test_a_reset_that_is_not_confirmed_resets_by_leaving(client_of) -> None:
    def rude(line: Line) -> None:
        line.greet().hear()
        line.say(CHUNK)
        line.hear()
        line.say(CHUNK)
        line.serve()

    with Scripted(rude, good) as far:
        client = client_of(far)
        client.infer({}, timeout=T)
        with pytest.raises(NotOpenPi, match='reset'):
            client.reset(T)
        assert client.infer({}, timeout=T).fresh
        assert len(far.lines) == 2


def test_what_the_check_of_a_handshake_raises_reaches_the_caller() -> None:
    def refuse(handshake) -> None:
        raise ValueError(f'not {handshake["action_dim"]}')

    with Scripted(good) as far, OpenPiClient(far.url(), QUICK, check=refuse) as client:
        with pytest.raises(ValueError, match='not 3'):
            client.infer({}, timeout=T)
        assert not client.connected


def test_an_unknown_name_is_told(monkeypatch) -> None:
    async def unknown(*args, **options):
        raise socket.gaierror(socket.EAI_NONAME, 'Name or service not known')

    monkeypatch.setattr('asyncio.base_events.BaseEventLoop.getaddrinfo', unknown)
    with OpenPiClient('ws://no-such-box.example:8000/', QUICK) as client:
        with pytest.raises(Unreachable, match=r"'no-such-box\.example' is unknown") as caught:
            client.connect(5.0)
        assert not caught.value.retry
