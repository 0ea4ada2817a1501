# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""API keys: where they come from, what they open, and that nobody learns of them."""

from __future__ import annotations

import hmac
import logging
import socket

import pytest
from fakes import WAIT
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from serving import eventually
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.server.access import (
    KEY_VARIABLE,
    MALFORMED,
    MISSING,
    UNKNOWN,
    ApiKeys,
    read_keys,
)
from openpi_policy_ros.server.exposure import Exposure
from openpi_policy_ros.wire import Dialect

OLD, NEW = 'old-0123456789abcdef', 'new-fedcba9876543210'
both = pytest.mark.parametrize('dialect', list(Dialect))


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / 'keys'
    path.write_text(f'# robots\n{OLD}\r\n\n  {NEW}  \n')
    return str(path)


def bearer(key: str) -> dict[str, dict[str, str]]:
    return {'additional_headers': {'Authorization': f'Bearer {key}'}}


def status_and_body(served, path: str, *headers: str) -> tuple[int, str]:
    """Ask by hand, so that a header may be anything."""
    with socket.create_connection(('127.0.0.1', served.port), timeout=WAIT) as client:
        lines = [f'GET {path} HTTP/1.1', 'Host: x', *headers, '', '']
        client.sendall('\r\n'.join(lines).encode('latin-1'))
        answer = b''
        while received := client.recv(65536):
            answer += received
    head, _, body = answer.decode().partition('\r\n\r\n')
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    ('headers', 'said'),
    [
        ([f'Api-Key {NEW}'], None),
        ([f'Bearer {OLD}'], None),
        ([f'bearer   {OLD} '], None),
        ([f'API-KEY {OLD}'], None),
        ([], MISSING),
        (['Bearer'], MALFORMED),
        ([''], MALFORMED),
        ([OLD], MALFORMED),
        ([f'Basic {OLD}'], MALFORMED),
        ([f'Bearer {OLD}', f'Bearer {NEW}'], MALFORMED),
        ([f'Bearer {OLD[:-1]}'], UNKNOWN),
        ([f'Bearer {OLD}0'], UNKNOWN),
        ([f'Bearer {OLD.upper()}'], UNKNOWN),
        ([f'Bearer {OLD} {NEW}'], UNKNOWN),
        (['Bearer schlüssel\udcff'], UNKNOWN),
    ],
)
def test_only_a_known_key_in_a_known_form_opens(headers, said):
    assert ApiKeys([OLD, NEW]).refusal(headers) == said


@pytest.mark.parametrize('key', [OLD, NEW, 'x', 'y' * 500])
def test_every_key_is_compared_in_constant_time_whichever_matches(monkeypatch, key):
    keys = ApiKeys([OLD, NEW])
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def spy(first: bytes, second: bytes) -> bool:
        compared.append((first, second))
        return compare(first, second)

    monkeypatch.setattr(hmac, 'compare_digest', spy)
    keys.refusal([f'Bearer {key}'])
    assert len(compared) == 2
    assert {len(part) for pair in compared for part in pair} == {32}


def test_a_file_holds_one_key_per_line_and_comments(key_file):
    keys = read_keys(key_file, {})
    assert keys is not None
    assert len(keys) == 2
    assert keys.refusal([f'Api-Key {OLD}']) is None
    assert keys.refusal([f'Api-Key {NEW}']) is None
    assert keys.refusal(['Api-Key #']) == UNKNOWN


def test_the_environment_holds_keys_separated_by_spaces():
    keys = read_keys('', {KEY_VARIABLE: f' {OLD} {NEW}\n'})
    assert keys is not None
    assert len(keys) == 2
    assert keys.refusal([f'Bearer {NEW}']) is None
    assert read_keys('', {}) is None


def test_a_file_wins_over_the_environment_and_says_so(key_file):
    config = ServerConfig(api_key_file=key_file)
    exposure = Exposure.load(config, {KEY_VARIABLE: 'of-a-client-0123456789'})
    assert exposure.keys is not None
    assert exposure.keys.refusal(['Bearer of-a-client-0123456789']) == UNKNOWN
    assert any('OPENPI_API_KEY in the environment is ignored' in note for note in exposure.notes)


def test_a_short_key_is_told():
    assert any(
        'guessed' in note for note in Exposure.load(ServerConfig(), {KEY_VARIABLE: 'x'}).notes
    )
    assert Exposure.load(ServerConfig(), {KEY_VARIABLE: OLD}).notes == ()


@pytest.mark.parametrize(
    ('content', 'said'),
    [
        (b'', 'holds no key'),
        (b'# nothing\n\n', 'holds no key'),
        (b'good-0123456789abcdef\nsecret one\n', 'line 2: expected printable ASCII without spaces'),
        ('\ngeheimschlüssel\n'.encode(), 'line 2: expected printable ASCII'),
        (b'\xff\xfesecret', 'line 1: expected printable ASCII'),
    ],
)
def test_a_file_without_usable_keys_is_refused_without_telling_them(tmp_path, content, said):
    path = tmp_path / 'keys'
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        read_keys(str(path), {})
    assert f'api_key_file: {path}: {said}' in str(refused.value)
    assert 'openssl rand -hex 32' in str(refused.value)
    for key in ('good', 'secret', 'geheim'):
        assert key not in str(refused.value)


def test_what_cannot_be_read_is_named_with_the_reason(tmp_path):
    for path, reason in ((tmp_path / 'none', 'No such file'), (tmp_path, 'Is a directory')):
        with pytest.raises(ConfigurationError, match=f'api_key_file: {path}: {reason}'):
            read_keys(str(path), {})


@pytest.mark.parametrize(
    ('value', 'said'), [('', 'holds no key'), ('schlüssel', 'key 1: expected')]
)
def test_a_variable_that_is_set_must_hold_a_key(value, said):
    with pytest.raises(ConfigurationError, match=f'OPENPI_API_KEY: {said}') as refused:
        read_keys('', {KEY_VARIABLE: value})
    assert 'schl' not in str(refused.value)


@both
@pytest.mark.parametrize('key', [OLD, NEW])
def test_the_stock_client_gets_in_with_its_api_key_option(loopback, key_file, dialect, key):
    served = loopback(api_key_file=key_file)
    client = WebsocketClientPolicy(served.url(dialect), api_key=key)
    reply = client.infer({'value': 3.0})
    actions = reply['actions'] if dialect is Dialect.STOCK else reply
    assert actions[0, 0] == 3.0
    client._ws.close()


@both
def test_a_bearer_token_gets_in_as_well(loopback, key_file, dialect):
    with loopback(api_key_file=key_file).client(dialect, **bearer(NEW)) as client:
        assert client.actions(value=4.0)[0, 0] == 4.0


@both
@pytest.mark.parametrize('key', [None, 'wrong-0123456789abcdef'])
def test_others_are_refused_with_401_and_a_reason_before_the_handshake(
    loopback, key_file, dialect, key
):
    served = loopback(api_key_file=key_file)
    with pytest.raises(InvalidStatus) as refused:
        WebsocketClientPolicy(served.url(dialect), api_key=key)
    response = refused.value.response
    assert response.status_code == 401
    assert 'WWW-Authenticate' in response.headers
    assert ('API key is needed' if key is None else 'not one of this server') in (
        response.body.decode()
    )
    assert served.server.stats().connections == 0


def test_everything_but_healthz_needs_a_key(loopback, key_file):
    served = loopback(api_key_file=key_file)
    key = f'Authorization: Bearer {OLD}'
    assert status_and_body(served, '/healthz') == (200, 'OK\n')
    assert status_and_body(served, '/healthz', 'Authorization: Bearer wrong')[0] == 200
    for path in (
        '/readyz',
        '/nothing',
        '/',
        Dialect.OPENPI.value,
        '//healthz',
        '//x/healthz',
        '//[',
    ):
        assert status_and_body(served, path)[0] == 401, path
        assert status_and_body(served, path, 'Authorization: Bearer wrong')[0] == 401, path
    status, body = status_and_body(served, '/readyz', key)
    assert status == 200
    assert '"ready": true' in body
    assert status_and_body(served, '/nothing', key)[0] == 404
    assert status_and_body(served, '//[', key)[0] == 404
    assert status_and_body(served, '/', key)[0] == 426


def test_without_keys_nobody_is_asked_for_one(loopback):
    with loopback().client(**bearer('whatever')) as client:
        assert client.actions(value=1.0)[0, 0] == 1.0


def test_the_key_may_come_from_the_environment(loopback, monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, NEW)
    served = loopback()
    assert served.get('/readyz')[0] == 401
    with served.client(**bearer(NEW)) as client:
        assert client.actions(value=1.0)[0, 0] == 1.0


def test_no_key_gets_into_the_log_at_any_level(loopback, key_file, caplog):
    caplog.set_level(logging.DEBUG)
    # Its level may have been set by a command that ran in this process.
    caplog.set_level(logging.DEBUG, 'openpi_policy_ros')
    served = loopback(api_key_file=key_file)
    with served.client(**bearer(OLD)) as client:
        client.actions(value=1.0)
    wrong = 'wrong-0123456789abcdef'
    address = f'ws://127.0.0.1:{served.port}/?api_key='
    with pytest.raises(InvalidStatus), connect(f'{address}{NEW}', **bearer(wrong)):
        pass
    with connect(f'{address}{wrong}', **bearer(NEW)) as client:
        client.recv(timeout=WAIT)
    # A header that the HTTP parser itself refuses, and quotes.
    with socket.create_connection(('127.0.0.1', served.port), timeout=WAIT) as broken:
        broken.sendall(f'GET / HTTP/1.1\r\nAuthorization: Bearer {NEW}\x01\r\n\r\n'.encode())
        broken.recv(1000)
    status_and_body(served, '/', f'authorization: Bearer {wrong}')
    eventually(lambda: served.server.stats().clients == 0, 'all gone')
    show = logging.Formatter().format
    own = [show(one) for one in caplog.records if one.name.startswith('openpi_policy_ros')]
    assert any('refused (401)' in line for line in own)
    assert any('< Authorization: (not logged)' in line for line in own), 'debug lines are on'
    for secret in (OLD, NEW, wrong):
        assert [line for line in own if secret in line] == []
    assert OLD not in repr(Exposure.load(ServerConfig(api_key_file=key_file), {}))


def test_knocking_does_not_use_up_the_log_of_those_who_are_let_in(loopback, key_file, caplog):
    caplog.set_level(logging.INFO)
    served = loopback(api_key_file=key_file)
    for _ in range(40):
        assert status_and_body(served, '/')[0] == 401
    lines = [r.getMessage() for r in caplog.records]
    assert 1 <= sum('refused (401)' in line for line in lines) <= 25
    with served.client(**bearer(OLD)) as client:
        client.ask(b'')
    assert any('invalid payload' in r.getMessage() for r in caplog.records)
