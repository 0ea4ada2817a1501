# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Image messages become exactly the colours that were published, or an error that names why."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.control.encodings import ENCODINGS
from openpi_policy_ros.control.images import decode_compressed_image, decode_image
from openpi_policy_ros.errors import InvalidObservation


@dataclass
class Raw:
    height: int
    width: int
    encoding: str
    step: int
    data: Any


@dataclass
class Compressed:
    format: str
    data: Any


def raw(pixels: np.ndarray, encoding: str = 'rgb8', padding: int = 0) -> Raw:
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, -1)
    rows = np.pad(rows, ((0, 0), (0, padding)), constant_values=0xA5)
    return Raw(height, width, encoding, rows.shape[1], rows.tobytes())


def noise(height: int = 12, width: int = 17, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def encoded(pixels: np.ndarray, extension: str = '.png') -> bytes:
    """Encode as a codec does: OpenCV takes colours in BGR order."""
    if pixels.ndim == 3 and pixels.shape[2] == 3:
        pixels = np.ascontiguousarray(pixels[..., ::-1])
    return cv2.imencode(extension, pixels)[1].tobytes()


@settings(max_examples=60, deadline=None)
@given(
    height=st.integers(1, 20),
    width=st.integers(1, 20),
    padding=st.integers(0, 40),
    encoding=st.sampled_from(['rgb8', 'bgr8']),
    order=st.sampled_from(['RGB', 'BGR']),
    seed=st.integers(0, 99),
)
def test_raw_pixels_come_out_as_published_whatever_the_row_padding(
    height: int, width: int, padding: int, encoding: str, order: Any, seed: int
) -> None:
    rgb = noise(height, width, seed)
    sent = rgb if encoding == 'rgb8' else rgb[..., ::-1]
    got = decode_image(raw(np.ascontiguousarray(sent), encoding, padding), order)
    np.testing.assert_array_equal(got, rgb if order == 'RGB' else rgb[..., ::-1])
    assert got.dtype == np.uint8
    assert all(stride > 0 for stride in got.strides)


def test_rgb_is_a_view_of_the_message_and_nothing_is_copied() -> None:
    message = raw(noise(), padding=5)
    assert np.shares_memory(decode_image(message), np.frombuffer(message.data, np.uint8))


@pytest.mark.parametrize('encoding', ['rgb8', 'bgr8'])
def test_a_frame_cannot_be_changed_by_who_reads_it(encoding: str) -> None:
    with pytest.raises(ValueError, match='read-only'):
        decode_image(raw(noise(), encoding))[0, 0, 0] = 1


@pytest.mark.parametrize('encoding', ['16UC1', '32FC1', 'mono16'])
def test_depth_for_colour_is_refused_by_name(encoding: str) -> None:
    message = Raw(2, 2, encoding, 8, bytes(16))
    with pytest.raises(InvalidObservation, match='depth or 16-bit') as caught:
        decode_image(message, name="camera 'wrist'")
    assert "camera 'wrist'" in str(caught.value)
    assert repr(encoding) in str(caught.value)
    assert 'colour stream' in caught.value.remedy


@pytest.mark.parametrize(
    'encoding', ['rgb16', 'bgr16', 'rgba16', 'bgra16', 'bayer_rggb16', 'bayer_grbg16']
)
def test_sixteen_bits_are_refused_by_name_whatever_the_byte_order(encoding: str) -> None:
    with pytest.raises(InvalidObservation, match='of 16 bits per channel') as caught:
        decode_image(Raw(4, 4, encoding, 32, bytes(128)), name="camera 'wrist'")
    assert str(caught.value).startswith(f"camera 'wrist': encoding {encoding!r} is")
    assert caught.value.remedy == 'set the camera driver to 8 bits'


@pytest.mark.parametrize('encoding', ['8UC3', '8UC1', 'nv24', 'RGB8', 'jpeg', ''])
def test_other_encodings_are_refused_with_the_accepted_ones_and_a_remedy(encoding: str) -> None:
    with pytest.raises(InvalidObservation) as caught:
        decode_image(Raw(2, 2, encoding, 6, bytes(12)))
    assert f'encoding {encoding!r} is not supported' in str(caught.value)
    assert caught.value.expected == f'{", ".join(ENCODINGS)} (raw), jpeg or png (compressed)'
    assert 'set the camera driver to rgb8' in caught.value.remedy


@pytest.mark.parametrize(
    ('message', 'said'),
    [
        (Raw(0, 4, 'rgb8', 12, b''), r'empty \(0 rows × 4 columns\)'),
        (Raw(4, 0, 'bgr8', 0, b''), r'empty \(4 rows × 0 columns\)'),
        (Raw(2, 4, 'rgb8', 11, bytes(22)), 'step is 11 bytes for 4 rgb8 pixels; expected at least'),
        (Raw(2, 4, 'rgb8', 12, bytes(23)), r'holds 23 bytes; expected 24 \(2 rows × step 12\)'),
        (Raw(2, 4, 'rgb8', 12, bytes(25)), 'holds 25 bytes'),
        (Raw(2, 4, 'rgb8', 12, b''), 'holds 0 bytes'),
        (
            Raw(2, 4, 'mono8', 3, bytes(6)),
            'step is 3 bytes for 4 mono8 pixels; expected at least 4',
        ),
        (Raw(2, 4, 'bgra8', 12, bytes(24)), 'step is 12 bytes for 4 bgra8 pixels'),
        (Raw(2, 4, 'yuv422', 4, bytes(8)), 'step is 4 bytes for 4 yuv422 pixels'),
        (Raw(4, 4, 'nv12', 4, bytes(16)), r'holds 16 bytes; expected 24 \(6 rows × step 4\)'),
        (Raw(2, 3, 'yuyv', 6, bytes(12)), '3 columns of yuyv; expected an even number of columns'),
        (Raw(3, 4, 'nv12', 4, bytes(16)), '3 rows × 4 columns of nv12; expected an even number of'),
        (Raw(2, 4, 'bayer_rggb8', 4, bytes(8)), 'expected at least 3 rows and columns'),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(message: Raw, said: str) -> None:
    with pytest.raises(InvalidObservation, match=said):
        decode_image(message)


@pytest.mark.parametrize(
    'image_format',
    [
        'png',
        'PNG',
        '',
        'rgb8; png compressed bgr8',
        'bgr8; png compressed bgr8',
        'bayer_rggb8; png compressed bgr8',
    ],
)
@pytest.mark.parametrize('order', ['RGB', 'BGR'])
def test_png_is_lossless_in_the_wanted_order(image_format: str, order: Any) -> None:
    rgb = noise()
    got = decode_compressed_image(Compressed(image_format, encoded(rgb)), order)
    np.testing.assert_array_equal(got, rgb if order == 'RGB' else rgb[..., ::-1])
    assert got.flags.c_contiguous


def test_a_file_that_was_stored_in_rgb_order_is_not_swapped() -> None:
    rgb = noise()
    stored = cv2.imencode('.png', rgb)[1].tobytes()
    got = decode_compressed_image(Compressed('rgb8; png compressed rgb8', stored))
    np.testing.assert_array_equal(got, rgb)


@pytest.mark.parametrize('order', ['RGB', 'BGR'])
@pytest.mark.parametrize(
    'image_format', ['png', 'mono8; png compressed', 'mono8; png compressed mono8']
)
def test_a_grey_file_becomes_three_equal_channels(image_format: str, order: Any) -> None:
    grey = noise()[..., 0]
    got = decode_compressed_image(Compressed(image_format, encoded(grey)), order)
    np.testing.assert_array_equal(got, np.dstack([grey] * 3))


@pytest.mark.parametrize('image_format', ['png', 'rgba8; png compressed rgba8'])
def test_alpha_of_a_file_is_dropped(image_format: str) -> None:
    rgb = noise()
    stored = rgb if image_format.endswith('rgba8') else rgb[..., ::-1]
    data = encoded(np.dstack([stored, noise(seed=1)[..., 0]]))
    np.testing.assert_array_equal(decode_compressed_image(Compressed(image_format, data)), rgb)


@pytest.mark.parametrize('image_format', ['jpeg', 'jpg', 'rgb8; jpeg compressed bgr8'])
def test_jpeg_keeps_red_red(image_format: str) -> None:
    red = np.zeros((16, 16, 3), np.uint8)
    red[..., 0] = 250
    got = decode_compressed_image(Compressed(image_format, encoded(red, '.jpg')))
    assert np.abs(got.astype(int) - red).max() <= 6


@pytest.mark.parametrize('extension', ['.png', '.jpg'])
@pytest.mark.parametrize('lost', [2, 13, 200])
def test_a_truncated_file_is_refused_and_not_shown_half_grey(extension: str, lost: int) -> None:
    data = encoded(noise(40, 40), extension)
    with pytest.raises(InvalidObservation, match='cannot be decoded; expected a complete'):
        decode_compressed_image(Compressed('x', data[:-lost]))


def test_bytes_that_some_cameras_append_to_a_jpeg_do_not_matter() -> None:
    data = encoded(noise(), '.jpg')
    got = decode_compressed_image(Compressed('jpeg', data + bytes(64)))
    np.testing.assert_array_equal(got, decode_compressed_image(Compressed('jpeg', data)))


@pytest.mark.parametrize(
    ('image_format', 'data', 'said'),
    [
        ('16UC1; compressedDepth png', b'\0' * 12, 'depth or 16-bit'),
        ('32FC1; compressedDepth', b'', 'depth or 16-bit'),
        ('16UC1; png compressed', encoded(noise()), 'depth or 16-bit'),
        ('h264', b'\0\0\0\1' * 9, 'neither jpeg nor png'),
        ('jpeg', b'', 'neither jpeg nor png'),
        ('bayer_rggb8; png compressed', encoded(noise()[..., 0]), 'that image_proc has debayered'),
        ('png', encoded(noise()[..., 0].astype(np.uint16)), r'1 channel\(s\) of uint16'),
        ('png', encoded(noise().astype(np.uint16)), r'3 channel\(s\) of uint16'),
    ],
)
def test_what_is_not_eight_bit_colour_is_refused(image_format: str, data: bytes, said: str) -> None:
    with pytest.raises(InvalidObservation, match=said):
        decode_compressed_image(Compressed(image_format, data))


@settings(max_examples=60, deadline=None)
@given(
    data=st.binary(max_size=300),
    start=st.sampled_from([b'', b'\xff\xd8\xff', b'\x89PNG\r\n\x1a\n']),
)
def test_no_bytes_do_more_than_be_refused(data: bytes, start: bytes) -> None:
    with pytest.raises(InvalidObservation):
        decode_compressed_image(Compressed('jpeg', start + data))
