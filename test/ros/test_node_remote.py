# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ROS door with the policy on another machine: topics here, inference behind a far server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from digest_policy import HORIZON, WIDTH, DigestPolicy
from node_process import JOINTS, new_domain, peer_of, start_node, without_empty

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.base import InferenceRequest, InferenceResult, SessionKey
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.server import ServerThread

pytestmark = pytest.mark.ros

ARRAY = 'openpi_policy/action_chunk_array'
CAMERAS = ('exterior_1/image_raw', 'wrist/image_raw')


class FarPolicy(DigestPolicy):
    """Digests whatever the session is called."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Digest each request as that of session 0."""
        return super().infer([replace(one, session=SessionKey('far', '0')) for one in requests])


def far_robot() -> dict[str, Any]:
    """Return the DROID robot, cropped to what the far policy answers."""
    robot = load_robot('droid').model_dump(exclude_none=True)
    profile = robot['profile']
    profile.update(crop_rows=HORIZON, policy_server_config={})
    del profile['action_space']
    return without_empty(robot)


def test_topics_become_the_far_servers_chunks_and_go_on_after_its_restart(tmp_path: Path) -> None:
    engine = Engine(FarPolicy(LoadRequest('far')))
    engine.start()
    far = ServerThread(engine, ServerConfig(port=0))
    port = far.start()
    domain = new_domain()
    node = start_node(
        tmp_path,
        domain,
        {
            'model': f'ws://127.0.0.1:{port}/v1/realtime/robot/openpi',
            'policy': 'remote',
            'port': 0,
            'default_prompt': 'pick',
            'seed': 3,
        },
        robot=far_robot(),
    )

    try:
        with peer_of(domain) as peer:
            peer.listen_to_node()
            node.wait_for('active')

            def publish() -> None:
                stamp = peer.now()
                for topic, value in zip(CAMERAS, (20, 33), strict=True):
                    pixels = np.full((48, 64, 3), value, np.uint8)
                    peer.publish_image(topic, pixels=pixels, stamp_ns=stamp)
                positions = {name: 0.1 * (i + 1) for i, name in enumerate(JOINTS)}
                peer.publish_joints(positions=positions, stamp_ns=stamp)

            def chunk() -> list[float]:
                peer.forget(ARRAY)
                heard = peer.wait_until('a chunk', lambda: peer.heard(ARRAY), publish)
                return list(heard[-1].data[:WIDTH])

            publish()
            peer.wait_matched(*CAMERAS, 'joint_states')
            # Means of both images, length of the prompt, seed; then joint 1, gripper, row.
            first = chunk()
            assert first[:4] == [20.0, 33.0, 4.0, 3.0]
            np.testing.assert_allclose(first[5:], [0.1, 0.8 * 1.25, 0.0], rtol=1e-6)
            far.stop()
            far = ServerThread(engine, ServerConfig(port=port))
            far.start()
            assert chunk()[:4] == [20.0, 33.0, 4.0, 3.0]
    finally:
        node.kill()
        far.stop()
        engine.close()
