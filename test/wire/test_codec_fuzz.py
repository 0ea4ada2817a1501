# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Properties of the codec on arbitrary bytes and arbitrary values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from frames import FRAMES, LEAVES, VALUES
from hypothesis import given, settings
from hypothesis import strategies as st
from openpi_client import msgpack_numpy as openpi_msgpack

from openpi_policy_ros.wire import Dialect, InvalidPayload, Session, packb, unpackb
from openpi_policy_ros.wire.markers import decode
from openpi_policy_ros.wire.requests import Infer, Reset


def same(left: Any, right: Any) -> bool:
    """Compare two decoded values, NaN equal to NaN and types included."""
    if isinstance(left, np.ndarray):
        return (
            isinstance(right, np.ndarray)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, np.generic):
        return same(np.asarray(left), np.asarray(right))
    return bool(left == right)


def native(value: Any) -> Any:
    """Return ``value`` with its arrays in native byte order, as they are decoded."""
    if isinstance(value, np.ndarray):
        return value.astype(value.dtype.newbyteorder('='))
    if isinstance(value, dict):
        return {key: native(item) for key, item in value.items()}
    if isinstance(value, list):
        return [native(item) for item in value]
    return value


class Refused(Exception):
    """The reference decoder refuses."""


def reference(frame: bytes) -> Any:
    """Decode with msgpack's own unpacker; the marker rules are the only shared code."""

    def build(pairs: list[tuple[Any, Any]]) -> Any:
        mapping: dict[str, Any] = {}
        for key, value in pairs:
            if not isinstance(key, (str, bytes)):
                raise Refused('key')
            name = key.decode() if isinstance(key, bytes) else key
            if name in mapping:
                raise Refused('twice')
            mapping[name] = value
        decoded = decode(mapping)
        return mapping if decoded is None else decoded

    def extension(code: int, data: bytes) -> Any:
        raise Refused('extension')

    try:
        value = msgpack.unpackb(frame, object_pairs_hook=build, ext_hook=extension)
    except (Refused, InvalidPayload, ValueError, TypeError, OverflowError) as error:
        raise Refused(str(error)) from None
    if holds_timestamp(value):
        raise Refused('timestamp')
    return value


def holds_timestamp(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(holds_timestamp, value.values()))
    if isinstance(value, list):
        return any(map(holds_timestamp, value))
    return isinstance(value, msgpack.Timestamp)


def outcome(decoder: Callable[[bytes], Any], frame: bytes) -> tuple[bool, Any]:
    try:
        return True, decoder(frame)
    except (InvalidPayload, Refused):
        return False, None


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_arbitrary_values_come_back(value: Any) -> None:
    assert same(unpackb(packb(value)), native(value))


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_openpi_client_reads_what_we_send(value: Any) -> None:
    # Its scalar form of datetimes cannot be read back, arrays can.
    assert same(native(openpi_msgpack.unpackb(packb(value))), native(value))


@settings(deadline=None, max_examples=100)
@given(VALUES)
def test_we_read_what_openpi_client_sends(value: Any) -> None:
    assert same(unpackb(openpi_msgpack.packb(value)), native(value))


@settings(deadline=None, max_examples=400)
@given(FRAMES)
def test_any_frame_is_read_as_msgpack_reads_it_or_refused_as_invalid(frame: bytes) -> None:
    read, value = outcome(unpackb, frame)
    expected_read, expected = outcome(reference, frame)
    assert read == expected_read
    assert same(value, expected)


SESSION = Session(Dialect.OPENPI, 'c1', {'rtc': True}, reply_shape=(4, 3))


@settings(deadline=None, max_examples=300)
@given(FRAMES | st.text(max_size=20))
def test_any_frame_is_a_command_or_invalid_and_nothing_else(frame: bytes | str) -> None:
    try:
        command = SESSION.decode(frame)
    except InvalidPayload:
        return
    assert isinstance(command, (Infer, Reset))


@settings(deadline=None, max_examples=100)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            'endpoint': LEAVES | st.sampled_from(['infer', 'reset', b'infer']),
            'session_id': VALUES,
            'seed': VALUES,
            'sampling_params': VALUES
            | st.fixed_dictionaries({}, optional={'num_inference_steps': VALUES}),
            'rtc/prev_actions': VALUES | st.just(np.zeros((2, 3), np.float32)),
            'rtc/delay': VALUES,
            'prompt': VALUES,
        },
    )
)
def test_any_control_keys_are_a_command_or_invalid_and_nothing_else(content: Any) -> None:
    try:
        command = SESSION.decode(packb(content))
    except InvalidPayload:
        return
    if isinstance(command, Infer):
        assert command.session_id is None or (
            isinstance(command.session_id, str) and command.session_id
        )
        assert command.seed is None or type(command.seed) is int
        assert command.num_inference_steps is None or command.num_inference_steps >= 1
        assert command.rtc is None or command.rtc.leftover.shape[1] == 3
        assert command.rtc is None or type(command.rtc.inference_delay) is int
        assert command.observation.keys() <= {'prompt'}


def test_reference_decoder_disagrees_where_it_should() -> None:
    # Guards the property above: a reference that refuses everything would prove nothing.
    assert reference(packb({'a': np.zeros(2)}))['a'].shape == (2,)
    with pytest.raises(Refused):
        reference(msgpack.packb(msgpack.Timestamp(1, 0)))
