# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The topics on which a modelled robot says where its joints are and what its cameras see."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping
from typing import Any

import cv2
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import String

from openpi_policy_ros.configuration.robot import Camera, RobotConfig
from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.fake_robot.joints import joint_topics
from openpi_policy_ros.fake_robot.pictures import Picture
from openpi_policy_ros.ros.description import ROBOT_DESCRIPTION
from openpi_policy_ros.ros.sensors import RELIABILITY, qos

QUALITY = 90
"""Of jpeg."""


class SensorTopics:
    """Publishers of every joint topic and camera of a robot file, as its drivers would be.

    Args:
        node: owns them.
        robot: names them.

    """

    def __init__(self, node: Node, robot: RobotConfig) -> None:
        self._joints: list[tuple[dict[str, str], Publisher]] = [
            (names, node.create_publisher(JointState, topic, qos(10, ReliabilityPolicy.RELIABLE)))
            for topic, names in joint_topics(robot).items()
        ]
        self._cameras = {name: robot.cameras[name] for name in robot.camera_names}
        self._images = {
            name: node.create_publisher(
                CompressedImage if camera.transport == 'compressed' else Image,
                camera.topic,
                qos(1, RELIABILITY[camera.reliability]),
            )
            for name, camera in self._cameras.items()
        }

    def publish_joints(
        self, positions: Mapping[str, float], time_ns: int, *, without: Collection[str] = ()
    ) -> None:
        """Say where the joints are.

        Args:
            positions: joint → position, rad or m.
            time_ns: stamp.
            without: joints to be silent about.

        """
        for known, publisher in self._joints:
            names = [name for name in known if name not in without]
            message = JointState(name=[known[name] for name in names])
            message.position = array('d', [positions[name] for name in names])
            stamp(message, time_ns)
            publisher.publish(message)

    def publish_image(self, camera: str, picture: Picture, time_ns: int) -> None:
        """Say what a camera sees, uint8 RGB [height, width, 3], stamped ``time_ns``."""
        message = image_message(self._cameras[camera], picture)
        message.header.frame_id = camera
        stamp(message, time_ns)
        self._images[camera].publish(message)


def publish_description(node: Node, urdf: str) -> Publisher:
    """Publish a URDF, latched; return its publisher."""
    publisher = node.create_publisher(
        String, ROBOT_DESCRIPTION, qos(1, ReliabilityPolicy.RELIABLE, latched=True)
    )
    publisher.publish(String(data=urdf))
    return publisher


def image_message(camera: Camera, picture: Picture) -> Image | CompressedImage:
    """Return a picture in RGB as the camera sends it."""
    if camera.transport == 'compressed':
        bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
        done, data = cv2.imencode('.jpg', bgr, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        if not done:
            raise RuntimeError('OpenCV could not write a jpeg')
        compressed = CompressedImage(format='rgb8; jpeg compressed bgr8')
        compressed.data.frombytes(data.tobytes())
        return compressed
    height, width = picture.shape[:2]
    message = Image(height=height, width=width, encoding='rgb8', step=3 * width)
    message.data.frombytes(picture.tobytes())
    return message


def stamp(message: Any, time_ns: int) -> None:
    """Write a time into a message's header."""
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(time_ns, NANOSECONDS)
