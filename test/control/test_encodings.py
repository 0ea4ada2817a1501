# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every encoding becomes the colours it stands for, told from arithmetic and from OpenCV.

How exact: packed colours to the bit; YUV within one grey level of BT.601 limited range; a mosaic
of one colour to the bit, of a ramp within one level inside the border.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_images import Raw, noise, raw

from openpi_policy_ros.control.encodings import ENCODINGS
from openpi_policy_ros.control.images import decode_image

BAYER = {
    'bayer_rggb8': 'rggb',
    'bayer_bggr8': 'bggr',
    'bayer_gbrg8': 'gbrg',
    'bayer_grbg8': 'grbg',
}
U_FIRST = ('yuv422', 'uyvy')
Y_FIRST = ('yuv422_yuy2', 'yuyv')


def message(encoding: str, height: int, width: int, padding: int = 0, seed: int = 0) -> Raw:
    """Return random bytes as an image whose rows are padded with odd ones."""
    form = ENCODINGS[encoding]
    lines, step = form.lines(height), width * form.samples
    rows = np.random.default_rng(seed).integers(0, 256, (lines, step), np.uint8)
    rows = np.pad(rows, ((0, 0), (0, padding)), constant_values=0xA5)
    return Raw(height, width, encoding, step + padding, rows.tobytes())


def from_yuv(y: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return RGB by ITU-R BT.601 with limited range, in floats."""
    y, u, v = (255 / 219 * (y - 16.0)).clip(0), u - 128.0, v - 128.0
    scale = 255 / 224
    rgb = [
        y + scale * 1.402 * v,
        y - scale * (0.114 * 1.772 * u + 0.299 * 1.402 * v) / 0.587,
        y + scale * 1.772 * u,
    ]
    return np.dstack(rgb).clip(0, 255)


@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
@settings(max_examples=10, deadline=None)
@given(
    half_height=st.integers(2, 8),
    half_width=st.integers(2, 8),
    padding=st.integers(0, 40),
    seed=st.integers(0, 99),
)
def test_padding_changes_nothing_and_bgr_is_rgb_backwards(
    encoding: str, half_height: int, half_width: int, padding: int, seed: int
) -> None:
    size = 2 * half_height, 2 * half_width
    tight = decode_image(message(encoding, *size, 0, seed))
    assert (tight.shape, tight.dtype) == ((*size, 3), np.uint8)
    padded = message(encoding, *size, padding, seed)
    for order in ('RGB', 'BGR'):
        got = decode_image(padded, order)  # type: ignore[arg-type]
        np.testing.assert_array_equal(got, tight if order == 'RGB' else tight[..., ::-1])
        assert all(stride > 0 for stride in got.strides)
        assert not got.flags.writeable


@pytest.mark.parametrize('encoding', sorted(ENCODINGS))
@pytest.mark.parametrize('is_bigendian', [0, 1])
def test_the_byte_order_means_nothing_for_bytes(encoding: str, is_bigendian: int) -> None:
    one = message(encoding, 6, 8)
    expected = decode_image(one)
    one.is_bigendian = is_bigendian  # type: ignore[attr-defined]
    np.testing.assert_array_equal(decode_image(one), expected)


@pytest.mark.parametrize('encoding', ['rgba8', 'bgra8'])
def test_alpha_is_dropped(encoding: str) -> None:
    rgb, alpha = noise(), noise(seed=1)[..., :1]
    colours = rgb if encoding == 'rgba8' else rgb[..., ::-1]
    sent = np.ascontiguousarray(np.concatenate([colours, alpha], -1))
    np.testing.assert_array_equal(decode_image(raw(sent, encoding, 3)), rgb)


def test_grey_is_repeated() -> None:
    grey = noise()[..., 0]
    np.testing.assert_array_equal(decode_image(raw(grey, 'mono8', 5)), np.dstack([grey] * 3))


@pytest.mark.parametrize('encoding', [*U_FIRST, *Y_FIRST])
def test_packed_yuv_is_bt601_of_limited_range_with_the_samples_where_the_name_says(
    encoding: str,
) -> None:
    one = message(encoding, 32, 48)
    bytes_ = np.frombuffer(one.data, np.uint8).reshape(32, 48, 2).astype(float)
    y, chroma = (0, 1) if encoding in Y_FIRST else (1, 0)
    u, v = (bytes_[:, half::2, chroma].repeat(2, axis=1) for half in (0, 1))
    expected = from_yuv(bytes_[..., y], u, v)
    assert np.abs(decode_image(one) - expected).max() <= 1


@pytest.mark.parametrize('encoding', ['nv12', 'nv21'])
def test_yuv_of_two_planes_is_bt601_of_limited_range(encoding: str) -> None:
    one = message(encoding, 32, 48)
    rows = np.frombuffer(one.data, np.uint8).reshape(48, 48).astype(float)
    pairs = rows[32:].reshape(16, 24, 2).repeat(2, axis=0).repeat(2, axis=1)
    u, v = (pairs[..., 0], pairs[..., 1]) if encoding == 'nv12' else (pairs[..., 1], pairs[..., 0])
    assert np.abs(decode_image(one) - from_yuv(rows[:32], u, v)).max() <= 1


def test_yuyv_under_the_name_of_uyvy_is_taken_at_its_word() -> None:
    """A driver that labels its images wrongly shows other colours: nothing is guessed."""
    right, wrong = message('yuv422_yuy2', 4, 4), message('yuv422', 4, 4)
    assert right.data == wrong.data
    assert np.abs(decode_image(right).astype(int) - decode_image(wrong)).max() > 50


@pytest.mark.parametrize(
    ('encoding', 'code'),
    [
        ('yuv422', cv2.COLOR_YUV2RGB_UYVY),
        ('uyvy', cv2.COLOR_YUV2RGB_UYVY),
        ('yuv422_yuy2', cv2.COLOR_YUV2RGB_YUYV),
        ('yuyv', cv2.COLOR_YUV2RGB_YUYV),
        ('nv12', cv2.COLOR_YUV2RGB_NV12),
        ('nv21', cv2.COLOR_YUV2RGB_NV21),
        ('mono8', cv2.COLOR_GRAY2RGB),
        ('rgba8', cv2.COLOR_RGBA2RGB),
        ('bgra8', cv2.COLOR_BGRA2RGB),
        ('bgr8', cv2.COLOR_BGR2RGB),
    ],
)
def test_padded_rows_give_to_the_bit_what_opencv_makes_of_tight_ones(
    encoding: str, code: int
) -> None:
    one = message(encoding, 16, 20)
    form = ENCODINGS[encoding]
    shape: Any = (form.lines(16), 20) + ((form.samples,) if form.samples > 1 else ())
    reference = cv2.cvtColor(np.frombuffer(one.data, np.uint8).reshape(shape), code)
    np.testing.assert_array_equal(decode_image(message(encoding, 16, 20, 12)), reference)


def mosaic(rgb: np.ndarray, corner: str) -> np.ndarray:
    """Return what a sensor behind a colour filter sees; ``corner``: its upper left 2 × 2 pixels."""
    seen = np.empty(rgb.shape[:2], np.uint8)
    for at, letter in enumerate(corner):
        row, column = divmod(at, 2)
        seen[row::2, column::2] = rgb[row::2, column::2, 'rgb'.index(letter)]
    return seen


@settings(max_examples=40, deadline=None)
@given(
    encoding=st.sampled_from(sorted(BAYER)),
    colour=st.tuples(*[st.integers(0, 255)] * 3),
    height=st.integers(3, 9),
    width=st.integers(3, 9),
)
def test_a_mosaic_of_one_colour_is_that_colour_to_the_bit(
    encoding: str, colour: tuple[int, int, int], height: int, width: int
) -> None:
    rgb = np.full((height, width, 3), colour, np.uint8)
    seen = mosaic(rgb, BAYER[encoding])
    np.testing.assert_array_equal(decode_image(raw(seen, encoding, 2)), rgb)


@pytest.mark.parametrize('encoding', BAYER)
def test_a_mosaic_of_ramps_is_interpolated_within_one_level(encoding: str) -> None:
    down, across = np.mgrid[0:40, 0:60]
    rgb = np.dstack([4 * across, 6 * down, 255 - 2 * across - 3 * down]).astype(np.uint8)
    got = decode_image(raw(mosaic(rgb, BAYER[encoding]), encoding))
    inside = (slice(1, -1), slice(1, -1))
    assert np.abs(got[inside].astype(int) - rgb[inside]).max() <= 1
