# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Record an episode: three cameras side by side over a caption, as MP4 and, if wanted, as GIF."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.errors import SimulationError

VIEW: Final = (180, 320)
BAR: Final = 28
SIZE: Final = (VIEW[0] + BAR, len(c.CAMERAS) * VIEW[1])
"""Height and width of a frame."""
_CODEC: Final = 'mp4v'
# Every third frame, at half the size: a few hundred kilobytes for an episode.
_GIF_EVERY, _GIF_SCALE = 3, 2
_DONE, _PLAIN = (90, 220, 90), (230, 230, 230)

Image = npt.NDArray[np.uint8]


class Recorder:
    """Writes one file, frame by frame; ``close`` it whatever happens.

    Args:
        path: of the MP4 file.
        prompt: shown in the caption.
        gif: write one beside it.

    Raises:
        SimulationError: the file cannot be written.

    """

    def __init__(self, path: Path, prompt: str, *, gif: bool = False) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._prompt = prompt
        self._frames = 0
        self._small: list[Image] | None = [] if gif else None
        code = cv2.VideoWriter.fourcc(*_CODEC)
        self._writer: Any = cv2.VideoWriter(str(path), code, c.CONTROL_RATE, SIZE[::-1])
        if not self._writer.isOpened():
            raise SimulationError(
                f'{path}: OpenCV cannot write it as {_CODEC}',
                remedy='choose a folder that can be written to, or install an OpenCV with FFmpeg '
                '(pip install opencv-python-headless)',
            )

    def add(self, environment: Environment, time: float, success: float | None) -> None:
        """Record the present moment.

        Args:
            environment: to look at.
            time: in s.
            success: when the task was done, None = not yet.

        """
        views = [environment.render(camera, *VIEW) for camera in c.CAMERAS]
        frame = np.zeros((*SIZE, 3), np.uint8)
        frame[BAR:] = np.concatenate(views, axis=1)
        _caption(frame, f'"{self._prompt}"', self._frames, time, success)
        self._writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
        if self._small is not None and self._frames % _GIF_EVERY == 0:
            height, width = SIZE[0] // _GIF_SCALE, SIZE[1] // _GIF_SCALE
            small: Any = cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA)
            self._small.append(small)
        self._frames += 1

    def close(self) -> None:
        """Finish the files.

        Raises:
            SimulationError: what was written cannot be read back, e.g. because the disk is full.

        """
        self._writer.release()
        if self._frames == 0:
            self.path.unlink(missing_ok=True)
            return
        if (found := count_frames(self.path)) != self._frames:
            raise SimulationError(
                f'{self.path}: {found} of {self._frames} frames can be read back',
                remedy='see whether the disk is full',
            )
        if self._small:
            _write_gif(self.path.with_suffix('.gif'), self._small)


def count_frames(path: Path) -> int:
    """Return how many frames of a video can be decoded."""
    capture = cv2.VideoCapture(str(path))
    count = 0
    while capture.grab():
        count += 1
    capture.release()
    return count


def _caption(frame: Image, prompt: str, step: int, time: float, success: float | None) -> None:
    done = '' if success is None else f'   done at {success:.1f} s'
    # OpenCV's letters are ASCII.
    words = prompt.encode('ascii', 'replace').decode()
    words = words if len(words) <= 60 else f'{words[:57]}..."'
    text = f'{words}   step {step}   {time:.1f} s{done}'
    colour = _PLAIN if success is None else _DONE
    font = cv2.FONT_HERSHEY_SIMPLEX
    cv2.putText(frame, text, (8, BAR - 9), font, 0.5, colour, 1, cv2.LINE_AA)


def _write_gif(path: Path, frames: list[Image]) -> None:
    from PIL import Image as Pictures

    pictures = [Pictures.fromarray(frame) for frame in frames]
    # One palette for all: it does not flicker, and what stands still costs nothing.
    palette = pictures[len(pictures) // 2].quantize(64)
    small = [each.quantize(palette=palette, dither=Pictures.Dither.NONE) for each in pictures]
    small[0].save(
        path,
        save_all=True,
        append_images=small[1:],
        duration=round(1000 * _GIF_EVERY / c.CONTROL_RATE),
        loop=0,
        optimize=True,
    )
