# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The short way through arrays as openpi's client writes them reads what the long way reads."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpi_client import msgpack_numpy

from openpi_policy_ros.wire import InvalidPayload, unpackb
from openpi_policy_ros.wire.reader import Reader

ARRAYS = [
    np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
    np.arange(300, dtype=np.uint8),
    np.arange(70_000, dtype=np.uint8).reshape(7, 10_000),
    np.array(1.5, np.float32),
    np.array([[1.0], [-2.0]], np.float64),
    np.array([True, False]),
    np.array([], np.int32),
    np.array([2**40], np.int64),
    np.zeros((1,) * 20, np.uint8),
]
OTHERS = [np.array([1], '>i4'), np.array(['text']), np.array([1], np.uint16), np.float32(2.0)]


def outcome(frame: bytes, long_way: bool) -> Any:
    """Return what a frame is, or what is wrong with it."""
    usual = (lambda *_: None) if long_way else Reader._usual_array
    with mock.patch.object(Reader, '_usual_array', usual):
        try:
            return plain(unpackb(frame))
        except InvalidPayload as error:
            return str(error)


def plain(value: Any) -> Any:
    """Return something that compares equal only if everything about the value is."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return type(value), array.dtype.str, array.shape, array.tobytes(), array.flags.writeable
    return type(value), value


@pytest.mark.parametrize('array', ARRAYS, ids=lambda array: f'{array.dtype.str}{array.shape}')
def test_usual_arrays_go_the_short_way(array: np.ndarray) -> None:
    frame = msgpack_numpy.packb({'a': array})
    with mock.patch.object(Reader, '_key', autospec=True, side_effect=Reader._key) as key:
        found = unpackb(frame)['a']
    assert key.call_count == 1, "the array's own keys were read one by one"
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    assert outcome(frame, long_way=False) == outcome(frame, long_way=True)


@pytest.mark.parametrize('value', OTHERS, ids=repr)
def test_unusual_values_go_the_long_way(value: Any) -> None:
    frame = msgpack_numpy.packb({'a': value})
    assert outcome(frame, long_way=False) == outcome(frame, long_way=True)
    np.testing.assert_array_equal(unpackb(frame)['a'], value)


@pytest.mark.parametrize('array', [ARRAYS[0], ARRAYS[1], ARRAYS[5]], ids=['u1', 'bin16', 'b1'])
def test_every_cut_and_every_changed_byte_means_the_same_on_both_ways(array: np.ndarray) -> None:
    frame = msgpack_numpy.packb({'x': array, 'y': 1})
    for at in range(len(frame)):
        cut = frame[:at]
        assert outcome(cut, long_way=False) == outcome(cut, long_way=True), at
        for change in (0x01, 0x80, 0xFF):
            other = frame[:at] + bytes([frame[at] ^ change]) + frame[at + 1 :]
            assert outcome(other, long_way=False) == outcome(other, long_way=True), (at, change)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_arrays_with_anything_spliced_in_mean_the_same_on_both_ways(data: st.DataObject) -> None:
    array = data.draw(st.sampled_from(ARRAYS[:2] + ARRAYS[3:] + OTHERS))
    frame = msgpack_numpy.packb([array, {'k': array}])
    at = data.draw(st.integers(0, len(frame)))
    length = data.draw(st.integers(0, 6))
    mixed = frame[:at] + data.draw(st.binary(max_size=8)) + frame[at + length :]
    assert outcome(mixed, long_way=False) == outcome(mixed, long_way=True)
