# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""NumPy values inside MessagePack: three dialects in, openpi's form out.

In (keys and dtype text as str or bytes, see ``reader``):

1. openpi: ``{__ndarray__: True, data, dtype, shape}``, scalars
   ``{__npgeneric__: True, data: native value, dtype}``;
2. legacy vLLM: ``{nd: True, type, kind, data, shape}``, scalars ``{nd: False, type, kind, data}``
   (first element of the data), ``kind`` = NumPy's kind character;
3. the ``msgpack-numpy`` package: as 2 with an empty ``kind``; scalars carry none.

A mapping with a key missing or one too many, or with another marker value than True or 1 (False or
0 for the scalars of 2 and 3), stays the mapping it is. One that has the form but lies about its
content is refused.

Kinds: bool, integers, floats up to 64 bits, text, bytes, and datetimes (their array payload is
plain 64-bit integers with a unit). Object, void and complex are refused both ways; so are extended
floats, whose bytes mean different numbers on different machines. Datetime scalars are read, not
written: openpi's client could not rebuild them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.wire.errors import InvalidPayload, UnsupportedValue, shorten

MAX_DIMENSIONS = 32
"""Axes of an array: the most that every NumPy from 1.22 on can hold."""

KINDS = 'biufUSMm'
_KINDS_TEXT = 'bool, integer, float up to 64 bits, text, bytes or datetime'
_MAX_NUMBER_BYTES = 8
_MAX_ARRAY_BYTES = 2**63 - 1

# np.dtype() also reads comma-separated records and sub-arrays, and before NumPy 2 it let the digits
# overflow: what fits this pattern is one plain type of the size it says.
_DTYPE = re.compile(r'[<>=|]?[a-zA-Z?][a-zA-Z_]{0,15}\d{0,8}(\[\d{0,9}[a-zA-Z]{1,2}\])?')

USUAL = {text.encode(): np.dtype(text) for text in ('|u1', '<f4', '<f8', '<i4', '<i8', '|b1')}
"""What nearly every array is, by its dtype text: no need to look closer."""

_OPENPI_ARRAY = frozenset({'__ndarray__', 'data', 'dtype', 'shape'})
_OPENPI_SCALAR = frozenset({'__npgeneric__', 'data', 'dtype'})
_LEGACY_ARRAY = frozenset({'nd', 'type', 'kind', 'data', 'shape'})
_LEGACY_SCALARS = (
    frozenset({'nd', 'type', 'data'}),
    frozenset({'nd', 'type', 'kind', 'data'}),
    frozenset({'nd', 'type', 'kind', 'data', 'shape'}),
)
_COMPLEX = frozenset({'complex', 'data'})


def decode(mapping: Mapping[str, Any]) -> Any | None:
    """Return the array or scalar that ``mapping`` stands for, None if it is a plain mapping.

    Binary values may be ``memoryview``; arrays are then views of the same memory, read-only.
    Big-endian data is converted; data that is not aligned for its type is copied.

    Raises:
        InvalidPayload: the mapping has a marker's form, but its dtype is refused or unknown, its
            shape is impossible, or its data does not have the size the shape says.

    """
    if not 2 <= len(mapping) <= 5:
        return None
    keys = mapping.keys()
    if '__ndarray__' in mapping:
        if keys == _OPENPI_ARRAY and _is_bool(mapping['__ndarray__'], True):
            return make_array(_dtype(mapping['dtype']), mapping['shape'], mapping['data'])
    elif '__npgeneric__' in mapping:
        if keys == _OPENPI_SCALAR and _is_bool(mapping['__npgeneric__'], True):
            return _native_scalar(_dtype(mapping['dtype']), mapping['data'])
    elif 'nd' in mapping:
        if keys == _LEGACY_ARRAY and _is_bool(mapping['nd'], True):
            return make_array(_legacy_dtype(mapping), mapping['shape'], mapping['data'])
        if keys in _LEGACY_SCALARS and _is_bool(mapping['nd'], False):
            return _first_element(_legacy_dtype(mapping), mapping)
    elif keys == _COMPLEX and _is_bool(mapping['complex'], True):
        raise InvalidPayload('a complex number in the form of msgpack-numpy', expected=_KINDS_TEXT)
    return None


def encode(value: object) -> dict[bytes, Any]:
    """Return openpi's form of an array or NumPy scalar, with bytes keys.

    Raises:
        UnsupportedValue: any other type, or a dtype that is refused on the wire.

    """
    if isinstance(value, np.ndarray):
        _check_outbound(value.dtype)
        array = value.astype(value.dtype.newbyteorder('<'), copy=False)
        return {
            b'__ndarray__': True,
            b'data': array.tobytes(),
            b'dtype': array.dtype.str,
            b'shape': list(array.shape),
        }
    if isinstance(value, np.generic):
        _check_outbound(value.dtype)
        if value.dtype.kind in 'Mm':
            raise UnsupportedValue(
                f'a NumPy scalar of dtype {value.dtype}',
                expected='a number, text or an array',
                remedy='send it as an array or as a number of seconds',
            )
        return {
            b'__npgeneric__': True,
            b'data': value.item(),
            b'dtype': value.dtype.newbyteorder('<').str,
        }
    raise UnsupportedValue(
        f'a {type(value).__name__}',
        expected='None, bool, int, float, str, bytes, list, tuple, mapping, NumPy array or scalar',
    )


def _check_outbound(dtype: np.dtype[Any]) -> None:
    if not _is_accepted(dtype):
        raise UnsupportedValue(f'a NumPy value of dtype {dtype}', expected=_KINDS_TEXT)


def _is_accepted(dtype: np.dtype[Any]) -> bool:
    if dtype.kind not in KINDS or dtype.itemsize == 0:
        return False
    return dtype.kind in 'US' or dtype.itemsize <= _MAX_NUMBER_BYTES


def _is_bool(marker: object, value: bool) -> bool:
    return isinstance(marker, int) and marker == value


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).decode('latin-1')
    return None


def _dtype(value: object) -> np.dtype[Any]:
    text = _text(value)
    dtype = None
    if text is not None and _DTYPE.fullmatch(text):
        try:
            dtype = np.dtype(text)
        except (TypeError, ValueError, OverflowError):
            dtype = None
    if dtype is None:
        shown = shorten(text if text is not None else value)
        raise InvalidPayload(f'unknown dtype {shown}', expected="NumPy's dtype text, e.g. '<f4'")
    if not _is_accepted(dtype):
        raise InvalidPayload(
            f'refused dtype {text!r} (kind {dtype.kind!r}, {dtype.itemsize} bytes)',
            expected=_KINDS_TEXT,
        )
    return dtype


def _legacy_dtype(mapping: Mapping[str, Any]) -> np.dtype[Any]:
    kind = _text(mapping.get('kind', ''))
    if kind is None or kind not in ('', *KINDS):
        # 'O' is a pickle and 'V' a record; neither is looked at any further.
        shown = shorten(mapping['kind'] if kind is None else kind)
        raise InvalidPayload(f'refused dtype kind {shown}', expected=_KINDS_TEXT)
    dtype = _dtype(mapping['type'])
    if kind and kind != dtype.kind:
        raise InvalidPayload(
            f'dtype kind {kind!r} contradicts type {dtype.str!r}', expected=f'kind {dtype.kind!r}'
        )
    return dtype


def _shape(value: object, dtype: np.dtype[Any]) -> tuple[tuple[int, ...], int]:
    """Return the shape and the number of bytes an array of it has."""
    if not isinstance(value, list) or any(type(axis) is not int or axis < 0 for axis in value):
        shown = value if isinstance(value, list) and len(value) <= 8 else shorten(value)
        raise InvalidPayload(f'shape {shown}', expected='a list of non-negative integers')
    if len(value) > MAX_DIMENSIONS:
        raise InvalidPayload(
            f'shape with {len(value)} axes', expected=f'at most {MAX_DIMENSIONS} axes'
        )
    size = span = dtype.itemsize
    for axis in value:
        size *= axis
        # NumPy overflows on the product of the other axes even where one of them is 0.
        span *= axis or 1
    if span > _MAX_ARRAY_BYTES:
        raise InvalidPayload(f'shape {value} overflows', expected='an array that fits in memory')
    return tuple(value), size


def _bytes(value: object) -> memoryview:
    if not isinstance(value, (bytes, memoryview)):
        raise InvalidPayload(
            f'array data is {shorten(value)}', expected='binary (MessagePack bin) data'
        )
    return memoryview(value)


def make_array(dtype: np.dtype[Any], shape: object, data: object) -> npt.NDArray[Any]:
    """Return an accepted dtype's array; ``shape`` and ``data`` as in ``decode``, and checked."""
    axes, size = _shape(shape, dtype)
    buffer = _bytes(data)
    if len(buffer) != size:
        raise InvalidPayload(
            f'array data of {len(buffer)} bytes',
            expected=f'{size} bytes for shape {list(axes)} of dtype {dtype.str!r}',
        )
    return _view(dtype, axes, buffer)


def _first_element(dtype: np.dtype[Any], mapping: Mapping[str, Any]) -> np.generic:
    buffer = _bytes(mapping['data'])
    if 'shape' in mapping:
        array = make_array(dtype, mapping['shape'], buffer)
    elif len(buffer) % dtype.itemsize:
        raise InvalidPayload(
            f'scalar data of {len(buffer)} bytes',
            expected=f'a multiple of {dtype.itemsize} bytes for dtype {dtype.str!r}',
        )
    else:
        array = _view(dtype, (len(buffer) // dtype.itemsize,), buffer)
    if array.size == 0:
        raise InvalidPayload('a scalar without data', expected=f'{dtype.itemsize} bytes')
    scalar: np.generic = array.reshape(-1)[0]
    return scalar


def _view(dtype: np.dtype[Any], shape: tuple[int, ...], buffer: memoryview) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.ndarray(shape, dtype=dtype, buffer=buffer)
    if not dtype.isnative or not array.flags.aligned:
        array = array.astype(dtype.newbyteorder('='))
    array.flags.writeable = False
    _check_content(array)
    return array


def _check_content(array: npt.NDArray[Any]) -> None:
    """Refuse bytes that are no value of their type and would fail wherever they are touched."""
    if array.dtype.kind == 'b' and array.size and np.max(array.view(np.uint8)) > 1:
        raise InvalidPayload('bool array with other bytes than 0 and 1', expected='0 or 1')
    if array.dtype.kind == 'U' and array.size:
        points = array.reshape(-1).view(np.uint32)
        if np.max(points) > 0x10FFFF or bool(((points >= 0xD800) & (points <= 0xDFFF)).any()):
            raise InvalidPayload(
                'text array with code points that are no characters', expected='UCS-4 text'
            )


def _native_scalar(dtype: np.dtype[Any], value: object) -> np.generic:
    kind = dtype.kind
    if isinstance(value, memoryview):
        value = bytes(value)
    accepted: tuple[type, ...] = {
        'b': (bool,),
        'i': (int,),
        'u': (int,),
        'f': (float, int),
        'U': (str,),
        'S': (bytes,),
        'M': (int,),
        'm': (int,),
    }[kind]
    fits = type(value) in accepted
    if fits and kind in 'iu':
        limits = np.iinfo(dtype)
        fits = int(limits.min) <= value <= int(limits.max)  # type: ignore[operator]
    elif fits and kind in 'US':
        fits = len(value) <= dtype.itemsize // (4 if kind == 'U' else 1)  # type: ignore[arg-type]
    elif fits and kind in 'Mm':
        fits = -(2**63) <= value < 2**63  # type: ignore[operator]
    if not fits:
        raise InvalidPayload(
            f'scalar {shorten(value)} for dtype {dtype.str!r}', expected='a value of that type'
        )
    native = dtype.newbyteorder('=')
    scalar: Any
    if kind in 'Mm':
        # The integer counts units; NumPy refuses the conversion where the unit is generic.
        scalar = np.array(value, dtype=np.int64).view(native)[()]
        return scalar
    with np.errstate(over='ignore'):
        scalar = np.array(value, dtype=native)[()]
    if kind == 'f' and np.isinf(scalar) and not np.isinf(float(value)):  # type: ignore[arg-type]
        raise InvalidPayload(
            f'scalar {shorten(value)} overflows dtype {dtype.str!r}', expected='a value of it'
        )
    return scalar
