# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real node in its own process: real images and joints in, chunks, prompt and status out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('rclpy')

from digest_policy import HORIZON, NOT_FINITE, RAISES, REFUSED, WIDTH
from node_process import (
    JOINTS,
    RELIABLE,
    NodeProcess,
    Peer,
    install_digest_policy,
    new_domain,
    peer_of,
    start_node,
    without_empty,
)
from rclpy.qos import DurabilityPolicy, ReliabilityPolicy
from sensor_msgs.msg import CompressedImage

from openpi_policy_ros.configuration.robot import load_robot

pytestmark = pytest.mark.ros

CHUNK, ARRAY = 'openpi_policy/action_chunk', 'openpi_policy/action_chunk_array'
STATUS, PROMPT = 'openpi_policy/status', 'openpi_policy/current_prompt'
EXTERIOR, WRIST = 'exterior_1/image_raw', 'wrist/image_raw/compressed'
POSITIONS = {name: 0.1 * (i + 1) for i, name in enumerate(JOINTS)}
MS = 1_000_000


class Robot:
    """A DROID-like robot: one raw camera, one compressed, joints from two publishers."""

    def __init__(self, peer: Peer, process: NodeProcess) -> None:
        self.peer = peer
        self.process = process
        self.pixels = np.full((48, 64, 3), 10, np.uint8)
        self.pixels[..., 0] = 40  # mean 20
        self.wrist = cv2.imencode('.png', np.full((48, 64, 3), 33, np.uint8))[1].tobytes()

    def publish(self, **changes: Any) -> int:
        """Publish one observation, all of one stamp; return the stamp.

        ``changes`` replaces arguments of one stream: exterior, wrist, arm, gripper; None leaves
        it out.
        """
        stamp = self.peer.now()
        streams: dict[str, Any] = {'exterior': {}, 'wrist': {}, 'arm': {}, 'gripper': {}, **changes}
        if streams['exterior'] is not None:
            options = {'pixels': self.pixels, 'stamp_ns': stamp, **streams['exterior']}
            self.peer.publish_image(EXTERIOR, **options)
        if streams['wrist'] is not None:
            options = {
                'data': self.wrist,
                'image_format': 'rgb8; png compressed bgr8',
                'stamp_ns': stamp,
                **streams['wrist'],
            }
            self.peer.publish_compressed(WRIST, **options)
        for part, names in (('arm', JOINTS[6::-1]), ('gripper', ['lamp_joint', JOINTS[7]])):
            if streams[part] is not None:
                positions = {name: POSITIONS.get(name, 99.0) for name in names}
                options = {'positions': positions, 'stamp_ns': stamp, **streams[part]}
                self.peer.publish_joints(**options)
        return stamp

    def chunk(self, **changes: Any) -> tuple[Any, list[float]]:
        """Publish until the next chunk comes; return its trajectory and first row."""
        stamps: list[int] = []

        def fresh() -> Any:
            return [
                one
                for one in self.peer.heard(CHUNK)
                if stamps and one.header.stamp.sec * 10**9 + one.header.stamp.nanosec >= stamps[0]
            ]

        self.peer.forget(ARRAY)
        trajectory = self.peer.wait_until(
            'a chunk', fresh, lambda: stamps.append(self.publish(**changes))
        )[-1]
        array = self.peer.wait_until('its array', lambda: self.peer.heard(ARRAY))[-1]
        return trajectory, list(array.data[:WIDTH])

    def blocked(self, reason: str, **changes: Any) -> str:
        """Publish until the status gives ``reason``; return the whole status line."""
        return str(
            self.peer.wait_until(
                f'the reason {reason!r}',
                lambda: reason in self.peer.status_text() and self.peer.status_text(),
                lambda: self.publish(**changes),
            )
        )


@pytest.fixture(scope='module')
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Robot]:
    scratch = tmp_path_factory.mktemp('serving')
    policy, python_path = install_digest_policy(scratch)
    # The policy file's; other tests give the node's parameter.
    policy.write_text('policy: digest\ndefault_prompt: pick\n')
    domain = new_domain()
    robot = load_robot('droid').model_dump(exclude_none=True)
    robot['cameras']['wrist'].update(topic=WRIST, transport='compressed', reliability='reliable')
    robot = without_empty(robot)
    process = start_node(
        scratch,
        domain,
        {'model': 'digest', 'policy': str(policy), 'port': 0, 'seed': 3},
        python_path=python_path,
        robot=robot,
    )
    try:
        with peer_of(domain) as peer:
            peer.listen_to_node()
            one = Robot(peer, process)
            process.wait_for('active')
            # A reliable camera hears reliable publishers only.
            peer.publisher(WRIST, CompressedImage, RELIABLE)
            one.publish()
            peer.wait_until(
                "the policy file's prompt",
                lambda: [message.data for message in peer.heard(PROMPT)] == ['pick'],
            )
            peer.publish_prompt('pick')
            peer.wait_matched(EXTERIOR, WRIST, 'joint_states', 'prompt')
            yield one
    finally:
        process.kill()


@pytest.fixture
def robot(running: Robot) -> Iterator[Robot]:
    yield running
    running.peer.publish_prompt('pick')
    running.peer.set_parameter('seed', 3)
    running.peer.wait_until(
        'all is well again',
        lambda: running.peer.status_text() == 'READY',
        running.publish,
    )


def test_images_and_joints_of_the_robot_become_a_chunk(robot: Robot) -> None:
    trajectory, row = robot.chunk()
    # mean of the raw image, of the png, length of the prompt, seed, session, joint 1, gripper, row
    assert row[:4] == [20.0, 33.0, 4.0, 3.0]
    np.testing.assert_allclose(row[5:], [0.1, 0.8 * 1.25, 0.0], rtol=1e-6)
    assert trajectory.joint_names == JOINTS[:7]
    assert len(trajectory.points) == HORIZON
    velocities = list(trajectory.points[0].velocities)
    # DROID's 1 is 3 rad/s; the array keeps the policy's units.
    np.testing.assert_allclose(velocities, 3.0 * np.array(row[:7]))
    assert not trajectory.points[0].positions
    times = [p.time_from_start.sec + p.time_from_start.nanosec / 1e9 for p in trajectory.points]
    np.testing.assert_allclose(times, [(i + 1) / 15 for i in range(HORIZON)], atol=1e-9)


def test_the_chunk_carries_the_stamp_of_its_oldest_stream(robot: Robot) -> None:
    sent: set[int] = set()

    def publish() -> None:
        stamp = robot.peer.now() - 40 * MS
        sent.add(stamp)
        robot.publish(exterior={'stamp_ns': stamp})

    def stamped() -> bool:
        return any(
            one.header.stamp.sec * 10**9 + one.header.stamp.nanosec in sent
            for one in robot.peer.heard(CHUNK)
        )

    robot.peer.wait_until('a chunk stamped with the older image', stamped, publish)


@pytest.mark.parametrize('padding', [0, 13])
@pytest.mark.parametrize('encoding', ['rgb8', 'bgr8'])
def test_raw_images_come_in_both_orders_and_padded(
    robot: Robot, encoding: str, padding: int
) -> None:
    _, row = robot.chunk(exterior={'encoding': encoding, 'padding': padding})
    assert row[0] == 20.0


def mosaic() -> np.ndarray:
    """Return red 40, green 10, blue 10 as a sensor sees it whose corner reads G R / B G."""
    seen = np.full((48, 64, 1), 10, np.uint8)
    seen[::2, 1::2] = 40
    return seen


GREY_IN_YUV = np.full((48, 64, 2), (34, 128), np.uint8)
"""Y of limited range that stands for grey 21, and neutral colours."""


@pytest.mark.parametrize(
    ('encoding', 'pixels', 'options', 'mean'),
    [
        ('mono8', np.full((48, 64, 1), 23, np.uint8), {}, 23.0),
        ('rgba8', np.full((48, 64, 4), (40, 10, 10, 255), np.uint8), {}, 20.0),
        ('bayer_grbg8', mosaic(), {}, 20.0),
        ('yuv422_yuy2', GREY_IN_YUV, {}, 21.0),
        ('uyvy', GREY_IN_YUV[..., ::-1].copy(), {}, 21.0),
        (
            'nv12',
            np.concatenate([GREY_IN_YUV[..., :1], GREY_IN_YUV[:24, :, 1:]]),
            {'height': 48},
            21.0,
        ),
    ],
)
def test_other_encodings_become_colours(
    robot: Robot, encoding: str, pixels: np.ndarray, options: dict[str, Any], mean: float
) -> None:
    sent = {'pixels': pixels, 'encoding': encoding, 'padding': 6, **options}
    assert robot.chunk(exterior=sent)[1][0] == mean


def test_the_array_is_labelled_and_whole(robot: Robot) -> None:
    robot.chunk()
    array = robot.peer.heard(ARRAY)[-1]
    steps, columns = array.layout.dim
    assert (steps.label, steps.size, columns.size) == ('step', HORIZON, WIDTH)
    assert columns.label == 'dimension: ' + ','.join(f'column_{i}' for i in range(WIDTH))
    assert [array.data[i * WIDTH + WIDTH - 1] for i in range(HORIZON)] == list(range(HORIZON))


def test_topics_types_and_qos_are_those_of_the_interface(robot: Robot) -> None:
    node = robot.peer.node
    best_effort, reliable = ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE
    volatile, latched = DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL
    expected = {
        ('in', f'/{EXTERIOR}'): ('sensor_msgs/msg/Image', best_effort, volatile),
        ('in', f'/{WRIST}'): ('sensor_msgs/msg/CompressedImage', reliable, volatile),
        ('in', '/joint_states'): ('sensor_msgs/msg/JointState', best_effort, volatile),
        ('in', '/prompt'): ('std_msgs/msg/String', reliable, volatile),
        ('out', f'/{PROMPT}'): ('std_msgs/msg/String', reliable, latched),
        ('out', f'/{CHUNK}'): ('trajectory_msgs/msg/JointTrajectory', reliable, volatile),
        ('out', f'/{ARRAY}'): ('std_msgs/msg/Float64MultiArray', reliable, volatile),
        ('out', f'/{STATUS}'): ('diagnostic_msgs/msg/DiagnosticStatus', reliable, latched),
    }
    found = {}
    for direction, topic in expected:
        list_them = (
            node.get_subscriptions_info_by_topic
            if direction == 'in'
            else node.get_publishers_info_by_topic
        )
        (end,) = [one for one in list_them(topic) if one.node_name == 'openpi_policy']
        qos = end.qos_profile
        found[direction, topic] = (end.topic_type, qos.reliability, qos.durability)
    assert found == expected


def test_a_prompt_is_used_and_echoed(robot: Robot) -> None:
    robot.peer.publish_prompt('put it down')
    robot.peer.wait_until('the echo', lambda: robot.peer.heard(PROMPT)[-1].data == 'put it down')
    _, row = robot.chunk()
    assert row[2] == len('put it down')


def test_the_seed_parameter_takes_effect_at_once_and_others_do_not(robot: Robot) -> None:
    assert robot.peer.set_parameter('seed', 8).successful
    robot.peer.wait_until('the new seed', lambda: robot.chunk()[1][3] == 8.0)
    assert robot.peer.set_parameter('seed', -1).successful
    robot.peer.wait_until('no seed', lambda: robot.chunk()[1][3] == -1.0)
    assert not robot.peer.set_parameter('seed', -2).successful
    refused = robot.peer.set_parameter('timing.max_skew', 0.5)
    assert not refused.successful
    assert 'takes effect when the node is configured' in refused.reason


def test_parameters_show_the_robot_file_with_type_range_and_description(robot: Robot) -> None:
    assert robot.peer.get_parameters('timing.action_rate', 'cameras.wrist.topic', 'port') == [
        15.0,
        WRIST,
        0,
    ]
    described = robot.peer.describe_parameter('timing.max_skew')
    assert described.description == 'Largest spread between stamps of streams, s.'
    assert described.floating_point_range[0].to_value == 60.0


def test_the_status_names_the_policy_and_says_that_chunks_are_raw(robot: Robot) -> None:
    robot.chunk()
    robot.peer.wait_until(
        'ready', lambda: robot.peer.status_text() == 'READY', lambda: robot.publish()
    )
    said = robot.peer.status()
    assert said['chunks'] == 'raw and ungated: the robot gets only what passes the gates'
    assert (said['state'], said['reason']) == ('READY', '')
    assert (said['policy'], said['model'], said['revision']) == ('digest', 'digest', 'r1')
    assert said['weights_hash'] == 'c0ffee'
    assert said['server'].startswith('127.0.0.1:')


@pytest.mark.parametrize(
    ('changes', 'reason'),
    [
        ({'exterior': None}, "READY: camera 'exterior_1' is "),
        ({'wrist': None}, "READY: camera 'wrist' is "),
        ({'gripper': None}, 'READY: joint_states: finger_joint is '),
        ({'exterior': {'stamp_ns': 0}}, "READY: camera 'exterior_1' has no stamp (0)"),
        ({'arm': {'stamp_ns': 0}}, 'panda_joint7 has no stamp (0)'),
        (
            {'exterior': {'encoding': '16UC1'}},
            "READY: camera 'exterior_1': encoding '16UC1' is a depth",
        ),
        (
            {'exterior': {'encoding': 'rgb16'}},
            "READY: camera 'exterior_1': encoding 'rgb16' is of 16 bits per channel",
        ),
        ({'wrist': {'data': b'BM'}}, "READY: camera 'wrist': data of format"),
        (
            {'gripper': {'positions': {'finger_joint': float('nan')}}},
            'READY: joint_states: finger_joint position is nan',
        ),
    ],
)
def test_without_usable_sensors_there_is_no_inference_but_a_reason(
    robot: Robot, changes: dict[str, Any], reason: str
) -> None:
    robot.chunk()
    robot.blocked(reason, **changes)
    robot.process.wait_for(reason.removeprefix('READY: '))
    time.sleep(0.1)
    robot.peer.forget(CHUNK)
    for _ in range(3):
        robot.publish(**changes)
    time.sleep(0.1)
    assert robot.peer.heard(CHUNK) == []
    robot.chunk()


def test_a_stamp_in_the_future_means_clocks_are_not_synchronised(robot: Robot) -> None:
    ahead = {'stamp_ns': robot.peer.now() + 3600 * 10**9}
    said = robot.blocked("camera 'exterior_1' is stamped", exterior=ahead)
    assert 'clocks not synchronised' in said
    robot.chunk()


def test_a_joint_that_nobody_publishes_is_named(robot: Robot) -> None:
    # Nothing of it may still be on its way when the buffers are cleared.
    robot.blocked('finger_joint is', gripper=None)
    assert robot.peer.reset().success
    said = robot.blocked('has named finger_joint yet', gripper=None)
    assert 'joint_states: no message on /joint_states' in said
    robot.chunk()


def test_a_reset_is_a_new_session_with_empty_buffers(robot: Robot) -> None:
    before = robot.chunk()[1][4]
    robot.peer.wait_until('silence', lambda: robot.peer.status()['reason'])
    answer = robot.peer.reset()
    assert answer.success
    assert 'new session ros:/openpi_policy/' in answer.message
    robot.peer.wait_until('empty', lambda: 'no image on' in robot.peer.status_text())
    assert robot.chunk()[1][4] == before + 1


@pytest.mark.parametrize(
    ('prompt', 'reason'),
    [
        (RAISES, 'READY: inference failed: RuntimeError: the device fell off the bus'),
        (NOT_FINITE, 'READY: inference failed: InvalidOutput'),
        (REFUSED, 'READY: the policy refuses the observation: prompt: is not to our taste'),
        (' ', 'READY: no prompt; publish a std_msgs/String'),
    ],
)
def test_what_fails_is_told_and_the_next_good_observation_is_served(
    robot: Robot, prompt: str, reason: str
) -> None:
    robot.chunk()
    robot.peer.publish_prompt(prompt)
    robot.blocked(reason)
    robot.peer.publish_prompt('pick')
    robot.peer.wait_until('ready', lambda: robot.peer.status_text() == 'READY', robot.publish)


def test_a_big_image_arrives_whole(robot: Robot) -> None:
    """640×480 is beyond what DDS carries without the shipped profile."""
    pixels = np.random.default_rng(0).integers(0, 256, (480, 640, 3), np.uint8)
    robot.peer.wait_until(
        'the big image',
        lambda: abs(robot.chunk(exterior={'pixels': pixels})[1][0] - pixels.mean()) < 1e-3,
    )
