# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which frames of which files are sent, in the cadence of DreamZero's client."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from video_files import write_episode, write_video

from openpi_policy_ros.client import videos as module
from openpi_policy_ros.client.videos import (
    DROID,
    ROBOARENA,
    calls_in,
    find_videos,
    frame_numbers,
    observed,
    offsets,
)
from openpi_policy_ros.errors import ConfigurationError

STEMS = tuple(key.rpartition('/')[2] for key in ROBOARENA)


def test_one_frame_comes_first_and_then_four_of_each_chunk() -> None:
    assert [frame_numbers(call) for call in range(4)] == [
        [0],
        [0, 7, 15, 23],
        [24, 31, 39, 47],
        [48, 55, 63, 71],
    ]
    assert offsets(6) == (-5, -4, -2, 0)
    assert [frame_numbers(call, 4) for call in range(3)] == [[0], [0, 1, 2, 3], [4, 5, 6, 7]]
    assert all(sorted(set(offsets(n))) == list(offsets(n)) for n in range(4, 200))


@pytest.mark.parametrize(
    ('frames', 'calls'), [(0, 0), (1, 1), (23, 1), (24, 2), (47, 2), (48, 3), (72, 4)]
)
def test_a_video_lasts_for_as_many_calls_as_it_has_frames_for(frames: int, calls: int) -> None:
    assert calls_in(frames) == calls
    assert all(max(frame_numbers(call)) < frames for call in range(calls))


def test_every_call_holds_the_very_frames(tmp_path: Path) -> None:
    found = find_videos(str(write_episode(tmp_path / 'v', 50, STEMS)))
    assert [(one.key, one.frames, one.fps, one.size) for one in found] == [
        (key, 50, 15.0, (16, 32)) for key in ROBOARENA
    ]
    calls = list(observed(found, 3))
    for call, (numbers, seen) in enumerate(calls):
        assert numbers == frame_numbers(call)
        for camera, key in enumerate(ROBOARENA):
            assert (seen[key].dtype, seen[key].shape) == (np.uint8, (len(numbers), 16, 32, 3))
            assert seen[key][:, 0, 0, 0].tolist() == [10 * camera + n for n in numbers]


def test_colours_and_axes_are_as_asked_for(tmp_path: Path) -> None:
    path = tmp_path / 'wrist.avi'
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*'FFV1'), 15.0, (32, 16))
    writer.write(np.full((16, 32, 3), (250, 10, 10), np.uint8))  # Blue, in OpenCV's order.
    writer.release()
    found = find_videos(str(tmp_path), ['cam/wrist'])
    (_, rgb), (_, bgr) = (
        next(observed(found, 1, colour_order=order, layout=layout))
        for order, layout in (('RGB', 'HWC'), ('BGR', 'CHW'))
    )
    assert rgb['cam/wrist'][0, 0, 0].tolist() == pytest.approx([10, 10, 250], abs=8)
    assert bgr['cam/wrist'].shape == (1, 3, 16, 32)
    assert bgr['cam/wrist'][0, :, 0, 0].tolist() == pytest.approx([250, 10, 10], abs=8)
    assert bgr['cam/wrist'].flags.c_contiguous


def test_files_with_droids_own_names_are_the_same_cameras(tmp_path: Path) -> None:
    found = find_videos(str(write_episode(tmp_path, 3, DROID)))
    assert [(one.key, one.path.stem) for one in found] == list(zip(ROBOARENA, DROID, strict=True))


def test_a_robot_files_keys_are_never_renamed(tmp_path: Path) -> None:
    write_episode(tmp_path, 3, DROID)
    keys = ['observation/exterior_image_1_left', 'observation/wrist_image_left']
    assert [one.path.stem for one in find_videos(str(tmp_path), keys)] == [DROID[0], DROID[2]]
    with pytest.raises(ConfigurationError, match=r'no exterior_image_0_left\.mp4'):
        find_videos(str(tmp_path), list(ROBOARENA))


def test_a_file_may_have_any_name_if_its_key_is_given(tmp_path: Path) -> None:
    write_episode(tmp_path, 3, (*STEMS[:2], 'hand'))
    given = f'{ROBOARENA[2]}={tmp_path / "hand.avi"}'
    assert [one.path.stem for one in find_videos(str(tmp_path), given=[given])] == [
        *STEMS[:2],
        'hand',
    ]
    for wrong in ('hand.avi', f'nose={tmp_path}/hand.avi', f'{ROBOARENA[2]}={tmp_path}/no.avi'):
        with pytest.raises(
            ConfigurationError, match=r'expected KEY=FILE|is no camera|no such file'
        ):
            find_videos(str(tmp_path), given=[wrong])


def test_what_is_missing_is_told_with_what_is_there(tmp_path: Path) -> None:
    write_video(tmp_path / 'exterior_image_0_left.avi', 3)
    write_video(tmp_path / 'left.avi', 3)
    with pytest.raises(ConfigurationError) as caught:
        find_videos(str(tmp_path))
    second, third = caught.value.problems
    assert second.startswith(f'{ROBOARENA[1]}: no exterior_image_1_left.mp4 in {tmp_path}')
    assert 'there are exterior_image_0_left.avi, left.avi; rename it, or give --videos' in third
    with pytest.raises(ConfigurationError, match='No such file or directory'):
        find_videos(str(tmp_path / 'nowhere'))


def test_two_files_for_one_camera_are_asked_about(tmp_path: Path) -> None:
    write_episode(tmp_path, 3, STEMS)
    (tmp_path / f'{STEMS[0]}.mp4').touch()
    with pytest.raises(ConfigurationError, match=f'{STEMS[0]}.avi, {STEMS[0]}.mp4: which'):
        find_videos(str(tmp_path))


@pytest.mark.parametrize('content', [b'', b'no video at all' * 20])
def test_what_is_no_video_is_refused(tmp_path: Path, content: bytes) -> None:
    write_episode(tmp_path, 3, STEMS)
    (tmp_path / f'{STEMS[1]}.avi').write_bytes(content)
    with pytest.raises(ConfigurationError, match=f'{STEMS[1]}.avi is no video that OpenCV reads'):
        find_videos(str(tmp_path))


def test_videos_of_unequal_length_are_refused_with_their_lengths(tmp_path: Path) -> None:
    write_episode(tmp_path, 30, STEMS)
    write_video(tmp_path / f'{STEMS[2]}.avi', 29)
    with pytest.raises(ConfigurationError, match=f'{STEMS[2]}.avi has 29'):
        find_videos(str(tmp_path))


def test_a_file_that_ends_early_is_told(tmp_path: Path) -> None:
    found = find_videos(str(write_episode(tmp_path, 24, STEMS)))
    write_video(tmp_path / f'{STEMS[0]}.avi', 5)
    calls = module.observed(found, 2)
    next(calls)
    with pytest.raises(ConfigurationError, match=f'{STEMS[0]}.avi: frame 7 cannot be read'):
        next(calls)
