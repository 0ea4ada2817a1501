# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A node that starts before its robot comes to life by itself, and says once what it lacks."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy')

from light_robot import ROBOT
from node_process import (
    LATCHED,
    install_digest_policy,
    new_domain,
    peer_of,
    start_node,
    without_empty,
)
from std_msgs.msg import String
from std_srvs.srv import SetBool

pytestmark = pytest.mark.ros

LATE = 1.5
"""Seconds that each part of the robot keeps the node waiting: a dozen looks at the sensors."""
JOINT = '<joint name="{}" type="revolute"><limit lower="-2" upper="2" velocity="2"/></joint>'


def test_camera_joints_and_description_may_come_long_after_the_node(tmp_path: Path) -> None:
    policy, python_path = install_digest_policy(tmp_path)
    domain = new_domain()
    process = start_node(
        tmp_path,
        domain,
        {'model': 'digest', 'policy': str(policy), 'port': 0, 'default_prompt': 'pick'},
        python_path=python_path,
        robot=without_empty({**ROBOT, 'limits': {}}),
    )
    image = np.zeros((48, 64, 3), np.uint8)
    cameras: list[str] = []
    joints: dict[str, float] = {}

    def reasons() -> list[str]:
        return re.findall(r'no inference: (.*)', process.text())

    try:
        process.wait_for('active')
        with peer_of(domain) as peer:
            peer.listen_to_node()

            def publish() -> None:
                for camera in cameras:
                    peer.publish_image(f'{camera}/image_raw', image)
                if joints:
                    peer.publish_joints(joints)

            def enable() -> tuple[bool, str]:
                answer = peer.call('enable', SetBool, SetBool.Request(data=True))
                return answer.success, answer.message

            def wait_for(words: str, without: str) -> None:
                def seen() -> bool:
                    text = peer.status_text()
                    return words in text and without not in text

                peer.wait_until(f'{words} without {without}', seen, publish)
                end = time.monotonic() + LATE
                peer.wait_until('a while', lambda: time.monotonic() > end, publish)

            # Nothing is there, and the node is active all the same.
            wait_for("camera 'one'", 'chunks flow')
            assert peer.lifecycle_state() == 'active'
            assert peer.status_text().startswith('READY: ')
            for missing in ("camera 'one'", "camera 'two'", 'shoulder', 'finger'):
                assert missing in peer.status_text()
            cameras += ['one', 'two']
            wait_for('shoulder', 'camera')
            joints.update(shoulder=0.0, finger=0.0)
            peer.wait_until(
                'chunks', lambda: peer.heard('openpi_policy/action_chunk_array'), publish
            )
            peer.wait_until('no reason', lambda: peer.status_text() == 'READY', publish)

            # The limits are what is still missing: refused, with what to do, until they are there.
            for _ in range(2):
                done, text = enable()
                assert not done
                assert 'shoulder: no position and no velocity limit' in text
                assert 'publish a URDF on /robot_description' in text
            urdf = ''.join(JOINT.format(name) for name in ('shoulder', 'finger'))
            peer.publisher('robot_description', String, LATCHED).publish(
                String(data=f'<robot name="r">{urdf}</robot>')
            )
            peer.wait_until('enabled', lambda: enable()[0], publish)
            peer.wait_until('ENABLED', lambda: peer.status_text().startswith('ENABLED'), publish)
        said = reasons()
        assert len(said) == len(set(said)), said
        assert "camera 'one'" in said[0]
        assert 'camera' not in said[-1]
        log = process.text()
        assert log.count('chunks flow') == 1
        assert log.count('no position and no velocity limit; finger') <= 1
        assert len(re.findall(r'limits: complete, from .*robot_description', log)) == 1
        process.signal(signal.SIGINT)
        assert process.join() == 0
    finally:
        process.kill()
