# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real node shows a policy that looks back the images of before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy')

from node_process import JOINTS, Peer, install_digest_policy, new_domain, peer_of, start_node

from openpi_policy_ros.configuration.robot import load_robot

pytestmark = pytest.mark.ros

ARRAY = 'openpi_policy/action_chunk_array'


def wait_for_mean(peer: Peer, sent: int, expected: float) -> None:
    """Publish images of one grey until the policy sees this mean over all frames."""

    def publish() -> None:
        stamp = peer.now()
        peer.publish_joints(dict.fromkeys(JOINTS, 0.0), stamp_ns=stamp)
        for topic in ('exterior_1/image_raw', 'wrist/image_raw'):
            peer.publish_image(topic, np.full((8, 8, 3), sent, np.uint8), stamp_ns=stamp)

    peer.wait_until(
        f'a mean of {expected}',
        lambda: any(list(one.data[:2]) == [expected] * 2 for one in peer.heard(ARRAY)),
        publish,
    )


def test_the_node_remembers_images_as_far_back_as_the_policy_says(tmp_path: Path) -> None:
    policy, python_path = install_digest_policy(tmp_path)
    robot = load_robot('droid').model_dump(exclude_defaults=True)
    # The machine of the test may be busy: freshness is not what is tested here.
    robot['timing'] |= {'camera_max_age': 10.0, 'joint_max_age': 10.0, 'max_skew': 10.0}
    domain = new_domain()
    process = start_node(
        tmp_path,
        domain,
        {'model': 'history', 'policy': str(policy), 'port': 0, 'default_prompt': 'pick'},
        python_path=python_path,
        robot=robot,
    )
    try:
        with peer_of(domain) as peer:
            peer.listen_to_node()
            process.wait_for('active')
            wait_for_mean(peer, sent=20, expected=20.0)
            wait_for_mean(peer, sent=60, expected=40.0)
            wait_for_mean(peer, sent=60, expected=60.0)
    finally:
        process.kill()
