# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Turn ROS image messages into colour arrays, or say exactly why not.

Messages are read by their fields, so nothing here imports ROS. Conversion is our own (NumPy and
OpenCV): cv_bridge is absent without ROS and crashes beside NumPy 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import cv2
import numpy as np

from openpi_policy_ros.control.encodings import (
    ENCODINGS,
    ColourOrder,
    Encoding,
    UInt8Array,
)
from openpi_policy_ros.errors import InvalidObservation

COMPRESSED_FORMATS = ('jpeg', 'png')

_DEPTH_ENCODINGS = ('16UC1', '32FC1', 'mono16')
_MOSAIC = 'bayer_'
_DECODED = {1: ('mono8', 'mono8'), 3: ('bgr8', 'rgb8'), 4: ('bgra8', 'rgba8')}
"""Encoding by channels of a decoded file, as codecs store it and as stored in RGB order."""
_JPEG_START = b'\xff\xd8\xff'
_JPEG_SCAN = b'\xff\xda'
_JPEG_END = b'\xff\xd9'
_PNG_START = b'\x89PNG\r\n\x1a\n'
_PNG_END = b'IEND\xaeB`\x82'


class ImageMessage(Protocol):
    """The fields of ``sensor_msgs/Image`` that are read."""

    height: int
    width: int
    encoding: str
    step: int
    data: Any


class CompressedImageMessage(Protocol):
    """The fields of ``sensor_msgs/CompressedImage`` that are read."""

    format: str
    data: Any


@dataclass(frozen=True)
class Picture:
    """What an image message says of itself.

    Attributes:
        encoding: that of the pixels, or the format of a compressed image.
        width: pixels; 0 = compressed, so that it is not known.
        height: likewise.
        size: bytes of its data.

    """

    encoding: str
    width: int
    height: int
    size: int


def picture(message: Any) -> Picture:
    """Return what a message of either type says of itself."""
    compressed = getattr(message, 'format', None)
    if compressed is not None:
        return Picture(compressed, 0, 0, len(message.data))
    return Picture(message.encoding, message.width, message.height, len(message.data))


def decode_image(
    message: ImageMessage, colour_order: ColourOrder = 'RGB', *, name: str = 'image'
) -> UInt8Array:
    """Return a ``sensor_msgs/Image`` as colours.

    Alpha is dropped, grey repeated. YUV is converted as BT.601 with limited range (16 to 235), a
    Bayer mosaic by bilinear interpolation; both by OpenCV.

    Args:
        message: one of ``ENCODINGS``; rows may be padded.
        colour_order: order of the last axis of the result.
        name: what to call the image in errors.

    Returns:
        Read-only uint8 [height, width, 3]: a view into the message where it holds these colours
        in the wanted order (rows then keep their padding between them), else one converted copy.

    Raises:
        InvalidObservation: another encoding, an empty image, or sizes that contradict each other.

    """
    check_image(message, name=name)
    encoding = ENCODINGS[message.encoding]
    return _read_only(
        encoding.colours(message.data, message.height, message.width, message.step, colour_order)
    )


def check_image(message: ImageMessage, *, name: str = 'image') -> None:
    """Refuse a message that ``decode_image`` cannot use; cheap enough for every arrival.

    Raises:
        InvalidObservation: as ``decode_image``.

    """
    encoding = ENCODINGS.get(message.encoding)
    if encoding is None:
        raise _refuse_encoding(name, message.encoding)
    _check_shape(message, encoding, name)
    height, width, step = message.height, message.width, message.step
    row = width * encoding.samples
    if step < row:
        raise InvalidObservation(
            name,
            f'step is {step} bytes for {width} {message.encoding} pixels',
            expected=f'at least {row}',
            remedy='the publisher fills in the message wrongly',
        )
    lines = encoding.lines(height)
    if len(message.data) != lines * step:
        raise InvalidObservation(
            name,
            f'holds {len(message.data)} bytes',
            expected=f'{lines * step} ({lines} rows × step {step})',
            remedy='the publisher fills in the message wrongly, or truncates it',
        )


def _check_shape(message: ImageMessage, encoding: Encoding, name: str) -> None:
    height, width = message.height, message.width
    if height == 0 or width == 0:
        raise InvalidObservation(
            name,
            f'is empty ({height} rows × {width} columns)',
            expected='at least one pixel',
            remedy='check the camera driver',
        )
    rows, columns = encoding.multiple
    if height % rows or width % columns or min(height, width) < encoding.smallest:
        wanted = []
        if encoding.smallest > 1:
            wanted.append(f'at least {encoding.smallest} rows and columns')
        if rows > 1:
            wanted.append('an even number of rows')
        if columns > 1:
            wanted.append('an even number of columns')
        raise InvalidObservation(
            name,
            f'has {height} rows × {width} columns of {message.encoding}',
            expected=' and '.join(wanted),
            remedy='check the resolution of the camera driver',
        )


def decode_compressed_image(
    message: CompressedImageMessage, colour_order: ColourOrder = 'RGB', *, name: str = 'image'
) -> UInt8Array:
    """Return a ``sensor_msgs/CompressedImage`` (jpeg, png) as colours.

    ``format`` is read as sensor_msgs defines it, ``<original>; <codec> compressed [<pixels>]``,
    with bgr8 where it names no pixels. The codec itself is told from the data.

    Args:
        message: 8-bit colour or grey; alpha is dropped, grey repeated. EXIF orientation is not
            applied, as no robot camera rotates itself.
        colour_order: order of the last axis of the result.
        name: what to call the image in errors.

    Returns:
        Read-only uint8 [height, width, 3], C-contiguous.

    Raises:
        InvalidObservation: depth, another codec, truncated or corrupt data, not 8-bit.

    """
    check_compressed_image(message, name=name)
    data = bytes(message.data)
    # A truncated JPEG decodes to a picture with a grey bottom on some OpenCV versions.
    complete = (
        data.rfind(_JPEG_END) > data.rfind(_JPEG_SCAN) >= 0
        if data.startswith(_JPEG_START)
        else _PNG_END in data
    )
    pixels = None
    if complete:
        try:
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
        except cv2.error:
            pixels = None
    if pixels is None:
        raise InvalidObservation(
            name,
            f'data of format {message.format!r} cannot be decoded',
            expected='a complete jpeg or png file',
            remedy='the publisher or the network truncates or corrupts it',
        )
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    mosaic = channels == 1 and message.format.startswith(_MOSAIC)
    if pixels.dtype != np.uint8 or channels not in _DECODED or mosaic:
        raise InvalidObservation(
            name,
            f'format {message.format!r} decodes to {channels} channel(s) of {pixels.dtype}',
            expected='8 bits of grey, of colour, or of colour and alpha',
            remedy="point the camera's topic at a colour stream"
            + (', e.g. one that image_proc has debayered' if mosaic else ''),
        )
    swapped = message.format.endswith(('compressed rgb8', 'compressed rgba8'))
    code = ENCODINGS[_DECODED[channels][swapped]].codes[colour_order]
    return _read_only(pixels if code is None else cv2.cvtColor(pixels, code))


def check_compressed_image(message: CompressedImageMessage, *, name: str = 'image') -> None:
    """Refuse a message of another codec or of depth; cheap enough for every arrival.

    Raises:
        InvalidObservation: whatever can be told without decoding.

    """
    text = message.format
    if 'compresseddepth' in text.lower() or text.partition(';')[0].strip() in _DEPTH_ENCODINGS:
        raise _refuse_encoding(name, text)
    start = bytes(message.data[: len(_PNG_START)])
    if not start.startswith((_JPEG_START, _PNG_START)):
        raise InvalidObservation(
            name,
            f'data of format {text!r} are neither jpeg nor png',
            expected=_accepted(),
            remedy='set the publisher to jpeg or png',
        )


def _read_only(pixels: UInt8Array) -> UInt8Array:
    """Return the frame locked: it is reused while a camera stands still."""
    pixels = np.asarray(pixels, np.uint8).view()
    pixels.flags.writeable = False
    return pixels


def _refuse_encoding(name: str, encoding: str) -> InvalidObservation:
    if any(kind.lower() in encoding.lower() for kind in (*_DEPTH_ENCODINGS, 'compressedDepth')):
        what, remedy = (
            'a depth or 16-bit image, not colour',
            "point the camera's topic at its colour stream",
        )
    elif encoding.partition(';')[0].endswith('16'):
        what, remedy = 'of 16 bits per channel', 'set the camera driver to 8 bits'
    else:
        what = 'not supported'
        remedy = 'set the camera driver to rgb8, or convert with image_proc or image_transport'
    return InvalidObservation(
        name, f'encoding {encoding!r} is {what}', expected=_accepted(), remedy=remedy
    )


def _accepted() -> str:
    return f'{", ".join(ENCODINGS)} (raw), {" or ".join(COMPRESSED_FORMATS)} (compressed)'
