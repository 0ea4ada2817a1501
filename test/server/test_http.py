# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Health endpoints, unknown paths, handshakes."""

from __future__ import annotations

import json
import threading

import pytest
from fakes import WAIT, EchoPolicy, FailingPolicy, SlowPolicy, make_spec
from serving import FAILED, eventually
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from openpi_policy_ros.server.http import reply_to
from openpi_policy_ros.wire import Dialect

SPEC = make_spec()


def test_healthz_says_ok_as_stock_clients_expect(loopback):
    assert loopback().get('/healthz') == (200, 'OK\n')


def test_readyz_names_what_is_served(loopback):
    status, body = loopback().get('/readyz')
    assert status == 200
    assert json.loads(body) == {
        'ready': True,
        'reason': 'ready',
        'policy': 'fake',
        'model': '/models/fake',
        'revision': '0123abc',
        'weights_hash': 'feedbeef',
    }


def test_readyz_tells_a_call_past_its_time_until_it_has_succeeded(loopback):
    policy = SlowPolicy()
    served = loopback(policy, inference_timeout=0.2)
    with served.client() as client:
        client.send(value=1.0)
        policy.wait_started()
        eventually(lambda: served.get('/readyz')[0] == 503, '/readyz 503')
        body = json.loads(served.get('/readyz')[1])
        assert not body['ready']
        assert body['reason'] == 'a call has been running for more than 0.2 s'
        assert served.get('/healthz')[0] == 200
        policy.release()
        assert client.answer()[0, 0] == 1.0
    assert served.get('/readyz')[0] == 200


def test_readyz_tells_a_dead_worker_without_saying_what_killed_it(loopback, caplog):
    served = loopback(FailingPolicy(SystemExit('/secret/path')))
    with served.client() as client:
        assert client.infer() == client.error(FAILED)
        assert client.infer() == client.error(FAILED)
    status, body = served.get('/readyz')
    assert status == 503
    assert 'died' in json.loads(body)['reason']
    assert 'secret' not in body
    assert served.get('/healthz') == (200, 'OK\n')


@pytest.mark.parametrize('path', ['/nothing', '/v1/realtime', '/v1/realtime/robot/openpi/'])
def test_other_paths_are_told_where_to_go(loopback, path):
    served = loopback()
    status, body = served.get(path)
    assert status == 404
    assert Dialect.OPENPI.value in body
    assert '/healthz' in body
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(f'ws://127.0.0.1:{served.port}{path}'),
    ):
        pass
    assert refused.value.response.status_code == 404


@pytest.mark.parametrize('path', ['/?client=1', '/v1/realtime/robot/openpi?api=2'])
def test_a_query_does_not_change_the_path(loopback, path):
    with connect(f'ws://127.0.0.1:{loopback().port}{path}', compression=None) as client:
        assert isinstance(client.recv(timeout=WAIT), bytes)


def test_a_browser_on_a_robot_path_is_told_to_upgrade(loopback):
    assert loopback().get('/')[0] == 426


def test_clients_that_want_compression_are_served_without(loopback):
    with connect(loopback().url(Dialect.STOCK), compression='deflate') as client:
        assert client.recv(timeout=WAIT)
        assert 'Sec-WebSocket-Extensions' not in client.response.headers


def test_without_a_declared_config_the_openpi_path_says_unsupported_and_closes(loopback, caplog):
    served = loopback(EchoPolicy(make_spec(handshake=None)))
    with connect(served.url(Dialect.OPENPI)) as client:
        frame = client.recv(timeout=WAIT)
        assert isinstance(frame, str)
        assert json.loads(frame) == {
            'type': 'error',
            'error': 'Robot policy not available',
            'code': 'unsupported',
        }
        with pytest.raises(Exception, match='1000'):
            client.recv(timeout=WAIT)
    with served.client(Dialect.STOCK) as client:
        assert client.handshake == {}
        assert client.actions(value=3.0)[0, 0] == 3.0
    assert 'policy_server_config' in caplog.text


def test_health_goes_on_while_every_thread_of_the_server_is_at_work(loopback):
    policy = SlowPolicy()
    served = loopback(policy)
    clients = [served.client() for _ in range(5)]
    for client in clients:
        client.send(value=1.0)
    policy.wait_started()
    answers: list[tuple[int, str]] = []
    thread = threading.Thread(target=lambda: answers.append(served.get('/healthz')))
    thread.start()
    thread.join(WAIT)
    assert answers == [(200, 'OK\n')]
    policy.release(5)
    for client in clients:
        assert client.answer()[0, 0] == 1.0
        client.close()


@pytest.mark.parametrize('draining', [False, True])
def test_health_is_told_whether_or_not_the_server_stops(draining):
    assert reply_to('/healthz', SPEC, 'draining', draining).status == 200
    assert reply_to('/readyz', SPEC, 'draining', draining).status == 503
    assert reply_to('/readyz?verbose', SPEC, None, draining).status == 200


@pytest.mark.parametrize('path', ['//[', '//[/healthz', '//healthz', 'http://[/', '*', ''])
def test_a_path_that_no_address_can_hold_is_not_found(path):
    assert reply_to(path, SPEC, None, draining=False).status == 404


def test_robot_clients_are_sent_away_while_the_server_stops():
    for dialect in Dialect:
        assert reply_to(dialect.value, SPEC, None, draining=False) is None
        refusal = reply_to(dialect.value, SPEC, None, draining=True)
        assert refusal.status == 503
        assert 'stopping' in refusal.body
