# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What leaves: always openpi-client's form, or an error that names the value."""

from __future__ import annotations

import types

import msgpack
import numpy as np
import pytest

from openpi_policy_ros.wire import UnsupportedValue, packb


def plain(value: object) -> object:
    """Return what a MessagePack reader without any NumPy hook sees."""
    return msgpack.unpackb(packb(value), strict_map_key=False)


def test_array_is_a_map_with_bytes_keys_and_raw_c_order_data() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert plain(array) == {
        b'__ndarray__': True,
        b'data': array.tobytes(),
        b'dtype': '<f4',
        b'shape': [2, 3],
    }


def test_fortran_order_and_strided_arrays_are_sent_in_c_order() -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)
    for view in (np.asfortranarray(array), array[:, ::-2], array.T):
        assert plain(view)[b'data'] == np.ascontiguousarray(view).tobytes()
        assert plain(view)[b'shape'] == list(view.shape)


def test_big_endian_array_is_sent_little_endian() -> None:
    sent = plain(np.array([1.5, -2.0], dtype='>f8'))
    assert sent[b'dtype'] == '<f8'
    assert sent[b'data'] == np.array([1.5, -2.0], dtype='<f8').tobytes()


def test_zero_dimensional_array_has_an_empty_shape() -> None:
    assert plain(np.array(7, dtype=np.uint8))[b'shape'] == []


@pytest.mark.parametrize(
    ('scalar', 'data', 'dtype'),
    [
        (np.float32(0.5), 0.5, '<f4'),
        (np.int64(-3), -3, '<i8'),
        (np.uint8(200), 200, '|u1'),
        (np.bool_(True), True, '|b1'),
    ],
)
def test_numpy_scalar_carries_its_native_value(scalar: object, data: object, dtype: str) -> None:
    assert plain(scalar) == {b'__npgeneric__': True, b'data': data, b'dtype': dtype}


def test_tuples_become_lists_and_mappings_of_any_kind_become_maps() -> None:
    frozen = types.MappingProxyType({'image_resolution': (180, 320)})
    assert plain({'config': frozen}) == {'config': {'image_resolution': [180, 320]}}


@pytest.mark.parametrize(
    'value',
    [
        np.array([object()]),
        np.zeros(2, dtype='V4'),
        np.zeros(2, dtype=[('x', '<f4')]),
        np.zeros(2, dtype=np.complex64),
        np.complex128(1j),
        np.zeros(1, dtype=[('x', '<f4')])[0],
    ],
    ids=['object', 'void', 'record', 'complex', 'complex scalar', 'record scalar'],
)
def test_object_void_and_complex_are_not_sent(value: object) -> None:
    with pytest.raises(UnsupportedValue, match='dtype'):
        packb({'actions': value})


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason='long double is a double here')
def test_extended_floats_are_not_sent_because_their_bytes_differ_between_machines() -> None:
    with pytest.raises(UnsupportedValue, match='dtype'):
        packb(np.zeros(1, dtype=np.longdouble))


def test_datetime_scalar_is_not_sent_because_the_stock_client_cannot_rebuild_it() -> None:
    with pytest.raises(UnsupportedValue, match=r'datetime64.*number of seconds'):
        packb(np.datetime64('2026-01-01'))


@pytest.mark.parametrize('value', [object(), 1j, {1, 2}, 2**64, 'lone \ud800 surrogate'])
def test_values_without_a_form_on_the_wire_are_named(value: object) -> None:
    with pytest.raises(UnsupportedValue):
        packb({'key': value})
