# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep the future that a policy imagines, one video per session; nobody waits for the disk.

The engine's worker hands over references; one thread encodes and writes. Where it is too slow whole
chunks are dropped and counted. Where the disk fails, this ends and nothing else does.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.engine import Lane
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, PolicySpec, SessionKey
from openpi_policy_ros.recording.naming import free_path
from openpi_policy_ros.recording.outbox import Item, Outbox
from openpi_policy_ros.recording.ready import STOP_FREE, folder_problems
from openpi_policy_ros.recording.video import SUFFIX, VideoFile, codec_problem

_log = logging.getLogger('openpi_policy_ros.recording')

FPS = 5.0
"""Frames per second of the file where the policy does not say."""

FPS_LIMITS = 0.01, 1000.0
LEAST_SIDE = 2
"""What the encoder takes; with less or more OpenCV gives no reason."""

QUEUE_BYTES = 64 * 2**20
"""Most bytes that wait for the encoder: a dozen chunks of eight frames of 640 x 352."""

CLOSE = 10.0
"""Seconds that the rest of the queue may take at the end."""

REPEAT = 10.0
"""Least seconds between two log lines of the same kind."""


@dataclass(frozen=True)
class ImaginedStats:
    """What was kept so far.

    Attributes:
        files: begun.
        frames: written.
        dropped: chunks that a slow disk or a fault kept out.
        stopped: why nothing is kept any more, '' = it is.

    """

    files: int = 0
    frames: int = 0
    dropped: int = 0
    stopped: str = ''


def imagined_problems(directory: str) -> list[str]:
    """Return why no videos can be kept under ``directory``; it is made where it can be."""
    problems = folder_problems(directory)
    if problems:
        return problems
    why = codec_problem()
    return [why] if why else []


def tell_no_dreams(spec: PolicySpec, name: str) -> None:
    """Warn where a folder for what a policy imagines, given as ``name``, will stay empty."""
    if not spec.imagines:
        _log.warning(
            '%s: policy %s imagines no video, so none will be kept; DreamZero does with '
            'imagined: true in its policy file',
            name,
            spec.name,
        )


def require_imagined(directory: str, setting: str) -> Path:
    """Return the folder for the videos.

    Args:
        directory: as the user wrote it.
        setting: what to call it in an error.

    Raises:
        ConfigurationError: as ``imagined_problems`` says.

    """
    problems = imagined_problems(directory)
    if problems:
        raise ConfigurationError(setting, problems)
    return Path(directory).expanduser()


class ImaginedFiles:
    """A tap of the engine that writes ``ActionChunk.imagined`` of each session to an MP4 file.

    Args:
        directory: exists; see ``require_imagined``.
        queue_bytes: most that may wait.
        stop_free: bytes that are left free on the disk.

    """

    def __init__(
        self, directory: Path, *, queue_bytes: int = QUEUE_BYTES, stop_free: int = STOP_FREE
    ) -> None:
        self._directory = directory
        self._stop_free = stop_free
        self._outbox = Outbox(queue_bytes)
        self._lock = threading.Lock()
        self._stats = ImaginedStats()
        self._told: dict[str, float] = {}
        # The writer's own.
        self._videos: dict[SessionKey, VideoFile] = {}
        self._thread = threading.Thread(target=self._run, name='imagined-files', daemon=True)
        self._thread.start()
        _log.info('what the policy imagines of each session is kept in %s', directory)

    @property
    def stats(self) -> ImaginedStats:
        """Return counts so far; any thread."""
        with self._lock:
            return self._stats

    def inferred(
        self, request: InferenceRequest, lane: Lane, outcome: ActionChunk | BaseException
    ) -> None:
        """Take the frames of a chunk that has any; the engine's worker calls this."""
        if not isinstance(outcome, ActionChunk) or outcome.imagined is None:
            return
        key, frames, fps = request.session, outcome.imagined, outcome.imagined_fps or FPS
        if self.stats.stopped:
            return
        if not self._outbox.put(Item(lambda: self._write(key, lane, frames, fps), frames.nbytes)):
            self._drop('videos are written more slowly than they are imagined; chunks are left out')

    def session_closed(self, key: SessionKey) -> None:
        """Finish the file of a session; the engine's worker calls this."""
        self._outbox.put(Item(lambda: self._finish(key), 0, must=True))

    def close(self, patience: float = CLOSE) -> None:
        """Write what waits and finish every file; returns after ``patience`` seconds at most."""
        self._outbox.close()
        self._thread.join(patience)
        if self._thread.is_alive():
            _log.error(
                'the videos in %s could not be finished within %g s: the disk is too slow or '
                'hangs; those left open cannot be played',
                self._directory,
                patience,
            )

    def _run(self) -> None:
        while not self._outbox.over:
            item = self._outbox.take(1.0)
            if item is not None:
                self._guarded(item.work)
                self._outbox.done(item)
        for key in list(self._videos):
            self._guarded(lambda key=key: self._finish(key))  # type: ignore[misc]

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError as error:
            self._stop(f'{error.strerror or error} ({error.filename or self._directory})')
        except Exception:
            self._drop('what a policy imagined could not be kept')
            if self._due('trace'):
                _log.exception('this is why')

    def _write(
        self, key: SessionKey, lane: Lane, frames: npt.NDArray[np.uint8], fps: float
    ) -> None:
        if self.stats.stopped:
            return
        check_frames(frames)
        if not len(frames):
            return
        check_playable(frames, fps)
        free = shutil.disk_usage(self._directory).free
        if free < self._stop_free:
            self._stop(f'only {free / 1e6:.0f} MB are free on the disk of {self._directory}')
            return
        size = frames.shape[1:3]
        video = self._videos.get(key)
        if video is not None and (video.size, video.fps) != (size, fps):
            self._finish(key)
            video = None
        if video is None:
            video = VideoFile(free_path(self._directory, lane, key, SUFFIX), fps, size)
            self._videos[key] = video
            _log.info('what session %s imagines is kept in %s', key, video.path.name)
            with self._lock:
                self._stats = replace(self._stats, files=self._stats.files + 1)
        video.add(frames)
        with self._lock:
            self._stats = replace(self._stats, frames=self._stats.frames + len(frames))

    def _finish(self, key: SessionKey) -> None:
        video = self._videos.pop(key, None)
        if video is not None:
            video.close()
            _log.info('session %s: %d imagined frames kept', key, video.frames)

    def _drop(self, why: str) -> None:
        with self._lock:
            self._stats = replace(self._stats, dropped=self._stats.dropped + 1)
            dropped = self._stats.dropped
        if self._due(why):
            _log.warning('%s (%d so far)', why, dropped)

    def _due(self, what: str) -> bool:
        now = time.monotonic()
        with self._lock:
            told = self._told.get(what)
            if told is not None and now - told < REPEAT:
                return False
            self._told[what] = now
            return True

    def _stop(self, why: str) -> None:
        with self._lock:
            already, self._stats = self._stats.stopped, replace(self._stats, stopped=why)
        if not already:
            _log.error('imagined futures are kept no more, all else goes on: %s', why)
        for key in list(self._videos):
            video = self._videos.pop(key)
            try:
                # What was written before may still be played.
                video.close()
            except OSError as error:
                _log.warning('%s cannot be played: %s', video.path, error.strerror or error)


def check_frames(frames: npt.NDArray[np.uint8]) -> None:
    """Raise where these are not uint8 [T, H, W, 3].

    Raises:
        ValueError: they are something else.

    """
    shape = np.shape(frames)
    if getattr(frames, 'dtype', None) != np.uint8 or len(shape) != 4 or shape[3] != 3:
        kind = getattr(frames, 'dtype', type(frames).__name__)
        raise ValueError(f'imagined frames are {kind} {list(shape)}, expected uint8 [T, H, W, 3]')


def check_playable(frames: npt.NDArray[np.uint8], fps: float) -> None:
    """Raise where no file can hold such frames: that is no fault of the disk.

    Raises:
        ValueError: their size, or their rate.

    """
    height, width = frames.shape[1:3]
    if min(height, width) < LEAST_SIDE or not FPS_LIMITS[0] <= fps <= FPS_LIMITS[1]:
        raise ValueError(
            f'imagined frames are {height}x{width} at {fps:g} per second, expected at least '
            f'{LEAST_SIDE} pixels a side, {FPS_LIMITS[0]:g} to {FPS_LIMITS[1]:g} per second'
        )
