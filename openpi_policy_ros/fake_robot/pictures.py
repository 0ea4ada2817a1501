# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the fake cameras see: their name, a counter, and where each joint is between its limits."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import cv2
import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.robot import Camera
from openpi_policy_ros.fake_robot.joints import Joint

Picture = npt.NDArray[np.uint8]

WHITE, GREY, DARK = (255, 255, 255), (150, 150, 150), (38, 38, 38)
FONT = cv2.FONT_HERSHEY_SIMPLEX
TURN = math.pi
"""A joint without limits is drawn from minus to plus this, rad or m."""
_TURNS = {
    90: cv2.ROTATE_90_COUNTERCLOCKWISE,
    180: cv2.ROTATE_180,
    270: cv2.ROTATE_90_CLOCKWISE,
}


def sensor_size(camera: Camera, size: tuple[int, int]) -> tuple[int, int]:
    """Return (width, height) of a camera's sensor: ``size``, or what its crop needs."""
    if not camera.crop:
        return size
    x, y, width, height = camera.crop
    return max(size[0], x + width), max(size[1], y + height)


def draw(
    name: str,
    camera: Camera,
    size: tuple[int, int],
    count: int,
    positions: Mapping[str, float],
    joints: Mapping[str, Joint],
) -> Picture:
    """Return a picture, uint8 [height, width, 3], RGB, as the camera's sensor takes it.

    It stands upright after ``camera.rotate``, and the part that ``camera.crop`` keeps is framed.

    Args:
        name: of the camera.
        camera: how it is mounted and cropped.
        size: (width, height) of the sensor.
        count: of pictures so far.
        positions: where each joint is.
        joints: between which limits.

    """
    turned = camera.rotate in (90, 270)
    width, height = (size[1], size[0]) if turned else size
    colour = _colour(name)
    picture = np.full((height, width, 3), DARK, np.uint8)
    line = height / (len(positions) + 3.0)
    scale = min(line / 34.0, width / 800.0)
    bar = max(int(line), 8)
    cv2.rectangle(picture, (0, 0), (width, bar), colour, cv2.FILLED)
    _write(picture, f'{name}  {count}', 0.02 * width, 0.75 * bar, scale, DARK)
    # A hand that turns once in a second, so that a frozen picture shows.
    angle = count * 2.0 * math.pi / 30.0
    centre = (width - bar, bar // 2)
    tip = (
        round(centre[0] + 0.4 * bar * math.sin(angle)),
        round(centre[1] - 0.4 * bar * math.cos(angle)),
    )
    cv2.line(picture, centre, tip, DARK, max(1, bar // 8))
    left, right = 0.56 * width, 0.97 * width
    for number, (joint, position) in enumerate(positions.items()):
        low, high = (joints[joint].lower, joints[joint].upper)
        if not math.isfinite(high - low):
            low, high = -TURN, TURN
        share = min(max((position - low) / (high - low), 0.0), 1.0)
        base = (number + 2.2) * line
        number_text = f'{position:+.3f}'
        start = left - 0.02 * width - _width(number_text, scale)
        name_text = joint
        while name_text and _width(name_text, scale) > start - 0.03 * width:
            name_text = name_text[1:]
        _write(picture, name_text, 0.02 * width, base, scale, WHITE)
        _write(picture, number_text, start, base, scale, WHITE)
        top, bottom = round(base - 0.6 * line), round(base + 0.1 * line)
        cv2.rectangle(picture, (round(left), top), (round(right), bottom), GREY, 1)
        end = round(left + share * (right - left))
        cv2.rectangle(picture, (round(left), top), (end, bottom), colour, cv2.FILLED)
    if camera.rotate:
        picture = cv2.rotate(picture, _TURNS[camera.rotate])
    if camera.crop:
        x, y, wide, high = camera.crop
        cv2.rectangle(picture, (x, y), (x + wide - 1, y + high - 1), colour, 2)
    return picture


def _write(
    picture: Picture, text: str, x: float, y: float, scale: float, colour: tuple[int, int, int]
) -> None:
    cv2.putText(picture, text, (round(x), round(y)), FONT, scale, colour, 1, cv2.LINE_AA)


def _width(text: str, scale: float) -> float:
    return float(cv2.getTextSize(text, FONT, scale, 1)[0][0])


def _colour(name: str) -> tuple[int, int, int]:
    """Return a bright colour (RGB) that tells one camera from another."""
    hue = zlib.crc32(name.encode()) % 180
    pixel = cv2.cvtColor(np.array([[[hue, 140, 230]]], np.uint8), cv2.COLOR_HSV2RGB)[0, 0]
    return int(pixel[0]), int(pixel[1]), int(pixel[2])
