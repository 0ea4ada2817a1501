# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real node records what it sees, answers and commands, for each session and both doors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')
pytest.importorskip('mcap_ros2')

from digest_policy import IMAGES, STATE, DigestPolicy
from light_robot import ARM, HAND, ROBOT, TARGET, robot_with
from mcap_ros2.reader import read_ros2_messages
from openpi_client.websocket_client_policy import WebsocketClientPolicy

from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.recording.reader import Recording
from openpi_policy_ros.recording.replay import replay

pytestmark = pytest.mark.ros
NODE = '/openpi_policy'


def test_a_bag_looks_like_the_robot_and_can_be_run_again(tmp_path: Path) -> None:
    folder = tmp_path / 'recordings'
    joints = {**ROBOT['joints'], 'action_indices': [0, 1]}
    with robot_with(tmp_path, {'joints': joints}, record=str(folder), seed=5) as robot:
        peer = robot.peer
        robot.wait_for('READY')
        robot.drive()
        sent = len(peer.heard(HAND))
        assert robot.enable(False) == (True, 'disabled')
        robot.check_held()
        host, _, port = peer.status()['server'].rpartition(':')
        remote = WebsocketClientPolicy(host, int(port))
        seen = {key: np.full((6, 7, 3), 9, np.uint8) for key in IMAGES}
        seen |= {key: np.zeros(1, np.float32) for key in STATE}
        remote.infer({**seen, 'prompt': 'remote', 'session_id': '77', 'seed': 3})
        assert peer.reset().success
        peer.wait_until(
            'a second bag', lambda: len([one for one in _bags(folder) if 'robot' in one.name]) == 2
        )
    names = [bag.name.split('_', 1)[1] for bag in _bags(folder)]
    (first, *_) = sorted(bag for bag in _bags(folder) if 'robot' in bag.name)
    assert sum(name.startswith('robot_') for name in names) == 2
    assert sum(name.startswith('remote_') and name.endswith('-77') for name in names) == 1

    heard = _read(first)
    kinds = {topic: kind for topic, (kind, _) in heard.items()}
    assert kinds['/joint_states'] == 'sensor_msgs/msg/JointState'
    assert kinds[f'/{ARM}'] == 'trajectory_msgs/msg/JointTrajectory'
    assert kinds[f'/{HAND}'] == 'std_msgs/msg/Float64MultiArray'
    assert kinds[f'{NODE}/action_chunk'] == 'trajectory_msgs/msg/JointTrajectory'
    assert kinds[f'{NODE}/status'] == 'diagnostic_msgs/msg/DiagnosticStatus'
    hand = [message.data[0] for _, message in heard[f'/{HAND}'][1]]
    assert len(hand) >= sent
    # The hold is the last that the controller heard, and the light led it there.
    assert hand[-1] == hand[-2]
    assert TARGET / 10 <= max(hand) <= TARGET + 0.001
    (point,) = heard[f'/{ARM}'][1][-1][1].points
    assert point.positions
    states = [message.data for _, message in heard[f'{NODE}/controller_state'][1]]
    assert {'ENABLED', 'READY'} <= {text.partition(':')[0] for text in states}
    said = [message.message for _, message in heard[f'{NODE}/status'][1]]
    assert any(text.startswith('ENABLED') for text in said)
    # A chunk of the robot is stamped with its observation, which came before it.
    for time_ns, message in heard[f'{NODE}/action_chunk'][1]:
        stamp = message.header.stamp
        assert 0 < time_ns - (stamp.sec * 10**9 + stamp.nanosec) < 20 * 10**9

    header = json.loads(heard[f'{NODE}/recording'][1][0][1].data)
    assert header['robot']['config']['outputs']['hand']['topic'] == HAND
    assert 'camera_names' in header['robot']['file']
    _check_replays(_bags(folder))


def _check_replays(folders: list[Path]) -> None:
    """A digest tells of pixels, joints, prompt, seed and session: all must be as they were."""
    engine = Engine(DigestPolicy(LoadRequest('digest')))
    engine.start()
    try:
        for folder in folders:
            recording = Recording(folder)
            result = replay(recording, engine)
            assert len(result.recorded) == recording.counts[f'{NODE}/inference'] > 0
            assert result.largest == 0.0
            assert not result.failed
            assert not result.unseeded
    finally:
        engine.close()


def _bags(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def _read(bag: Path) -> dict[str, tuple[str, list[tuple[int, Any]]]]:
    (file,) = bag.glob('*.mcap')
    found: dict[str, tuple[str, list[tuple[int, Any]]]] = {}
    for one in read_ros2_messages(str(file)):
        topic = one.channel.topic
        found.setdefault(topic, (one.schema.name, []))[1].append((one.log_time_ns, one.ros_msg))
    return found
