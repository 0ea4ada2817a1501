# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a policy imagines becomes one video per session, and never stands in anybody's way."""

from __future__ import annotations

import logging
import shutil
import threading
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from dreaming_policy import CAMERAS, DREAM, GRIPPER, JOINTS, DreamingPolicy
from fakes import request
from serving import eventually

from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import ActionChunk, SessionKey
from openpi_policy_ros.recording import imagined as module
from openpi_policy_ros.recording.imagined import (
    ImaginedFiles,
    imagined_problems,
    require_imagined,
    tell_no_dreams,
)

OBSERVATION = {
    **{key: np.zeros((6, 8, 3), np.uint8) for key in CAMERAS},
    JOINTS: np.zeros(7, np.float32),
    GRIPPER: np.zeros(1, np.float32),
}


def frames_of(path: Path) -> np.ndarray:
    """Return every frame of a video, RGB."""
    capture = cv2.VideoCapture(str(path))
    frames = []
    while True:
        there, frame = capture.read()
        if not there:
            capture.release()
            return np.array(frames)[..., ::-1]
        frames.append(frame)


def fps_of(path: Path) -> float:
    capture = cv2.VideoCapture(str(path))
    try:
        return float(capture.get(cv2.CAP_PROP_FPS))
    finally:
        capture.release()


def chunk(value: int = 0, shape: tuple[int, ...] = DREAM, fps: float | None = 5.0) -> ActionChunk:
    imagined = np.full(shape, value, np.uint8)
    return ActionChunk(
        {'actions': np.zeros((1, 1), np.float32)}, imagined=imagined, imagined_fps=fps
    )


def test_each_session_has_a_video_of_what_was_imagined_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger='openpi_policy_ros.recording')
    engine, files = Engine(DreamingPolicy(dreams=1)), ImaginedFiles(tmp_path)
    engine.add_tap(files)
    engine.start()
    for name in ('a', 'b', 'a'):
        one = request('c', name, observation=OBSERVATION)
        engine.submit(one, Lane.REMOTE).result(timeout=10)
    engine.close_session(SessionKey('c', 'a'))
    # Its file can be played as soon as it is over, and not only when all is.
    eventually(lambda: 'c/a: 16 imagined frames kept' in caplog.text, 'a is done')
    assert 'c/b: ' not in caplog.text
    engine.close(drain_timeout=10)
    files.close()
    (first,), (second,) = tmp_path.glob('*Z_remote_c-a.mp4'), tmp_path.glob('*Z_remote_c-b.mp4')
    assert frames_of(second).shape == (8, *DREAM[1:])
    assert fps_of(first) == 5.0
    means = frames_of(first).mean(axis=(1, 2, 3))
    # MPEG-4 is not exact.
    np.testing.assert_allclose(means, [*range(10, 18), *range(20, 28)], atol=5)
    assert (files.stats.files, files.stats.frames, files.stats.dropped) == (2, 24, 0)


def test_colours_are_those_of_the_policy(tmp_path: Path) -> None:
    files = ImaginedFiles(tmp_path)
    one = chunk()
    one.imagined[:] = (200, 100, 20)
    files.inferred(request(), Lane.ROBOT, one)
    files.close()
    (path,) = tmp_path.glob('*Z_robot_default.mp4')
    np.testing.assert_allclose(frames_of(path).mean(axis=(0, 1, 2)), (200, 100, 20), atol=6)


def test_without_frames_there_is_no_file_and_an_error_is_none(tmp_path: Path) -> None:
    files = ImaginedFiles(tmp_path)
    plain = ActionChunk({'actions': np.zeros((1, 1), np.float32)})
    for outcome in (plain, RuntimeError('no'), chunk(shape=(0, 16, 32, 3))):
        files.inferred(request(), Lane.REMOTE, outcome)
    files.session_closed(request().session)
    files.close()
    assert list(tmp_path.iterdir()) == []


def test_another_size_or_rate_begins_another_file(tmp_path: Path) -> None:
    files = ImaginedFiles(tmp_path)
    for one in (chunk(), chunk(shape=(2, 32, 32, 3)), chunk(shape=(3, 32, 32, 3), fps=None)):
        files.inferred(request(), Lane.REMOTE, one)
    files.inferred(request(), Lane.REMOTE, chunk(shape=(1, 32, 32, 3), fps=15.0))
    files.close()
    found = sorted((len(frames_of(path)), fps_of(path)) for path in tmp_path.iterdir())
    assert found == [(1, 15.0), (5, 5.0), (8, 5.0)]


@pytest.mark.parametrize(
    'wrong', [np.zeros((2, 4, 4), np.uint8), np.zeros((2, 4, 4, 3), np.float32)]
)
def test_what_is_no_video_is_told_and_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: Any
) -> None:
    files = ImaginedFiles(tmp_path)
    for one in (ActionChunk({}, imagined=wrong), chunk()):
        files.inferred(request(), Lane.REMOTE, one)
    files.close()
    assert 'expected uint8 [T, H, W, 3]' in caplog.text
    assert (files.stats.dropped, files.stats.frames, files.stats.stopped) == (1, 8, '')


@pytest.mark.parametrize(
    'wrong',
    [
        chunk(shape=(8, 1, 32, 3)),
        chunk(shape=(8, 0, 32, 3)),
        chunk(fps=float('nan')),
        chunk(fps=-1.0),
        chunk(fps=1e9),
    ],
)
def test_frames_that_no_file_can_hold_stop_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: ActionChunk
) -> None:
    files = ImaginedFiles(tmp_path)
    for one in (wrong, chunk()):
        files.inferred(request(), Lane.REMOTE, one)
    files.close()
    assert 'per second, expected at least 2 pixels a side' in caplog.text
    assert (files.stats.dropped, files.stats.frames, files.stats.stopped) == (1, 8, '')


def test_nobody_waits_for_a_slow_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    write = module.VideoFile.add

    def slowly(video: Any, frames: Any) -> None:
        begun.set()
        assert go_on.wait(10)
        write(video, frames)

    monkeypatch.setattr(module.VideoFile, 'add', slowly)
    files = ImaginedFiles(tmp_path, queue_bytes=2 * chunk().imagined.nbytes)
    files.inferred(request(), Lane.REMOTE, chunk())
    assert begun.wait(10)
    for _ in range(4):
        files.inferred(request(), Lane.REMOTE, chunk())
    assert files.stats.dropped == 3
    assert 'more slowly than they are imagined; chunks are left out (1 so far)' in caplog.text
    go_on.set()
    files.close()
    assert files.stats.frames == 16


def test_a_full_disk_ends_it_and_leaves_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = ImaginedFiles(tmp_path)
    files.inferred(request(), Lane.REMOTE, chunk())
    eventually(lambda: files.stats.frames == 8, 'the first chunk is written')
    full = shutil._ntuple_diskusage(10**9, 10**9, 10**6)
    monkeypatch.setattr(module.shutil, 'disk_usage', lambda _: full)
    for _ in range(3):
        files.inferred(request(), Lane.REMOTE, chunk())
    files.close()
    (path,) = tmp_path.iterdir()
    assert len(frames_of(path)) == 8
    assert files.stats.stopped == f'only 1 MB are free on the disk of {tmp_path}'
    assert caplog.text.count('imagined futures are kept no more, all else goes on') == 1


def test_a_file_that_is_taken_away_is_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = ImaginedFiles(tmp_path)
    files.inferred(request(), Lane.REMOTE, chunk())
    eventually(lambda: files.stats.frames == 8, 'the first chunk is written')
    next(tmp_path.iterdir()).unlink()
    with caplog.at_level(logging.ERROR):
        files.inferred(request(), Lane.REMOTE, chunk())
        files.close()
    assert files.stats.stopped.startswith('No such file or directory')


def test_where_nothing_can_be_written_is_told_before_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = tmp_path / 'file'
    taken.touch()
    with pytest.raises(ConfigurationError, match='cannot be written'):
        require_imagined(str(taken), '--imagined-dir')
    assert imagined_problems(str(tmp_path / 'new')) == []
    assert (tmp_path / 'new').is_dir()
    monkeypatch.setattr('openpi_policy_ros.recording.video.CODEC', 'zzzz')
    (problem,) = imagined_problems(str(tmp_path))
    assert problem.startswith('OpenCV cannot write zzzz')


@pytest.mark.parametrize('dreams', [True, False])
def test_a_folder_that_will_stay_empty_is_told(
    caplog: pytest.LogCaptureFixture, dreams: bool
) -> None:
    tell_no_dreams(DreamingPolicy(dreams=dreams).spec, '--imagined-dir')
    told = '--imagined-dir: policy dreaming imagines no video' in caplog.text
    assert told is not dreams
