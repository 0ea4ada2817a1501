# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Fit an image into a rectangle of another aspect ratio, as openpi's ``resize_with_pad`` does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.errors import InvalidObservation


def letterbox_size(height: int, width: int, target: tuple[int, int]) -> tuple[int, int]:
    """Return (height, width) of an image scaled to fit into ``target`` (height, width).

    Floating point on purpose: whole-number arithmetic gives another size for one image size in
    twelve, and the checkpoints were trained with this one.
    """
    ratio = max(width / target[1], height / target[0])
    return int(height / ratio), int(width / ratio)


def checked_size(name: str, image: npt.NDArray[Any], target: tuple[int, int]) -> tuple[int, int]:
    """Return ``letterbox_size`` of ``image`` [height, width, 3].

    Raises:
        InvalidObservation: so narrow that nothing would be left of it.

    """
    height, width = letterbox_size(image.shape[0], image.shape[1], target)
    if height < 1 or width < 1:
        raise InvalidObservation(
            name,
            f'is {image.shape[0]}x{image.shape[1]} (height x width), which scales to '
            f'{height}x{width}',
            expected=f'an aspect ratio that leaves something inside {target[0]}x{target[1]}',
            remedy='send the camera image itself, not a row or a column of it',
        )
    return height, width


def filtered(image: npt.NDArray[Any], size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Return uint8 [H, W, 3] scaled to ``size``, rounded after each direction as PIL does."""
    pixels = torch.from_numpy(np.array(image, order='C', copy=True)).permute(2, 0, 1)[None]
    planes = F.interpolate(pixels, size, mode='bilinear', align_corners=False, antialias=True)
    scaled: npt.NDArray[np.uint8] = planes[0].permute(1, 2, 0).numpy()
    return scaled


def resize_with_pad(
    name: str, image: npt.NDArray[np.uint8], target: tuple[int, int]
) -> npt.NDArray[np.uint8]:
    """Return the image letterboxed to ``target``, uint8 [height, width, 3] with black bars.

    Args:
        name: of the image, for messages.
        image: RGB [height, width, 3]; of the target's size it is returned as it is.
        target: (height, width).

    Raises:
        InvalidObservation: so narrow that nothing would be left of it.

    """
    if image.shape[:2] == target:
        return image
    height, width = checked_size(name, image, target)
    if image.shape[:2] != (height, width):
        image = filtered(image, (height, width))
    canvas = np.zeros((*target, 3), np.uint8)
    top, left = (target[0] - height) // 2, (target[1] - width) // 2
    canvas[top : top + height, left : left + width] = image
    return canvas
