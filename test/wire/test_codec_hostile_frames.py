# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""64 MiB made to hurt: what decoding it takes on top of the frame itself."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import msgpack
import numpy as np
import pytest

from openpi_policy_ros.wire import MAX_FRAME_BYTES, InvalidPayload, packb, unpackb

MIB = 2**20


def long_list(unit: bytes, count: int = 100_000) -> bytes:
    """Return a list of ``count`` units."""
    return b'\xdd' + count.to_bytes(4, 'big') + unit * count


def filled(unit: bytes) -> bytes:
    """Return a list of as many units as 64 MiB hold."""
    return long_list(unit, (MAX_FRAME_BYTES - 5) // len(unit))


def lists_of_empty_maps() -> bytes:
    """Python objects for all of it would take 4 GiB."""
    return filled(long_list(b'\x80'))


def lists_of_empty_lists() -> bytes:
    return filled(long_list(b'\x90', 50_000))


def maps_of_empty_maps() -> bytes:
    return filled(msgpack.packb({str(i): {} for i in range(4096)}))


def lists_of_arrays() -> bytes:
    return filled(long_list(packb(np.zeros(1, np.uint8)), 50_000))


def lists_of_short_texts() -> bytes:
    return filled(long_list(b'\xa2ab', 90_000))


def lists_of_binaries() -> bytes:
    return filled(long_list(b'\xc4\x01a', 90_000))


def nested_huge_headers() -> bytes:
    """Each level claims 100 000 elements: reserving them would take 800 kB a level."""
    return b'\xdd\x00\x01\x86\xa0' * (MAX_FRAME_BYTES // 5)


def deep_nesting() -> bytes:
    return b'\x91' * MAX_FRAME_BYTES


def one_list_too_long() -> bytes:
    return filled(b'\x80')


def most_maps() -> bytes:
    """Legal: 199 998 maps in 2 lists."""
    return b'\x92' + long_list(b'\x80', 99_999) * 2


def most_arrays() -> bytes:
    """Legal: each array takes itself, 4 map entries and 1 axis."""
    return long_list(packb(np.zeros(1, np.uint8)), 200_000 // 6)


def widest_text() -> bytes:
    """Legal: one character outside the BMP makes Python store 4 bytes for each."""
    return msgpack.packb('a' * (MAX_FRAME_BYTES - 9) + '🤖')


def one_array() -> bytes:
    return packb(np.zeros(MAX_FRAME_BYTES - 64, np.uint8))


def array_then_nonsense() -> bytes:
    return b'\x92' + packb(np.zeros(MAX_FRAME_BYTES - 64, np.uint8)) + b'\xa1\xff'


def refused(frame: bytes) -> bool:
    try:
        unpackb(frame)
    except InvalidPayload:
        return True
    return False


def traced_peak(action: Callable[[], object]) -> float:
    """Return the most MiB that were allocated at a time while ``action`` ran."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ('attack', 'most_mib'),
    [
        (lists_of_empty_maps, 40),
        (lists_of_empty_lists, 40),
        (maps_of_empty_maps, 60),
        (lists_of_arrays, 40),
        (lists_of_short_texts, 40),
        (lists_of_binaries, 60),
        (nested_huge_headers, 1),
        (deep_nesting, 1),
        (one_list_too_long, 1),
        (array_then_nonsense, 1),
    ],
)
def test_hostile_frame_is_refused_in_bounded_memory(
    attack: Callable[[], bytes], most_mib: float
) -> None:
    frame = attack()
    assert 0.98 * MAX_FRAME_BYTES < len(frame) <= MAX_FRAME_BYTES
    outcomes: list[bool] = []
    assert traced_peak(lambda: outcomes.append(refused(frame))) < most_mib
    assert outcomes == [True]


@pytest.mark.parametrize(
    ('extreme', 'most_mib'),
    [(most_maps, 40), (most_arrays, 40), (widest_text, 330), (one_array, 1)],
)
def test_legal_extreme_is_read_in_bounded_memory(
    extreme: Callable[[], bytes], most_mib: float
) -> None:
    frame = extreme()
    outcomes: list[bool] = []
    assert traced_peak(lambda: outcomes.append(refused(frame))) < most_mib
    assert outcomes == [False]


def test_refused_frames_leave_nothing_behind() -> None:
    frame = b'\x93' + packb('x' * MIB) + packb(b'y' * MIB) + b'\xa1\xff'
    assert refused(frame)
    tracemalloc.start()
    try:
        assert all(refused(frame) for _ in range(50))
        left = tracemalloc.get_traced_memory()[0] / MIB
    finally:
        tracemalloc.stop()
    assert left < 0.5


def test_ever_new_keys_leave_nothing_behind() -> None:
    frames = [msgpack.packb({f'{turn} {i}': None for i in range(4096)}) for turn in range(20)]
    tracemalloc.start()
    try:
        assert not any(refused(frame) for frame in frames)
        left = tracemalloc.get_traced_memory()[0] / MIB
    finally:
        tracemalloc.stop()
    assert left < 0.5
