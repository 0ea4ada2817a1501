# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Images as the model was trained to see them, expectations worked out by hand or in numpy."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from openpi_client.image_tools import resize_with_pad

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.letterbox import letterbox_size
from openpi_policy_ros.policies.pi0.preprocess import preprocess_image

CPU = torch.device('cpu')
TARGET = (224, 224)
PHOTOS = sorted((Path(__file__).parents[1] / 'data' / 'photos').glob('*.*g'))


def prepared(image: np.ndarray, **options: bool) -> np.ndarray:
    return preprocess_image('image', image, TARGET, CPU, **options).numpy()


def bilinear(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return [H, W, 3] scaled without antialiasing, pixel centres aligned, in float64."""

    def taps(size: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        at = np.maximum((np.arange(count) + 0.5) * size / count - 0.5, 0.0)
        low = np.minimum(at.astype(int), size - 1)
        return low, np.minimum(low + 1, size - 1), at - low

    top, bottom, down = taps(image.shape[0], height)
    left, right, across = taps(image.shape[1], width)
    rows = image[top] * (1 - down[:, None, None]) + image[bottom] * down[:, None, None]
    return rows[:, left] * (1 - across[:, None]) + rows[:, right] * across[:, None]


@pytest.mark.parametrize(
    ('size', 'expected'),
    [
        # 500 → 224 is a ratio of 2.2321…: 355 / 2.2321 = 159.04, 350 / 2.2321 = 156.8.
        ((355, 500), (159, 224)),
        ((350, 500), (156, 224)),
        # 232 / 224 is not exact in binary: 232 / (232 / 224) = 223.99999999999997.
        ((100, 232), (96, 223)),
        ((232, 232), (223, 223)),
        # 480 → 224 is 2.142857…: 232 / 2.142857 = 108.27.
        ((480, 232), (224, 108)),
        ((480, 640), (168, 224)),
        ((224, 224), (224, 224)),
        # Enlarged by the same rule.
        ((56, 112), (112, 224)),
    ],
)
def test_letterbox_size_follows_the_float_rule(
    size: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert letterbox_size(*size, TARGET) == expected


@pytest.mark.parametrize(
    ('size', 'bars'),
    [
        # (top, bottom, left, right); the odd pixel lies at the bottom or right.
        ((355, 500), (32, 33, 0, 0)),
        ((350, 500), (34, 34, 0, 0)),
        ((500, 355), (0, 0, 32, 33)),
        ((100, 232), (64, 64, 0, 1)),
        ((480, 232), (0, 0, 58, 58)),
    ],
)
def test_bars_are_centred_and_the_odd_pixel_lies_right_or_bottom(
    size: tuple[int, int], bars: tuple[int, int, int, int]
) -> None:
    white = prepared(np.full((*size, 3), 255, np.uint8))
    top, bottom, left, right = bars
    expected = np.full((3, 224, 224), -1.0, np.float32)
    expected[:, top : 224 - bottom, left : 224 - right] = 1.0
    np.testing.assert_allclose(white, expected, rtol=0, atol=1e-6)


def test_legacy_padding_draws_bars_of_minus_three() -> None:
    image = prepared(np.full((112, 224, 3), 255, np.uint8), legacy_padding=True)
    assert (image[:, :56] == -3.0).all()
    assert (image[:, 168:] == -3.0).all()
    np.testing.assert_allclose(image[:, 56:168], 1.0, rtol=0, atol=1e-6)


@pytest.mark.parametrize('size', [(355, 500), (100, 232), (37, 61), (480, 640)])
def test_scaling_is_bilinear_without_antialiasing(size: tuple[int, int]) -> None:
    image = np.random.default_rng(1).integers(0, 256, (*size, 3), dtype=np.uint8)
    height, width = letterbox_size(*size, TARGET)
    top, left = (224 - height) // 2, (224 - width) // 2
    expected = bilinear(image / 255.0, height, width) * 2.0 - 1.0
    ours = prepared(image)[:, top : top + height, left : left + width].transpose(1, 2, 0)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-4)


def test_an_image_of_the_models_size_is_only_rescaled_in_value() -> None:
    image = np.random.default_rng(2).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    expected = (image.astype(np.float32) / np.float32(255.0)) * 2.0 - 1.0
    np.testing.assert_array_equal(prepared(image), expected.transpose(2, 0, 1))


def test_float_and_uint8_of_one_picture_give_the_same_tensor() -> None:
    image = np.random.default_rng(3).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    floats = image.astype(np.float32) / np.float32(255.0)
    np.testing.assert_array_equal(prepared(floats), prepared(image))


def test_views_and_read_only_arrays_are_read_and_left_alone() -> None:
    image = np.random.default_rng(4).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    flipped = image[..., ::-1]
    copy = image.copy()
    image.setflags(write=False)
    np.testing.assert_array_equal(prepared(flipped), prepared(copy[..., ::-1].copy()))
    planes = np.ascontiguousarray(image.transpose(2, 0, 1))
    np.testing.assert_array_equal(prepared(planes.transpose(1, 2, 0)), prepared(copy))
    np.testing.assert_array_equal(image, copy)
    floats = copy.astype(np.float32) / 255.0
    before = floats.copy()
    prepared(floats)
    np.testing.assert_array_equal(floats, before)


def test_a_sliver_that_scales_to_nothing_is_refused_by_name() -> None:
    with pytest.raises(InvalidObservation, match=r'1x3000.*0x224.*aspect ratio') as caught:
        preprocess_image('wrist', np.zeros((1, 3000, 3), np.uint8), TARGET, CPU)
    assert caught.value.field == 'wrist'
    assert caught.value.remedy


@settings(max_examples=60, deadline=None)
@given(height=st.integers(1, 150), width=st.integers(1, 150), seed=st.integers(0, 9))
def test_every_size_gives_values_in_range_or_a_refusal(height: int, width: int, seed: int) -> None:
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    result = prepared(image)
    assert result.shape == (3, 224, 224)
    assert result.dtype == np.float32
    assert result.min() >= -1.0
    assert result.max() <= 1.0


def levels_from_openpi(image: np.ndarray, **options: bool) -> np.ndarray:
    """Return how far from openpi's own preparation each value is, in 1/255."""
    openpi = resize_with_pad(image, *TARGET).transpose(2, 0, 1)
    return np.abs((prepared(image, **options) + 1.0) * 127.5 - openpi)


@pytest.mark.parametrize('photo', PHOTOS, ids=lambda path: path.stem)
def test_antialiased_photos_are_openpis_but_for_one_level_in_some_pixels(photo: Path) -> None:
    pixels = cv2.imread(str(photo))[..., ::-1]
    difference = levels_from_openpi(pixels, antialias=True)
    assert difference.max() <= 1.001
    # At most one value in 600 where torch and PIL were compared; a version may round otherwise.
    assert difference.mean() <= 0.01
    # Four neighbours alone are another picture.
    assert levels_from_openpi(pixels).mean() > 1.0


@pytest.mark.parametrize(
    'size', [(480, 640), (355, 500), (100, 232), (480, 232), (720, 1280), (37, 61), (56, 112)]
)
def test_antialiased_noise_of_any_size_is_openpis_but_for_one_level(size: tuple[int, int]) -> None:
    image = np.random.default_rng(6).integers(0, 256, (*size, 3), dtype=np.uint8)
    difference = levels_from_openpi(image, antialias=True)
    assert difference.max() <= 1.001
    # PIL filters a tall narrow image in the other order: one value in five.
    assert difference.mean() <= 0.25


def test_antialiasing_keeps_whole_numbers_and_leaves_floats_as_they_come() -> None:
    image = np.random.default_rng(7).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    whole = (prepared(image, antialias=True) + 1.0) * 127.5
    np.testing.assert_allclose(whole, whole.round(), rtol=0, atol=1e-3)
    floats = (prepared(image.astype(np.float32) / 255.0, antialias=True) + 1.0) * 127.5
    assert np.abs(floats - whole).max() <= 1.5
    assert np.abs(floats - floats.round()).mean() > 0.1


def test_antialiasing_leaves_an_image_of_the_models_size_alone() -> None:
    image = np.random.default_rng(8).integers(0, 256, (224, 224, 3), dtype=np.uint8)
    np.testing.assert_array_equal(prepared(image, antialias=True), prepared(image))


def test_antialiasing_reads_views_and_read_only_arrays() -> None:
    image = np.random.default_rng(9).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    copy = image.copy()
    image.setflags(write=False)
    expected = prepared(copy[..., ::-1].copy(), antialias=True)
    np.testing.assert_array_equal(prepared(image[..., ::-1], antialias=True), expected)
