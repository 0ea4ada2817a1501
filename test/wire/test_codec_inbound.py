# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What comes in: three marker dialects, and every lie a marker can tell."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from openpi_policy_ros.wire import InvalidPayload, packb, unpackb

IMAGE = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
STATE = np.array([0.25, -1.5, 3.0], dtype=np.float32)


def openpi(array: np.ndarray, **changes: Any) -> dict[str, Any]:
    """Return openpi's marker of ``array``."""
    form = {'__ndarray__': True, 'data': array.tobytes(), 'dtype': array.dtype.str}
    return {**form, 'shape': list(array.shape), **changes}


def legacy(array: np.ndarray, **changes: Any) -> dict[str, Any]:
    """Return the legacy vLLM marker of ``array``."""
    form = {'nd': True, 'type': array.dtype.str, 'kind': array.dtype.kind}
    return {**form, 'data': array.tobytes(), 'shape': list(array.shape), **changes}


def msgpack_numpy_form(array: np.ndarray, **changes: Any) -> dict[str, Any]:
    """Return the marker of the msgpack-numpy package."""
    return legacy(array, kind=b'', **changes)


FORMS = pytest.mark.parametrize('form', [openpi, legacy, msgpack_numpy_form])


def bytes_keys(mapping: dict[str, Any]) -> dict[bytes, Any]:
    return {key.encode(): value for key, value in mapping.items()}


def read(value: object) -> Any:
    return unpackb(msgpack.packb(value))


def assert_same(read_array: Any, array: np.ndarray) -> None:
    assert isinstance(read_array, np.ndarray)
    assert read_array.dtype == array.dtype.newbyteorder('=')
    np.testing.assert_array_equal(read_array, array)
    assert read_array.shape == array.shape


@FORMS
@pytest.mark.parametrize('convert', [dict, bytes_keys], ids=['str keys', 'bytes keys'])
@pytest.mark.parametrize('marker', [True, 1])
@pytest.mark.parametrize('array', [IMAGE, STATE, np.zeros((0, 3), np.float32), np.array(2.5)])
def test_array_in_every_dialect_and_spelling(
    form: Any, convert: Any, marker: object, array: np.ndarray
) -> None:
    name = '__ndarray__' if form is openpi else 'nd'
    assert_same(read(convert(form(array, **{name: marker}))), array)


@pytest.mark.parametrize('form', [openpi, legacy])
def test_dtype_text_may_be_bytes(form: Any) -> None:
    name = 'dtype' if form is openpi else 'type'
    assert_same(read(form(STATE, **{name: b'<f4'})), STATE)
    if form is legacy:
        assert_same(read(legacy(STATE, kind=b'f')), STATE)


@FORMS
@pytest.mark.parametrize(
    'dtype', ['|b1', '|i1', '<i2', '<i4', '<i8', '|u1', '<u2', '<u8', '<f2', '<f4', '<f8', '<U3']
)
def test_every_plain_dtype(form: Any, dtype: str) -> None:
    array = np.array([1, 0, 1]).astype(dtype)
    assert_same(read(form(array)), array)


@FORMS
@pytest.mark.parametrize('dtype', ['>f4', '>i2', '>u8', '>U2', '>M8[ns]'])
def test_big_endian_is_converted(form: Any, dtype: str) -> None:
    array = np.array([1, 258, 3]).astype(dtype)
    result = read(form(array))
    assert_same(result, array)
    assert result.dtype.isnative


@FORMS
def test_datetime_arrays_are_integers_with_a_unit(form: Any) -> None:
    array = np.array(['2026-01-01T00:00:00', 'NaT'], dtype='<M8[ms]')
    assert_same(read(form(array)), array)
    assert_same(read(form(np.array([5], dtype='<m8[us]'))), np.array([5], dtype='<m8[us]'))


@FORMS
def test_text_may_be_a_zero_dimensional_array(form: Any) -> None:
    prompt = read({'prompt': form(np.array('pick ⬛ 🤖'))})['prompt']
    assert prompt.shape == ()
    assert str(prompt) == 'pick ⬛ 🤖'


@pytest.mark.parametrize(
    ('data', 'dtype', 'expected'),
    [
        (0.5, '<f4', np.float32(0.5)),
        (3, '>i4', np.int32(3)),
        (3, '<f8', np.float64(3)),
        (float('inf'), '<f2', np.float16('inf')),
        (255, '|u1', np.uint8(255)),
        (True, '|b1', np.bool_(True)),
        ('pick', '<U4', np.str_('pick')),
        (b'pick', '|S8', np.bytes_(b'pick')),
        (5, '<M8[s]', np.datetime64(5, 's')),
        (-7, '<m8[ms]', np.timedelta64(-7, 'ms')),
    ],
)
def test_openpi_scalar(data: object, dtype: str, expected: np.generic) -> None:
    marker = {'__npgeneric__': True, 'data': data, 'dtype': dtype}
    for spelling in (marker, bytes_keys(marker)):
        scalar = read(spelling)
        assert type(scalar) is type(expected)
        assert scalar == expected


@pytest.mark.parametrize('nd', [False, 0])
@pytest.mark.parametrize(
    'extra', [{}, {'kind': b''}, {'kind': 'f'}, {'kind': 'f', 'shape': []}], ids=str
)
def test_legacy_scalar_is_the_first_element(nd: object, extra: dict[str, Any]) -> None:
    scalar = read({'nd': nd, 'type': '<f4', 'data': np.float32(1.5).tobytes(), **extra})
    assert type(scalar) is np.float32
    assert scalar == 1.5


def test_legacy_scalar_with_more_data_is_still_the_first_element() -> None:
    data = np.array([4, 5], dtype='>i2').tobytes()
    assert read({'nd': False, 'type': '>i2', 'data': data}) == np.int16(4)


@pytest.mark.parametrize(
    ('form', 'key'),
    [(openpi, key) for key in openpi(STATE)]
    + [(legacy, key) for key in legacy(STATE)]
    + [
        (lambda _: {'__npgeneric__': True, 'data': 1, 'dtype': '<i4'}, key)
        for key in ('__npgeneric__', 'data', 'dtype')
    ],
)
def test_mapping_that_lacks_a_marker_key_stays_a_mapping(form: Any, key: str) -> None:
    mapping = form(STATE)
    del mapping[key]
    assert read(mapping) == mapping


@FORMS
def test_mapping_with_a_key_too_many_stays_a_mapping(form: Any) -> None:
    mapping = form(STATE, note='mine')
    assert read(mapping) == mapping


@pytest.mark.parametrize('marker', [False, 0, 2, None, 'yes', 1.0])
def test_openpi_mapping_without_a_true_marker_stays_a_mapping(marker: object) -> None:
    mapping = openpi(STATE, __ndarray__=marker)
    assert read(mapping) == mapping


@pytest.mark.parametrize('nd', [2, None, 'yes', 0.0])
def test_legacy_mapping_without_a_boolean_marker_stays_a_mapping(nd: object) -> None:
    mapping = legacy(STATE, nd=nd)
    assert read(mapping) == mapping


def test_nested_markers_are_decoded_where_they_stand() -> None:
    content = read({'images': {'cam_high': openpi(IMAGE)}, 'list': [legacy(STATE), 1]})
    assert_same(content['images']['cam_high'], IMAGE)
    assert_same(content['list'][0], STATE)
    assert content['list'][1] == 1


def test_binary_that_belongs_to_no_array_is_bytes() -> None:
    content = read({'a': b'12', 'b': [b'34', {'c': b''}]})
    assert content == {'a': b'12', 'b': [b'34', {'c': b''}]}
    assert type(content['a']) is type(content['b'][0]) is type(content['b'][1]['c']) is bytes
    assert type(unpackb(msgpack.packb(b'top'))) is bytes


def test_keys_are_text_however_they_were_sent() -> None:
    assert read({b'prompt': 1, 'état': {b'x': 2}}) == {'prompt': 1, 'état': {'x': 2}}


@FORMS
def test_image_is_a_read_only_view_of_the_frame(form: Any) -> None:
    frame = msgpack.packb({'image': form(IMAGE)})
    image = unpackb(frame)['image']
    assert np.shares_memory(image, np.frombuffer(frame, np.uint8))
    assert not image.flags.writeable


@FORMS
@pytest.mark.parametrize('dtype', ['<f4', '>f4', '<f8', '<U4'])
@pytest.mark.parametrize('shift', range(8))
def test_decoded_arrays_are_aligned_and_read_only(form: Any, dtype: str, shift: int) -> None:
    array = np.array([1, 2, 3]).astype(dtype)
    result = read({'x' * (shift + 1): form(array)})['x' * (shift + 1)]
    assert result.flags.aligned
    assert not result.flags.writeable
    assert_same(result, array)


def test_mutable_buffer_is_copied_before_it_is_viewed() -> None:
    buffer = bytearray(msgpack.packb(openpi(IMAGE)))
    image = unpackb(buffer)
    buffer[:] = bytes(len(buffer))
    assert_same(image, IMAGE)


@FORMS
@pytest.mark.parametrize(
    'dtype', ['|O', 'O', '|V4', 'V', '<c8', '<c16', 'F', 'object', 'complex64']
)
def test_object_void_and_complex_are_refused(form: Any, dtype: str) -> None:
    name = 'dtype' if form is openpi else 'type'
    marker = form(np.zeros(1, '<i8'), **{name: dtype})
    if form is legacy:
        marker['kind'] = np.dtype(dtype).kind
    with pytest.raises(InvalidPayload, match='refused'):
        read(marker)


@pytest.mark.parametrize('kind', [b'V', 'V', b'O', 'O', 'c', 'x', 'ff', 3])
def test_kind_is_refused_before_its_type_is_read(kind: object) -> None:
    marker = legacy(STATE, kind=kind, type=[['x', '<f4'], ['y', '<f4']])
    with pytest.raises(InvalidPayload, match='refused dtype kind'):
        read(marker)


def test_kind_that_contradicts_the_type_is_refused() -> None:
    with pytest.raises(InvalidPayload, match="kind 'i' contradicts type '<f4'"):
        read(legacy(STATE, kind='i'))


@pytest.mark.parametrize('form', [openpi, legacy])
@pytest.mark.parametrize(
    'dtype',
    [
        'float99',
        '<q9',
        '',
        'f4,f4',
        '(2,)f4',
        '3f4',
        '<f4 ',
        'x' * 300,
        '<U9999999999',
        7,
        None,
        ['<f4'],
        '>>f4',
        'M8[parsec]',
        '{"a": 1}',
        b'\xff',
    ],
    ids=str,
)
def test_unknown_dtype_is_refused(form: Any, dtype: object) -> None:
    name = 'dtype' if form is openpi else 'type'
    with pytest.raises(InvalidPayload, match='unknown dtype'):
        read(form(STATE, **{name: dtype}))


@pytest.mark.parametrize('dtype', ['T', 'g', '<f16', '<f12', 'S0', 'U0', 'S', 'U', 'longdouble'])
def test_dtypes_whose_bytes_mean_nothing_elsewhere_are_refused(dtype: str) -> None:
    with pytest.raises(InvalidPayload, match='dtype'):
        read(openpi(np.zeros(1, '<f8'), dtype=dtype, data=b'', shape=[0]))


@FORMS
@pytest.mark.parametrize(
    'shape',
    [[3, 2], [], [4], [2], [3, 0], [0], [2**62, 4], [3, 2**64 - 1]],
    ids=str,
)
def test_shape_that_does_not_match_the_data_is_refused(form: Any, shape: list[int]) -> None:
    with pytest.raises(InvalidPayload, match='expected'):
        read(form(STATE, shape=shape))


@FORMS
@pytest.mark.parametrize(
    'shape',
    [
        [-3],
        [3, -1, -1],
        [True, 3],
        [3.0],
        ['3'],
        [[3]],
        [None],
        3,
        None,
        'abc',
        b'\x03',
        {'0': 3},
        [1] * 32 + [3],
    ],
    ids=str,
)
def test_impossible_shape_is_refused(form: Any, shape: object) -> None:
    with pytest.raises(InvalidPayload, match='shape'):
        read(form(STATE, shape=shape))


@FORMS
@pytest.mark.parametrize('shape', [[0, 2**62], [2**40, 2**40, 0], [0] + [2**33] * 31])
def test_empty_array_of_an_overflowing_shape_is_refused(form: Any, shape: list[int]) -> None:
    with pytest.raises(InvalidPayload, match='overflows'):
        read(form(np.zeros(0, np.float32), shape=shape))


@pytest.mark.parametrize('form', [openpi, legacy])
@pytest.mark.parametrize('data', ['text', 12, None, [1, 2, 3], {'a': 1}, True])
def test_array_data_that_is_not_binary_is_refused(form: Any, data: object) -> None:
    with pytest.raises(InvalidPayload, match='array data'):
        read(form(STATE, data=data))


@pytest.mark.parametrize(
    ('data', 'dtype'),
    [
        (256, '|u1'),
        (-1, '<u4'),
        (2**63, '<i8'),
        (1.5, '<i4'),
        (True, '<i4'),
        (1, '|b1'),
        ('1', '<f4'),
        (1e300, '<f4'),
        (True, '<f8'),
        ('pick', '<U3'),
        (b'pick', '|S3'),
        (b'pick', '<U9'),
        ('2026-01-01', '<M8[s]'),
        (2**63, '<M8[s]'),
        ([1], '<i4'),
        ({'a': 1}, '<f4'),
        (None, '<f4'),
    ],
)
def test_openpi_scalar_that_does_not_fit_its_dtype_is_refused(data: object, dtype: str) -> None:
    with pytest.raises(InvalidPayload, match='scalar'):
        read({'__npgeneric__': True, 'data': data, 'dtype': dtype})


@pytest.mark.parametrize('data', [b'', b'123', b'12345'])
def test_legacy_scalar_without_whole_elements_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPayload, match='scalar'):
        read({'nd': False, 'type': '<f4', 'data': data})


def test_legacy_scalar_with_an_empty_shape_axis_is_refused() -> None:
    with pytest.raises(InvalidPayload, match='without data'):
        read({'nd': 0, 'type': '<f4', 'kind': 'f', 'data': b'', 'shape': [0]})


@FORMS
@pytest.mark.parametrize('point', [0x110000, 0xFFFFFFFF, 0xD800, 0xDFFF])
def test_text_array_of_no_characters_is_refused(form: Any, point: int) -> None:
    name = 'dtype' if form is openpi else 'type'
    marker = form(np.array([65, point], np.uint32), **{name: '<U2', 'shape': []})
    if form is legacy:
        marker['kind'] = 'U'
    with pytest.raises(InvalidPayload, match='code points'):
        read(marker)


def test_bool_array_of_other_bytes_is_refused() -> None:
    with pytest.raises(InvalidPayload, match='bool'):
        read(openpi(np.array([0, 1, 2], np.uint8), dtype='|b1'))


def test_complex_number_of_msgpack_numpy_is_refused() -> None:
    with pytest.raises(InvalidPayload, match='complex'):
        read({'complex': True, 'data': '1j'})
    assert read({'complex': True}) == {'complex': True}


def test_message_names_the_place_in_the_frame() -> None:
    marker = openpi(STATE, shape=[4])
    with pytest.raises(InvalidPayload) as caught:
        read({'observation': {'cameras': [1, {'state': marker}]}})
    message = str(caught.value)
    assert "'observation/cameras/1/state'" in message
    assert '12 bytes' in message
    assert "expected 16 bytes for shape [4] of dtype '<f4'" in message


def test_message_about_hostile_content_stays_short() -> None:
    with pytest.raises(InvalidPayload) as caught:
        read({'k' * 100_000: openpi(STATE, dtype='d' * 100_000)})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    'value',
    [
        np.arange(6, dtype='>f8').reshape(2, 3),
        np.array('⬛'),
        np.float32(0.1),
        {'a': [None, True, -5, 2**64 - 1, 0.1, 'text', b'bin', {}]},
    ],
    ids=['array', 'text array', 'scalar', 'plain'],
)
def test_own_frames_come_back(value: Any) -> None:
    result = unpackb(packb(value))
    if isinstance(value, np.ndarray):
        assert_same(result, value)
    else:
        assert result == value
        assert type(result) is type(value)
