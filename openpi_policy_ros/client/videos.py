# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Videos of a robot's cameras, asked about as a client of a policy that looks back asks.

The cadence is that of DreamZero's client: one frame first, then four for each chunk, spread over
the actions of the chunk before, the newest one last. A video has one frame per action.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.robot import Profile, RobotConfig
from openpi_policy_ros.errors import ConfigurationError

SUFFIXES = ('.mp4', '.avi', '.mkv', '.mov', '.webm')
CHUNK = 24
"""Actions of a chunk of DreamZero for DROID, and the frames between two calls."""

ROBOARENA = (
    'observation/exterior_image_0_left',
    'observation/exterior_image_1_left',
    'observation/wrist_image_left',
)
"""What the cameras are called on the wire where no robot file says otherwise."""

DROID = ('exterior_image_1_left', 'exterior_image_2_left', 'wrist_image_left')
"""DROID's own names of the same three cameras, which count from 1."""


def roboarena() -> RobotConfig:
    """Return the names and sizes of RoboArena's state, where no robot file says any."""
    keys = ('observation/joint_position', 'observation/gripper_position')
    return RobotConfig(
        profile=Profile(key_map=[f'{key} -> observation.state' for key in keys], state_dims=[7, 1])
    )


def offsets(chunk: int = CHUNK) -> tuple[int, ...]:
    """Return which frames a call shows, counted from the newest: (−23, −16, −8, 0) of 24.

    Args:
        chunk: actions between two calls, at least 4.

    """
    return (1 - chunk, -(2 * chunk // 3), -(chunk // 3), 0)


def frame_numbers(call: int, chunk: int = CHUNK) -> list[int]:
    """Return the frames of a call, from 0; of the first call, which is 0, the first frame alone."""
    return [0] if call == 0 else [call * chunk - 1 + offset for offset in offsets(chunk)]


def calls_in(frames: int, chunk: int = CHUNK) -> int:
    """Return how many calls so many frames last for."""
    return 0 if frames < 1 else 1 + frames // chunk


@dataclass(frozen=True)
class Video:
    """One camera's video.

    Attributes:
        key: observation key.
        path: of the file.
        frames: how many can be decoded.
        fps: as the file says.
        size: height and width.

    """

    key: str
    path: Path
    frames: int
    fps: float
    size: tuple[int, int]

    @property
    def origin(self) -> str:
        """Return where the frames come from, for people."""
        return f'{self.path.name}, {self.frames} frames at {self.fps:g} per second'


def find_videos(directory: str, keys: Sequence[str] = (), given: Sequence[str] = ()) -> list[Video]:
    """Return the videos of a folder, one per key.

    Args:
        directory: its files are named like the last part of their key.
        keys: of the cameras; none = RoboArena's three, whose files may have DROID's names.
        given: ``KEY=FILE`` for those that are called otherwise.

    Raises:
        ConfigurationError: one is missing, cannot be read, or is as long as no other.

    """
    folder = Path(directory).expanduser()
    try:
        there = sorted(
            path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file()
        )
    except OSError as error:
        raise ConfigurationError(
            '--video-dir', [f'{folder}: {error.strerror or error}; expected a folder of videos']
        ) from None
    known = tuple(keys) or ROBOARENA
    files, problems = _named(known, given)
    stems: dict[str, list[Path]] = {}
    for path in there:
        stems.setdefault(path.stem, []).append(path)
    for key, stem in zip(known, _stems(known, stems, keys), strict=True):
        if key in files:
            continue
        found = stems.get(stem, [])
        if len(found) == 1:
            files[key] = found[0]
        elif found:
            problems.append(f'{key}: {", ".join(path.name for path in found)}: which of them?')
        else:
            problems.append(
                f'{key}: no {stem}{SUFFIXES[0]} in {folder} (or {", ".join(SUFFIXES[1:])}); '
                f'there {_there(there)}; rename it, or give --videos {key}=FILE'
            )
    if problems:
        raise ConfigurationError('--video-dir', problems)
    videos = [_measure(key, files[key]) for key in known]
    if len({video.frames for video in videos}) > 1:
        counts = '; '.join(f'{video.path.name} has {video.frames}' for video in videos)
        raise ConfigurationError(
            '--video-dir',
            [f'the videos differ in their number of frames ({counts}): cut them to the same time'],
        )
    return videos


def _named(keys: Sequence[str], given: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    files: dict[str, Path] = {}
    problems = []
    for text in given:
        key, _, file = text.partition('=')
        if not key or not file or key in files:
            problems.append(f'--videos {text}: expected KEY=FILE, each key once')
        elif key not in keys:
            problems.append(f'--videos {text}: {key!r} is no camera ({", ".join(keys)})')
        else:
            files[key] = Path(file).expanduser()
    return files, problems


def _stems(known: Sequence[str], there: Mapping[str, Any], keys: Sequence[str]) -> Sequence[str]:
    own = [key.rpartition('/')[2] for key in known]
    # DROID has no camera 0, and RoboArena none with 2: one name tells which of them counted.
    if not keys and own[0] not in there and DROID[1] in there:
        return DROID
    return own


def _there(paths: Sequence[Path]) -> str:
    if not paths:
        return 'is no video'
    return f'are {", ".join(path.name for path in paths[:6])}{", …" if len(paths) > 6 else ""}'


def _measure(key: str, path: Path) -> Video:
    import cv2

    if not path.is_file():
        raise ConfigurationError('--video-dir', [f'{path}: no such file'])
    capture = cv2.VideoCapture(str(path))
    try:
        # Counted, as headers err.
        frames = 0
        while capture.isOpened() and capture.grab():
            frames += 1
        if not frames:
            raise ConfigurationError('--video-dir', [f'{path} is no video that OpenCV reads'])
        height = int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
        width = int(capture.get(cv2.CAP_PROP_FRAME_WIDTH))
        return Video(key, path, frames, capture.get(cv2.CAP_PROP_FPS), (height, width))
    finally:
        capture.release()


class VideoReader:
    """Reads frames of a video in rising order, one at a time in memory.

    Args:
        video: as ``find_videos`` found it.
        colour_order: ``RGB`` or ``BGR``, of what is returned.
        layout: ``HWC`` or ``CHW``.

    """

    def __init__(self, video: Video, colour_order: str = 'RGB', layout: str = 'HWC') -> None:
        import cv2

        self._video = video
        self._reverse = colour_order == 'RGB'
        self._first = layout == 'CHW'
        self._capture = cv2.VideoCapture(str(video.path))
        self._next = 0

    def frames(self, numbers: Sequence[int]) -> npt.NDArray[np.uint8]:
        """Return these frames, uint8 [T, H, W, 3] (or [T, 3, H, W]); never one before the last.

        Raises:
            ConfigurationError: the file does not give them any more.

        """
        return np.stack([self._frame(number) for number in numbers])

    def close(self) -> None:
        """Close the file."""
        self._capture.release()

    def _frame(self, number: int) -> npt.NDArray[np.uint8]:
        found, pixels = False, None
        while self._next <= number:
            found = self._capture.grab()
            self._next += 1
        if found:
            found, pixels = self._capture.retrieve()
        if not found or pixels is None:
            raise ConfigurationError(
                '--video-dir', [f'{self._video.path}: frame {number} cannot be read']
            )
        image: npt.NDArray[np.uint8] = np.asarray(pixels, np.uint8)
        image = image[..., ::-1] if self._reverse else image
        return np.ascontiguousarray(image.transpose(2, 0, 1) if self._first else image)


def observed(
    videos: Sequence[Video],
    count: int,
    *,
    chunk: int = CHUNK,
    colour_order: str = 'RGB',
    layout: str = 'HWC',
) -> Generator[tuple[list[int], dict[str, npt.NDArray[np.uint8]]], None, None]:
    """Yield for each call the numbers of its frames, and observation key → frames.

    Args:
        videos: equally long.
        count: calls.
        chunk: actions between two calls.
        colour_order: of the frames.
        layout: of each frame.

    """
    readers = {video.key: VideoReader(video, colour_order, layout) for video in videos}
    try:
        for call in range(count):
            numbers = frame_numbers(call, chunk)
            if call == 1 and numbers[0] == 0:
                # The first call has taken frame 0, and a video is read forward.
                for video in videos:
                    readers[video.key].close()
                    readers[video.key] = VideoReader(video, colour_order, layout)
            yield numbers, {key: reader.frames(numbers) for key, reader in readers.items()}
    finally:
        for reader in readers.values():
            reader.close()
