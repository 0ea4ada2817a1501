# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Addresses, back-off and where the API key comes from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.client import Backoff, OpenPiClient, parse_address
from openpi_policy_ros.client.api_key import read_api_key
from openpi_policy_ros.client.client import ClientConfig
from openpi_policy_ros.errors import ConfigurationError


@pytest.mark.parametrize(
    ('text', 'url', 'host', 'port', 'path', 'secure'),
    [
        ('ws://box:8000', 'ws://box:8000/', 'box', 8000, '/', False),
        ('ws://box:8000/', 'ws://box:8000/', 'box', 8000, '/', False),
        (
            'wss://10.0.0.2:443/a/b?c=d',
            'wss://10.0.0.2:443/a/b?c=d',
            '10.0.0.2',
            443,
            '/a/b?c=d',
            1,
        ),
        ('ws://[::1]:80/x', 'ws://[::1]:80/x', '::1', 80, '/x', False),
    ],
)
def test_an_address_is_read(text, url, host, port, path, secure) -> None:
    address = parse_address(text)
    assert (address.url, address.host, address.port) == (url, host, port)
    assert (address.path, address.secure) == (path, bool(secure))


@pytest.mark.parametrize(
    ('text', 'says'),
    [
        ('http://box:8000/', r'write ws://box:8000/'),
        ('https://box:8000/', r'write wss://box:8000/'),
        ('ws://box/v1', r'names no port.*ws://box:8000/v1'),
        ('wss://box/', r'names no port.*wss://box:443/'),
        ('ws://[::1]/', r'names no port.*ws://\[::1\]:8000/'),
        ('ws://:8000/', 'names no host'),
        ('ws://box:0/', 'not 0'),
        ('ws://box:99999/', 'ort'),
        ('ws://box:x/', 'ort'),
        ('ws://box:8000/#a', 'fragment'),
        ('ws://box:8000/a b', 'white space'),
        ('/data/pi0', 'not a WebSocket address'),
        ('box:8000', 'not a WebSocket address'),
        ('', 'not a WebSocket address'),
    ],
)
def test_a_wrong_address_is_refused_by_what_is_wrong_with_it(text, says) -> None:
    with pytest.raises(ConfigurationError, match=says):
        parse_address(text)


def test_credentials_in_an_address_are_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match='API key') as caught:
        parse_address('ws://robot:geheim@box:8000/')
    assert 'geheim' not in str(caught.value)


@given(st.integers(0, 10_000), st.floats(0.0, 1.0, exclude_max=True))
def test_waits_grow_with_jitter_and_are_bounded(failures: int, drawn: float) -> None:
    backoff = Backoff(first=0.1, limit=3.0, draw=lambda: drawn)
    delay = backoff.delay(failures)
    whole = 0.0 if failures == 0 else min(3.0, 0.1 * 2.0 ** min(failures - 1, 10))
    assert whole / 2 <= delay <= whole
    assert backoff.delay(failures + 1) <= 3.0


def test_two_clients_do_not_come_back_at_the_same_moment() -> None:
    assert len({Backoff().delay(3) for _ in range(20)}) > 10


def test_the_key_comes_from_a_file_before_the_environment(tmp_path) -> None:
    file = tmp_path / 'key'
    file.write_text('# for the arm\n\n abc123 \nother\n')
    environment = {'KEY': ' from-env '}
    assert read_api_key(str(file), 'KEY', environment) == 'abc123'
    assert read_api_key('', 'KEY', environment) == 'from-env'
    assert read_api_key('', 'OTHER', environment) == ''
    assert read_api_key('', '', environment) == ''


@pytest.mark.parametrize('content', [b'', b'# nothing\n', 'schlüssel'.encode()])
def test_a_key_file_without_a_key_is_refused(tmp_path, content: bytes) -> None:
    file = tmp_path / 'key'
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=str(file)):
        read_api_key(str(file), 'KEY', {'KEY': 'unused'})


def test_a_missing_key_file_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match='No such file'):
        read_api_key(str(tmp_path / 'none'), '', {})


@pytest.mark.parametrize('key', ['two words', 'a\r\nX-Evil: 1', 'schlüssel'])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(ConfigurationError, match='no HTTP header') as caught:
        OpenPiClient('ws://127.0.0.1:9/', ClientConfig(api_key=key))
    assert key not in str(caught.value)
    assert key not in repr(ClientConfig(api_key=key))


def test_a_ca_file_for_a_connection_without_tls_is_refused() -> None:
    with pytest.raises(ConfigurationError, match='write wss://'):
        OpenPiClient('ws://127.0.0.1:9/', ClientConfig(ca_file='/etc/ca.pem'))


@pytest.mark.parametrize('content', [None, b'no certificate'])
def test_a_ca_file_that_is_none_is_refused(tmp_path, content) -> None:
    file = tmp_path / 'ca.pem'
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r'ca\.pem'):
        OpenPiClient('wss://127.0.0.1:9/', ClientConfig(ca_file=str(file)))
