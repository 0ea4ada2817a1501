# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot in a process of its own: three 640×480 cameras, its joints, an ear for commands."""

from __future__ import annotations

import argparse
import threading
import time
from typing import Any

import numpy as np

from openpi_policy_ros.bench.child import answer_commands, usage

CAMERAS = ('base', 'left_wrist', 'right_wrist')
JOINTS = tuple(f'joint_{number}' for number in range(1, 9))
HEIGHT, WIDTH = 480, 640
CAMERA_RATE, JOINT_RATE = 30.0, 100.0
TICK = 1.0 / 300.0
COMMANDS = 'arm/commands'
"""Topic of the commands, one number for each joint."""
SERVICE_TIMEOUT = 20.0


def main() -> None:
    """Publish until the parent closes our input."""
    parser = argparse.ArgumentParser()
    parser.add_argument('transport', choices=('raw', 'jpeg'))
    parser.add_argument('--node', help='of which to hear the commands, and to enable')
    options = parser.parse_args()

    import rclpy
    from rclpy.qos import QoSProfile, ReliabilityPolicy
    from rclpy.signals import SignalHandlerOptions
    from sensor_msgs.msg import CompressedImage, Image, JointState

    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node('bench_robot')
    qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    raw = options.transport == 'raw'
    kind = Image if raw else CompressedImage
    streams: list[tuple[Any, Any]] = []
    for number, name in enumerate(CAMERAS):
        publisher = node.create_publisher(kind, topic(name), qos)
        streams.append(
            (publisher, raw_image(Image, number) if raw else jpeg_image(CompressedImage, number))
        )
    joints = node.create_publisher(JointState, 'joint_states', qos)
    position = JointState(name=list(JOINTS), position=[0.1] * len(JOINTS))
    ending = threading.Event()
    published = {'images': 0, 'joints': 0}

    def publish() -> None:
        next_image = next_joint = time.monotonic()
        while not ending.is_set():
            now = time.monotonic()
            stamp = node.get_clock().now().to_msg()
            if now >= next_image:
                next_image = max(next_image + 1.0 / CAMERA_RATE, now - 1.0 / CAMERA_RATE)
                for publisher, message in streams:
                    message.header.stamp = stamp
                    publisher.publish(message)
                    published['images'] += 1
            if now >= next_joint:
                next_joint = max(next_joint + 1.0 / JOINT_RATE, now - 1.0 / JOINT_RATE)
                position.header.stamp = stamp
                joints.publish(position)
                published['joints'] += 1
            ending.wait(TICK)

    answers: dict[str, Any] = {'usage': lambda: {**published, **usage()}}
    if options.node:
        answers.update(_ear(node, options.node))
    threads = [threading.Thread(target=publish, name='publish')]
    if options.node:
        threads.append(threading.Thread(target=_spin, args=(node, ending), name='hear'))
    for thread in threads:
        thread.start()
    try:
        answer_commands({}, answers)
    finally:
        ending.set()
        for thread in threads:
            thread.join()
        node.destroy_node()
        rclpy.try_shutdown()


def _ear(node: Any, of: str) -> dict[str, Any]:
    """Subscribe to the commands; return what the parent may ask."""
    from std_msgs.msg import Float64MultiArray
    from std_srvs.srv import SetBool

    first: dict[float, int] = {}
    count = 0

    def heard(message: Any) -> None:
        nonlocal count
        # Before all else: this is when it came.
        now = time.monotonic_ns()
        count += 1
        first.setdefault(round(message.data[0], 6), now)

    node.create_subscription(Float64MultiArray, COMMANDS, heard, 10)
    client = node.create_client(SetBool, f'/{of}/enable')

    def enable() -> dict[str, Any]:
        if not client.wait_for_service(timeout_sec=SERVICE_TIMEOUT):
            return {'done': False, 'text': f'/{of}/enable is not there'}
        answered = threading.Event()
        future = client.call_async(SetBool.Request(data=True))
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(SERVICE_TIMEOUT):
            return {'done': False, 'text': f'/{of}/enable does not answer'}
        return {'done': future.result().success, 'text': future.result().message}

    return {
        'enable': enable,
        'commands': lambda: {'count': count, 'first': list(first.items())},
    }


def _spin(node: Any, ending: threading.Event) -> None:
    from rclpy.executors import SingleThreadedExecutor

    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while not ending.is_set():
        executor.spin_once(timeout_sec=0.1)
    executor.shutdown()


def topic(camera: str) -> str:
    """Return the topic of a camera."""
    return f'{camera}/image'


def pixels(number: int) -> np.ndarray:
    """Return uint8 [480, 640, 3] that JPEG takes as long for as for a photograph, about."""
    rng = np.random.default_rng(number)
    coarse = rng.integers(0, 256, (HEIGHT // 16, WIDTH // 16, 3), np.uint8)
    fine = rng.integers(0, 24, (HEIGHT, WIDTH, 3), np.uint8)
    smooth = np.kron(coarse, np.ones((16, 16, 1), np.uint8)) // 2
    return np.ascontiguousarray(smooth + fine)


def raw_image(kind: Any, number: int) -> Any:
    """Return an rgb8 message."""
    message = kind(height=HEIGHT, width=WIDTH, encoding='rgb8', step=3 * WIDTH)
    message.data.frombytes(pixels(number).tobytes())
    return message


def jpeg_image(kind: Any, number: int) -> Any:
    """Return a message with a JPEG in it."""
    import cv2

    done, data = cv2.imencode('.jpg', pixels(number), [cv2.IMWRITE_JPEG_QUALITY, 90])
    assert done
    message = kind(format='rgb8; jpeg compressed bgr8')
    message.data.frombytes(data.tobytes())
    return message


if __name__ == '__main__':
    main()
