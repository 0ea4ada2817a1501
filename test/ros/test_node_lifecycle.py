# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every transition through the services, as a lifecycle manager drives the node."""

from __future__ import annotations

import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('rclpy')

from node_process import (
    BEST_EFFORT,
    JOINTS,
    Peer,
    install_digest_policy,
    new_domain,
    peer_of,
    start_node,
)
from sensor_msgs.msg import Image

pytestmark = pytest.mark.ros

CHUNK = 'openpi_policy/action_chunk'


def healthy(peer: Peer) -> bool:
    """Return whether the server answers at the address that the status names."""
    try:
        with urllib.request.urlopen(f'http://{peer.status()["server"]}/healthz', timeout=5) as page:
            return bool(page.status == 200)
    except urllib.error.URLError:
        return False


def wait_for_state(peer: Peer, text: str) -> None:
    peer.wait_until(f'status {text!r}', lambda: text in peer.status_text())


def test_transitions_through_the_services(tmp_path: Path) -> None:
    policy, python_path = install_digest_policy(tmp_path)
    domain = new_domain()
    process = start_node(
        tmp_path,
        domain,
        {
            'model': 'broken',
            'policy': str(policy),
            'robot': 'droid',
            'port': 0,
            'default_prompt': 'pick',
            'autostart': False,
            'cameras': {'wrist': {'reliability': 'reliable'}},
        },
        python_path=python_path,
    )
    try:
        with peer_of(domain) as peer:
            _drive(peer, process)
        process.signal(signal.SIGINT)
        assert process.join() == 0
        assert 'Traceback' not in process.text()
    finally:
        process.kill()


def _drive(peer: Peer, process: object) -> None:
    image = np.zeros((48, 64, 3), np.uint8)

    def publish() -> None:
        peer.publish_image('exterior_1/image_raw', image)
        peer.publish_image('wrist/image_raw', image)
        peer.publish_joints(dict.fromkeys(JOINTS, 0.0))

    def chunks() -> list[object]:
        return peer.heard(CHUNK)

    peer.listen_to_node()
    wait_for_state(peer, 'INIT: unconfigured')
    assert peer.lifecycle_state() == 'unconfigured'
    assert not peer.reset().success

    # A configure that is refused fails, is told, and leaves the node as it was.
    assert not peer.transition('configure')
    wait_for_state(peer, 'INIT: configure refused: broken has no weights')
    assert peer.lifecycle_state() == 'unconfigured'

    # A port that is in use is told before a model is loaded, which may take minutes.
    with socket.create_server(('127.0.0.1', 0)) as taken:
        assert peer.set_parameter('port', taken.getsockname()[1]).successful
        assert not peer.transition('configure')
        wait_for_state(peer, 'INIT: configure refused: server')
        wait_for_state(peer, 'the port is in use')
    assert peer.set_parameter('port', 0).successful

    # Unconfigured, parameters can be mended.
    assert peer.set_parameter('model', 'digest').successful

    # Also back to what they were at first.
    assert peer.set_parameter('robot', 'droit').successful
    assert not peer.transition('configure')
    wait_for_state(peer, "'droit' is not shipped, did you mean 'droid'?")
    assert peer.set_parameter('robot', 'droid').successful

    # A topic in use with another type.
    assert peer.set_parameter('cameras.wrist.topic', 'prompt').successful
    assert not peer.transition('configure')
    wait_for_state(peer, "topic 'prompt' with String")
    assert peer.set_parameter('cameras.wrist.topic', 'wrist/image_raw').successful
    assert peer.transition('configure')
    wait_for_state(peer, 'INIT: inactive')
    assert peer.lifecycle_state() == 'inactive'
    assert healthy(peer)
    assert peer.status()['model'] == 'digest'

    # A publisher that a reliable camera cannot hear is told by the camera's name.
    peer.publisher('wrist/image_raw', Image, BEST_EFFORT)
    process.wait_for("camera 'wrist': a publisher on /wrist/image_raw offers an incompatible REL")
    assert peer.transition('activate')
    peer.wait_until(
        'the hint',
        lambda: 'set cameras.wrist.reliability: best_effort' in peer.status_text(),
        publish,
    )
    assert chunks() == []
    assert peer.transition('deactivate')
    assert peer.transition('cleanup')
    wait_for_state(peer, 'INIT: unconfigured')
    assert peer.set_parameter('cameras.wrist.reliability', 'best_effort').successful
    assert peer.transition('configure')

    # Inactive: sensors are heard, the server serves, no chunk goes out.
    peer.wait_matched('exterior_1/image_raw', 'wrist/image_raw', 'joint_states')
    for _ in range(5):
        publish()
    assert healthy(peer)
    assert chunks() == []

    assert peer.transition('activate')
    assert peer.lifecycle_state() == 'active'
    peer.wait_until('a chunk', chunks, publish)
    wait_for_state(peer, 'READY')

    # Deactivated: the robot's door is shut, the server stays.
    assert peer.transition('deactivate')
    wait_for_state(peer, 'INIT: inactive')
    peer.forget(CHUNK)
    for _ in range(5):
        publish()
    assert healthy(peer)
    assert chunks() == []

    assert peer.transition('activate')
    peer.wait_until('a chunk again', chunks, publish)

    # Cleaned up: nothing listens any more.
    server = peer.status()['server']
    assert peer.transition('deactivate')
    assert peer.transition('cleanup')
    wait_for_state(peer, 'INIT: unconfigured')
    assert peer.lifecycle_state() == 'unconfigured'
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f'http://{server}/healthz', timeout=5)

    assert peer.set_parameter('dry_run', True).successful
    assert peer.transition('configure')
    assert peer.transition('activate')
    peer.wait_until('a chunk once more', chunks, publish)
    wait_for_state(peer, 'DRY_RUN')
    assert peer.status()['dry_run'] == 'true'
    assert peer.transition('shutdown')
    assert peer.lifecycle_state() == 'finalized'
    wait_for_state(peer, 'INIT: finalized')
