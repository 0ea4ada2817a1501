# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a video, and notice where it could not be written: OpenCV itself says nothing."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

CODEC = 'mp4v'
SUFFIX = '.mp4'


class VideoFile:
    """One MP4 file, which can be played once it is closed.

    Args:
        path: of the file; its folder exists.
        fps: frames per second.
        size: height and width of its frames.

    Raises:
        OSError: it cannot be written.

    """

    def __init__(self, path: Path, fps: float, size: tuple[int, int]) -> None:
        self.path = path
        self.fps = fps
        self.size = size
        self.frames = 0
        code = cv2.VideoWriter.fourcc(*CODEC)
        self._writer: Any = cv2.VideoWriter(str(path), code, fps, size[::-1])
        if not self._writer.isOpened():
            raise OSError(
                errno.EIO,
                f'OpenCV cannot write {CODEC}: the disk, or an OpenCV without FFmpeg',
                path,
            )

    def add(self, frames: npt.NDArray[np.uint8]) -> None:
        """Append frames, uint8 RGB [T, H, W, 3].

        Raises:
            OSError: the file is gone.

        """
        for frame in frames:
            self._writer.write(cv2.cvtColor(np.ascontiguousarray(frame), cv2.COLOR_RGB2BGR))
        self.frames += len(frames)
        # Writing into a file that was deleted, or whose disk was taken away, succeeds.
        self.path.stat()

    def close(self) -> None:
        """Finish the file.

        Raises:
            OSError: not all that was written can be read back.

        """
        self._writer.release()
        found = frame_count(self.path)
        if found != self.frames:
            raise OSError(
                errno.EIO, f'only {found} of {self.frames} frames can be read back', self.path
            )


def frame_count(path: Path) -> int:
    """Return how many frames a video says it has, 0 = it cannot be opened."""
    capture = cv2.VideoCapture(str(path))
    try:
        return int(capture.get(cv2.CAP_PROP_FRAME_COUNT)) if capture.isOpened() else 0
    finally:
        capture.release()


def codec_problem() -> str:
    """Return why no video can be written on this machine, '' = it can."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            video = VideoFile(Path(folder) / f'trial{SUFFIX}', 5.0, (16, 16))
            video.add(np.zeros((1, 16, 16, 3), np.uint8))
            video.close()
        except OSError as error:
            reason = error.strerror or os.strerror(error.errno or errno.EIO)
            return f'{reason}; pip install opencv-python-headless brings one that can'
    return ''
