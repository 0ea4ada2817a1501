# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The same observation through either door of one node gives the same chunk, bit by bit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')
pytest.importorskip('openpi_client')

from node_process import JOINTS, Peer, new_domain, peer_of, start_node
from openpi_client import msgpack_numpy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from websockets.sync.client import connect

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.policies.registry import find

pytestmark = pytest.mark.ros

PHOTOS = Path(__file__).resolve().parents[1] / 'data' / 'photos'
CHUNK, ARRAY = 'openpi_policy/action_chunk', 'openpi_policy/action_chunk_array'
EXTERIOR, WRIST = 'exterior_1/image_raw', 'wrist/image_raw/compressed'
POSITIONS = {name: round(-0.7 + 0.211 * i, 3) for i, name in enumerate(JOINTS)}
SEED = 11
X, Y, ACROSS, DOWN = 40, 30, 500, 320
"""The part of the wrist camera's image that the policy sees, turned clockwise."""
PROMPT = 'pick up the red block'


def photo(name: str) -> np.ndarray:
    """Return a photograph, uint8 [H, W, 3] RGB."""
    return np.ascontiguousarray(cv2.imread(str(PHOTOS / name), cv2.IMREAD_COLOR)[..., ::-1])


class Doors:
    """One running node, and how to ask it either way."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.exterior, self.wrist = photo('chelsea.png'), photo('coffee.png')
        self.wrist_png = cv2.imencode('.png', self.wrist[..., ::-1])[1].tobytes()
        host, port = peer.status()['server'].split(':')
        self.host, self.port = host, int(port)

    def over_topics(self, encoding: str, padding: int) -> tuple[np.ndarray, Any]:
        """Return the chunk [10, 8] and the trajectory made of one published observation."""
        self.peer.forget(CHUNK)
        self.peer.forget(ARRAY)
        pixels = self.exterior if encoding == 'rgb8' else self.exterior[..., ::-1]
        stamps: set[int] = set()

        def publish() -> None:
            stamp = self.peer.now()
            stamps.add(stamp)
            self.peer.publish_joints(POSITIONS, stamp_ns=stamp)
            self.peer.publish_compressed(WRIST, self.wrist_png, 'rgb8; png compressed bgr8', stamp)
            self.peer.publish_image(
                EXTERIOR,
                np.ascontiguousarray(pixels),
                stamp_ns=stamp,
                encoding=encoding,
                padding=padding,
            )

        def whole() -> bool:
            # Stamped with its oldest stream, so nothing in it is of an earlier call.
            stamped = [one.header.stamp for one in self.peer.heard(CHUNK)]
            return bool(stamped) and stamped[-1].sec * 10**9 + stamped[-1].nanosec in stamps

        self.peer.wait_until('a chunk of this observation', whole, publish)
        # Once nothing is published, the last of each topic are one chunk.
        time.sleep(0.3)
        array = self.peer.heard(ARRAY)[-1]
        shape = [one.size for one in array.layout.dim]
        return np.array(array.data).reshape(shape), self.peer.heard(CHUNK)[-1]

    def observation(self, **changes: Any) -> dict[str, Any]:
        """Return the same observation as a client sends it."""
        arm = np.array([POSITIONS[name] for name in JOINTS[:7]], np.float32)
        # DROID's gripper runs from 0 to 1, the joint from 0 to 0.8 rad.
        gripper = np.array([1.25 * POSITIONS[JOINTS[7]]], np.float32)
        return {
            'observation/exterior_image_1_left': self.exterior,
            'observation/wrist_image_left': np.ascontiguousarray(
                np.rot90(self.wrist[Y : Y + DOWN, X : X + ACROSS], -1)
            ),
            'observation/joint_position': arm,
            'observation/gripper_position': gripper,
            'prompt': PROMPT,
            'seed': SEED,
            **changes,
        }

    def over_openpi_path(self, **changes: Any) -> np.ndarray:
        """Return the chunk that the OpenPI path answers, float32 [10, 8]."""
        url = f'ws://{self.host}:{self.port}/v1/realtime/robot/openpi'
        with connect(url, compression=None, max_size=None) as socket:
            socket.recv(timeout=20)
            socket.send(msgpack_numpy.packb(self.observation(**changes)))
            return np.asarray(msgpack_numpy.unpackb(socket.recv(timeout=20)))

    def over_stock_client(self) -> np.ndarray:
        """Return the chunk that openpi's own client gets, float32 [10, 8]."""
        client = WebsocketClientPolicy(self.host, self.port)
        return np.asarray(client.infer(self.observation())['actions'])


@pytest.fixture(scope='module')
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    scratch = tmp_path_factory.mktemp('doors')
    make = find('pi0').make_checkpoint
    assert make is not None
    make(scratch / 'checkpoint', 'small', 0)
    domain = new_domain()
    robot = load_robot('droid').model_dump(exclude_defaults=True)
    robot['cameras']['wrist'].update(
        topic=WRIST, transport='compressed', crop=[X, Y, ACROSS, DOWN], rotate=90
    )
    # The machine of the test may be busy: freshness is not what is tested here.
    robot['timing'] |= {'camera_max_age': 10.0, 'joint_max_age': 10.0, 'max_skew': 10.0}
    process = start_node(
        scratch,
        domain,
        {
            'model': str(scratch / 'checkpoint'),
            'policy': 'pi0',
            'port': 0,
            'seed': SEED,
            'default_prompt': PROMPT,
        },
        robot=robot,
    )
    try:
        with peer_of(domain) as peer:
            peer.listen_to_node()
            process.wait_for('active')
            peer.wait_until('the server', lambda: peer.status().get('server'))
            doors = Doors(peer)
            doors.over_topics('rgb8', 0)
            yield doors
    finally:
        process.kill()


@pytest.mark.parametrize(('encoding', 'padding'), [('rgb8', 0), ('rgb8', 7), ('bgr8', 13)])
def test_topics_and_websocket_give_the_same_chunk(
    doors: Doors, encoding: str, padding: int
) -> None:
    chunk, trajectory = doors.over_topics(encoding, padding)
    remote = doors.over_openpi_path()
    assert remote.dtype == np.float32
    assert remote.shape == chunk.shape == (10, 8)
    np.testing.assert_array_equal(chunk, remote.astype(np.float64))
    np.testing.assert_array_equal(doors.over_stock_client(), remote)
    rows = np.array([point.velocities for point in trajectory.points])
    # The array is bit-identical above; the trajectory is in rad/s, of which DROID's 1 is three.
    np.testing.assert_allclose(rows, 3.0 * chunk[:, :7], rtol=1e-12)


def test_another_colour_order_state_prompt_or_seed_would_show(doors: Doors) -> None:
    same = doors.over_openpi_path()
    for changes in (
        {'observation/exterior_image_1_left': doors.exterior[..., ::-1].copy()},
        {'observation/wrist_image_left': doors.exterior},
        {'observation/gripper_position': np.array([POSITIONS[JOINTS[7]]], np.float32)},
        {'prompt': 'another'},
        {'seed': SEED + 1},
    ):
        assert np.abs(doors.over_openpi_path(**changes) - same).max() > 1e-4, changes
