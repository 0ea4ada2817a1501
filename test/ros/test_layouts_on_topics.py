# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Three kinds of checkpoint through the robot's door: topics in, robot units out.

What the node publishes, what its own server answers and what the policy says without either must
be one.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('openpi_client')

from layout_cases import ATOL, CASES, PROMPT, SEED, direct, image, observe
from node_process import JOINTS, Peer, new_domain, peer_of, start_node
from openpi_client.websocket_client_policy import WebsocketClientPolicy

from openpi_policy_ros.configuration.robot import load_robot

pytestmark = [
    pytest.mark.ros,
    # The stock client keeps its connection for as long as it lives, without a context manager.
    pytest.mark.filterwarnings(r'ignore:connect\(\) must be used:DeprecationWarning'),
]

CHUNK, ARRAY = 'openpi_policy/action_chunk', 'openpi_policy/action_chunk_array'
ARM = np.array([0.3, -0.5, 0.2, -1.4, 0.1, 0.9, -0.3])
FINGER = 0.2
"""The gripper joint in rad; DROID's runs from 0 to 1 where the joint does to 0.8."""


def published(peer: Peer) -> tuple[np.ndarray, np.ndarray]:
    """Return the chunk [H, D], and the trajectory's points [H, joints], of ``observe``'s robot."""
    positions = dict(zip(JOINTS, [*ARM, FINGER], strict=True))
    stamps: set[int] = set()

    def publish() -> None:
        stamp = peer.now()
        stamps.add(stamp)
        peer.publish_joints(positions, stamp_ns=stamp)
        for topic, number in (('exterior_1/image_raw', 1), ('wrist/image_raw', 2)):
            peer.publish_image(topic, image(number), stamp_ns=stamp)

    def whole() -> bool:
        # Stamped with its oldest stream, so nothing in it is of an earlier call.
        stamped = [one.header.stamp for one in peer.heard(CHUNK)]
        return bool(stamped) and stamped[-1].sec * 10**9 + stamped[-1].nanosec in stamps

    peer.wait_until('a chunk of this observation', whole, publish)
    # Once nothing is published, the last of each topic are one chunk.
    time.sleep(0.3)
    array = peer.heard(ARRAY)[-1]
    chunk = np.array(array.data).reshape([one.size for one in array.layout.dim])
    points = peer.heard(CHUNK)[-1].points
    return chunk, np.array([list(point.positions or point.velocities) for point in points])


@pytest.mark.parametrize(
    'name', ['lerobot_0_4_min_max', 'lerobot_relative_pi05', 'openpi_delta_mask']
)
def test_topics_and_websocket_give_the_policys_robot_actions(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    checkpoint = case.make(tmp_path / 'checkpoint')
    robot = load_robot(case.robot).model_dump(exclude_defaults=True)
    # The machine of the test may be busy: freshness is not what is tested here.
    robot['timing'] |= {'camera_max_age': 10.0, 'joint_max_age': 10.0, 'max_skew': 10.0}
    domain = new_domain()
    process = start_node(
        tmp_path,
        domain,
        {'model': str(checkpoint), 'port': 0, 'seed': SEED, 'default_prompt': PROMPT},
        robot=robot,
    )
    try:
        # Meanwhile it starts.
        observation = observe(ARM, 1.25 * FINGER)
        expected = direct(case.load(checkpoint), observation)
        with peer_of(domain) as peer:
            peer.listen_to_node()
            process.wait_for('active')
            peer.wait_until('the server', lambda: peer.status().get('server'))
            chunk, points = published(peer)
            host, port = peer.status()['server'].split(':')
            remote = WebsocketClientPolicy(host, int(port)).infer({**observation, 'seed': SEED})
    finally:
        process.kill()
    assert chunk.shape == expected.shape == (10, 8)
    assert np.abs(chunk - expected).max() <= ATOL
    assert np.abs(remote['actions'] - expected).max() <= ATOL
    # Joint positions in ROS units: the arm's in rad as they are, the gripper's 1 at 0.8 rad.
    assert np.abs(points - chunk * ([1.0] * 7 + [0.8])).max() <= ATOL
