# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A frame of any content costs bounded time and memory."""

from __future__ import annotations

import sys

import msgpack
import numpy as np
import pytest

from openpi_policy_ros.wire import InvalidPayload, packb, unpackb
from openpi_policy_ros.wire.reader import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_LIST_ELEMENTS,
    MAX_MAP_ENTRIES,
)


def nested(levels: int, empty: bytes) -> bytes:
    """Return ``levels`` containers inside each other, the innermost empty."""
    return (b'\x91' if empty == b'\x90' else b'\x81\xa1a') * (levels - 1) + empty


@pytest.mark.parametrize('empty', [b'\x90', b'\x80'], ids=['lists', 'maps'])
def test_depth_64_is_the_last_that_is_read(empty: bytes) -> None:
    unpackb(nested(MAX_DEPTH, empty))
    with pytest.raises(InvalidPayload, match='too deeply nested'):
        unpackb(nested(MAX_DEPTH + 1, empty))


def test_absurd_depth_is_refused_at_its_65th_level_not_by_the_stack() -> None:
    with pytest.raises(InvalidPayload, match='too deeply nested'):
        unpackb(b'\x91' * 10_000_000)
    with pytest.raises(InvalidPayload, match='too deeply nested'):
        unpackb(b'\x81' * 10_000_000)


def test_map_of_4096_entries_is_the_last_that_is_read() -> None:
    def frame(entries: int) -> bytes:
        return msgpack.packb({str(i): None for i in range(entries)})

    assert len(unpackb(frame(MAX_MAP_ENTRIES))) == 4096
    with pytest.raises(InvalidPayload, match='map with 4097 elements'):
        unpackb(frame(MAX_MAP_ENTRIES + 1))


def test_list_of_100_000_elements_is_the_last_that_is_read() -> None:
    assert len(unpackb(msgpack.packb([0] * MAX_LIST_ELEMENTS))) == 100_000
    with pytest.raises(InvalidPayload, match=r'list with 100001 elements.*NumPy arrays'):
        unpackb(msgpack.packb([0] * (MAX_LIST_ELEMENTS + 1)))


def test_elements_of_all_containers_are_counted_together() -> None:
    def frame(last: int) -> bytes:
        # 3 elements in the outer list, 2 in the map, the rest in the inner lists.
        return msgpack.packb([[0] * 99_990, {'a': [0] * 99_990, 'b': 1}, [0] * last])

    fits = MAX_ELEMENTS - 3 - 2 - 2 * 99_990
    assert len(unpackb(frame(fits))) == 3
    with pytest.raises(InvalidPayload, match='more than 200000 elements'):
        unpackb(frame(fits + 1))


def test_array_payloads_do_not_count_as_elements() -> None:
    array = np.zeros(10_000_000, np.uint8)
    assert unpackb(packb({'image': array}))['image'].nbytes == array.nbytes


@pytest.mark.parametrize(
    'header',
    [b'\xdd\xff\xff\xff\xff', b'\xdf\xff\xff\xff\xff', b'\xdd\x00\x01\x86\xa1', b'\xde\xff\xff'],
    ids=['list of 2**32', 'map of 2**32', 'list of 100 001', 'map of 65 535'],
)
def test_declared_size_is_refused_before_anything_is_read(header: bytes) -> None:
    with pytest.raises(InvalidPayload, match='expected at most'):
        unpackb(header)


@pytest.mark.parametrize(
    'frame',
    [
        b'',
        b'\x91',
        b'\xdd\x00\x01\x86\xa0' + b'\x00' * 99_999,
        b'\xde\x10\x00' + b'\xa1a\x00' * 100,
        b'\xc4',
        b'\xc6\xff\xff\xff\xff',
        b'\xdb\xff\xff\xff\xffabc',
        b'\xd9\x05abcd',
        b'\xa5abcd',
        b'\xcb\x00\x00',
        b'\xdd\x00',
        b'\x81\xa1a',
        b'\x81',
    ],
)
def test_truncated_frames_say_so(frame: bytes) -> None:
    with pytest.raises(InvalidPayload, match='ends early'):
        unpackb(frame)


def test_every_cut_of_a_frame_is_refused() -> None:
    frame = packb({'image': np.zeros((4, 4, 3), np.uint8), 'prompt': 'pick', 'list': [1.5, None]})
    for end in range(len(frame)):
        with pytest.raises(InvalidPayload):
            unpackb(frame[:end])


def test_bytes_after_the_value_are_refused() -> None:
    with pytest.raises(InvalidPayload, match='1 bytes after the value'):
        unpackb(msgpack.packb({'a': 1}) + b'\xc0')


def test_the_byte_that_starts_no_value_is_refused() -> None:
    with pytest.raises(InvalidPayload, match='0xc1'):
        unpackb(b'\x91\xc1')


@pytest.mark.parametrize(
    'value',
    [msgpack.ExtType(5, b'12'), msgpack.Timestamp(1, 2), msgpack.ExtType(1, b'1' * 300)],
    ids=['ext', 'timestamp', 'long ext'],
)
def test_extension_types_are_refused(value: object) -> None:
    with pytest.raises(InvalidPayload, match=r'extension type.*timestamps as numbers'):
        unpackb(msgpack.packb({'stamp': value}))


@pytest.mark.parametrize('code', [0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8])
def test_every_extension_code_is_refused_whatever_follows(code: int) -> None:
    with pytest.raises(InvalidPayload, match='extension type'):
        unpackb(bytes([code]))


@pytest.mark.parametrize('text', [b'\xff', b'\xc3', b'\xed\xa0\x80', b'\xf5\x80\x80\x80'])
def test_text_that_is_not_utf_8_is_refused_and_points_to_bin(text: bytes) -> None:
    frame = b'\x81\xa6prompt' + bytes([0xA0 | len(text)]) + text
    with pytest.raises(InvalidPayload, match=r"'prompt': text that is not UTF-8.*use_bin_type"):
        unpackb(frame)


def test_old_raw_text_form_of_array_data_is_refused_not_misread() -> None:
    array = np.full(40, 200, np.uint8)
    marker = {'nd': True, 'type': '|u1', 'kind': '', 'shape': [40], 'data': array.tobytes()}
    with pytest.raises(InvalidPayload, match='use_bin_type'):
        unpackb(msgpack.packb(marker, use_bin_type=False))


@pytest.mark.parametrize(
    'key',
    [1, -1, None, True, 1.5, (1, 2), {'a': 1}, np.float32(1)],
    ids=repr,
)
def test_keys_that_are_not_text_are_refused(key: object) -> None:
    frame = b'\x81' + packb(key) + b'\x00'
    with pytest.raises(InvalidPayload, match='key of type'):
        unpackb(frame)


def test_keys_that_are_not_utf_8_are_refused() -> None:
    with pytest.raises(InvalidPayload, match='UTF-8'):
        unpackb(b'\x81\xc4\x01\xff\x00')
    with pytest.raises(InvalidPayload, match='UTF-8'):
        unpackb(b'\x81\xa1\xff\x00')


@pytest.mark.parametrize('second', [b'\xa1a', b'\xc4\x01a', b'\xd9\x01a'])
def test_key_that_occurs_twice_is_refused_in_any_spelling(second: bytes) -> None:
    with pytest.raises(InvalidPayload, match="key 'a' occurs twice"):
        unpackb(b'\x82\xa1a\x01' + second + b'\x02')


def test_keys_are_not_interned_because_python_3_12_never_frees_those() -> None:
    name = 'unheard-of-' + 'key' * 7
    (key,) = unpackb(msgpack.packb({name: 1}))
    twin = ''.join(list(name))
    assert twin is not key
    assert sys.intern(twin) is twin
