# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A crop is in pixels of the sensor, then the picture is turned clockwise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.control.framing import frame
from openpi_policy_ros.errors import InvalidObservation

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 11, 3), np.uint8)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), turns=st.integers(0, 3))
def test_the_picture_is_cut_then_turned(data: st.DataObject, turns: int) -> None:
    x, y = data.draw(st.integers(0, 10)), data.draw(st.integers(0, 6))
    across, down = data.draw(st.integers(1, 11 - x)), data.draw(st.integers(1, 7 - y))
    got = frame(PIXELS, [x, y, across, down], 90 * turns, name='image')
    # NumPy turns counter-clockwise.
    expected = np.rot90(PIXELS[y : y + down, x : x + across], -turns)
    np.testing.assert_array_equal(got, expected)
    assert all(stride > 0 for stride in got.strides)
    assert not got.flags.writeable


def test_ninety_degrees_are_clockwise() -> None:
    got = frame(PIXELS, [], 90, name='image')
    np.testing.assert_array_equal(got[0, -1], PIXELS[0, 0])
    np.testing.assert_array_equal(got[0, 0], PIXELS[-1, 0])


@pytest.mark.parametrize('crop', [[], [1, 2, 5, 4]])
def test_nothing_is_copied_unless_turned(crop: list[int]) -> None:
    assert np.shares_memory(frame(PIXELS, crop, 0, name='image'), PIXELS)
    assert PIXELS.flags.writeable


@pytest.mark.parametrize('crop', [[1, 0, 11, 7], [0, 1, 11, 7], [11, 0, 1, 1], [0, 0, 640, 480]])
def test_a_crop_outside_is_refused_with_both_sizes(crop: list[int]) -> None:
    with pytest.raises(InvalidObservation) as caught:
        frame(PIXELS, crop, 0, name="camera 'wrist'")
    x, y, across, down = crop
    assert str(caught.value).startswith(
        f"camera 'wrist': crop {across}×{down} at ({x}, {y}) does not lie inside its image of 11×7"
    )
