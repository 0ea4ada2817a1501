# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Small videos whose every frame tells its number."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np


def write_video(
    path: Path, frames: int, *, first: int = 0, size: tuple[int, int] = (16, 32)
) -> Path:
    """Write a lossless AVI file: frame i is grey ``first`` + i."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*'FFV1'), 15.0, size[::-1])
    assert writer.isOpened()
    for number in range(frames):
        writer.write(np.full((*size, 3), first + number, np.uint8))
    writer.release()
    return path


def write_episode(folder: Path, frames: int, names: tuple[str, ...]) -> Path:
    """Write a video per camera; that of camera k begins with grey 10 k."""
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        write_video(folder / f'{name}.avi', frames, first=10 * number)
    return folder
