# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Pretend to be the robot of demo_robot.yaml: three cameras and moving joints at 30 Hz.

Each camera sends one photograph, each in another form, as real robots do: rgb8, bgr8, JPEG.
"""

from __future__ import annotations

import argparse
import math
import signal
import threading
import time
from pathlib import Path

import cv2
import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

RATE = 30.0
JOINTS = [f'joint{index}' for index in range(1, 8)]


def raw_image(bgr: np.ndarray, encoding: str) -> Image:
    """Return a ROS image of ``bgr`` (uint8 [H, W, 3]) in the encoding rgb8 or bgr8."""
    pixels = np.ascontiguousarray(bgr if encoding == 'bgr8' else bgr[:, :, ::-1])
    message = Image(height=pixels.shape[0], width=pixels.shape[1], encoding=encoding)
    message.step = pixels.strides[0]
    message.data.frombytes(memoryview(pixels).cast('B'))
    return message


class Robot(Node):
    """Publish the newest of everything, all with one stamp, at 30 Hz."""

    def __init__(self, photos: Path, prompt: str) -> None:
        super().__init__('demo_robot')
        jpeg = CompressedImage(format='jpeg')
        jpeg.data.frombytes((photos / 'rocket.jpg').read_bytes())
        chelsea, coffee = (
            cv2.imread(str(photos / f'{name}.png')) for name in ('chelsea', 'coffee')
        )
        images = [
            ('base_camera/image_raw', raw_image(chelsea, 'rgb8')),
            ('left_wrist_camera/image_raw', raw_image(coffee, 'bgr8')),
            ('right_wrist_camera/image_raw/compressed', jpeg),
        ]
        self._cameras = [
            (self.create_publisher(type(message), topic, qos_profile_sensor_data), message)
            for topic, message in images
        ]
        self._joints = self.create_publisher(JointState, 'joint_states', qos_profile_sensor_data)
        self._prompt = self.create_publisher(String, 'prompt', 1)
        self._text = prompt
        self.create_timer(1.0 / RATE, self._publish)
        # A subscriber that comes later has missed the first one.
        self.create_timer(1.0, lambda: self._prompt.publish(String(data=self._text)))

    def _publish(self) -> None:
        stamp = self.get_clock().now().to_msg()
        for publisher, message in self._cameras:
            message.header.stamp = stamp
            publisher.publish(message)
        phase = 2.0 * math.pi * 0.2 * time.monotonic()
        state = JointState(name=JOINTS)
        state.header.stamp = stamp
        state.position = [0.5 * math.sin(phase + index) for index in range(len(JOINTS))]
        self._joints.publish(state)


def main() -> None:
    """Publish until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('photos', type=Path, help='folder with the three photographs')
    parser.add_argument('--prompt', default='pick up the cup')
    arguments = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    robot = Robot(arguments.photos, arguments.prompt)
    while not stop.is_set():
        rclpy.spin_once(robot, timeout_sec=0.1)
    robot.destroy_node()
    rclpy.shutdown()


if __name__ == '__main__':
    main()
