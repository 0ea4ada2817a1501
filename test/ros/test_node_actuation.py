# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real node moves a robot's controllers: when it may, how it stops, and what it refuses."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from light_robot import ARM, HAND, ROBOT, TARGET, robot_with
from node_process import LATCHED, Peer
from std_msgs.msg import String
from std_srvs.srv import Trigger

pytestmark = pytest.mark.ros


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
        # Asked for, it is no fault.
        log = robot.process.text()
        assert re.search(r'\[WARN\].*robot: HOLD: ~/hold was called', log), log
        assert 'ERROR' not in log

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
        assert re.search(r'\[ERROR\].*robot: HOLD: S12', robot.process.text())


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
        log = robot.process.text()
        assert 'ERROR' not in log
        # Every state once, and the hold at the end. READY is told by a tick, and a stalled machine
        # may have had none between the status that said so and the enabling.
        said = re.findall(r'robot: (.*)', log)
        assert said[-2:] == ['ENABLED', 'held where it was, and disarmed']
        assert said[:-2] in ([], ['READY'])


VELOCITIES: dict[str, Any] = {
    'profile': {'action_space': 'joint_velocity'},
    'output_names': ['both'],
    'outputs': {
        'both': {
            'type': 'array',
            'topic': HAND,
            'joints': ['shoulder', 'finger'],
            'action_indices': [0, 1],
        }
    },
    # Half of it may be used: the light's 0.15 rad/s is within that of one joint only.
    'limits': {**ROBOT['limits'], 'velocity': [2.0, 0.1]},
}


@pytest.mark.parametrize('end', [signal.SIGINT, signal.SIGTERM], ids=lambda end: end.name)
def test_velocities_keep_the_scaled_limit_and_are_zero_at_last(
    tmp_path: Path, end: signal.Signals
) -> None:
    with robot_with(tmp_path, VELOCITIES) as robot:
        peer = robot.peer

        def drive() -> None:
            peer.forget(HAND)
            robot.shine(TARGET)
            assert robot.enable() == (True, 'enabled')
            peer.wait_until('speed', lambda: peer.heard(HAND) and _is(peer, TARGET, 0.05))
            sent = np.array([list(message.data) for message in peer.heard(HAND)])
            assert sent.min() >= 0.0
            assert (sent.max(axis=0) <= np.array([TARGET, 0.05]) + 1e-6).all()
            robot.wait_for('ENABLED')

        def check_stopped() -> None:
            peer.wait_until('zeros', lambda: _is(peer, 0.0, 0.0))
            threading.Event().wait(0.2)
            count = len(peer.heard(HAND))
            threading.Event().wait(0.2)
            assert len(peer.heard(HAND)) == count
            assert list(peer.heard(HAND)[-1].data) == [0.0, 0.0]

        robot.wait_for('READY')
        peer.wait_until('chunks', lambda: peer.heard('openpi_policy/action_chunk_array'))
        assert peer.heard(HAND) == []
        drive()
        assert int(peer.status()['slowed']) > 0
        assert robot.enable(False) == (True, 'disabled')
        check_stopped()
        drive()
        robot.process.signal(end)
        assert robot.process.join() == 0
        check_stopped()
        assert peer.heard(ARM) == []
        assert 'ERROR' not in robot.process.text()


def _is(peer: Peer, *row: float) -> bool:
    return list(peer.heard(HAND)[-1].data) == pytest.approx(row, abs=1e-6)
