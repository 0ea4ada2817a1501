# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Images that do not arrive: how many the shipped DDS profile saves, and what the status says."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from node_process import HERE, environment, install_digest_policy, new_domain, peer_of, start_node
from rclpy.utilities import get_rmw_implementation_identifier
from sensor_msgs.msg import CompressedImage

from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.ros.launch_arguments import PROFILE_VARIABLES, dds_environment
from openpi_policy_ros.ros.watch import loss_remedy

WRIST = 'wrist/image_raw'
_BUFFER = Path('/proc/sys/net/core/rmem_default')

pytestmark = pytest.mark.ros

loses_images = pytest.mark.skipif(
    'fastrtps' not in get_rmw_implementation_identifier()
    or not _BUFFER.exists()
    or int(_BUFFER.read_text()) > 500_000,
    reason='only Fast DDS with the usual UDP buffers loses images by default',
)


def without_profile(domain: int, scratch: Path) -> dict[str, str]:
    env = environment(domain, scratch)
    return {name: value for name, value in env.items() if name not in PROFILE_VARIABLES}


@contextlib.contextmanager
def traffic(env: dict[str, str], *arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / 'image_traffic.py'), *map(str, arguments)],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=20)


@loses_images
def test_most_images_are_lost_without_the_profile_and_none_with_it(tmp_path: Path) -> None:
    bare = without_profile(new_domain(), tmp_path)
    shipped = {**without_profile(new_domain(), tmp_path), **dds_environment(bare)}
    with contextlib.ExitStack() as running:
        sinks = []
        for env in (bare, shipped):
            sinks.append(running.enter_context(traffic(env, 'count', WRIST, 1.5)))
            running.enter_context(traffic(env, 'send', WRIST, 1000))
        lossy, whole = (json.loads(sink.communicate(timeout=40)[0]) for sink in sinks)
    # The middleware's own counts: an image that a busy machine took too late is not a lost one.
    assert lossy['lost'] > 0.2 * (lossy['received'] + lossy['lost']), lossy
    assert whole['received'] > 10, whole
    assert whole['lost'] <= 0.05 * (whole['received'] + whole['lost']), whole


@loses_images
def test_the_status_tells_loss_from_silence_and_from_a_wrong_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PROFILE_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    policy, python_path = install_digest_policy(tmp_path)
    domain = new_domain()
    robot = load_robot('droid').model_dump(exclude_defaults=True)
    process = start_node(
        tmp_path,
        domain,
        {'model': 'digest', 'policy': str(policy), 'port': 0, 'default_prompt': 'pick'},
        python_path=python_path,
        robot=robot,
    )
    try:
        with peer_of(domain) as peer:
            peer.listen_to_node()
            process.wait_for('active')

            def said(*texts: str) -> None:
                peer.wait_until(texts[0], lambda: all(text in peer.status_text() for text in texts))

            nobody = f'nobody publishes /{WRIST}; start the camera driver'
            said(f"camera 'wrist': no image on /{WRIST} yet ({nobody}", "camera 'exterior_1'")
            peer.publisher('exterior_1/image_raw', CompressedImage, 10)
            said(
                "camera 'exterior_1': no image on /exterior_1/image_raw yet (/peer publishes "
                'sensor_msgs/msg/CompressedImage on /exterior_1/image_raw, expected '
                'sensor_msgs/msg/Image; set cameras.exterior_1.transport: compressed)',
                nobody,
            )
            with traffic(without_profile(domain, tmp_path), 'send', WRIST, 1000):
                log = process.wait_for('images were lost on the way: Fast DDS')
                assert "camera 'wrist': " in log
                said(
                    "camera 'wrist' is ",
                    'images were lost on the way: ',
                    'set FASTDDS_DEFAULT_PROFILES_FILE to the shipped config/fastdds_profile.xml '
                    'for the camera driver and for this node',
                )
            said("camera 'wrist' is ", nobody)
    finally:
        process.kill()


def test_the_remedy_is_the_one_of_this_middleware_and_environment() -> None:
    assert (config_directory() / 'fastdds_profile.xml').is_file()
    here = {PROFILE_VARIABLES[1]: '/x.xml'}
    assert 'driver and for this node' in loss_remedy('rmw_fastrtps_cpp', {})
    assert 'driver too (this node has a profile)' in loss_remedy('rmw_fastrtps_cpp', here)
    assert loss_remedy('rmw_cyclonedds_cpp', here) == (
        'raise the receive buffers of rmw_cyclonedds_cpp on both sides'
    )
