# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Turn ROS image messages into colour arrays, or say exactly why not.

Messages are read by their fields, so nothing here imports ROS. Conversion is our own (NumPy and
OpenCV): cv_bridge is absent without ROS and crashes beside NumPy 2.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

from openpi_policy_ros.errors import InvalidObservation

ColourOrder = Literal['RGB', 'BGR']
UInt8Array: TypeAlias = npt.NDArray[np.uint8]

RAW_ENCODINGS: dict[str, ColourOrder] = {'rgb8': 'RGB', 'bgr8': 'BGR'}
COMPRESSED_FORMATS = ('jpeg', 'png')
CHANNELS = 3

_DEPTH_ENCODINGS = ('16UC1', '32FC1', 'mono16')
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


def decode_image(
    message: ImageMessage, colour_order: ColourOrder = 'RGB', *, name: str = 'image'
) -> UInt8Array:
    """Return a ``sensor_msgs/Image`` as colours.

    Args:
        message: rgb8 or bgr8; rows may be padded (``step`` > 3 · width).
        colour_order: order of the last axis of the result.
        name: what to call the image in errors.

    Returns:
        Read-only uint8 [height, width, 3]: a view into the message where its colour order is the
        wanted one (rows then keep their padding between them), else one converted copy.

    Raises:
        InvalidObservation: another encoding, an empty image, or sizes that contradict each other.

    """
    check_image(message, name=name)
    height, width, step = message.height, message.width, message.step
    rows = np.frombuffer(message.data, np.uint8).reshape(height, step)
    pixels = rows[:, : width * CHANNELS].reshape(height, width, CHANNELS)
    return _as_order(pixels, RAW_ENCODINGS[message.encoding], colour_order)


def check_image(message: ImageMessage, *, name: str = 'image') -> None:
    """Refuse a message that ``decode_image`` cannot use; cheap enough for every arrival.

    Raises:
        InvalidObservation: as ``decode_image``.

    """
    if message.encoding not in RAW_ENCODINGS:
        raise _refuse_encoding(name, message.encoding)
    height, width, step = message.height, message.width, message.step
    if height == 0 or width == 0:
        raise InvalidObservation(
            name,
            f'is empty ({height} rows × {width} columns)',
            expected='at least one pixel',
            remedy='check the camera driver',
        )
    row = width * CHANNELS
    if step < row:
        raise InvalidObservation(
            name,
            f'step is {step} bytes for {width} {message.encoding} pixels',
            expected=f'at least {row}',
            remedy='the publisher fills in the message wrongly',
        )
    if len(message.data) != height * step:
        raise InvalidObservation(
            name,
            f'holds {len(message.data)} bytes',
            expected=f'{height * step} ({height} rows × step {step})',
            remedy='the publisher fills in the message wrongly, or truncates it',
        )


def decode_compressed_image(
    message: CompressedImageMessage, colour_order: ColourOrder = 'RGB', *, name: str = 'image'
) -> UInt8Array:
    """Return a ``sensor_msgs/CompressedImage`` (jpeg, png) as colours.

    ``format`` is read as sensor_msgs defines it, ``<original>; <codec> compressed [<pixels>]``,
    with bgr8 where it names no pixels. The codec itself is told from the data.

    Args:
        message: 8-bit colour; EXIF orientation is not applied, as no robot camera rotates itself.
        colour_order: order of the last axis of the result.
        name: what to call the image in errors.

    Returns:
        Read-only uint8 [height, width, 3], C-contiguous.

    Raises:
        InvalidObservation: depth, another codec, truncated or corrupt data, not 8-bit colour.

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
    if pixels.dtype != np.uint8 or channels != CHANNELS:
        raise InvalidObservation(
            name,
            f'format {message.format!r} decodes to {channels} channel(s) of {pixels.dtype}',
            expected='3 channels of 8 bits',
            remedy="point the camera's topic at a colour stream without alpha",
        )
    source: ColourOrder = 'RGB' if message.format.endswith('compressed rgb8') else 'BGR'
    return _as_order(pixels, source, colour_order)


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


def _as_order(pixels: UInt8Array, source: ColourOrder, wanted: ColourOrder) -> UInt8Array:
    if source != wanted:
        # The same swap serves both directions. cvtColor honours padded rows and is 15 times
        # faster than copying a reversed view, whose negative stride torch would refuse.
        pixels = np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8)
    # Decoded frames are reused while a camera stands still: nobody may change one.
    pixels = pixels.view()
    pixels.flags.writeable = False
    return pixels


def _refuse_encoding(name: str, encoding: str) -> InvalidObservation:
    depth = any(kind.lower() in encoding.lower() for kind in (*_DEPTH_ENCODINGS, 'compressedDepth'))
    return InvalidObservation(
        name,
        f'encoding {encoding!r} is '
        + ('a depth or 16-bit image, not colour' if depth else 'not supported'),
        expected=_accepted(),
        remedy=(
            "point the camera's topic at its colour stream"
            if depth
            else 'set the camera driver to rgb8, or convert with image_proc or image_transport'
        ),
    )


def _accepted() -> str:
    return f'{" or ".join(RAW_ENCODINGS)} (raw), {" or ".join(COMPRESSED_FORMATS)} (compressed)'
