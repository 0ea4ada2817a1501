# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi_policy_fake_robot`` publishes what the robot file names, and follows its outputs."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

pytest.importorskip('rclpy')

from arm import HOME, TOPICS, robot_file
from builtin_interfaces.msg import Duration
from node_process import BEST_EFFORT, LATCHED, RELIABLE, Peer, environment, new_domain
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from openpi_policy_ros.fake_robot.main import main

pytestmark = pytest.mark.ros

URDF = '<robot name="arm"/>'
SKEW_NS = 500_000_000


def write(path: Path, values: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump({'/**': {'ros__parameters': values}}))
    return str(path)


def stamp_ns(message: Any) -> int:
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[tuple[Peer, subprocess.Popen[str]]]:
    """Run a robot in the namespace /left, whose hand camera is compressed and has a wrong clock."""
    values = robot_file()
    values['cameras']['hand'] |= {'transport': 'compressed', 'topic': 'hand/image_raw/compressed'}
    urdf = tmp_path / 'arm.urdf'
    urdf.write_text(URDF)
    homes = [f'{name}={place}' for name, place in HOME.items()]
    domain = new_domain()
    process = subprocess.Popen(
        [
            sys.executable,
            '-m',
            'openpi_policy_ros.fake_robot.main',
            *('--robot', write(tmp_path / 'arm.yaml', values), '--urdf', str(urdf)),
            *('--size', '160x120', '--fault', 'skew:hand=0.5@0..', '--fault', 'joints:wrist@0..'),
            *(word for home in homes for word in ('--home', home)),
            *('--ros-args', '-r', '__ns:=/left'),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(domain, tmp_path),
    )
    peer = Peer(domain)
    yield peer, process
    peer.close()
    process.kill()
    process.communicate()


def test_it_is_the_robot_of_its_file(
    robot: tuple[Peer, subprocess.Popen[str]],
) -> None:
    peer, process = robot
    for topic, kind, qos in (
        ('/left/joint_states', JointState, BEST_EFFORT),
        ('/left/front/image_raw', Image, BEST_EFFORT),
        ('/left/hand/image_raw/compressed', CompressedImage, BEST_EFFORT),
        ('/left/interlock', Bool, RELIABLE),
        ('/left/robot_description', String, LATCHED),
    ):
        peer.listen(topic, kind, qos)

    def newest(topic: str) -> Any:
        return peer.wait_until(topic, lambda: peer.heard(topic))[-1]

    joints = newest('/left/joint_states')
    others = {name: place for name, place in HOME.items() if name != 'wrist'}
    assert dict(zip(joints.name, joints.position, strict=True)) == others
    picture = newest('/left/front/image_raw')
    assert (picture.height, picture.width, picture.encoding) == (120, 160, 'rgb8')
    pixels = np.frombuffer(picture.data, np.uint8)
    assert len(pixels) == 120 * picture.step
    assert pixels.std() > 10
    compressed = newest('/left/hand/image_raw/compressed')
    decoded = cv2.imdecode(np.frombuffer(compressed.data, np.uint8), cv2.IMREAD_COLOR)
    assert decoded.shape == (120, 160, 3)
    assert abs(peer.now() - stamp_ns(compressed) - SKEW_NS) < SKEW_NS // 2
    assert newest('/left/interlock').data
    assert newest('/left/robot_description').data == URDF

    point = JointTrajectoryPoint(time_from_start=Duration(nanosec=100_000_000))
    # In another order than the controller's: names count.
    point.positions = [0.4, 0.2, -0.3]
    arm = peer.publisher(f'/left/{TOPICS["arm"]}', JointTrajectory, RELIABLE)
    hand = peer.publisher(f'/left/{TOPICS["hand"]}', Float64MultiArray, RELIABLE)
    peer.wait_until('both are heard', lambda: heard_by(arm, 1) and heard_by(hand, 1))
    arm.publish(JointTrajectory(joint_names=['forearm', 'shoulder', 'elbow'], points=[point]))
    hand.publish(Float64MultiArray(data=[0.04]))
    hand.publish(Float64MultiArray(data=[0.04, 0.04]))
    wanted = {'shoulder': 0.2, 'elbow': -0.3, 'forearm': 0.4, 'finger': 0.04}

    def there() -> bool:
        last = peer.heard('/left/joint_states')[-1]
        places = dict(zip(last.name, last.position, strict=True))
        return all(math.isclose(places[name], place) for name, place in wanted.items())

    peer.wait_until('it is there', there)
    time.sleep(1.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=20.0)
    assert process.returncode == 0, output
    assert 'Traceback' not in output
    for said in (
        'fake robot /left/fake_robot',
        'camera hand: compressed on /left/hand/image_raw/compressed',
        "output 'hand': a command is refused: 2 values for 1 joints",
        '1 refused | fault: skew, joints',
    ):
        assert said in output


def heard_by(publisher: Any, count: int) -> bool:
    return bool(publisher.get_subscription_count() == count)


@pytest.mark.parametrize(
    ('words', 'why'),
    [
        (['--robot', 'libero'], 'names neither cameras nor joints'),
        (['--robot', 'so10'], "'so10' is not shipped, did you mean 'so101'?"),
        (['--robot', 'so101', '--home', 'gripper=9'], 'expected -0.174533 to 1.74533'),
        (['--robot', 'so101', '--fault', 'camera:side@1..'], "'side' is not known"),
        (['--robot', 'so101', '--urdf', '/nowhere/arm.urdf'], 'No such file'),
    ],
)
def test_what_it_cannot_be_is_refused_by_name(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str], restored_signals: Callable
) -> None:
    assert main(words) == 2
    assert why in capsys.readouterr().err


@pytest.fixture
def restored_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
