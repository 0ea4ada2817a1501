# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the gates hear of the sensors: ages that no clock falsifies, skew, sessions, positions."""

import math
from typing import Any

import cv2
import numpy as np
import pytest
from droid_sensors import JOINTS, MS, START, Robot, header

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.observation import Assembler

WRIST = "camera 'wrist'"
EXTERIOR = "camera 'exterior_1'"


def test_the_gates_hear_of_every_stream_its_age_and_what_is_allowed() -> None:
    robot = Robot()
    assert robot.ages() == {EXTERIOR: None, WRIST: None, 'joint_states': None}
    robot.everything()
    robot.pass_time(30)
    robot.image('wrist', age_ms=20)
    robot.pass_time(10)
    assert robot.ages() == {EXTERIOR: 40, WRIST: 30, 'joint_states': 40}
    allowed = {name: s.max_age_ns for name, s in robot.sensors.streams().streams.items()}
    assert allowed == {EXTERIOR: 150 * MS, WRIST: 150 * MS, 'joint_states': 100 * MS}


def test_a_robot_without_joints_or_cameras_reports_no_such_stream() -> None:
    joints = Assembler(
        validate(RobotConfig, {'joints': {'names': ['a'], 'keys': ['state']}}, 'test'),
        lambda: START,
    )
    assert list(joints.streams().streams) == ['joint_states']
    camera = {'camera_names': ['wrist'], 'cameras': {'wrist': {'topic': 'w', 'key': 'image'}}}
    cameras = Assembler(validate(RobotConfig, camera, 'test'), lambda: START)
    assert list(cameras.streams().streams) == [WRIST]


def test_ages_run_on_while_the_clock_stands_still_or_jumps() -> None:
    robot = Robot()
    robot.everything()
    robot.steady += 700 * MS
    assert robot.ages() == {EXTERIOR: 700, WRIST: 700, 'joint_states': 700}
    robot.now -= 5000 * MS
    robot.blocked()
    assert robot.ages() == {EXTERIOR: 700, WRIST: 700, 'joint_states': 700}
    robot.sensors.restart()
    assert robot.ages() == {EXTERIOR: 700, WRIST: 700, 'joint_states': 700}
    robot.everything()
    assert robot.ages() == {EXTERIOR: 0, WRIST: 0, 'joint_states': 0}


@pytest.mark.parametrize('fields', [{'encoding': '32FC1'}, {'header': header(0)}, {'age_ms': -500}])
def test_refused_images_make_no_camera_fresh(fields: dict[str, Any]) -> None:
    robot = Robot()
    robot.image('wrist', **fields)
    assert robot.ages()[WRIST] is None
    robot.everything()
    robot.pass_time(30)
    robot.image('wrist', **fields)
    assert robot.ages()[WRIST] == 30
    robot.image('wrist')
    assert robot.ages()[WRIST] == 0


def test_images_that_cannot_be_decoded_make_no_camera_fresh() -> None:
    cameras = load_robot('droid').model_dump()['cameras']
    cameras['wrist']['transport'] = 'compressed'
    robot = Robot(cameras=cameras)
    png = cv2.imencode('.png', np.zeros((4, 5, 3), np.uint8))[1].tobytes()

    def see(data: bytes) -> None:
        robot.image('exterior_1')
        robot.joints()
        robot.image('wrist', format='png', data=data)

    see(png)
    robot.ready()
    for since in (30, 60, 90):
        robot.pass_time(30)
        see(png[:-9])
        assert 'cannot be decoded' in robot.blocked()
        assert robot.ages() == {EXTERIOR: 0, WRIST: since, 'joint_states': 0}
    see(png)
    robot.ready()
    assert robot.ages()[WRIST] == 0


def test_of_the_joints_the_one_heard_longest_ago_counts() -> None:
    robot = Robot()
    robot.joints(JOINTS[:3])
    assert robot.ages()['joint_states'] == 0
    robot.pass_time(20)
    robot.joints(JOINTS[3:])
    assert robot.ages()['joint_states'] == 20
    robot.joints(JOINTS[:3], position=[math.nan] * 3)
    assert robot.ages()['joint_states'] == 20
    robot.joints(JOINTS[:3])
    assert robot.ages()['joint_states'] == 0


def test_the_skew_of_the_last_attempt_is_reported_until_the_next() -> None:
    robot = Robot()
    robot.everything()
    robot.image('wrist', age_ms=130)
    assert robot.sensors.streams().skew == ''
    skew = robot.blocked()
    assert skew.startswith("camera 'wrist' is 0.130 s older")
    assert robot.sensors.streams().skew == skew
    robot.image('wrist')
    assert robot.sensors.streams().skew == skew
    robot.ready()
    assert robot.sensors.streams().skew == ''
    robot.image('wrist', age_ms=130)
    robot.blocked()
    robot.sensors.restart()
    assert robot.sensors.streams().skew == ''


@pytest.mark.parametrize('ahead', [-5 * MS - 1, 1000 * MS + 1])
def test_a_jump_either_way_clears_everything_and_begins_a_new_session(ahead: int) -> None:
    robot = Robot()
    robot.everything()
    before = robot.ready()
    robot.pass_time(5)
    robot.now += ahead
    assert robot.sensors.epoch == before.epoch + 1
    assert robot.sensors.session == before.session + 1
    assert robot.blocked().startswith("camera 'exterior_1': no image")
    robot.everything()
    assert robot.ready().session == before.session + 1


def test_a_clock_that_merely_runs_on_is_no_jump() -> None:
    robot = Robot()
    robot.everything()
    before = robot.ready()
    robot.pass_time(60_000)
    robot.now += 1000 * MS
    robot.everything()
    assert robot.ready().session == before.session


def test_what_was_forgotten_must_come_again_in_the_same_session() -> None:
    robot = Robot()
    robot.everything()
    before = robot.ready()
    robot.sensors.forget()
    robot.image('exterior_1')
    robot.joints()
    assert robot.blocked().startswith("camera 'wrist': no image")
    robot.image('wrist')
    after = robot.ready()
    assert (after.session, after.epoch) == (before.session, before.epoch + 1)
    assert after.serial > before.serial


@pytest.mark.parametrize(
    ('fields', 'used'),
    [
        ({}, {name: float(i) for i, name in enumerate(JOINTS)}),
        ({'names': ('tray', *JOINTS[:1])}, {JOINTS[0]: 0.0}),
        ({'names': JOINTS[:2], 'position': [math.nan, 1.0]}, {JOINTS[1]: 1.0}),
        ({'position': []}, {}),
        ({'position': [0.0] * 7}, {}),
        ({'age_ms': -30}, {}),
    ],
)
def test_the_positions_that_can_be_used_are_handed_back(
    fields: dict[str, Any], used: dict[str, float]
) -> None:
    robot = Robot()
    robot.joints(**fields)
    assert robot.used == used


def test_an_observation_tells_its_age() -> None:
    robot = Robot()
    robot.everything()
    robot.pass_time(25)
    robot.joints()
    assert robot.ready().age_ns == 25 * MS
