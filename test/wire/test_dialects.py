# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What each path says: handshake, replies, errors."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from openpi_client import msgpack_numpy as openpi_msgpack

from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.wire import Dialect, Infer, Session, dialect_for_path

DREAMZERO = {
    'image_resolution': (180, 320),
    'n_external_cameras': 2,
    'needs_wrist_camera': True,
    'needs_stereo_camera': False,
    'needs_session_id': True,
    'action_space': 'joint_position',
}
PI0 = {**DREAMZERO, 'action_horizon': 50, 'action_dim': 32, 'max_cameras': 3}
ACTIONS = np.arange(150, dtype=np.float32).reshape(50, 3)


def session(dialect: Dialect, handshake: Any = PI0) -> Session:
    return Session(dialect, 'c1', handshake)


def reply(dialect: Dialect, chunk: ActionChunk, **timing: float) -> Any:
    state = session(dialect)
    request, _ = state.begin(Infer(observation={}))
    return openpi_msgpack.unpackb(state.succeeded(request, chunk, timing or {'infer_ms': 2}))


def test_path_decides_the_dialect() -> None:
    assert dialect_for_path('/v1/realtime/robot/openpi') is Dialect.OPENPI
    assert dialect_for_path('/') is Dialect.STOCK
    assert dialect_for_path('/v1/realtime/robot/openpi?robot=left') is Dialect.OPENPI
    assert dialect_for_path('/?x=1') is Dialect.STOCK


@pytest.mark.parametrize(
    'path',
    [
        '',
        '/v1',
        '/v1/realtime/robot/openpi/',
        '/V1/realtime/robot/openpi',
        '//',
        '/healthz',
        'v1/realtime/robot/openpi',
        '/v1/realtime/robot/openpi/x',
        '/[',
        '//[/x',
    ],
)
def test_other_paths_have_no_dialect(path: str) -> None:
    assert dialect_for_path(path) is None


@pytest.mark.parametrize('handshake', [PI0, DREAMZERO, {'reset_pose': [0.5, None]}, {}])
def test_openpi_handshake_is_the_declared_one_verbatim(handshake: dict[str, Any]) -> None:
    greeting = session(Dialect.OPENPI, handshake).greeting()
    assert not greeting.close
    assert isinstance(greeting.frame, bytes)
    expected = json.loads(json.dumps(handshake))
    found = openpi_msgpack.unpackb(greeting.frame)
    assert found == expected
    assert list(found) == list(expected)


def test_tuples_in_the_handshake_become_lists() -> None:
    found = openpi_msgpack.unpackb(session(Dialect.OPENPI, DREAMZERO).greeting().frame)
    assert found['image_resolution'] == [180, 320]
    found = openpi_msgpack.unpackb(session(Dialect.STOCK, DREAMZERO).greeting().frame)
    assert found['image_resolution'] == [180, 320]


@pytest.mark.parametrize('handshake', [None, ['image_resolution'], 'pi0', 7])
def test_openpi_path_without_a_handshake_says_unsupported_in_json_text_and_closes(
    handshake: Any,
) -> None:
    greeting = session(Dialect.OPENPI, handshake).greeting()
    assert greeting.close
    assert isinstance(greeting.frame, str)
    assert json.loads(greeting.frame) == {
        'type': 'error',
        'error': 'Robot policy not available',
        'code': 'unsupported',
    }


def test_stock_handshake_is_reduced_to_the_six_keys_of_roboarena() -> None:
    greeting = session(Dialect.STOCK, {'reset_pose': [0], **PI0}).greeting()
    assert not greeting.close
    assert openpi_msgpack.unpackb(greeting.frame) == json.loads(json.dumps(DREAMZERO))


def test_stock_handshake_invents_no_key() -> None:
    greeting = session(Dialect.STOCK, {'action_space': 'joint_velocity', 'x': 1}).greeting()
    assert openpi_msgpack.unpackb(greeting.frame) == {'action_space': 'joint_velocity'}


@pytest.mark.parametrize('handshake', [None, {}, ['x'], {'action_horizon': 5}])
def test_stock_path_without_a_handshake_sends_an_empty_one_and_serves(handshake: Any) -> None:
    greeting = session(Dialect.STOCK, handshake).greeting()
    assert not greeting.close
    assert isinstance(greeting.frame, bytes)
    assert openpi_msgpack.unpackb(greeting.frame) == {}


def test_openpi_reply_is_the_bare_array() -> None:
    found = reply(Dialect.OPENPI, ActionChunk({'actions': ACTIONS}, timing_ms={'model': 3.0}))
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, ACTIONS)


def test_openpi_reply_of_several_outputs_is_a_mapping_of_arrays() -> None:
    value = np.ones((50, 1), np.float32)
    found = reply(Dialect.OPENPI, ActionChunk({'actions': ACTIONS, 'value': value}))
    assert found.keys() == {'actions', 'value'}
    np.testing.assert_array_equal(found['actions'], ACTIONS)
    np.testing.assert_array_equal(found['value'], value)


def test_openpi_reply_of_one_differently_named_output_is_a_mapping() -> None:
    state = session(Dialect.OPENPI)
    request = InferenceRequest({}, SessionKey('c1', 'default'))
    frame = state.succeeded(request, ActionChunk({'torques': ACTIONS}), {'infer_ms': 1.0})
    assert openpi_msgpack.unpackb(frame).keys() == {'torques'}


def test_stock_reply_has_actions_and_both_timings() -> None:
    chunk = ActionChunk(
        {'actions': ACTIONS},
        timing_ms={'preprocess': 1.5, 'infer': np.float32(4.5), 'queue': 100.0},
    )
    found = reply(Dialect.STOCK, chunk, infer_ms=np.float64(120.5), prev_total_ms=np.float32(7.0))
    assert found.keys() == {'actions', 'server_timing', 'policy_timing'}
    np.testing.assert_array_equal(found['actions'], ACTIONS)
    assert found['server_timing'] == {'infer_ms': 120.5, 'prev_total_ms': 7.0}
    # Waiting for one's turn is the server's time, not the policy's.
    assert found['policy_timing'] == {'infer_ms': 4.5}
    for timing in (found['server_timing'], found['policy_timing']):
        assert all(type(value) is float for value in timing.values())


def test_stock_reply_has_no_prev_total_on_the_first_request() -> None:
    found = reply(
        Dialect.STOCK, ActionChunk({'actions': ACTIONS}, timing_ms={'infer': 2}), infer_ms=2
    )
    assert found['server_timing'] == {'infer_ms': 2.0}
    assert type(found['server_timing']['infer_ms']) is float
    assert type(found['policy_timing']['infer_ms']) is float


def test_every_array_in_a_stock_reply_has_the_chunk_length_as_its_first_axis() -> None:
    outputs = {
        'actions': ACTIONS,
        'values': np.ones((50,), np.float32),
        'scale': np.array(0.5, np.float32),
        'bounds': np.array([[-1, 1], [-2, 2]], np.float32),
    }
    found = reply(Dialect.STOCK, ActionChunk(outputs, timing_ms={'infer': 1.0}))
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    assert arrays.keys() == {'actions', 'values'}
    assert all(len(value) == 50 for value in arrays.values())
    assert found['scale'] == 0.5
    assert found['bounds'] == [[-1.0, 1.0], [-2.0, 2.0]]


def test_openpi_errors_and_reset_reply_are_messagepack() -> None:
    state = session(Dialect.OPENPI)
    assert openpi_msgpack.unpackb(state.failed()) == {
        'type': 'error',
        'message': 'Internal inference error',
    }
    assert openpi_msgpack.unpackb(state.invalid()) == {
        'type': 'error',
        'message': 'Invalid request payload',
    }
    assert openpi_msgpack.unpackb(state.reset()[0]) == {'status': 'reset successful'}


def test_stock_errors_and_reset_reply_are_text() -> None:
    state = session(Dialect.STOCK)
    assert state.failed() == 'Internal inference error'
    assert state.invalid() == 'Invalid request payload'
    assert state.reset()[0] == 'reset successful'
