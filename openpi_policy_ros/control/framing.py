# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Cut a camera's picture to the part the policy is to see, and turn it upright."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from openpi_policy_ros.control.encodings import UInt8Array
from openpi_policy_ros.errors import InvalidObservation

_TURNS = {
    90: cv2.ROTATE_90_CLOCKWISE,
    180: cv2.ROTATE_180,
    270: cv2.ROTATE_90_COUNTERCLOCKWISE,
}


def check_crop(crop: Sequence[int], height: int, width: int, *, name: str) -> None:
    """Refuse a crop that does not lie inside the picture.

    Args:
        crop: x, y, width, height in pixels of the sensor; empty = none.
        height, width: of the picture as it comes.
        name: what to call the camera in errors.

    Raises:
        InvalidObservation: part of the crop is outside.

    """
    if not crop:
        return
    x, y, across, down = crop
    if x + across > width or y + down > height:
        raise InvalidObservation(
            name,
            f'crop {across}×{down} at ({x}, {y}) does not lie inside its image of {width}×{height}',
            expected=f'x + width ≤ {width} and y + height ≤ {height}',
            remedy='correct crop in the robot file, or the resolution of the camera driver',
        )


def frame(pixels: UInt8Array, crop: Sequence[int], rotate: int, *, name: str) -> UInt8Array:
    """Return the part of a picture that ``crop`` names, then turned clockwise.

    Args:
        pixels: uint8 [height, width, 3].
        crop: x, y, width, height in pixels of the sensor, before turning; empty = all of it.
        rotate: 0, 90, 180 or 270 degrees clockwise.
        name: what to call the camera in errors.

    Returns:
        Read-only uint8 [h, w, 3] with positive strides: a view unless turned.

    Raises:
        InvalidObservation: the crop is not inside.

    """
    check_crop(crop, *pixels.shape[:2], name=name)
    if crop:
        x, y, across, down = crop
        pixels = pixels[y : y + down, x : x + across]
    if rotate:
        # A turned view would have negative strides, which torch refuses.
        pixels = np.asarray(cv2.rotate(pixels, _TURNS[rotate]), np.uint8)
    pixels = pixels.view()
    pixels.flags.writeable = False
    return pixels
