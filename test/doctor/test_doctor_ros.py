# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Each finding about ROS and the robot's graph, by answers that stand in for what was seen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.doctor import graph, ros_install, round_trip
from openpi_policy_ros.doctor.findings import Finding, Outcome

IMAGE, SQUEEZED = 'sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage'
JOINT_STATE, TRAJECTORY = 'sensor_msgs/msg/JointState', 'trajectory_msgs/msg/JointTrajectory'
ROBOT = RobotConfig.model_validate(
    {
        'profile': {'action_names': ['a', 'b']},
        'camera_names': ['front'],
        'cameras': {'front': {'topic': 'front/image_raw', 'key': 'image'}},
        'joints': {'names': ['a', 'b'], 'keys': ['state']},
        'timing': {'action_rate': 20.0},
        'output_names': ['arm'],
        'outputs': {
            'arm': {
                'type': 'trajectory',
                'topic': 'arm/joint_trajectory',
                'joints': ['a', 'b'],
                'action_indices': [0, 1],
            }
        },
        'safety': {'interlock_topic': 'interlock'},
    }
)


def assert_found(finding: Finding, outcome: Outcome, *texts: str) -> None:
    assert finding.outcome is outcome, finding
    said = f'{finding.found} -> {finding.remedy}'
    assert [text for text in texts if text not in said] == [], said


def heard(**changes: Any) -> dict[str, Any]:
    one = {'count': 60, 'rate': 30.0, 'oldest': 0.03, 'newest': 0.01, 'unstamped': 0}
    return {**one, 'refusal': '', 'size': '640x480 rgb8', 'names': [], **changes}


def seen(**changes: Any) -> dict[str, Any]:
    facts = {
        'nodes': ['/driver'],
        'clock': None,
        'now': 1000.0,
        'sim_time': None,
        'remedy': 'raise the buffers',
        'cameras': {'front': heard(topic='/front/image_raw', senders=[['/driver', IMAGE, False]])},
        'joints': heard(
            topic='/joint_states', senders=[['/jsb', JOINT_STATE, False]], names=['a', 'b', 'c']
        ),
        'interlock': 25.0,
        'outputs': {'arm': {'topic': '/arm/joint_trajectory', 'takers': [['/jtc', TRAJECTORY]]}},
    }
    return {**facts, **changes}


def test_a_robot_that_is_all_there_is_well():
    findings = graph.judge_robot(ROBOT, seen())
    assert [one.outcome for one in findings] == [Outcome.OK] * 4, findings
    assert '30 Hz, at most 0.030 s old' in findings[0].found


@pytest.mark.parametrize(
    ('changes', 'outcome', 'said'),
    [
        ({'senders': []}, Outcome.FAIL, 'nobody publishes /front/image_raw'),
        ({'senders': [['/d', SQUEEZED, False]]}, Outcome.FAIL, 'transport: compressed'),
        ({'count': 0, 'rate': 0.0}, Outcome.FAIL, 'nothing arrives'),
        ({'refusal': "image: encoding '16UC1'; use a colour topic"}, Outcome.FAIL, '16UC1'),
        ({'unstamped': 3, 'oldest': None, 'newest': None}, Outcome.FAIL, 'allow_unstamped'),
        ({'oldest': 0.9, 'newest': 0.8}, Outcome.WARN, 'timing.camera_max_age'),
        ({'oldest': -0.4, 'newest': -0.5}, Outcome.FAIL, 'clocks not synchronised'),
    ],
)
def test_a_camera_is_judged_by_who_sends_and_what_comes(changes, outcome, said):
    one = {**seen()['cameras']['front'], **changes}
    found = graph.judge_camera('front', ROBOT.cameras['front'], ROBOT.timing, one, seen())
    assert_found(found, outcome, said)


def test_a_best_effort_camera_for_a_reliable_subscription_fails():
    camera = ROBOT.cameras['front'].model_copy(update={'reliability': 'reliable'})
    one = {**seen()['cameras']['front'], 'senders': [['/driver', IMAGE, True]]}
    found = graph.judge_camera('front', camera, ROBOT.timing, one, seen())
    assert_found(found, Outcome.FAIL, 'incompatible RELIABILITY', 'best_effort')


def test_stamps_of_simulated_time_are_judged_by_it():
    facts = seen(clock=40.0)
    one = {**facts['cameras']['front'], 'oldest': 960.03, 'newest': 960.01}
    found = graph.judge_camera('front', ROBOT.cameras['front'], ROBOT.timing, one, facts)
    assert_found(found, Outcome.OK, '0.030 s')


@pytest.mark.parametrize(
    ('changes', 'outcome', 'said'),
    [
        ({'count': 0, 'senders': []}, Outcome.FAIL, 'nobody publishes /joint_states'),
        ({'count': 0}, Outcome.FAIL, 'nothing comes'),
        ({'names': ['a', 'c']}, Outcome.FAIL, 'b never came; there are a, c'),
        ({'oldest': 0.3}, Outcome.WARN, 'timing.joint_max_age'),
    ],
)
def test_joints_are_judged_by_their_names_and_stamps(changes, outcome, said):
    found = graph.judge_joints(ROBOT, {**seen()['joints'], **changes}, seen())
    assert_found(found, outcome, said)


def test_an_interlock_must_be_heard_often_enough():
    assert_found(graph.judge_interlock(ROBOT, 0.0), Outcome.FAIL, 'S12')
    assert_found(graph.judge_interlock(ROBOT, 2.0), Outcome.WARN, '5 Hz or more')


def test_an_output_needs_a_controller_of_its_type():
    arm = {'topic': '/arm/joint_trajectory', 'takers': []}
    assert_found(graph.judge_output('arm', 'trajectory', arm), Outcome.FAIL, 'outputs.arm.topic')
    arm['takers'] = [['/fwd', 'std_msgs/msg/Float64MultiArray']]
    assert_found(graph.judge_output('arm', 'trajectory', arm), Outcome.FAIL, 'outputs.arm.type')
    hand = {'topic': '/hand', 'takers': [['/hand', 'action_msgs/msg/GoalStatusArray']]}
    assert_found(graph.judge_output('hand', 'gripper', hand), Outcome.OK)


def test_nobody_on_the_graph_is_warned_of_and_two_nodes_of_one_name_fail():
    assert_found(graph.judge_nodes([], ''), Outcome.WARN, 'ROS_DOMAIN_ID')
    twice = ['/left/openpi_policy', '/left/openpi_policy']
    assert_found(graph.judge_nodes(twice, 'left'), Outcome.FAIL, 'is there 2 times')
    assert_found(graph.judge_nodes(twice, 'right'), Outcome.OK)


@pytest.mark.parametrize(
    ('clock', 'sim_time', 'outcome'),
    [(None, True, Outcome.FAIL), (5.0, False, Outcome.WARN), (5.0, True, Outcome.OK)],
)
def test_simulated_time_needs_a_clock_and_a_node_that_goes_by_it(clock, sim_time, outcome):
    (found,) = graph.judge_clock(seen(clock=clock, sim_time=sim_time))
    assert_found(found, outcome, '/clock')


def test_without_simulated_time_nothing_is_said_of_it():
    assert graph.judge_clock(seen()) == []


def trip(**changes: Any) -> Mapping[str, Any]:
    answer = {'rmw': 'rmw_x', 'remedy': 'raise', 'discovery': 0.4, 'message': True, 'images': 10}
    return {**answer, **changes}


@pytest.mark.parametrize(
    ('answer', 'outcome', 'said'),
    [
        (trip(), Outcome.OK, '10 of 10'),
        (trip(images=3), Outcome.WARN, '3 of 10'),
        (trip(images=0), Outcome.FAIL, 'raise'),
        (trip(message=False), Outcome.FAIL, 'loopback'),
        (trip(discovery=None), Outcome.FAIL, 'did not find each other'),
        ({'problem': 'crash'}, Outcome.FAIL, 'crash'),
        ({'no_rclpy': 'no rclpy'}, Outcome.SKIPPED, 'no rclpy'),
    ],
)
def test_a_round_trip_is_judged_by_what_came_across(answer, outcome, said):
    assert_found(round_trip.judge(answer), outcome, said)


@pytest.mark.parametrize(
    ('answer', 'distro', 'outcome', 'said'),
    [
        ({'problem': 'it was ended by signal 11'}, '', Outcome.FAIL, 'signal 11'),
        ({'rclpy': 'ImportError: x', 'missing': {}}, 'humble', Outcome.FAIL, 'system-site'),
        ({'rclpy': 'ImportError: x', 'missing': {}}, '', Outcome.WARN, 'works without'),
        ({'rclpy': '', 'missing': {}}, 'foxy', Outcome.WARN, 'foxy'),
        ({'rclpy': '', 'missing': {}}, 'jazzy', Outcome.OK, 'jazzy'),
    ],
)
def test_ros_is_judged_by_what_can_be_imported(answer, distro, outcome, said):
    assert_found(ros_install.judge(answer, {'ROS_DISTRO': distro})[0], outcome, said)


def test_message_packages_that_lack_fail_each_with_how_to_get_them():
    answer = {'rclpy': '', 'missing': {'control_msgs': 'ModuleNotFoundError: no'}}
    _, found = ros_install.judge(answer, {'ROS_DISTRO': 'jazzy'})
    assert_found(found, Outcome.FAIL, 'sudo apt install ros-jazzy-control-msgs')
    _, found = ros_install.judge(answer, {})
    assert_found(found, Outcome.FAIL, 'pip install ros-control-msgs')


def test_a_package_that_is_not_there_is_found_out():
    assert 'ModuleNotFoundError' in ros_install.facts(['no_such_msgs'])['missing']['no_such_msgs']


def test_the_script_of_ros2_run_must_be_run_by_a_python_that_has_all(tmp_path):
    script = tmp_path / 'lib' / 'openpi_policy_ros' / 'openpi_policy_node'
    script.parent.mkdir(parents=True)
    script.write_text('#!/usr/bin/python3\nimport sys\n', encoding='utf-8')
    prefixes = os.pathsep.join(['/nowhere', str(tmp_path)])
    assert ros_install.find_executable({'AMENT_PREFIX_PATH': prefixes}) == script
    assert ros_install.find_executable({}) is None
    python = ros_install.interpreter(script)
    assert python == '/usr/bin/python3'
    found = ros_install.judge_script(script, python, {'missing': ['torch']})
    assert_found(found, Outcome.FAIL, 'has no torch', 'build this package anew')
    found = ros_install.judge_script(Path('x'), '/usr/bin/env python3', {'missing': ['torch']})
    assert_found(found, Outcome.FAIL, 'activate the virtual environment')
    found = ros_install.judge_script(script, python, {'problem': 'cannot be run'})
    assert_found(found, Outcome.FAIL, 'cannot be run')
    assert_found(ros_install.judge_script(script, python, {'missing': []}), Outcome.OK)
