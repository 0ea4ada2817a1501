# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the frames of every kind of server mean to a client."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from frames import FRAMES, VALUES
from hypothesis import given
from hypothesis import strategies as st
from openpi_client import msgpack_numpy
from packers import pack_legacy, pack_with_msgpack_numpy

from openpi_policy_ros.wire import MAX_FRAME_BYTES, Dialect, UnsupportedValue, packb, unpackb
from openpi_policy_ros.wire.peer import (
    Answer,
    NoPolicy,
    NotOpenPi,
    PeerError,
    RequestFailed,
    knows_commands,
    pack_request,
    pack_reset,
    plain_line,
    read_answer,
    read_greeting,
    read_reset_reply,
)

CHUNK = np.arange(12, dtype=np.float32).reshape(4, 3)
TRACEBACK = """Traceback (most recent call last):
  File "/srv/serve_policy.py", line 61, in _handler
    action = self._policy.infer(obs)
KeyError: 'observation/wrist_image_left'
"""


@pytest.mark.parametrize('pack', [packb, msgpack_numpy.packb])
def test_a_greeting_comes_back_with_plain_values(pack: Any) -> None:
    sent = {'image_resolution': [224, 224], 'reset_pose': np.zeros(2), 'n': np.int64(3), 'e': {}}
    read = read_greeting(pack(sent))
    assert read == {'image_resolution': [224, 224], 'reset_pose': [0.0, 0.0], 'n': 3, 'e': {}}
    assert type(read['n']) is int
    assert read_greeting(packb({})) == {}


def test_our_servers_refusal_is_told_from_garbage() -> None:
    with pytest.raises(NoPolicy, match='Robot policy not available') as caught:
        read_greeting(Dialect.OPENPI.greeting(None).frame)
    assert 'policy_server_config' in caught.value.remedy


@pytest.mark.parametrize(
    'frame', ['hello', json.dumps({'type': 'welcome'}), b'', packb([1]), packb(CHUNK), b'\xc1abc']
)
def test_any_other_greeting_is_not_the_protocol(frame: bytes | str) -> None:
    with pytest.raises(NotOpenPi, match='greet'):
        read_greeting(frame)


@pytest.mark.parametrize('pack', [packb, msgpack_numpy.packb, pack_with_msgpack_numpy, pack_legacy])
def test_a_bare_array_is_the_chunk(pack: Any) -> None:
    answer = read_answer(pack(CHUNK))
    assert answer.outputs.keys() == {'actions'}
    assert answer.timing_ms == {}
    np.testing.assert_array_equal(answer.outputs['actions'], CHUNK)


def test_a_mapping_carries_the_chunk_its_other_outputs_and_times() -> None:
    reply = {
        'actions': CHUNK.astype(np.float64),
        'state': np.zeros(8),
        'server_timing': {'infer_ms': 12.5, 'prev_total_ms': np.float32(2.0)},
        'policy_timing': {'infer_ms': 10, 'note': 'x', 'nan': float('nan')},
    }
    answer = read_answer(msgpack_numpy.packb(reply))
    assert answer.outputs.keys() == {'actions', 'state'}
    assert answer.timing_ms == {
        'server.infer_ms': 12.5,
        'server.prev_total_ms': 2.0,
        'policy.infer_ms': 10.0,
    }


def test_an_error_of_either_dialect_is_an_error() -> None:
    with pytest.raises(RequestFailed, match='Internal inference error') as caught:
        read_answer(Dialect.OPENPI.error('Internal inference error'))
    assert not caught.value.refused
    with pytest.raises(RequestFailed) as caught:
        read_answer(Dialect.STOCK.error('Invalid request payload'))
    assert caught.value.refused
    with pytest.raises(RequestFailed, match=r"request_id: 'c1-4', detail: 'state: 40 values'"):
        read_answer(
            packb(
                {
                    'type': 'error',
                    'message': 'Invalid request payload',
                    'request_id': 'c1-4',
                    'detail': 'state: 40 values',
                }
            )
        )


def test_of_a_servers_traceback_only_the_last_line_is_told() -> None:
    with pytest.raises(RequestFailed) as caught:
        read_answer(TRACEBACK)
    assert "KeyError: 'observation/wrist_image_left'" in str(caught.value)
    assert '/srv' not in str(caught.value)


@pytest.mark.parametrize(
    'frame',
    [
        b'',
        b'\xc1',
        packb('actions'),
        packb(7),
        packb([[1.0, 2.0]]),
        packb({'actions': [[1.0]]}),
        packb({'action': CHUNK}),
        packb({'status': 'reset successful'}),
    ],
)
def test_any_other_reply_is_not_the_protocol(frame: bytes) -> None:
    with pytest.raises(NotOpenPi, match='the server'):
        read_answer(frame)


@given(FRAMES | VALUES.map(packb) | st.text(max_size=40))
def test_no_frame_does_anything_but_answer_or_refuse(frame: bytes | str) -> None:
    for read in (read_greeting, read_answer, read_reset_reply):
        try:
            result = read(frame)
        except PeerError:
            continue
        else:
            assert isinstance(result, (dict, Answer, type(None)))


@pytest.mark.parametrize('dialect', list(Dialect))
def test_a_reset_is_confirmed_in_both_dialects(dialect: Dialect) -> None:
    read_reset_reply(dialect.reset_reply())
    with pytest.raises(RequestFailed):
        read_reset_reply(dialect.error('Internal inference error'))


@pytest.mark.parametrize('frame', [packb(CHUNK), packb({'status': 'later'}), b'\xc1'])
def test_a_chunk_in_place_of_a_resets_confirmation_is_noticed(frame: bytes) -> None:
    with pytest.raises(NotOpenPi):
        read_reset_reply(frame)


@pytest.mark.parametrize(
    ('path', 'handshake', 'knows'),
    [
        ('/v1/realtime/robot/openpi', {}, True),
        ('/v1/realtime/robot/openpi?robot=3', {}, True),
        ('/', {'needs_session_id': False}, True),
        ('/', {}, False),
        ('/', {'reset_pose': [0.0]}, False),
        ('/policy', {'action_horizon': 10}, False),
    ],
)
def test_openpis_own_server_is_sent_no_commands(path: str, handshake: Any, knows: bool) -> None:
    assert knows_commands(path, handshake) is knows


def test_a_request_holds_the_observation_untouched_and_only_what_was_asked_for() -> None:
    observation = {'state': np.arange(3.0), 'prompt': 'pick'}
    plain = unpackb(pack_request(observation, commands=False))
    assert plain.keys() == {'state', 'prompt'}
    full = unpackb(
        pack_request(observation, commands=True, session_id='s', seed=0, num_inference_steps=4)
    )
    assert full.keys() == {
        'state',
        'prompt',
        'endpoint',
        'session_id',
        'seed',
        'sampling_params',
    }
    assert (full['endpoint'], full['session_id'], full['seed']) == ('infer', 's', 0)
    assert full['sampling_params'] == {'num_inference_steps': 4}
    np.testing.assert_array_equal(full['state'], observation['state'])
    assert observation.keys() == {'state', 'prompt'}
    assert unpackb(pack_reset()) == {'endpoint': 'reset'}


def test_what_no_server_takes_is_not_sent() -> None:
    with pytest.raises(UnsupportedValue, match='67108'):
        pack_request({'image': np.zeros(MAX_FRAME_BYTES, np.uint8)}, commands=True)
    with pytest.raises(UnsupportedValue, match='complex'):
        pack_request({'state': np.zeros(2, np.complex64)}, commands=True)


@given(st.text(max_size=1000))
def test_a_servers_text_is_one_bounded_printable_line(text: str) -> None:
    line = plain_line(text)
    assert len(line) <= 401
    assert line.isprintable()
