# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real node moves a robot's controllers: when it may, how it stops, and what it refuses.

The policy's first two columns are the brightness of two cameras: so the light steers the robot.
"""

from __future__ import annotations

import contextlib
import copy
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from digest_policy import IMAGES, STATE
from node_process import (
    LATCHED,
    RELIABLE,
    NodeProcess,
    Peer,
    install_digest_policy,
    new_domain,
    peer_of,
    start_node,
)
from std_msgs.msg import Bool, Float64MultiArray, String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

pytestmark = pytest.mark.ros

ARM, HAND = 'arm_controller/joint_trajectory', 'hand_controller/commands'
TARGET = 0.15
ROBOT: dict[str, Any] = {
    'profile': {'action_space': 'joint_position'},
    'camera_names': ['one', 'two'],
    'cameras': {
        'one': {'topic': 'one/image_raw', 'key': IMAGES[0]},
        'two': {'topic': 'two/image_raw', 'key': IMAGES[1]},
    },
    'joints': {'names': ['shoulder', 'finger'], 'keys': list(STATE)},
    # What a busy machine takes is no matter here: other tests are about times.
    'timing': {'action_rate': 15.0, 'camera_max_age': 1.0, 'joint_max_age': 1.0, 'max_skew': 1.0},
    'safety': {'stale_hold': 5.0, 'watchdog_periods': 25.0, 'max_wait': 10.0},
    'output_names': ['arm', 'hand'],
    'outputs': {
        'arm': {'type': 'trajectory', 'topic': ARM, 'joints': ['shoulder'], 'action_indices': [0]},
        'hand': {'type': 'array', 'topic': HAND, 'joints': ['finger'], 'action_indices': [1]},
    },
    'limits': {
        'position_min': [-2.0, -2.0],
        'position_max': [2.0, 2.0],
        'velocity': [2.0, 2.0],
    },
}


class Robot:
    """Cameras, joints that stay where they are, and controllers that keep what they are told."""

    def __init__(self, peer: Peer, process: NodeProcess) -> None:
        self.peer = peer
        self.process = process
        self.interlock: bool | None = None
        self._pixels = np.zeros((40, 50, 3), np.uint8)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._publish, daemon=True)
        peer.listen_to_node()
        peer.listen(ARM, JointTrajectory)
        peer.listen(HAND, Float64MultiArray)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        self._thread.join(5.0)

    def shine(self, brightness: float) -> None:
        """Let the mean of both images be so, below 1."""
        pixels = np.zeros((2000, 3), np.uint8)
        pixels[: round(2000 * brightness)] = 1
        self._pixels = pixels.reshape(40, 50, 3)

    def enable(self, on: bool = True) -> tuple[bool, str]:
        answer = self.peer.call('enable', SetBool, SetBool.Request(data=on))
        return answer.success, answer.message

    def wait_for(self, state: str) -> str:
        said = f'{state}:'
        return str(
            self.peer.wait_until(
                state, lambda: self.peer.status_text().startswith((state, said)) and 'yes'
            )
        )

    def commands(self) -> tuple[list[Any], list[Any]]:
        return self.peer.heard(ARM), self.peer.heard(HAND)

    def drive(self) -> None:
        """Enable, and let the light move the robot some way, but not to the end."""
        self.shine(0.0)
        assert self.enable() == (True, 'enabled')
        self.wait_for('ENABLED')
        self.peer.wait_until('commands', lambda: all(self.commands()))
        self.shine(TARGET)
        self.peer.wait_until('motion', lambda: self.peer.heard(HAND)[-1].data[0] > TARGET / 10)

    def check_held(self) -> None:
        """The last message on every output is the hold, and nothing follows."""
        self.peer.wait_until('the hold', lambda: len(self.peer.heard(ARM)[-1].points) == 1)
        self.peer.wait_until('the other', lambda: _same(self.peer.heard(HAND)[-2:]))
        counts = [len(heard) for heard in self.commands()]
        threading.Event().wait(0.2)
        assert [len(heard) for heard in self.commands()] == counts
        arm, hand = (heard[-1] for heard in self.commands())
        (point,) = arm.points
        assert -0.001 <= point.positions[0] <= TARGET + 0.001
        assert -0.001 <= hand.data[0] <= TARGET + 0.001

    def _publish(self) -> None:
        while not self._ending.wait(1 / 30):
            for camera in ('one', 'two'):
                self.peer.publish_image(f'{camera}/image_raw', self._pixels)
            self.peer.publish_joints({'shoulder': 0.0, 'finger': 0.0})
            if self.interlock is not None:
                self.peer.publisher('interlock', Bool, RELIABLE).publish(Bool(data=self.interlock))


def _same(arrays: list[Any]) -> bool:
    return len(arrays) == 2 and list(arrays[0].data) == list(arrays[1].data)


@contextlib.contextmanager
def robot_with(
    scratch: Path, changes: dict[str, Any] | None = None, **parameters: Any
) -> Iterator[Robot]:
    """Start the node with a robot file; ``changes`` replaces whole groups of it, None drops one."""
    policy, python_path = install_digest_policy(scratch)
    domain = new_domain()
    file = {**copy.deepcopy(ROBOT), **(changes or {})}
    process = start_node(
        scratch,
        domain,
        {
            'model': 'digest',
            'policy': str(policy),
            'port': 0,
            'default_prompt': 'go',
            **parameters,
        },
        python_path=python_path,
        robot={name: group for name, group in file.items() if group is not None},
    )
    try:
        with peer_of(domain) as peer:
            robot = Robot(peer, process)
            try:
                yield robot
            finally:
                robot.close()
        process.signal(signal.SIGINT)
        assert process.join() == 0
        assert 'Traceback' not in process.text()
    finally:
        process.kill()


def test_chunks_move_the_robot_from_enabling_to_a_hold(tmp_path: Path) -> None:
    with robot_with(tmp_path) as robot:
        peer = robot.peer
        peer.wait_until('chunks', lambda: peer.heard('openpi_policy/action_chunk_array'))
        robot.wait_for('READY')
        assert peer.status()['outputs'] == f'arm: trajectory on /{ARM}; hand: array on /{HAND}'
        assert peer.status()['limits'] == 'limits.* of the robot file'
        assert robot.commands() == ([], []), 'nothing moves before it is enabled'
        answer = peer.call('hold', Trigger, Trigger.Request())
        assert (answer.success, answer.message) == (True, 'nothing was commanded (READY)')

        robot.drive()
        arm, hand = robot.commands()
        for message in arm:
            assert (message.header.stamp.sec, message.header.stamp.nanosec) == (0, 0)
            assert message.joint_names == ['shoulder']
            times = [
                p.time_from_start.sec + 1e-9 * p.time_from_start.nanosec for p in message.points
            ]
            assert times == sorted(set(times))
            assert times[0] > 0.0
            assert times[-1] <= 0.3 + 1e-9
            assert all(not point.velocities for point in message.points)
        steps = np.diff([message.data[0] for message in hand])
        # 2 rad/s, of which half may be used, for 20 ms.
        assert np.abs(steps).max() <= 0.02 + 1e-9

        answer = peer.call('hold', Trigger, Trigger.Request())
        assert (answer.success, answer.message) == (True, 'HOLD')
        robot.wait_for('HOLD: ~/hold was called')
        robot.check_held()
        assert peer.status()['holds'] == '1'

        # A reset does not release it; enabling does, and disabling holds.
        assert peer.reset().success
        robot.check_held()
        robot.wait_for('HOLD: ~/hold was called')
        robot.drive()
        assert robot.enable(False) == (True, 'disabled')
        robot.check_held()
        robot.wait_for('READY')

        # A reset while it moves waits for the next chunk, and goes on.
        robot.drive()
        assert peer.reset().success
        count = len(peer.heard(ARM))
        peer.wait_until('more', lambda: len(peer.heard(ARM)) > count + 20)
        robot.wait_for('ENABLED')

        assert peer.transition('deactivate')
        robot.check_held()
        robot.wait_for('INIT: inactive')
        assert robot.enable() == (False, 'refused: the node is not active; activate it first')
        # Activated again it is disarmed.
        assert peer.transition('activate')
        robot.wait_for('READY')
        robot.check_held()
        robot.drive()
        assert peer.transition('shutdown')
        robot.check_held()


def test_a_dry_run_makes_chunks_and_refuses_to_move_anything(tmp_path: Path) -> None:
    with robot_with(tmp_path, dry_run=True) as robot:
        peer = robot.peer
        peer.wait_until('chunks', lambda: peer.heard('openpi_policy/action_chunk_array'))
        done, text = robot.enable()
        assert not done
        assert 'dry_run is true' in text
        robot.wait_for('DRY_RUN')
        assert robot.commands() == ([], [])


def test_limits_and_the_interlock_are_asked_for_before_anything_moves(tmp_path: Path) -> None:
    safety = {**ROBOT['safety'], 'interlock_topic': 'interlock', 'interlock_timeout': 2.0}
    with robot_with(tmp_path, {'limits': None, 'safety': safety}) as robot:
        peer = robot.peer
        robot.wait_for('READY')
        done, text = robot.enable()
        assert not done
        for words in (
            'shoulder: no position and no velocity limit',
            'publish a URDF on /robot_description',
            'S12: the interlock interlock has never been heard',
        ):
            assert words in text
        robot.interlock = True
        joint = (
            '<joint name="{}" type="revolute"><limit lower="-2" upper="2" velocity="2"/></joint>'
        )
        urdf = ''.join(joint.format(name) for name in ('shoulder', 'finger'))
        peer.publisher('robot_description', String, LATCHED).publish(
            String(data=f'<robot name="r">{urdf}</robot>')
        )
        peer.wait_until(
            'limits',
            lambda: (
                peer.status()['limits'] == 'limits.* of the robot file, then /robot_description'
            ),
        )
        peer.wait_until('enabled', lambda: robot.enable()[0])
        robot.wait_for('ENABLED')
        robot.interlock = False
        robot.wait_for('HOLD: S12: the interlock interlock is false')
        robot.check_held()


def test_without_outputs_enabling_is_refused_with_what_to_write(tmp_path: Path) -> None:
    changes = {'output_names': None, 'outputs': None, 'limits': None}
    with robot_with(tmp_path, changes, autostart=False) as robot:
        peer = robot.peer
        assert robot.enable()[1] == (
            'refused: the node is not configured; configure and activate it first'
        )
        assert peer.transition('configure')
        assert peer.transition('activate')
        done, text = robot.enable()
        assert not done
        assert 'write output_names' in text
        assert robot.enable(False)[0]


@pytest.mark.parametrize(
    'signals',
    [[signal.SIGINT], [signal.SIGINT, signal.SIGINT], [signal.SIGTERM]],
    ids=lambda signals: '+'.join(one.name for one in signals),
)
def test_the_hold_is_the_last_message_before_a_signal_ends_the_node(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    with robot_with(tmp_path) as robot:
        robot.wait_for('READY')
        robot.drive()
        for number in signals:
            robot.process.signal(number)
        assert robot.process.join() == 0
        robot.check_held()
        assert 'ERROR' not in robot.process.text()
