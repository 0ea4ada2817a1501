# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is counted of the sensors for the diagnostics."""

from __future__ import annotations

import cv2
import numpy as np
from droid_sensors import JOINTS, MS, Robot

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.control.images import Picture


def test_what_came_and_what_of_it_was_refused_is_counted_over_sessions() -> None:
    robot = Robot()
    counts = robot.sensors.counts()
    assert list(counts.cameras) == ['exterior_1', 'wrist']
    assert list(counts.joints) == list(JOINTS)
    assert counts.pictures == {}
    wrist = counts.cameras['wrist']
    assert (wrist.received, wrist.refused, wrist.age_ns, wrist.trouble) == (0, 0, None, '')

    robot.everything()
    robot.pass_time(30)
    robot.image('wrist', encoding='16UC1')
    robot.sensors.restart()
    counts = robot.sensors.counts()
    wrist = counts.cameras['wrist']
    assert (wrist.received, wrist.refused, wrist.age_ns) == (2, 1, 30 * MS)
    assert counts.pictures['wrist'] == Picture('16UC1', 5, 4, 60)
    assert counts.pictures['exterior_1'].encoding == 'rgb8'
    assert all((one.received, one.refused) == (1, 0) for one in counts.joints.values())


def test_why_a_camera_is_of_no_use_is_told_with_its_counts() -> None:
    robot = Robot()
    robot.sensors.explain_silence('wrist', 'nobody publishes it')
    assert robot.sensors.counts().cameras['wrist'].trouble == 'nobody publishes it'
    robot.image('wrist', encoding='32FC1')
    assert "'32FC1'" in robot.sensors.counts().cameras['wrist'].trouble


def test_an_image_that_turns_out_unreadable_is_counted_once() -> None:
    cameras = load_robot('droid').model_dump()['cameras']
    cameras['wrist']['transport'] = 'compressed'
    robot = Robot(cameras=cameras)
    png = cv2.imencode('.png', np.zeros((4, 5, 3), np.uint8))[1].tobytes()
    torn = png[:-9]
    robot.image('exterior_1')
    robot.joints()
    robot.image('wrist', format='png', data=torn)
    counts = robot.sensors.counts()
    assert counts.pictures['wrist'] == Picture('png', 0, 0, len(torn))
    # Nobody has tried to read it yet.
    assert (counts.cameras['wrist'].received, counts.cameras['wrist'].refused) == (1, 0)
    for _ in range(2):
        assert 'cannot be decoded' in robot.blocked()
        wrist = robot.sensors.counts().cameras['wrist']
        assert (wrist.received, wrist.refused) == (1, 1)
        assert 'cannot be decoded' in wrist.trouble
