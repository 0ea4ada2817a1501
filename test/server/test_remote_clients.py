# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Remote clients beside a robot: it goes first, and its session is out of their reach."""

from __future__ import annotations

import re
import threading
from concurrent.futures import Future

import pytest
from fakes import WAIT, EchoPolicy, SlowPolicy, StatefulPolicy, make_spec, request
from serving import FAILED, INVALID, eventually

from openpi_policy_ros.engine import Lane
from openpi_policy_ros.policies.base import ActionChunk, SessionKey
from openpi_policy_ros.wire import Dialect

ROBOT = 'ros:/openpi_policy'
both = pytest.mark.parametrize('dialect', list(Dialect))


def of_the_robot(served, session_id: str = '0', **fields) -> Future[ActionChunk]:
    """Submit what the robot's door would."""
    return served.engine.submit(request(ROBOT, session_id, **fields), Lane.ROBOT)


def calls_of_the_robot(served) -> float:
    """Return how many calls its session remembers, this one included."""
    return float(of_the_robot(served).result(WAIT).actions[0, 0])


@both
def test_while_the_robot_is_enabled_a_client_gets_an_error_and_is_served_after(
    loopback, dialect, caplog
):
    enabled = threading.Event()
    policy = EchoPolicy()
    served = loopback(policy, robot_enabled=enabled.is_set)
    with served.client(dialect) as client:
        assert client.actions(value=1.0)[0, 0] == 1.0
        enabled.set()
        for _ in range(2):
            assert client.infer(value=2.0) == client.error(FAILED)
        assert of_the_robot(served, value=9.0).result(WAIT).actions[0, 0] == 9.0
        enabled.clear()
        assert client.actions(value=3.0)[0, 0] == 3.0
        stats = served.server.stats()
        assert (stats.clients, stats.failures, stats.rejected) == (1, 2, 2)
    assert policy.values == [1.0, 9.0, 3.0]
    said = re.findall(r'req=(c\d+-\d+): no remote client is served while.*', caplog.text)
    assert said == ['c1-2', 'c1-3']
    assert 'safety.remote_clients: reject_while_enabled' in caplog.text


def test_a_client_that_may_know_is_told_why(loopback):
    served = loopback(robot_enabled=lambda: True, error_detail=True)
    with served.client(Dialect.OPENPI) as client:
        assert client.infer() == {
            **client.error(FAILED),
            'request_id': 'c1-1',
            'detail': 'no remote client is served while the robot is enabled',
        }


@both
def test_without_the_rule_clients_are_served_while_the_robot_is(loopback, dialect):
    served = loopback()
    with served.client(dialect) as client:
        robot = of_the_robot(served, value=1.0)
        assert client.actions(value=2.0)[0, 0] == 2.0
        assert robot.result(WAIT).actions[0, 0] == 1.0


@both
def test_a_refused_call_changes_nothing_of_the_clients_session(loopback, dialect):
    enabled = threading.Event()
    policy = StatefulPolicy()
    served = loopback(policy, robot_enabled=enabled.is_set)
    with served.client(dialect) as client:
        assert client.actions(session_id='one')[0, 0] == 1.0
        enabled.set()
        assert client.infer(session_id='two') == client.error(FAILED)
        enabled.clear()
        assert client.actions(session_id='one')[0, 0] == 2.0
    assert policy.flags == [('one', True), ('one', False)]


@both
def test_what_needs_no_inference_is_answered_while_the_robot_is_enabled(loopback, dialect):
    policy = StatefulPolicy()
    enabled = threading.Event()
    served = loopback(policy, robot_enabled=enabled.is_set)
    with served.client(dialect) as client:
        client.actions()
        enabled.set()
        assert client.reset() != client.error(FAILED)
        assert client.ask(b'\xc1') == client.error(INVALID)
        eventually(lambda: not policy.live, 'the session is freed')
    assert served.get('/readyz')[0] == 200


@both
@pytest.mark.parametrize('leave', ['reset', 'close', 'vanish', 'another'])
def test_no_client_reaches_the_robots_session(loopback, dialect, leave):
    """A client that calls its session like the robot's has one of its own, and frees only that."""
    policy = StatefulPolicy()
    served = loopback(policy)
    of_the_robot(served, reset=True).result(WAIT)
    robot = SessionKey(ROBOT, '0')
    client = served.client(dialect)
    for session_id in ('0', str(robot), ROBOT):
        assert client.actions(session_id=session_id)[0, 0] == 1.0
        (own,) = set(policy.live) - {robot}
        assert own == SessionKey('c1', session_id)
    assert calls_of_the_robot(served) == 2.0
    {
        'reset': client.reset,
        'close': client.close,
        'vanish': client.vanish,
        'another': lambda: client.actions(session_id='another'),
    }[leave]()
    eventually(lambda: own not in policy.live, 'the client has freed its own session')
    assert robot not in policy.closed_sessions
    assert calls_of_the_robot(served) == 3.0
    client.close()


@pytest.mark.parametrize('fault', ['hangs', 'dies'])
def test_readyz_tells_of_a_fault_in_the_robots_own_call(loopback, fault):
    policy = SlowPolicy()
    served = loopback(policy, inference_timeout=0.1)
    if fault == 'dies':
        policy.release()
        policy.answer = lambda one: (_ for _ in ()).throw(SystemExit)
    robot = of_the_robot(served)
    eventually(lambda: served.get('/readyz')[0] == 503, '/readyz 503')
    reason = {'hangs': 'running for more than 0.1 s', 'dies': 'died'}[fault]
    assert reason in served.get('/readyz')[1]
    assert served.get('/healthz')[0] == 200
    policy.release()
    assert (robot.exception(WAIT) is None) == (fault == 'hangs')


def test_the_robot_goes_before_clients_that_wait_already(loopback):
    policy = SlowPolicy(make_spec(2, 3))
    served = loopback(policy)
    clients = [served.client() for _ in range(3)]
    clients[0].send(value=100.0)
    policy.wait_started()
    for number, client in enumerate(clients[1:], start=1):
        client.send(value=100.0 + number)
    eventually(lambda: served.engine.stats().waiting == 2, 'both wait')
    robot = of_the_robot(served, value=1.0)
    policy.release(4)
    assert robot.result(WAIT).actions[0, 0] == 1.0
    for number, client in enumerate(clients):
        assert client.answer()[0, 0] == 100.0 + number
        client.close()
    assert policy.values[:2] == [100.0, 1.0]
    assert sorted(policy.values[2:]) == [101.0, 102.0]
