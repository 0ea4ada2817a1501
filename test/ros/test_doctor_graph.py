# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The doctor looks at a real graph: a fake robot in its own process, in a namespace."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from node_process import LATCHED, WAIT, Peer, environment, new_domain

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.doctor import graph, round_trip
from openpi_policy_ros.doctor.findings import Outcome

pytestmark = pytest.mark.ros

ROBOT = 'so101'


@pytest.fixture(scope='module')
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return environment(new_domain(), tmp_path_factory.mktemp('doctor'))


@pytest.fixture(scope='module')
def robot(variables: dict[str, str]) -> Iterator[None]:
    program = [sys.executable, '-m', 'openpi_policy_ros.fake_robot.main', '--robot', ROBOT]
    process = subprocess.Popen(
        [*program, '--size', '64x48', '--ros-args', '-r', '__ns:=/left'],
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert 'fake robot /left/fake_robot' in process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.communicate(timeout=WAIT)


def ask(module: str, arguments: list[str], variables: dict[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, '-m', f'openpi_policy_ros.doctor.{module}', *arguments],
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_robot_that_is_there_is_found_with_all_its_parts(
    robot: None, variables: dict[str, str]
) -> None:
    seen = ask('graph_node', [ROBOT, 'left'], variables)
    assert '/left/fake_robot' in seen['nodes']
    assert seen['sim_time'] is None
    findings = graph.judge_robot(load_robot(ROBOT), seen)
    parts = {one.check for one in findings}
    assert parts == {'camera front', 'camera wrist', 'joint_states', 'output arm', 'output gripper'}
    # How old a message is on arrival depends on what else this machine does.
    wrong = [one for one in findings if one.outcome is Outcome.FAIL]
    assert wrong == []
    assert '64x48 rgb8' in findings[0].found


def test_a_robot_in_another_namespace_is_missed_with_every_part(
    robot: None, variables: dict[str, str]
) -> None:
    seen = ask('graph_node', [ROBOT, 'right'], variables)
    findings = graph.judge_robot(load_robot(ROBOT), seen)
    assert {one.outcome for one in findings} == {Outcome.FAIL}
    assert 'nobody publishes /right/front/image_raw' in findings[0].found
    assert 'nobody takes commands on /right/arm_controller' in findings[-2].found


def test_the_address_of_a_node_that_runs_is_known(variables: dict[str, str]) -> None:
    peer = Peer(int(variables['ROS_DOMAIN_ID']))
    status = peer.publisher('/right/openpi_policy/status', DiagnosticStatus, LATCHED)
    status.publish(DiagnosticStatus(values=[KeyValue(key='server', value='0.0.0.0:8123')]))
    try:
        assert ask('graph_node', ['', 'right'], variables)['own_server'] == '0.0.0.0:8123'
        assert ask('graph_node', ['', 'left'], variables)['own_server'] == ''
    finally:
        peer.close()


def test_two_processes_hear_each_other(variables: dict[str, str]) -> None:
    answer = ask('round_trip', ['ask', 'doctor_test'], variables)
    assert answer['discovery'] is not None
    assert answer['message']
    assert answer['images'] > 0
    assert round_trip.judge(answer).outcome in (Outcome.OK, Outcome.WARN)
