# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The fake robot of any robot file, without ROS: joints, what moves them, faults, pictures."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from arm import HOME, robot_file

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.configuration.robot import Camera, RobotConfig, load_robot
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.fake_robot.faults import active, parse_faults
from openpi_policy_ros.fake_robot.forward_controller import VelocityController
from openpi_policy_ros.fake_robot.joints import DEFAULT_SPEED, joint_topics, make_joints
from openpi_policy_ros.fake_robot.model import RobotModel
from openpi_policy_ros.fake_robot.pictures import draw, sensor_size
from openpi_policy_ros.fake_robot.trajectory_controller import Trajectory

MS = 1_000_000
NOW = 1_000_000 * MS
SHIPPED = [
    path.stem
    for path in sorted(config_directory().glob('*.yaml'))
    if '/**:' in path.read_text(encoding='utf-8')
]
URDF = """<robot name="arm">
  <joint name="shoulder" type="revolute"><limit lower="0" upper="2" velocity="3"/></joint>
  <joint name="elbow" type="continuous"><limit velocity="4"/></joint>
</robot>"""


def make(**sections: Any) -> RobotConfig:
    return RobotConfig.model_validate(robot_file(**sections))


def without_limits() -> RobotConfig:
    values = robot_file()
    del values['limits']
    return RobotConfig.model_validate(values)


def model(robot: RobotConfig) -> RobotModel:
    return RobotModel(robot, make_joints(robot, home=HOME), NOW)


@pytest.mark.parametrize('name', SHIPPED)
def test_every_shipped_robot_file_is_a_robot_within_its_limits(name: str) -> None:
    robot = load_robot(name)
    made = RobotModel(robot, make_joints(robot), NOW)
    assert set(robot.joints.names) <= set(made.positions)
    for index, joint in enumerate(robot.joints.names):
        if robot.limits.position_min:
            low, high = robot.limits.position_min[index], robot.limits.position_max[index]
            assert low < made.positions[joint] < high
    before = dict(made.positions)
    made.step(NOW + 1000 * MS)
    assert made.positions == before
    published = {joint for names in joint_topics(robot).values() for joint in names}
    assert published >= set(robot.joints.names)


def test_joints_stand_in_the_middle_or_where_the_policy_reads_zero() -> None:
    joints = make_joints(without_limits(), urdf=URDF)
    assert (joints['shoulder'].home, joints['shoulder'].speed) == (1.0, 3.0)
    assert (joints['elbow'].home, joints['elbow'].upper) == (0.0, math.inf)
    assert joints['wrist'].speed == DEFAULT_SPEED
    scaled = RobotConfig.model_validate(
        {'joints': {'names': ['finger'], 'keys': ['s'], 'scale': [-25.0], 'offset': [1.0]}}
    )
    assert make_joints(scaled)['finger'].home == 0.04


def test_the_robot_files_limits_win_over_the_urdfs() -> None:
    joint = make_joints(make(), urdf=URDF)['shoulder']
    assert (joint.lower, joint.upper, joint.speed) == (-1.0, 1.0, 1.0)


def test_a_home_that_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_joints(make(), home={'sholder': 0.0, 'elbow': 7.0})
    text = str(caught.value)
    assert "--home sholder=0.0: the robot has no such joint; did you mean 'shoulder'?" in text
    assert '--home elbow=7.0: expected -1.1 to 1.1' in text
    assert make_joints(make(), home={'elbow': 0.5})['elbow'].home == 0.5


def test_each_source_of_joints_gets_its_own_under_the_names_it_uses() -> None:
    robot = RobotConfig.model_validate(
        {
            'joints': {
                'names': ['left/waist', 'right/waist', 'torso'],
                'keys': ['s'],
                'sources': ['l/joint_states -> left/', 'r/joint_states -> right/', 'joint_states'],
            }
        }
    )
    assert joint_topics(robot) == {
        'l/joint_states': {'left/waist': 'waist'},
        'r/joint_states': {'right/waist': 'waist'},
        'joint_states': {'torso': 'torso'},
    }
    assert joint_topics(make()) == {'joint_states': {name: name for name in HOME}}


def test_a_trajectory_moves_its_joints_no_faster_and_no_further_than_they_can() -> None:
    robot = model(make())
    far = Trajectory(('shoulder', 'elbow', 'forearm'), (100 * MS,), ((5.0, 0.0, 0.3),))
    assert robot.take_trajectory('arm', far, NOW) == ''
    robot.step(NOW + 100 * MS)
    # 1 rad/s.
    assert robot.positions['shoulder'] == pytest.approx(HOME['shoulder'] + 0.1)
    robot.step(NOW + 2000 * MS)
    assert robot.positions['shoulder'] == 1.0
    assert robot.positions['elbow'] == pytest.approx(0.0)
    assert robot.positions['wrist'] == HOME['wrist']
    assert robot.taken == {'arm': 1, 'wrist': 0, 'hand': 0}


def test_the_controllers_own_names_are_those_of_its_messages() -> None:
    values = robot_file()
    values['outputs'] = copy.deepcopy(values['outputs'])
    values['outputs']['arm']['controller_names'] = ['a', 'b', 'c']
    robot = model(RobotConfig.model_validate(values))
    assert 'do not match' in robot.take_trajectory(
        'arm', Trajectory(('shoulder', 'elbow', 'forearm'), (MS,), ((0.0, 0.0, 0.0),)), NOW
    )
    assert not robot.take_trajectory(
        'arm', Trajectory(('a', 'b', 'c'), (MS,), ((0.1, -0.2, 0.4),)), NOW
    )
    robot.step(NOW + 1000 * MS)
    assert robot.positions['forearm'] == pytest.approx(0.4)
    assert robot.refused['arm'] == 1


def test_a_wrong_row_is_refused_and_changes_nothing() -> None:
    robot = model(make())
    for row in ([], [0.1, 0.2], [math.nan]):
        assert robot.take_values('wrist', row, NOW)
    robot.step(NOW + 1000 * MS)
    assert robot.positions['wrist'] == HOME['wrist']
    assert robot.refused['wrist'] == 3


def test_a_stuck_robot_stands_and_goes_on_afterwards() -> None:
    robot = model(make())
    robot.take_values('wrist', [0.5], NOW)
    robot.stuck = True
    robot.step(NOW + 1000 * MS)
    assert robot.positions['wrist'] == 0.0
    robot.stuck = False
    robot.step(NOW + 2000 * MS)
    assert robot.positions['wrist'] == 0.5


def test_velocities_are_integrated_until_the_limit_also_without_another_message() -> None:
    controller = VelocityController(['a'], [0.0], lower=[-0.2], upper=[1.0], speed=[2.0])
    assert controller.desired(NOW).tolist() == [0.0]
    assert controller.take([0.5], NOW) == ''
    assert controller.desired(NOW + 1000 * MS).tolist() == [0.5]
    assert controller.desired(NOW + 9000 * MS).tolist() == [1.0]
    assert controller.take([-100.0], NOW + 9000 * MS) == ''
    assert controller.desired(NOW + 9500 * MS).tolist() == [0.0]
    assert 'not finite' in controller.take([math.inf], NOW + 9500 * MS)
    # A clock that steps back moves nothing.
    assert controller.desired(NOW).tolist() == [0.0]


def test_the_arm_of_a_velocity_policy_gets_velocities_and_its_gripper_a_position() -> None:
    values = robot_file(profile={'action_space': 'joint_velocity'})
    values['outputs'] = {name: dict(one) for name, one in values['outputs'].items()}
    values['outputs']['arm']['type'] = 'array'
    robot = model(RobotConfig.model_validate(values))
    assert not robot.take_values('arm', [0.1, 0.0, 0.0], NOW)
    assert not robot.take_values('hand', [0.04], NOW)
    for tick in range(1, 101):
        robot.step(NOW + 10 * tick * MS)
    assert robot.positions['shoulder'] == pytest.approx(HOME['shoulder'] + 0.1)
    assert robot.positions['finger'] == pytest.approx(0.04)


@pytest.mark.parametrize(
    ('keys', 'command', 'finger'),
    [
        ({'scale': 2.0, 'offset': -1.0}, 0.75, 0.02),
        ({'scale': 2.0, 'offset': -1.0, 'invert': True}, 0.75, 0.02),
        ({'threshold': 0.5, 'open': 1.5, 'closed': 0.5}, 0.5, 0.0),
        ({'threshold': 0.5, 'open': 1.5, 'closed': 0.5, 'invert': True}, 0.5, 0.04),
    ],
)
def test_fingers_follow_a_gripper_that_is_commanded_at_its_motor(
    keys: dict[str, Any], command: float, finger: float
) -> None:
    """State and action are 0 (open, 0.04 m) to 1 (closed, 0 m), the command an angle."""
    robot = RobotConfig.model_validate(
        {
            'joints': {'names': ['finger'], 'keys': ['s'], 'scale': [-25.0], 'offset': [1.0]},
            'timing': {'action_rate': 10.0},
            'output_names': ['hand'],
            'outputs': {
                'hand': {
                    'type': 'array',
                    'gripper': True,
                    'topic': 'hand/commands',
                    'joints': ['motor'],
                    'action_indices': [0],
                    **keys,
                }
            },
        }
    )
    made = RobotModel(robot, make_joints(robot), NOW)
    made.step(NOW)
    assert made.positions['finger'] == 0.04
    assert made.take_values('hand', [command], NOW) == ''
    made.step(NOW + 5000 * MS)
    assert made.positions['motor'] == command
    assert made.positions['finger'] == pytest.approx(finger)


def test_faults_are_read_and_count_for_their_time_and_their_target() -> None:
    faults = parse_faults(
        ['camera:front@5..8', 'skew:hand=0.5@1..', 'joints@2..3', 'interlock@0..1.5'],
        ['front', 'hand'],
        ['shoulder'],
    )
    assert active(faults, 'camera', 'front', 5.0)
    assert not active(faults, 'camera', 'front', 8.0)
    assert not active(faults, 'camera', 'hand', 6.0)
    skew = active(faults, 'skew', 'hand', 1e9)
    assert skew is not None
    assert skew.value == 0.5
    assert active(faults, 'joints', '', 2.5)
    assert active(faults, 'joints', 'shoulder', 2.5)
    one = parse_faults(['joints:shoulder@2..3'], [], ['shoulder'])
    assert not active(one, 'joints', '', 2.5)
    assert active(one, 'joints', 'shoulder', 2.5)


@pytest.mark.parametrize(
    ('text', 'why'),
    [
        ('camera', 'expected KIND'),
        ('camera@8', 'expected KIND'),
        ('camera@8..5', 'ends before it begins'),
        ('flood@1..2', 'no such fault; expected one of camera, skew'),
        ('camera:side@1..2', "'side' is not known; the robot has front"),
        ('interlock:front@1..2', 'interlock takes no name'),
        ('skew:front@1..2', 'skew needs seconds'),
        ('camera=2@1..2', 'takes no value'),
    ],
)
def test_a_fault_that_cannot_be_read_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_faults([text], ['front'], ['shoulder'])
    assert why in str(caught.value)


def test_a_picture_shows_the_pose_and_the_time() -> None:
    joints = make_joints(make())
    camera = Camera(topic='front/image_raw', key='k')

    def picture(count: int, **moved: float) -> np.ndarray:
        places = {name: joint.home for name, joint in joints.items()}
        return draw('front', camera, (320, 240), count, {**places, **moved}, joints)

    first = picture(1)
    assert (first.shape, first.dtype) == ((240, 320, 3), np.uint8)
    assert np.array_equal(first, picture(1))
    assert not np.array_equal(first, picture(2))
    bars = picture(1, shoulder=0.9)
    changed = np.argwhere((bars != first).any(axis=2))
    # One row of the picture only, from its bar and its number.
    assert len(changed) > 100
    assert np.ptp(changed[:, 0]) < 240 / 6


@pytest.mark.parametrize('rotate', [0, 90, 180, 270])
def test_a_picture_is_upright_once_the_node_has_turned_it(rotate: int) -> None:
    joints = make_joints(make())
    places = {name: joint.home for name, joint in joints.items()}
    camera = Camera(topic='front/image_raw', key='k', rotate=rotate)
    size = sensor_size(camera, (320, 240))
    taken = draw('front', camera, size, 1, places, joints)
    assert taken.shape == (240, 320, 3)
    upright = np.rot90(taken, -rotate // 90)
    # The bright line with the name is at the top.
    assert upright[1].mean() > upright[-2].mean() + 50


def test_a_sensor_is_as_large_as_its_crop_needs() -> None:
    camera = Camera(topic='t', key='k', crop=[100, 20, 400, 300])
    assert sensor_size(camera, (320, 240)) == (500, 320)
    assert sensor_size(Camera(topic='t', key='k'), (320, 240)) == (320, 240)
