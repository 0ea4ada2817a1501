# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The pixel formats of ``sensor_msgs/Image`` that are read as colour, and how each is laid out.

A name means what ``sensor_msgs/image_encodings`` says it means: ``yuv422`` is U Y V Y. Only 8-bit
formats are here, so ``is_bigendian`` has nothing to say about any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import cv2
import numpy as np
import numpy.typing as npt

ColourOrder = Literal['RGB', 'BGR']
UInt8Array: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Encoding:
    """One pixel format.

    Attributes:
        samples: bytes per pixel of a row (of the first plane, where there are two).
        codes: OpenCV's conversion for each wanted order; None = the bytes are that order already.
        rows: rows of ``step`` bytes per two rows of the picture (3: a plane of colours follows).
        multiple: (rows, columns) of which height and width must be multiples.
        smallest: least height and width.

    """

    samples: int
    codes: dict[ColourOrder, int | None]
    rows: int = 2
    multiple: tuple[int, int] = (1, 1)
    smallest: int = 1

    def lines(self, height: int) -> int:
        """Return how many rows of ``step`` bytes a picture of this height has."""
        return height * self.rows // 2

    def colours(self, data: Any, height: int, width: int, step: int, order: ColourOrder) -> Any:
        """Return uint8 [height, width, 3]: a view of ``data`` where nothing has to be converted.

        Args:
            data: ``lines(height)`` · ``step`` bytes, sizes checked.
            height, width: of the picture.
            step: bytes from one row to the next.
            order: of the last axis of the result.

        """
        rows = np.frombuffer(data, np.uint8).reshape(self.lines(height), step)
        pixels = rows[:, : width * self.samples]
        if self.samples > 1:
            pixels = pixels.reshape(height, width, self.samples)
        code = self.codes[order]
        # OpenCV honours rows that are padded.
        return pixels if code is None else cv2.cvtColor(pixels, code)


def _codes(rgb: int | None, bgr: int | None) -> dict[ColourOrder, int | None]:
    return {'RGB': rgb, 'BGR': bgr}


# OpenCV takes all of YUV for BT.601 with limited range.
_YUYV = Encoding(2, _codes(cv2.COLOR_YUV2RGB_YUY2, cv2.COLOR_YUV2BGR_YUY2), multiple=(1, 2))
_UYVY = Encoding(2, _codes(cv2.COLOR_YUV2RGB_UYVY, cv2.COLOR_YUV2BGR_UYVY), multiple=(1, 2))


def _two_planes(rgb: int, bgr: int) -> Encoding:
    return Encoding(1, _codes(rgb, bgr), rows=3, multiple=(2, 2))


def _bayer(rgb: int, bgr: int) -> Encoding:
    # OpenCV returns black where there is no inner pixel.
    return Encoding(1, _codes(rgb, bgr), smallest=3)


ENCODINGS: dict[str, Encoding] = {
    'rgb8': Encoding(3, _codes(None, cv2.COLOR_RGB2BGR)),
    'bgr8': Encoding(3, _codes(cv2.COLOR_BGR2RGB, None)),
    'rgba8': Encoding(4, _codes(cv2.COLOR_RGBA2RGB, cv2.COLOR_RGBA2BGR)),
    'bgra8': Encoding(4, _codes(cv2.COLOR_BGRA2RGB, cv2.COLOR_BGRA2BGR)),
    'mono8': Encoding(1, _codes(cv2.COLOR_GRAY2RGB, cv2.COLOR_GRAY2BGR)),
    'yuv422': _UYVY,
    'uyvy': _UYVY,
    'yuv422_yuy2': _YUYV,
    'yuyv': _YUYV,
    'nv12': _two_planes(cv2.COLOR_YUV2RGB_NV12, cv2.COLOR_YUV2BGR_NV12),
    'nv21': _two_planes(cv2.COLOR_YUV2RGB_NV21, cv2.COLOR_YUV2BGR_NV21),
    # ROS names the four pixels of the upper left corner, OpenCV those one row and column further.
    'bayer_rggb8': _bayer(cv2.COLOR_BayerBG2RGB, cv2.COLOR_BayerBG2BGR),
    'bayer_bggr8': _bayer(cv2.COLOR_BayerRG2RGB, cv2.COLOR_BayerRG2BGR),
    'bayer_gbrg8': _bayer(cv2.COLOR_BayerGR2RGB, cv2.COLOR_BayerGR2BGR),
    'bayer_grbg8': _bayer(cv2.COLOR_BayerGB2RGB, cv2.COLOR_BayerGB2BGR),
}
