# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Our client against our server and against servers that behave like openpi's and RoboArena's."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
import trustme
from fakes import EchoPolicy, FailingPolicy, SlowPolicy, StatefulPolicy, make_spec
from scripted import CHUNK, Line, Scripted
from serving import eventually, serving

from openpi_policy_ros.client import ClientClosed, ClientConfig, OpenPiClient, Unreachable
from openpi_policy_ros.wire import Dialect
from openpi_policy_ros.wire.peer import NoPolicy, RequestFailed

both = pytest.mark.parametrize('dialect', list(Dialect))
T = 10.0


@both
def test_handshake_chunk_seed_and_reset(dialect: Dialect) -> None:
    policy = StatefulPolicy(make_spec(stateful=True, handshake={'needs_session_id': False}))
    with serving(policy) as served, OpenPiClient(served.url(dialect)) as client:
        assert client.connect(T) == {'needs_session_id': False}
        first = client.infer({'prompt': 'a'}, timeout=T, seed=7)
        second = client.infer({'prompt': 'a'}, timeout=T, num_inference_steps=3)
        client.reset(T)
        third = client.infer({'prompt': 'a'}, timeout=T, session_id='s')
    assert [reply.actions[0, 0] for reply in (first, second, third)] == [1.0, 2.0, 1.0]
    assert [reply.fresh for reply in (first, second, third)] == [True, False, True]
    assert (first.actions[0, 1], second.actions[0, 1]) == (7.0, -1.0)
    assert policy.requests[1].num_inference_steps == 3
    assert policy.flags[-1] == ('s', True)
    assert ('policy.infer_ms' in first.timing_ms) is (dialect is Dialect.STOCK)
    assert first.round_trip_ms > 0.0


@both
def test_images_arrive_as_they_were_sent(dialect: Dialect) -> None:
    policy = EchoPolicy()
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    with serving(policy) as served, OpenPiClient(served.url(dialect)) as client:
        reply = client.infer({'image': image, 'prompt': 'x'}, timeout=T)
    np.testing.assert_array_equal(policy.requests[0].observation['image'], image)
    assert reply.sent_bytes > image.nbytes


@both
def test_an_error_is_told_and_the_connection_stays(dialect: Dialect) -> None:
    policy = FailingPolicy(RuntimeError('secret'))
    with serving(policy) as served, OpenPiClient(served.url(dialect)) as client:
        with pytest.raises(RequestFailed, match='Internal inference error'):
            client.infer({}, timeout=T)
        assert client.connected
        assert client.infer({'value': 3.0}, timeout=T).actions[0, 0] == 3.0
    assert served.server.stats().connections == 1


def test_a_server_without_a_handshake_says_what_to_do() -> None:
    with serving(EchoPolicy(make_spec(handshake=None))) as served:
        with OpenPiClient(served.url(Dialect.OPENPI)) as client, pytest.raises(NoPolicy) as caught:
            client.connect(T)
        assert 'policy_server_config' in caught.value.remedy
        with OpenPiClient(served.url(Dialect.STOCK)) as client:
            assert client.connect(T) == {}
            assert client.infer({}, timeout=T).actions.shape == (50, 32)


def openpi_server(line: Line) -> None:
    """Behave as openpi's own: text with a traceback for an error, then close with 1011."""
    line.greet({'reset_pose': [0.0]})
    while True:
        request = line.hear()
        if 'endpoint' in request:
            line.socket.send('Traceback (most recent call last):\n  File "x"\nKeyError: "image"\n')
            line.socket.close(1011, 'Internal server error. Traceback included in previous frame.')
            return
        if request.get('prompt') == 'fail':
            line.socket.send('Traceback (most recent call last):\n  File "x"\nKeyError: "image"\n')
            line.socket.close(1011, 'Internal server error. Traceback included in previous frame.')
            return
        line.say({'actions': CHUNK.astype(np.float64), 'policy_timing': {'infer_ms': 1.5}})


def test_openpis_own_server_is_spoken_to_as_it_understands() -> None:
    with Scripted(openpi_server) as far, OpenPiClient(far.url('/')) as client:
        assert client.infer({'prompt': 'go'}, timeout=T).fresh
        assert not client.infer({'prompt': 'go'}, timeout=T).fresh
        client.reset(T)  # It knows no reset: the connection is given up.
        reply = client.infer({'prompt': 'go'}, timeout=T)
        assert reply.fresh
        assert reply.timing_ms == {'policy.infer_ms': 1.5}
        with pytest.raises(RequestFailed, match='KeyError'):
            client.infer({'prompt': 'fail'}, timeout=T)
        eventually(lambda: not client.connected, 'the server closes')
        assert client.infer({'prompt': 'go'}, timeout=T).fresh
    assert [set(request) for request in far.heard] == [{'prompt'}] * 5
    assert len(far.lines) == 3


def roboarena_server(line: Line) -> None:
    """Behave as RoboArena's: ``endpoint`` is needed, reset is confirmed in text."""
    line.greet({'needs_session_id': True, 'action_space': 'joint_position'})
    while True:
        request = line.hear()
        if request.pop('endpoint') == 'reset':
            line.socket.send('reset successful')
        else:
            line.say(CHUNK)


def test_roboarenas_server_is_sent_its_endpoint() -> None:
    with Scripted(roboarena_server) as far, OpenPiClient(far.url('/')) as client:
        np.testing.assert_array_equal(client.infer({}, timeout=T, session_id='a').actions, CHUNK)
        client.reset(T)
        assert client.infer({}, timeout=T, session_id='a').fresh
    assert not far.failures
    assert len(far.lines) == 1


def test_redirects_are_not_followed() -> None:
    reached = []

    def elsewhere(connection, request):
        response = connection.respond(302, 'elsewhere')
        response.headers['Location'] = other.url()
        return response

    with (
        Scripted(lambda line: reached.append(line)) as other,
        Scripted(openpi_server, process_request=elsewhere) as far,
        OpenPiClient(far.url(), ClientConfig(api_key='k3y')) as client,
        pytest.raises(Unreachable, match='HTTP 302') as caught,
    ):
        client.connect(0)
    assert 'redirect' in caught.value.remedy
    assert not reached


def test_the_api_key_opens_the_server_and_is_never_logged(tmp_path, caplog) -> None:
    key = 'sehr-geheim-0123456789'
    file = tmp_path / 'keys'
    file.write_text(key)
    caplog.set_level('DEBUG')
    with serving(EchoPolicy(), api_key_file=str(file)) as served:
        url = served.url(Dialect.OPENPI)
        with OpenPiClient(url, ClientConfig(api_key=key)) as client:
            assert client.infer({}, timeout=T).fresh
        for wrong in ('', 'not-the-key-0123456789'):
            with (
                OpenPiClient(url, ClientConfig(api_key=wrong)) as client,
                pytest.raises(Unreachable, match='HTTP 401') as caught,
            ):
                client.connect(5.0)
            assert 'API key' in caught.value.remedy
            assert 'not-the-key' not in str(caught.value)
    ours = [r.getMessage() for r in caplog.records if 'client' in r.name]
    assert not any(key in text or 'not-the-key' in text for text in ours)


def test_a_key_over_an_open_network_is_warned_about(caplog) -> None:
    OpenPiClient('ws://192.0.2.1:9/', ClientConfig(api_key='k')).close()
    assert 'unencrypted' in caplog.text
    caplog.clear()
    OpenPiClient('ws://127.0.0.1:9/', ClientConfig(api_key='k')).close()
    OpenPiClient('wss://192.0.2.1:9/', ClientConfig(api_key='k')).close()
    assert caplog.text == ''


def test_tls_with_a_ca_file_and_refusals_without(tmp_path) -> None:
    authority = trustme.CA()
    ca, certificate = tmp_path / 'ca.pem', tmp_path / 'server.pem'
    authority.cert_pem.write_to_path(str(ca))
    authority.issue_cert('127.0.0.1').private_key_and_cert_chain_pem.write_to_path(str(certificate))
    with serving(EchoPolicy(), tls_certificate=str(certificate)) as served:
        url = f'wss://127.0.0.1:{served.port}/'
        with OpenPiClient(url, ClientConfig(ca_file=str(ca))) as client:
            assert client.infer({'value': 2.0}, timeout=T).actions[0, 0] == 2.0
        with OpenPiClient(url) as client, pytest.raises(Unreachable, match='not trusted') as caught:
            client.connect(5.0)
        assert 'ca_file' in caught.value.remedy
        plain = f'ws://127.0.0.1:{served.port}/'
        with OpenPiClient(plain) as client, pytest.raises(Unreachable):
            client.connect(0.0)
    with serving(EchoPolicy()) as served:
        url = f'wss://127.0.0.1:{served.port}/'
        with OpenPiClient(url) as client, pytest.raises(Unreachable) as caught:
            client.connect(0.0)
        assert 'ws://' in caught.value.remedy


def test_closing_ends_a_call_that_waits() -> None:
    policy = SlowPolicy()
    caught: list[BaseException] = []

    def call() -> None:
        try:
            client.infer({}, timeout=60.0)
        except BaseException as error:
            caught.append(error)

    with serving(policy) as served:
        client = OpenPiClient(served.url(Dialect.OPENPI))
        thread = threading.Thread(target=call)
        thread.start()
        policy.wait_started()
        client.close()
        thread.join(T)
        assert not thread.is_alive()
        assert isinstance(caught[0], ClientClosed)
        client.close()
        with pytest.raises(ClientClosed):
            client.infer({}, timeout=1.0)
        policy.release()


def test_a_refusal_of_the_upgrade_is_told_with_its_reason() -> None:
    with serving(EchoPolicy(), max_connections=1) as served:
        url = served.url(Dialect.OPENPI)
        with OpenPiClient(url) as first, OpenPiClient(url) as second:
            first.connect(T)
            with pytest.raises(Unreachable, match='HTTP 503') as caught:
                second.connect(0.0)
            assert caught.value.retry
            first.close()
            # Its place is free now, and the second keeps trying.
            assert second.connect(T)
        path = f'ws://127.0.0.1:{served.port}/nowhere'
        with OpenPiClient(path) as client, pytest.raises(Unreachable, match='HTTP 404') as caught:
            client.connect(5.0)
        assert not caught.value.retry
        assert '/v1/realtime/robot/openpi' in caught.value.remedy


def test_the_refusal_of_a_server_is_json_safe_text() -> None:
    def refuse(connection, request):
        return connection.respond(418, 'a\x1b[31mred\nline')

    with (
        Scripted(openpi_server, process_request=refuse) as far,
        OpenPiClient(far.url()) as client,
        pytest.raises(Unreachable, match='HTTP 418') as caught,
    ):
        client.connect(0.0)
    assert '\x1b' not in json.dumps(str(caught.value), ensure_ascii=False)
