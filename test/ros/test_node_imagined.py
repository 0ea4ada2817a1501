# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real node shows what its policy imagines, if it is asked to and somebody looks."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')

from dreaming_policy import DREAM
from dreaming_robot import Robot, dreaming_robot
from node_process import RELIABLE
from sensor_msgs.msg import Image

pytestmark = pytest.mark.ros

TOPIC = 'openpi_policy/imagined'
SLOW = {'timing': {'inference_rate': 1.0}}


def fact(robot: Robot, name: str, text: str) -> None:
    robot.peer.wait_until(text, lambda: text in robot.peer.status().get(name, ''))


def test_frames_come_one_by_one_and_each_session_has_its_video(tmp_path: Path) -> None:
    folder = tmp_path / 'dreams'
    changes = {**SLOW, 'visual': {'imagined_rate': 20.0}}
    with dreaming_robot(tmp_path, 'dreams=1', changes, imagined_dir=str(folder)) as robot:
        robot.wait_for('READY')
        robot.peer.listen(TOPIC, Image, RELIABLE)
        robot.peer.wait_until('three chunks', lambda: len(robot.peer.heard(TOPIC)) >= 20)
        heard = robot.peer.heard(TOPIC)
        fact(robot, 'imagined', '8 frames of 32x16 with each chunk')
        fact(robot, 'imagined_files', 'frames in 1 files')
        robot.peer.reset()
        fact(robot, 'imagined_files', 'frames in 2 files')
    greys = []
    for message in heard:
        assert (message.height, message.width, message.encoding) == (*DREAM[1:3], 'rgb8')
        assert message.step == 3 * DREAM[2]
        pixels = np.asarray(message.data, np.uint8).reshape(DREAM[1:])
        assert len(np.unique(pixels)) == 1
        greys.append(int(pixels[0, 0, 0]))
    # Frame i of chunk k is 10 k + i: a whole chunk, in order, and its stamps 1/5 s apart.
    begins = [i for i, grey in enumerate(greys[:-8]) if grey % 10 == 0]
    assert begins, greys
    first = begins[0]
    assert greys[first : first + 8] == [greys[first] + i for i in range(8)]
    stamps = [one.header.stamp.sec * 10**9 + one.header.stamp.nanosec for one in heard]
    assert np.diff(stamps[first : first + 8]).tolist() == [200_000_000] * 7
    videos = sorted(folder.glob('*Z_robot_*.mp4'))
    assert len(videos) == 2
    for path in videos:
        capture = cv2.VideoCapture(str(path))
        assert (capture.get(cv2.CAP_PROP_FPS), capture.get(cv2.CAP_PROP_FRAME_WIDTH)) == (5.0, 32.0)
        assert capture.get(cv2.CAP_PROP_FRAME_COUNT) % 8 == 0
        assert capture.read()[0]


def test_it_is_off_unless_asked_for_and_says_where_nothing_is_imagined(tmp_path: Path) -> None:
    with dreaming_robot(tmp_path, 'dreams=1', SLOW) as robot:
        robot.wait_for('READY')
        robot.peer.wait_until('chunks', lambda: robot.peer.heard('openpi_policy/action_chunk'))
        names = dict(robot.peer.node.get_topic_names_and_types())
        assert f'/{TOPIC}' not in names
        assert 'imagined' not in robot.peer.status()
    (tmp_path / 'second').mkdir()
    changes = {**SLOW, 'visual': {'imagined_rate': 1.0}}
    with dreaming_robot(tmp_path / 'second', 'dreams=0', changes) as robot:
        robot.wait_for('READY')
        fact(robot, 'imagined', 'not shown: the policy imagines nothing, or is not told to')


def test_a_folder_that_cannot_be_written_is_refused_with_all_else(tmp_path: Path) -> None:
    from openpi_policy_ros.errors import ConfigurationError
    from openpi_policy_ros.ros.settings import validate_parameters

    file = tmp_path / 'file'
    file.touch()
    with pytest.raises(ConfigurationError) as caught:
        validate_parameters(
            {'policy': 'rehearsal', 'imagined_dir': str(file), 'visual.imagined_rate': 31.0}
        )
    problems = ' '.join(caught.value.problems)
    assert 'imagined_dir: ' in problems
    assert 'cannot be written' in problems
    assert 'visual.imagined_rate' in problems
