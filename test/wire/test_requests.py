# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a frame asks for, and which frames are no request."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from openpi_policy_ros.wire import (
    MAX_FRAME_BYTES,
    Dialect,
    Infer,
    InvalidPayload,
    Reset,
    Session,
    packb,
)

decode = Session(Dialect.OPENPI, 'c1', {}).decode


def infer(**content: Any) -> Infer:
    command = decode(packb(content))
    assert isinstance(command, Infer)
    return command


def refusal(**content: Any) -> str:
    with pytest.raises(InvalidPayload) as caught:
        decode(packb(content))
    return str(caught.value)


def test_absent_endpoint_means_infer() -> None:
    assert infer(prompt='pick').observation == {'prompt': 'pick'}
    assert infer() == Infer(observation={})


@pytest.mark.parametrize('spelling', ['infer', b'infer', np.array('infer'), np.array(['infer'])])
def test_infer_endpoint_as_text_or_bytes(spelling: Any) -> None:
    assert infer(endpoint=spelling, prompt='pick') == Infer(observation={'prompt': 'pick'})


@pytest.mark.parametrize('spelling', ['reset', b'reset'])
def test_reset_endpoint_whatever_else_is_in_the_frame(spelling: Any) -> None:
    frame = packb({'endpoint': spelling, 'session_id': [1, 2], 'seed': 'x', 'reason': 'done'})
    assert decode(frame) == Reset()


@pytest.mark.parametrize(
    'endpoint', ['', 'Infer', 'health', b'\xff', None, 0, 1, True, [], {}, ['infer', 'reset']]
)
def test_any_other_endpoint_is_refused(endpoint: Any) -> None:
    message = refusal(endpoint=endpoint, prompt='pick')
    assert 'endpoint' in message
    assert "'infer'" in message


def test_keys_may_be_bytes() -> None:
    frame = msgpack.packb({b'endpoint': b'infer', b'seed': 3, b'prompt': 'pick'})
    assert decode(frame) == Infer(observation={'prompt': 'pick'}, seed=3)


def test_control_keys_are_consumed_and_every_other_key_is_forwarded_untouched() -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    observation = {
        'observation/image': image,
        'images': {'cam_high': image},
        'state': [0.5, 1],
        'prompt': 'pick',
        'endpoint_of_travel': 3,
        'rtc/delay': 2,
        'unknown': None,
        '': b'raw',
    }
    control = {
        'endpoint': 'infer',
        'session_id': 'a',
        'seed': 1,
        'sampling_params': {'num_inference_steps': 4},
    }
    command = infer(**control, **observation)
    assert (command.session_id, command.seed, command.num_inference_steps) == ('a', 1, 4)
    assert command.observation.keys() == observation.keys()
    np.testing.assert_array_equal(command.observation['observation/image'], image)
    np.testing.assert_array_equal(command.observation['images']['cam_high'], image)
    for key in ('state', 'prompt', 'endpoint_of_travel', 'rtc/delay', 'unknown', ''):
        assert command.observation[key] == observation[key]


@pytest.mark.parametrize(
    ('value', 'session_id'),
    [
        ('a', 'a'),
        (b'a', 'a'),
        ('épisode', 'épisode'),
        ('épisode'.encode(), 'épisode'),
        (b'\xff\x00', '\\xff\x00'),
        (np.array('a'), 'a'),
        (np.array(['a']), 'a'),
        (np.array([b'a']), 'a'),
        (np.array([[7]]), '7'),
        (np.array(7), '7'),
        (np.int64(7), '7'),
        (7, '7'),
        (['a'], 'a'),
        (1.5, '1.5'),
        ('x' * 1024, 'x' * 1024),
    ],
)
def test_session_id_is_text_bytes_a_number_or_one_element(value: Any, session_id: str) -> None:
    assert infer(session_id=value).session_id == session_id


@pytest.mark.parametrize(
    'value',
    [
        None,
        '',
        b'',
        0,
        0.0,
        False,
        np.int32(0),
        np.array([0]),
        np.array(''),
        np.array([b'']),
        np.zeros(0),
        [],
        {},
        [''],
        [0],
    ],
    ids=repr,
)
def test_falsy_session_id_counts_as_omitted(value: Any) -> None:
    assert infer(session_id=value).session_id is None


@pytest.mark.parametrize(
    ('value', 'named'),
    [
        (['a', 'b'], 'a list'),
        ({'id': 'a'}, 'a dict'),
        (np.array(['a', 'b']), 'dtype <U1 and shape (2,)'),
        (np.zeros((2, 2)), 'dtype float64 and shape (2, 2)'),
        ('x' * 1025, '1025 characters'),
        ([['a']], 'a list'),
    ],
)
def test_session_id_that_is_no_single_value_is_refused(value: Any, named: str) -> None:
    message = refusal(session_id=value)
    assert 'session_id' in message
    assert named in message


@pytest.mark.parametrize(
    'value',
    [7, np.int32(7), np.uint64(7), np.array(7), np.array([7]), np.array([[7]], np.uint8), [7]],
    ids=repr,
)
def test_seed_is_an_integer_in_any_spelling(value: Any) -> None:
    seed = infer(seed=value).seed
    assert seed == 7
    assert type(seed) is int


@pytest.mark.parametrize('value', [0, -1, 2**63, -(2**63), 2**64 - 1])
def test_every_integer_messagepack_carries_is_a_seed(value: int) -> None:
    torch = pytest.importorskip('torch')
    seed = infer(seed=value).seed
    assert seed == value
    torch.Generator().manual_seed(seed)


def test_no_seed_is_none() -> None:
    assert infer(prompt='pick').seed is None
    assert infer(seed=None).seed is None


@pytest.mark.parametrize(
    'value',
    [
        True,
        False,
        1.0,
        np.float32(1),
        np.bool_(True),
        '7',
        b'7',
        [1, 2],
        [],
        {},
        np.array([1, 2]),
        np.array([1.0]),
        np.array([True]),
        np.zeros(0, int),
    ],
    ids=repr,
)
def test_seed_that_is_no_integer_is_refused(value: Any) -> None:
    message = refusal(seed=value, prompt='pick')
    assert message.startswith('seed is ')
    assert 'expected an integer' in message


@pytest.mark.parametrize('value', [4, np.int64(4), np.array([4])])
def test_inference_steps_are_consumed(value: Any) -> None:
    assert infer(sampling_params={'num_inference_steps': value}).num_inference_steps == 4


@pytest.mark.parametrize('value', [None, {}, {'num_inference_steps': None}])
def test_no_inference_steps_is_none(value: Any) -> None:
    command = infer(sampling_params=value)
    assert command.num_inference_steps is None
    assert command.observation == {}


@pytest.mark.parametrize(
    'value',
    [
        0,
        -1,
        1001,
        2**60,
        True,
        1.0,
        '4',
        [1, 2],
        {'num_inference_steps': 0},
        {'num_inference_steps': True},
        {'temperature': 0.5},
    ],
    ids=repr,
)
def test_sampling_params_that_cannot_be_honoured_are_refused(value: Any) -> None:
    params = value if isinstance(value, dict) else {'num_inference_steps': value}
    assert 'sampling_params' in refusal(sampling_params=params)


@pytest.mark.parametrize('value', ['fast', 4, [['num_inference_steps', 4]], np.zeros(2), False])
def test_sampling_params_that_are_no_mapping_are_refused(value: Any) -> None:
    assert 'sampling_params is' in refusal(sampling_params=value)


@pytest.mark.parametrize('frame', ['', 'text', '{"prompt": "pick"}'])
def test_text_frame_is_no_request(frame: str) -> None:
    with pytest.raises(InvalidPayload, match='text frame'):
        decode(frame)


def test_empty_frame_is_no_request() -> None:
    with pytest.raises(InvalidPayload, match='empty frame'):
        decode(b'')


@pytest.mark.parametrize(
    'value', [[1, 2], [], 'text', b'bin', 7, None, True, 1.5, np.zeros(3), np.float32(1)], ids=repr
)
def test_anything_but_a_mapping_at_the_top_is_refused(value: Any) -> None:
    with pytest.raises(InvalidPayload, match='expected a mapping'):
        decode(packb(value))


def test_a_frame_of_64_mib_is_read_and_one_byte_more_is_not() -> None:
    overhead = len(packb({'image': np.zeros(2**20, np.uint8)})) - 2**20
    # The length fields are as wide for 64 MiB as for 1 MiB; the shape's is too.
    image = np.zeros(MAX_FRAME_BYTES - overhead, np.uint8)
    frame = packb({'image': image})
    assert len(frame) == MAX_FRAME_BYTES == 67_108_864
    command = decode(frame)
    assert isinstance(command, Infer)
    assert command.observation['image'].shape == image.shape
    longer = packb({'image': np.zeros(len(image) + 1, np.uint8)})
    assert len(longer) == MAX_FRAME_BYTES + 1
    with pytest.raises(InvalidPayload, match='67108865 bytes'):
        decode(longer)


def test_size_is_checked_before_decoding() -> None:
    # Not MessagePack at all: only the size can be what is complained about.
    with pytest.raises(InvalidPayload, match='at most 67108864 bytes'):
        decode(b'\xc1' * (MAX_FRAME_BYTES + 1))


# The rest of the last chunk

REST = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def invited(handshake: dict[str, Any] | None = None, dialect: Dialect = Dialect.OPENPI) -> Session:
    """Return a session whose policy answers 3 rows of 2 numbers."""
    handshake = {'rtc': True} if handshake is None else handshake
    return Session(dialect, 'c1', handshake, reply_shape=(3, 2))


@pytest.mark.parametrize('dialect', list(Dialect))
def test_the_rest_of_a_chunk_is_taken_out_where_it_was_asked_for(dialect: Dialect) -> None:
    session = invited(dialect=dialect)
    frame = packb({'rtc/prev_actions': REST, 'rtc/delay': 1, 'prompt': 'pick'})
    command = session.decode(frame)
    assert isinstance(command, Infer)
    assert command.observation == {'prompt': 'pick'}
    request, _ = session.begin(command)
    assert request.rtc is not None
    np.testing.assert_array_equal(request.rtc.leftover, REST)
    assert request.rtc.leftover.dtype == np.float32
    assert (request.rtc.inference_delay, request.rtc.robot_units) == (1, True)
    assert (request.rtc.execution_horizon, request.rtc.state) == (None, None)


@pytest.mark.parametrize('dtype', [np.float16, np.float32, np.float64])
@pytest.mark.parametrize('delay', [0, np.int64(4), np.array([4]), 2**40])
def test_any_float_and_any_whole_delay_will_do(dtype: Any, delay: Any) -> None:
    command = invited().decode(packb({'rtc/prev_actions': REST.astype(dtype), 'rtc/delay': delay}))
    assert isinstance(command, Infer)
    assert command.rtc is not None
    np.testing.assert_array_equal(command.rtc.leftover, REST)
    assert command.rtc.inference_delay == int(np.asarray(delay).reshape(()))


def test_a_request_without_a_rest_has_none() -> None:
    command = invited().decode(packb({'prompt': 'pick'}))
    assert isinstance(command, Infer)
    assert command.rtc is None


@pytest.mark.parametrize('handshake', [{}, {'rtc': False}, {'rtc': 1}, {'rtc': 'true'}])
def test_what_was_not_asked_for_stays_in_the_observation(handshake: dict[str, Any]) -> None:
    command = invited(handshake).decode(packb({'rtc/prev_actions': 'x', 'rtc/delay': -1}))
    assert isinstance(command, Infer)
    assert command.observation == {'rtc/prev_actions': 'x', 'rtc/delay': -1}
    assert command.rtc is None


def test_a_nested_map_is_part_of_the_observation() -> None:
    command = invited().decode(packb({'rtc': {'prev_actions': REST, 'delay': 1}}))
    assert isinstance(command, Infer)
    assert command.rtc is None
    assert command.observation['rtc']['delay'] == 1


@pytest.mark.parametrize(
    ('content', 'says'),
    [
        ({'rtc/prev_actions': REST}, 'rtc/prev_actions without rtc/delay'),
        ({'rtc/delay': 1}, 'rtc/delay without rtc/prev_actions'),
        ({'rtc/prev_actions': REST.astype(np.int32), 'rtc/delay': 1}, 'dtype int32'),
        ({'rtc/prev_actions': REST.tolist(), 'rtc/delay': 1}, 'rtc/prev_actions is'),
        ({'rtc/prev_actions': REST[0], 'rtc/delay': 1}, 'shape (2,)'),
        ({'rtc/prev_actions': REST[None], 'rtc/delay': 1}, 'shape (1, 2, 2)'),
        ({'rtc/prev_actions': REST[:, :1], 'rtc/delay': 1}, '[T, 2] with T from 1 to 3'),
        ({'rtc/prev_actions': REST[:0], 'rtc/delay': 1}, 'shape (0, 2)'),
        ({'rtc/prev_actions': np.zeros((4, 2)), 'rtc/delay': 1}, 'shape (4, 2)'),
        ({'rtc/prev_actions': REST, 'rtc/delay': -1}, 'rtc/delay is -1'),
        ({'rtc/prev_actions': REST, 'rtc/delay': 1.0}, 'rtc/delay is 1.0'),
        ({'rtc/prev_actions': REST, 'rtc/delay': True}, 'rtc/delay is True'),
        ({'rtc/prev_actions': REST, 'rtc/delay': 'two'}, "rtc/delay is 'two'"),
        ({'rtc/prev_actions': REST, 'rtc/delay': np.array([1, 2])}, 'shape (2,)'),
    ],
)
def test_a_rest_of_the_wrong_form_is_refused_by_its_key(content: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidPayload) as caught:
        invited().decode(packb(content))
    assert says in str(caught.value)
    assert caught.value.expected


def test_a_policy_whose_chunks_have_no_agreed_shape_takes_no_rest() -> None:
    command = Session(Dialect.OPENPI, 'c1', {'rtc': True}).decode(packb({'rtc/delay': 1}))
    assert isinstance(command, Infer)
    assert command.observation == {'rtc/delay': 1}
