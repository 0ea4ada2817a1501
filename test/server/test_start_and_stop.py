# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Binding, and the orderly end: what is in flight is answered, then 1012."""

from __future__ import annotations

import json
import logging
import socket
import threading

import pytest
from fakes import WAIT, EchoPolicy, SlowPolicy
from serving import eventually
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import SessionKey
from openpi_policy_ros.server import ServerThread, refuse_taken_address, thread
from openpi_policy_ros.wire import Dialect


@pytest.fixture
def engine():
    """Return a started engine."""
    engine = Engine(EchoPolicy())
    engine.start()
    yield engine
    engine.close(WAIT)


def close_code(client) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        client.receive()
    assert closed.value.rcvd is not None, 'cut off without a close frame'
    return closed.value.rcvd.code


def test_port_zero_picks_free_ports_and_logs_them(engine, caplog):
    caplog.set_level(logging.INFO, 'openpi_policy_ros.server')
    servers = [ServerThread(engine, ServerConfig(host='localhost', port=0)) for _ in range(2)]
    ports = [server.start() for server in servers]
    assert len(set(ports)) == 2
    for port in ports:
        assert f'ws://127.0.0.1:{port}' in caplog.text
        with connect(f'ws://localhost:{port}/') as client:
            assert client.recv(timeout=WAIT)
    for server in servers:
        server.stop()


def test_port_zero_means_one_port_even_where_a_name_has_two_addresses(engine, monkeypatch):
    resolve = socket.getaddrinfo

    def both_families(host, port, family=0, *more, **others):
        if host != 'two-faced':
            return resolve(host, port, family, *more, **others)
        families = [socket.AF_INET, socket.AF_INET6] if family == 0 else [family]
        addresses = {socket.AF_INET: ('127.0.0.1', 0), socket.AF_INET6: ('::1', 0, 0, 0)}
        return [(one, socket.SOCK_STREAM, 6, '', addresses[one]) for one in families]

    monkeypatch.setattr(socket, 'getaddrinfo', both_families)
    server = ServerThread(engine, ServerConfig(host='two-faced', port=0))
    with connect(f'ws://127.0.0.1:{server.start()}/') as client:
        assert client.recv(timeout=WAIT)
    server.stop()


def test_a_port_in_use_is_named_with_what_to_do(engine):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        server = ServerThread(engine, ServerConfig(port=port))
        with pytest.raises(ConfigurationError) as refused:
            server.start()
        assert f'cannot listen on 127.0.0.1:{port}' in str(refused.value)
        assert 'in use' in str(refused.value)
        assert 'another port' in str(refused.value)
        server.stop()


@pytest.mark.parametrize(
    ('host', 'why'), [('no-such-host.invalid', 'name is unknown'), ('192.0.2.1', 'no such address')]
)
def test_a_host_that_is_not_ours_is_named_with_what_to_do(engine, host, why):
    with pytest.raises(ConfigurationError, match=f'{host}:0.*{why}.*127.0.0.1'):
        ServerThread(engine, ServerConfig(host=host, port=0)).start()


def test_listening_to_the_whole_network_is_warned_of(engine, caplog):
    server = ServerThread(engine, ServerConfig(host='0.0.0.0', port=0))
    server.start()
    server.stop()
    assert 'reachable from the network' in caplog.text


def test_nothing_listens_before_the_policy_is_warm():
    with pytest.raises(RuntimeError, match='start the engine'):
        ServerThread(Engine(EchoPolicy()), ServerConfig(port=0)).start()


def test_a_server_starts_once_and_stops_any_number_of_times(engine):
    server = ServerThread(engine, ServerConfig(port=0))
    server.stop()
    port = server.start()
    with pytest.raises(RuntimeError, match='starts once'):
        server.start()
    server.stop()
    server.stop()
    assert not server.running
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(('127.0.0.1', port), timeout=WAIT)
    assert engine.health().ready


def test_an_address_is_free_again_at_once(engine):
    first = ServerThread(engine, ServerConfig(port=0))
    port = first.start()
    with connect(f'ws://127.0.0.1:{port}/') as client:
        client.recv(timeout=WAIT)
        first.stop()
    second = ServerThread(engine, ServerConfig(port=port))
    assert second.start() == port
    second.stop()


def test_stopping_answers_what_is_in_flight_then_closes_with_1012(loopback, caplog):
    policy = SlowPolicy()
    served = loopback(policy)
    with (
        served.client() as running,
        served.client(Dialect.STOCK) as waiting,
        served.client() as idle,
    ):
        running.send(value=1.0)
        policy.wait_started()
        waiting.send(value=2.0)
        eventually(lambda: served.engine.stats().waiting == 1, 'the second waits')
        stopper = threading.Thread(target=served.server.stop)
        stopper.start()
        assert close_code(idle) == 1012
        # Still there, to tell why.
        status, body = served.get('/readyz')
        assert (status, json.loads(body)['reason'].split(':')[0]) == (503, 'draining')
        assert served.get('/healthz')[0] == 200
        with pytest.raises(InvalidStatus) as refused, connect(served.url(Dialect.STOCK)):
            pass
        assert refused.value.response.status_code == 503
        assert stopper.is_alive()
        policy.release(2)
        assert running.answer()[0, 0] == 1.0
        assert waiting.answer()['actions'][0, 0] == 2.0
        assert close_code(running) == 1012
        assert close_code(waiting) == 1012
        stopper.join(WAIT)
        assert not stopper.is_alive()
    assert 'drain timeout' not in caplog.text
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(('127.0.0.1', served.port), timeout=WAIT)
    served.engine.close(WAIT)
    assert {key.connection for key in policy.closed_sessions} == {'c1', 'c2'}


def test_a_call_that_does_not_end_is_left_behind_after_the_drain_timeout(loopback, caplog):
    caplog.set_level(logging.INFO)
    policy = SlowPolicy()
    served = loopback(policy, drain_timeout=0.3)
    with served.client() as client:
        client.send(value=1.0)
        policy.wait_started()
        served.server.stop()
        assert close_code(client) == 1012
    assert 'drain timeout' in caplog.text
    assert 'connection was closed during inference' in caplog.text
    assert 'client went away' not in caplog.text
    policy.release()
    served.engine.close(WAIT)
    assert policy.closed_sessions == [SessionKey('c1', 'default')]


def test_clients_that_ignore_the_close_or_the_handshake_do_not_hold_the_server_up(
    loopback, monkeypatch
):
    monkeypatch.setattr(thread, 'CLOSE_TIMEOUT', 0.3)
    served = loopback()
    handshake = (
        f'GET / HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nUpgrade: websocket\r\n'
        'Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
        'Sec-WebSocket-Version: 13\r\n\r\n'
    )
    with (
        socket.create_connection(('127.0.0.1', served.port), timeout=WAIT) as deaf,
        socket.create_connection(('127.0.0.1', served.port), timeout=WAIT),
    ):
        deaf.sendall(handshake.encode())
        assert b'101' in deaf.recv(1000)
        eventually(lambda: served.server.stats().clients == 1, 'the deaf client is in')
        stopper = threading.Thread(target=served.server.stop)
        stopper.start()
        stopper.join(WAIT)
        assert not stopper.is_alive()


def test_losing_and_regaining_readiness_is_logged_once_each(loopback, caplog):
    caplog.set_level(logging.INFO, 'openpi_policy_ros.server')
    policy = SlowPolicy()
    served = loopback(policy, inference_timeout=0.1)
    with served.client() as client:
        client.send(value=1.0)
        policy.wait_started()
        eventually(lambda: 'not ready: a call has been' in caplog.text, 'the warning')
        policy.release()
        client.answer()
        eventually(lambda: 'ready again' in caplog.text, 'the all-clear')
    assert caplog.text.count('not ready') == 1


@pytest.mark.parametrize('host', ['127.0.0.1', 'localhost', '0.0.0.0'])
def test_a_taken_port_is_found_without_listening_on_it(host):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f'cannot listen on {host}:{port}.*in use'):
            refuse_taken_address(ServerConfig(host=host, port=port))
    refuse_taken_address(ServerConfig(host=host, port=port))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(('127.0.0.1', port), timeout=WAIT)


@pytest.mark.parametrize(
    ('host', 'why'), [('no-such-host.invalid', 'name is unknown'), ('192.0.2.1', 'no such address')]
)
def test_a_host_that_is_not_ours_is_found_without_listening(host, why):
    with pytest.raises(ConfigurationError, match=f'{host}:0.*{why}'):
        refuse_taken_address(ServerConfig(host=host, port=0))
