# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read one MessagePack frame from an untrusted client in bounded time and memory.

Frames are written by the C packer of ``msgpack`` but read here, for three reasons that its
unpacker cannot satisfy with hooks:

- it allocates what a header declares and calls hooks only at a container's end, so that nesting
  and element counts are known too late; here they are checked at the header;
- it interns every key, and Python 3.12 keeps interned strings for ever: a client with ever new
  keys would eat the server's memory; releases before 1.2 also leak what a refused frame had
  built, and read any type as a map's key once pairs are hooked;
- it copies all binary data while holding the GIL; here an array is a view of the frame.

The work is proportional to the number of elements, at most ``MAX_ELEMENTS``, and the interpreter
can switch threads in between: the event loop keeps answering pings.
"""

from __future__ import annotations

import struct
from typing import Any, NoReturn

from openpi_policy_ros.wire import markers
from openpi_policy_ros.wire.errors import InvalidPayload, shorten

MAX_DEPTH = 64
"""Maps and lists inside each other, the outermost included."""
MAX_MAP_ENTRIES = 4096
MAX_LIST_ELEMENTS = 100_000
MAX_ELEMENTS = 200_000
"""Entries of all maps plus elements of all lists of one frame."""

_NUMBERS = {
    0xCA: struct.Struct('>f'),
    0xCB: struct.Struct('>d'),
    0xCC: struct.Struct('>B'),
    0xCD: struct.Struct('>H'),
    0xCE: struct.Struct('>I'),
    0xCF: struct.Struct('>Q'),
    0xD0: struct.Struct('>b'),
    0xD1: struct.Struct('>h'),
    0xD2: struct.Struct('>i'),
    0xD3: struct.Struct('>q'),
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_BINARY = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_TEXT = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_SHORT = frozenset((0xC4, 0xD9))
"""Binary and text with one byte of length."""
_SHORT_TEXT = 4096
# What openpi's client writes around an array's data, its length, its dtype and its shape.
_ARRAY_HEAD = b'\xc4\x0b__ndarray__\xc3\xc4\x04data'
_ARRAY_DTYPE = b'\xc4\x05dtype\xa3'
_ARRAY_SHAPE = b'\xc4\x05shape'
_LISTS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}
_EXTENSIONS = frozenset((0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8))


class Reader:
    """Decode one frame. Use once: ``Reader(frame).read()``."""

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self._view = memoryview(frame)
        self._at = 0
        self._elements = 0
        self._path: list[str | int] = []

    def read(self) -> Any:
        """Return the value: None, bool, int, float, str, bytes, list, dict or a NumPy value.

        Keys come back as ``str`` whether they were sent as text or as bytes.

        Raises:
            InvalidPayload: the frame is not exactly one MessagePack value within the limits.

        """
        value = _owned(self._value(1))
        if self._at != len(self._frame):
            self._refuse(
                f'{len(self._frame) - self._at} bytes after the value',
                expected='one MessagePack value per frame',
            )
        return value

    def _value(self, depth: int) -> Any:
        at = self._at
        if at >= len(self._frame):
            self._refuse_truncated()
        code = self._frame[at]
        self._at = at + 1
        if code < 0x80:
            return code
        if code < 0x90:
            return self._map(code & 0x0F, depth)
        if code < 0xA0:
            return self._list(code & 0x0F, depth)
        if code < 0xC0:
            return self._text(code & 0x1F)
        if code >= 0xE0:
            return code - 0x100
        if code in _NUMBERS:
            number = _NUMBERS[code]
            return number.unpack(self._take(number.size))[0]
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _BINARY:
            return self._take(self._length(_BINARY[code]))
        if code in _TEXT:
            return self._text(self._length(_TEXT[code]))
        if code in _LISTS:
            return self._list(self._length(_LISTS[code]), depth)
        if code in _MAPS:
            return self._map(self._length(_MAPS[code]), depth)
        if code in _EXTENSIONS:
            self._refuse(
                'a MessagePack extension type',
                expected='plain MessagePack',
                remedy='send timestamps as numbers',
            )
        self._refuse(f'the byte 0x{code:02x}, which starts no MessagePack value')

    def _list(self, count: int, depth: int) -> list[Any]:
        self._open('list', count, MAX_LIST_ELEMENTS, count, depth)
        items: list[Any] = []
        for index in range(count):
            self._path.append(index)
            items.append(_owned(self._value(depth + 1)))
            self._path.pop()
        return items

    def _map(self, count: int, depth: int) -> Any:
        self._open('map', count, MAX_MAP_ENTRIES, 2 * count, depth)
        if count == 4 and self._frame.startswith(_ARRAY_HEAD, self._at):
            array = self._usual_array(depth)
            if array is not None:
                return array
        mapping: dict[str, Any] = {}
        for _ in range(count):
            key = self._key(depth)
            if key in mapping:
                self._refuse(f'key {shorten(key)} occurs twice', expected='distinct keys')
            self._path.append(key)
            mapping[key] = self._value(depth + 1)
            self._path.pop()
        try:
            value = markers.decode(mapping)
        except InvalidPayload as error:
            self._refuse(error.what, expected=error.expected, remedy=error.remedy)
        if value is not None:
            return value
        for key, item in mapping.items():
            mapping[key] = _owned(item)
        return mapping

    def _usual_array(self, depth: int) -> Any:
        """Return the array of a map that openpi's client wrote, byte for byte in its order.

        None, and nothing read, if anything in it is unusual: the long way then finds out what. It
        is most of every real frame, and this way costs a third.
        """
        frame, began = self._frame, self._at
        at = began + len(_ARRAY_HEAD)
        size = _BINARY.get(frame[at]) if at < len(frame) else None
        if size is None:
            return None
        start = at + 1 + size
        end = start + int.from_bytes(frame[at + 1 : start], 'big')
        if not frame.startswith(_ARRAY_DTYPE, end):
            return None
        at = end + len(_ARRAY_DTYPE)
        dtype = markers.USUAL.get(frame[at : at + 3])
        if dtype is None or not frame.startswith(_ARRAY_SHAPE, at + 3):
            return None
        self._at = at + 3 + len(_ARRAY_SHAPE)
        self._path.append('shape')
        shape = self._value(depth + 1)
        self._path.pop()
        try:
            return markers.make_array(dtype, shape, self._view[start:end])
        except InvalidPayload as error:
            self._refuse(error.what, expected=error.expected, remedy=error.remedy)

    def _key(self, depth: int) -> str:
        # Almost every key is short text or, from openpi's client, short binary: its own way, as
        # keys are most of what is read here.
        frame, at = self._frame, self._at
        if at + 1 < len(frame):
            code = frame[at]
            start = end = 0
            if 0xA0 <= code < 0xC0:
                start = at + 1
                end = start + code - 0xA0
            elif code in _SHORT:
                start = at + 2
                end = start + frame[at + 1]
            if start and end <= len(frame):
                try:
                    text = frame[start:end].decode()
                except UnicodeDecodeError:
                    pass  # Told below, with its place.
                else:
                    self._at = end
                    return text
        key = self._value(depth + 1)
        if isinstance(key, memoryview):
            try:
                key = str(key, 'utf-8')
            except UnicodeDecodeError:
                self._refuse(f'key {shorten(bytes(key[:80]))}', expected='UTF-8')
        if not isinstance(key, str):
            self._refuse(f'key of type {type(key).__name__}', expected='text keys')
        return key

    def _text(self, length: int) -> str:
        start, end = self._at, self._at + length
        if end > len(self._frame):
            self._refuse_truncated()
        self._at = end
        try:
            # A view of short text costs more than its copy; long text is not copied twice.
            text = self._frame[start:end] if length <= _SHORT_TEXT else self._view[start:end]
            return str(text, 'utf-8')
        except UnicodeDecodeError as error:
            self._refuse(
                f'text that is not UTF-8 ({error.reason} at byte {error.start})',
                expected='UTF-8',
                remedy='send binary data as MessagePack bin (use_bin_type=True)',
            )

    def _open(self, name: str, count: int, limit: int, least_bytes: int, depth: int) -> None:
        """Check a container's header before anything is built for it."""
        if depth > MAX_DEPTH:
            self._refuse('too deeply nested', expected=f'at most {MAX_DEPTH} levels')
        if count > limit:
            self._refuse(
                f'{name} with {count} elements',
                expected=f'at most {limit}',
                remedy='send numbers as NumPy arrays',
            )
        self._elements += count
        if self._elements > MAX_ELEMENTS:
            self._refuse(
                f'more than {MAX_ELEMENTS} elements over all maps and lists',
                expected='fewer',
                remedy='send numbers as NumPy arrays',
            )
        if least_bytes > len(self._frame) - self._at:
            self._refuse_truncated()

    def _length(self, size: int) -> int:
        start, end = self._at, self._at + size
        if end > len(self._frame):
            self._refuse_truncated()
        self._at = end
        return int.from_bytes(self._frame[start:end], 'big')

    def _take(self, size: int) -> memoryview:
        start, end = self._at, self._at + size
        if end > len(self._frame):
            self._refuse_truncated()
        self._at = end
        return self._view[start:end]

    def _refuse_truncated(self) -> NoReturn:
        self._refuse(
            f'the frame ends early, at {len(self._frame)} bytes', expected='a complete value'
        )

    def _refuse(self, what: str, *, expected: str = '', remedy: str = '') -> NoReturn:
        """Raise, naming where in the frame the reader is."""
        place = '/'.join(str(part)[:80] for part in self._path[:8])
        raise InvalidPayload(
            f'{place!r}: {what}' if place else what, expected=expected, remedy=remedy
        ) from None


def _owned(value: Any) -> Any:
    """Return binary data that turned out not to be an array's as bytes."""
    return bytes(value) if isinstance(value, memoryview) else value
