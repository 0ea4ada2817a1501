# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames that are no observation: the answer, the log line, and that the next one is served."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
from fakes import EchoPolicy, make_spec
from frames import FRAMES
from hypothesis import HealthCheck, given, settings
from openpi_client import msgpack_numpy as openpi_msgpack
from packers import pack_legacy, pack_with_msgpack_numpy
from serving import FAILED, INVALID, TIMEOUT, Client, Served, actions_of, serving

from openpi_policy_ros.policies.base import InferenceRequest, InferenceResult
from openpi_policy_ros.wire import MAX_FRAME_BYTES, Dialect

both = pytest.mark.parametrize('dialect', list(Dialect))


class Light(EchoPolicy):
    """Echo that keeps no frame of 64 MiB."""

    def answer(self, one: InferenceRequest) -> InferenceResult:
        """Answer and forget."""
        self.batches.clear()
        return super().answer(one)


@pytest.fixture
def policy() -> Light:
    return Light(make_spec(4, 3))


@pytest.fixture
def served(policy: Light) -> Iterator[Served]:
    # One server per test: each has its own budget of log lines.
    with serving(policy) as running:
        yield running


def marker(**changes: Any) -> bytes:
    """Return a request whose state is an array, with lies in its marker."""
    form = {b'__ndarray__': True, b'data': bytes(12), b'dtype': '<f4', b'shape': [3]}
    return msgpack.packb(
        {'value': 1.0, 'state': {**form, **{k.encode(): v for k, v in changes.items()}}}
    )


def request_of(size: int) -> bytes:
    """Return a valid request of exactly ``size`` bytes."""
    overhead = len(openpi_msgpack.packb({'value': 5.0, 'image': np.zeros(2**20, np.uint8)})) - 2**20
    frame = openpi_msgpack.packb({'value': 5.0, 'image': np.zeros(size - overhead, np.uint8)})
    assert len(frame) == size
    return frame


def empty_maps() -> bytes:
    """Return 64 MiB of lists of empty maps."""
    inner = b'\xdd' + (100_000).to_bytes(4, 'big') + b'\x80' * 100_000
    count = (MAX_FRAME_BYTES - 5) // len(inner)
    return b'\xdd' + count.to_bytes(4, 'big') + inner * count


VALID = openpi_msgpack.packb({'value': 1.0, 'image': np.zeros((4, 4, 3), np.uint8)})
NOT_OBSERVATIONS: list[tuple[str, bytes | str, str]] = [
    ('text', 'hello', 'text frame'),
    ('empty text', '', 'text frame'),
    ('json', '{"value": 1.0}', 'text frame'),
    ('empty', b'', 'empty frame'),
    ('undecodable', b'\xc1', '0xc1'),
    ('not utf-8', b'\x81\xa1\xff\x01', 'UTF-8'),
    ('truncated', VALID[:-1], 'ends early'),
    ('truncated early', VALID[:3], 'ends early'),
    ('trailing bytes', VALID + b'\x00', 'after the value'),
    ('list at top level', msgpack.packb([1, 2]), 'at the top'),
    ('array at top level', openpi_msgpack.packb(np.zeros(3)), 'at the top'),
    ('number at top level', b'\x07', 'at the top'),
    ('nothing at top level', b'\xc0', 'at the top'),
    ('unknown endpoint', msgpack.packb({'endpoint': 'dance'}), "endpoint 'dance'"),
    ('bad seed', msgpack.packb({'seed': 1.5}), 'seed is 1.5'),
    ('bad session id', msgpack.packb({'session_id': [1, 2]}), 'session_id is'),
    ('too deep', b'\x81\xa1a' * 65 + b'\xc0', 'too deeply nested'),
    ('huge list header', b'\x81\xa1a\xdd\xff\xff\xff\xff', '4294967295 elements'),
    ('huge map header', b'\xdf\xff\xff\xff\xff', '4294967295 elements'),
    ('extension type', msgpack.packb({'t': msgpack.Timestamp(1, 0)}), 'extension type'),
    ('key twice', b'\x82\xa1a\x01\xa1a\x02', 'occurs twice'),
    ('integer key', b'\x81\x01\x01', 'key of type int'),
    ('shape too large', marker(shape=[4]), 'expected 16 bytes'),
    ('shape too small', marker(shape=[2]), 'expected 8 bytes'),
    ('negative shape', marker(shape=[-3]), 'shape [-3]'),
    ('overflowing shape', marker(shape=[2**62, 2**62, 0], data=b''), 'overflows'),
    ('unknown dtype', marker(dtype='<f9'), "unknown dtype '<f9'"),
    ('openpi object', marker(dtype='|O'), 'refused dtype'),
    ('openpi void', marker(dtype='|V4'), 'refused dtype'),
    ('openpi complex', marker(dtype='<c8', data=bytes(24)), 'refused dtype'),
    ('pickled object', pack_with_msgpack_numpy({'s': np.array([{}])}), "refused dtype kind 'O'"),
    ('record', pack_with_msgpack_numpy({'s': np.zeros(1, 'f4,f4')}), "refused dtype kind 'V'"),
    ('complex', pack_with_msgpack_numpy({'s': np.zeros(1, 'c8')}), 'refused dtype'),
    ('complex number', pack_with_msgpack_numpy({'s': 1j}), 'complex'),
    ('legacy complex', pack_legacy({'s': np.zeros(1, 'c8')}), "refused dtype kind 'c'"),
    ('legacy void', pack_legacy({'s': np.zeros(1, 'V4')}), "refused dtype kind 'V'"),
]


@both
@pytest.mark.parametrize(
    ('frame', 'cause'),
    [(frame, cause) for _, frame, cause in NOT_OBSERVATIONS],
    ids=[name for name, _, _ in NOT_OBSERVATIONS],
)
def test_is_answered_invalid_the_log_names_the_cause_and_the_next_is_served(
    served: Served,
    dialect: Dialect,
    frame: bytes | str,
    cause: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.INFO, 'openpi_policy_ros.server'),
        Client(served, dialect) as client,
    ):
        assert client.ask(frame) == client.error(INVALID)
        assert client.actions(value=3.0)[0, 0] == 3.0
    (line,) = [r.getMessage() for r in caplog.records if 'invalid payload' in r.getMessage()]
    assert cause in line
    assert 'expected' in line or 'starts no MessagePack' in line or 'too deeply' in line


@both
def test_64_mib_are_served_and_one_byte_more_is_answered(
    served: Served, dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(served, dialect) as client:
        assert actions_of(client.ask(request_of(MAX_FRAME_BYTES)))[0, 0] == 5.0
        assert client.ask(request_of(MAX_FRAME_BYTES + 1)) == client.error(INVALID)
        assert client.actions(value=3.0)[0, 0] == 3.0
    assert '67108865 bytes' in caplog.text
    assert 'resize images' in caplog.text


def test_64_mib_of_lists_of_empty_maps_are_answered(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with Client(served, Dialect.OPENPI) as client:
        assert client.ask(empty_maps()) == client.error(INVALID)
        assert client.actions(value=3.0)[0, 0] == 3.0
    assert 'more than 200000 elements' in caplog.text
    assert 'send numbers as NumPy arrays' in caplog.text


@pytest.fixture(scope='module', params=list(Dialect))
def open_client(request: pytest.FixtureRequest) -> Iterator[Client]:
    policy = Light(make_spec(4, 3))
    with (
        serving(policy, idle_timeout=0.0) as served,
        Client(served, request.param) as client,
    ):
        yield client
        assert served.engine.health().ready
        assert served.server.stats().connections == 1
        assert not policy.overlapped


@settings(
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(frame=FRAMES)
def test_fuzzed_frames_are_answered_and_never_close_the_socket(
    open_client: Client, frame: bytes
) -> None:
    answer = open_client.ask(frame)
    if isinstance(answer, np.ndarray):
        assert answer.shape == (4, 3)
    elif open_client.dialect is Dialect.STOCK and isinstance(answer, dict):
        assert answer['actions'].shape == (4, 3)
    else:
        assert answer in (
            open_client.error(INVALID),
            open_client.error(FAILED),
            {'status': 'reset successful'},
            'reset successful',
        )
    # The same socket goes on, in step.
    assert open_client.actions(value=9.0, session_id='default')[0, 0] == 9.0


def test_bytes_that_are_no_http_do_not_hurt_the_server(served: Served) -> None:
    for garbage in (b'\x00\xff' * 100, b'GET / HTTP/1.1\r\n\r\n', b'GET //[ HTTP/1.1\r\n\r\n', b''):
        with socket.create_connection(('127.0.0.1', served.port), timeout=TIMEOUT) as raw:
            raw.sendall(garbage)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(4096):
                pass
    with Client(served, Dialect.OPENPI) as client:
        assert client.actions(value=3.0)[0, 0] == 3.0
