# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulated time: ages are measured on /clock, and a reset of the simulation starts afresh."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy')

from node_process import (
    BEST_EFFORT,
    JOINTS,
    install_digest_policy,
    new_domain,
    peer_of,
    start_node,
)
from rosgraph_msgs.msg import Clock

pytestmark = pytest.mark.ros

CHUNK, ARRAY = 'openpi_policy/action_chunk', 'openpi_policy/action_chunk_array'


def test_sim_time_and_its_reset(tmp_path: Path) -> None:
    policy, python_path = install_digest_policy(tmp_path)
    domain = new_domain()
    process = start_node(
        tmp_path,
        domain,
        {
            'model': 'digest',
            'policy': str(policy),
            'robot': 'droid',
            'port': 0,
            'default_prompt': 'pick',
            'use_sim_time': True,
        },
        python_path=python_path,
    )
    image = np.zeros((48, 64, 3), np.uint8)
    try:
        with peer_of(domain) as peer:
            peer.listen_to_node()
            clock = peer.publisher('/clock', Clock, BEST_EFFORT)
            time_ns = 0

            def publish(with_clock: bool = True) -> None:
                nonlocal time_ns
                time_ns += 33_000_000
                if with_clock:
                    message = Clock()
                    message.clock.sec, message.clock.nanosec = divmod(time_ns, 10**9)
                    clock.publish(message)
                stamp = time_ns - 10_000_000
                peer.publish_image('exterior_1/image_raw', image, stamp_ns=stamp)
                peer.publish_image('wrist/image_raw', image, stamp_ns=stamp)
                peer.publish_joints(dict.fromkeys(JOINTS, 0.0), stamp_ns=stamp)

            time_ns = 100 * 10**9
            peer.wait_until(
                'no clock yet',
                lambda: 'no /clock message has come yet' in peer.status_text(),
                lambda: publish(with_clock=False),
            )
            assert peer.heard(CHUNK) == []
            peer.wait_until('a chunk', lambda: peer.heard(CHUNK), publish)
            stamp = peer.heard(CHUNK)[-1].header.stamp
            assert 100 <= stamp.sec < 200
            # The simulation is reset: time starts again.
            time_ns = 0
            publish()
            process.wait_for('the clock jumped back')
            peer.wait_until(
                'a chunk of the new run',
                lambda: peer.heard(CHUNK)[-1].header.stamp.sec < 100,
                publish,
            )
            # The array follows its trajectory on another topic.
            peer.wait_until('its array', lambda: peer.heard(ARRAY)[-1].data[4] == 1.0, publish)
            assert peer.heard(ARRAY)[0].data[4] == 0.0
    finally:
        process.kill()
