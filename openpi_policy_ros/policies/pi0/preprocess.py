# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Images as the model was trained to see them (pi0.md §2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.policies.letterbox import checked_size, filtered


def preprocess_image(
    name: str,
    image: npt.NDArray[np.uint8] | npt.NDArray[np.float32],
    target: tuple[int, int],
    device: torch.device,
    *,
    legacy_padding: bool = False,
    antialias: bool = False,
) -> Tensor:
    """Return the image letterboxed to ``target``, float32 [3, height, width] in −1..1.

    Bilinear interpolation, then centred bars of −1 whose odd pixel lies right or at the bottom. An
    image that fits already is not scaled.

    Args:
        name: of the image, for messages.
        image: RGB [height, width, 3], uint8 0..255 or float32 0..1. May be read-only or a view.
        target: (height, width).
        device: where to compute.
        legacy_padding: bars of −3, as LeRobot up to 0.4.4 drew them.
        antialias: scale down with a filter as wide as the scale asks for, and a uint8 image to
            whole numbers, as openpi does with PIL (no value differs by more than 1/255); False =
            four neighbours, as LeRobot does.

    Raises:
        InvalidObservation: so narrow that nothing would be left of it.

    """
    height, width = checked_size(name, image, target)
    scaled = (height, width) != image.shape[:2]
    if scaled and antialias and image.dtype == np.uint8:
        # On the CPU, whatever the device: only there torch filters whole numbers, and only they
        # come out as PIL's do.
        image, scaled = filtered(image, (height, width)), False
    # torch cannot wrap read-only arrays or negative strides, which network buffers and colour flips
    # are. On a CPU the conversion to float reads them itself, so that their bytes are never
    # copied; to a GPU the bytes go as they are, a quarter of what floats would be.
    dtype = np.dtype(np.float32) if device.type == 'cpu' else image.dtype
    pixels = torch.from_numpy(np.array(image, dtype=dtype, order='C', copy=True)).to(device)
    planes = pixels.permute(2, 0, 1)[None].to(torch.float32)
    if image.dtype == np.uint8:
        planes.div_(255.0)
    if scaled:
        planes = F.interpolate(
            planes, (height, width), mode='bilinear', align_corners=False, antialias=antialias
        )
    planes = planes.clamp(0.0, 1.0)
    top, left = (target[0] - height) // 2, (target[1] - width) // 2
    padding = (left, target[1] - width - left, top, target[0] - height - top)
    planes = F.pad(planes, padding, value=-1.0 if legacy_padding else 0.0)
    return (planes * 2.0 - 1.0)[0]
