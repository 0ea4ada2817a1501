# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""TLS: real clients with a certificate made for the test, and files that are wrong."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import urllib.request
from typing import Any

import numpy as np
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from fakes import WAIT
from openpi_client import msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from websockets.exceptions import InvalidMessage, InvalidStatus
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_once

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.server import thread
from openpi_policy_ros.server.exposure import Exposure
from openpi_policy_ros.server.tls import tls_context
from openpi_policy_ros.wire import Dialect

KEY = 'key-0123456789abcdef'


@pytest.fixture(scope='module')
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope='module')
def files(authority, tmp_path_factory) -> dict[str, str]:
    """Return the names of a certificate, its key, both in one, another key and the CA."""
    folder = tmp_path_factory.mktemp('tls')
    server, other = authority.issue_cert('127.0.0.1', 'localhost'), authority.issue_cert('other')
    paths = {
        name: str(folder / f'{name}.pem')
        for name in ('certificate', 'key', 'both', 'other', 'encrypted', 'ca')
    }
    server.cert_chain_pems[0].write_to_path(paths['certificate'])
    server.private_key_pem.write_to_path(paths['key'])
    server.private_key_and_cert_chain_pem.write_to_path(paths['both'])
    other.private_key_pem.write_to_path(paths['other'])
    authority.cert_pem.write_to_path(paths['ca'])
    key = serialization.load_pem_private_key(server.private_key_pem.bytes(), None)
    with open(paths['encrypted'], 'wb') as encrypted:
        encrypted.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(b'password'),
            )
        )
    return paths


@pytest.fixture
def secure(loopback, files):
    """Return a starter of servers that speak TLS only."""
    return lambda **settings: loopback(
        tls_certificate=files['certificate'], tls_key=files['key'], **settings
    )


@pytest.fixture
def trusting(files) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=files['ca'])


def connect(address: str, **options: Any) -> ClientConnection:
    """Connect as a synchronous client; a few times, for about one in a thousand gets stuck.

    Two threads of such a client use one TLS connection, of which Python made sure only in 3.13.
    It happens against a server of the websockets library as it is, and never to an asyncio client.
    """
    for _ in range(3):
        with contextlib.suppress(TimeoutError):
            return connect_once(address, open_timeout=WAIT / 4, **options)
    return connect_once(address, **options)


def wss(served, dialect: Dialect) -> str:
    return f'wss://127.0.0.1:{served.port}{dialect.value}'


@pytest.mark.parametrize('dialect', list(Dialect))
def test_the_stock_client_connects_to_a_wss_address(secure, files, monkeypatch, dialect):
    monkeypatch.setenv('SSL_CERT_FILE', files['ca'])
    monkeypatch.setenv('OPENPI_API_KEY', KEY)
    client = WebsocketClientPolicy(wss(secure(), dialect), api_key=KEY)
    reply = client.infer({'value': 3.0, 'image': np.zeros((480, 640, 3), np.uint8)})
    assert (reply['actions'] if dialect is Dialect.STOCK else reply)[0, 0] == 3.0
    client._ws.close()


def test_without_the_key_an_encrypted_handshake_is_refused_with_its_reason(
    secure, trusting, monkeypatch
):
    monkeypatch.setenv('OPENPI_API_KEY', KEY)
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(wss(secure(), Dialect.STOCK), ssl=trusting),
    ):
        pass
    assert refused.value.response.status_code == 401
    assert b'API key is needed' in refused.value.response.body


def test_a_client_that_does_not_know_the_authority_connects_to_nobody(secure, trusting, caplog):
    served = secure()
    with pytest.raises(ssl.SSLCertVerificationError), connect(wss(served, Dialect.STOCK)):
        pass
    with connect(wss(served, Dialect.STOCK), ssl=trusting) as client:
        assert isinstance(client.recv(timeout=WAIT), bytes)
    assert 'Traceback' not in caplog.text


def test_unencrypted_clients_get_nothing_and_the_others_go_on(secure, trusting, caplog):
    served = secure()
    with connect(wss(served, Dialect.OPENPI), ssl=trusting, max_size=None) as client:
        client.recv(timeout=WAIT)
        with pytest.raises((InvalidMessage, EOFError, OSError)), connect(served.url(Dialect.STOCK)):
            pass
        client.send(msgpack_numpy.packb({'value': 7.0, 'image': np.zeros(5_000_000, np.uint8)}))
        assert msgpack_numpy.unpackb(client.recv(timeout=WAIT))[0, 0] == 7.0
    assert 'Traceback' not in caplog.text


def test_health_is_told_over_https(secure, trusting):
    address = f'https://127.0.0.1:{secure().port}'
    for path, said in (('/healthz', b'OK\n'), ('/readyz', b'"ready": true')):
        with urllib.request.urlopen(address + path, timeout=WAIT, context=trusting) as got:
            assert got.status == 200
            assert said in got.read()


def test_old_versions_of_tls_are_refused_whatever_openssl_is_set_to(files):
    context = tls_context(files['certificate'], files['key'])
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_client_that_never_speaks_tls_is_cut_off(loopback, files, monkeypatch):
    monkeypatch.setattr(thread, 'OPEN_TIMEOUT', 0.3)
    served = loopback(tls_certificate=files['both'])
    with socket.create_connection(('127.0.0.1', served.port), timeout=WAIT) as silent:
        assert silent.recv(1) == b''


def test_certificate_and_key_may_be_in_one_file(loopback, files, trusting):
    served = loopback(tls_certificate=files['both'])
    with connect(wss(served, Dialect.STOCK), ssl=trusting) as client:
        assert isinstance(client.recv(timeout=WAIT), bytes)


@pytest.mark.parametrize(
    ('certificate', 'key', 'option', 'file', 'said'),
    [
        ('none', 'key', 'tls_certificate', 'none', 'No such file or directory'),
        ('certificate', 'none', 'tls_key', 'none', 'No such file or directory'),
        ('certificate', 'other', 'tls_key', 'other', 'is not the key of the certificate in'),
        ('key', 'key', 'tls_certificate', 'key', 'holds no certificate in PEM form'),
        ('certificate', 'certificate', 'tls_key', 'certificate', 'holds no private key'),
        (
            'certificate',
            '',
            'tls_certificate',
            'certificate',
            'no private key in PEM form; name it',
        ),
        ('certificate', 'encrypted', 'tls_key', 'encrypted', 'the private key is encrypted'),
        ('certificate', 'torn key', 'tls_key', 'torn key', 'OpenSSL cannot read the private key'),
        ('torn', 'key', 'tls_certificate', 'torn', 'OpenSSL cannot read the certificate in it'),
        ('', 'key', 'tls_certificate', '', 'Is a directory'),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(
    files, tmp_path, certificate, key, option, file, said
):
    (tmp_path / 'torn').write_text('-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n')
    (tmp_path / 'torn key').write_text(
        '-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----'
    )
    paths = {name: files.get(name, str(tmp_path / name)) for name in (certificate, key, file)}
    with pytest.raises(ConfigurationError) as refused:
        tls_context(paths[certificate], paths[key] if key else '')
    assert f'{option}: {paths[file]}: ' in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.skipif(os.geteuid() == 0, reason='root may read everything')
def test_a_key_that_may_not_be_read_is_named(files, tmp_path):
    key = tmp_path / 'key.pem'
    key.write_text('x')
    key.chmod(0)
    with pytest.raises(ConfigurationError, match=f'tls_key: {key}: Permission denied'):
        tls_context(files['certificate'], str(key))


def test_every_problem_with_keys_and_certificates_is_in_one_message(tmp_path):
    config = ServerConfig(
        api_key_file=str(tmp_path / 'keys'),
        tls_certificate=str(tmp_path / 'c.pem'),
        tls_key=str(tmp_path / 'k.pem'),
    )
    with pytest.raises(ConfigurationError) as refused:
        Exposure.load(config, {})
    assert [problem.split(':')[0] for problem in refused.value.problems] == [
        'api_key_file',
        'tls_certificate',
        'tls_key',
    ]


@pytest.mark.parametrize(
    ('host', 'environment', 'encrypted', 'said'),
    [
        ('127.0.0.1', {}, False, None),
        ('::1', {}, False, None),
        ('0.0.0.0', {}, False, 'whoever can connect can use the policy'),
        ('fe80::1%eth0', {}, True, 'whoever can connect can use the policy'),
        ('0.0.0.0', {'OPENPI_API_KEY': KEY}, False, 'whoever can listen in'),
        ('0.0.0.0', {'OPENPI_API_KEY': KEY}, True, None),
    ],
)
def test_listening_on_the_network_is_warned_of_as_far_as_it_is_open(
    files, host, environment, encrypted, said
):
    config = ServerConfig(tls_certificate=files['both'] if encrypted else '')
    warning = Exposure.load(config, environment).warning(host)
    assert warning is None if said is None else said in warning
