# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ROS shell of the fake robot: topics in and out of ``model``, ``pictures`` and ``faults``."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cv2
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from openpi_policy_ros.configuration.robot import Camera, RobotConfig
from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.fake_robot.faults import Fault, active
from openpi_policy_ros.fake_robot.joints import Joint, joint_topics
from openpi_policy_ros.fake_robot.model import RobotModel
from openpi_policy_ros.fake_robot.pictures import draw, sensor_size
from openpi_policy_ros.fake_robot.trajectory_controller import Trajectory
from openpi_policy_ros.ros.description import ROBOT_DESCRIPTION
from openpi_policy_ros.ros.outputs import gripper_action
from openpi_policy_ros.ros.sensors import RELIABILITY, qos

_log = logging.getLogger('openpi_policy_ros.fake_robot')

JOINT_PERIOD, CAMERA_PERIOD, INTERLOCK_PERIOD = 0.01, 1.0 / 30.0, 0.04
"""Seconds between two messages."""
QUALITY = 90
"""Of jpeg."""
TOLD_AGAIN = 1.0
"""Seconds in which a refused command is told once."""


class FakeRobotNode(Node):
    """One fake robot. Everything happens in the thread of its executor.

    Args:
        robot: the robot file.
        joints: of ``make_joints``.
        faults: what goes wrong, and when.
        size: (width, height) of the cameras.
        urdf: published on ``robot_description``; None = not published.

    """

    def __init__(
        self,
        robot: RobotConfig,
        joints: Mapping[str, Joint],
        faults: Sequence[Fault],
        *,
        size: tuple[int, int],
        urdf: str | None,
    ) -> None:
        super().__init__('fake_robot')
        self._robot = robot
        self._faults = list(faults)
        self._model = RobotModel(robot, joints, self._now())
        self._began = time.monotonic()
        self._pictures = 0
        self._told: dict[str, float] = {}
        self._taken_before = dict(self._model.taken)
        self._gripper_servers: list[Any] = []
        for name in robot.output_names:
            self._open_output(name)
        self._joint_topics: list[tuple[dict[str, str], Publisher]] = [
            (names, self.create_publisher(JointState, topic, qos(10, ReliabilityPolicy.RELIABLE)))
            for topic, names in joint_topics(robot).items()
        ]
        self._cameras = [
            (name, robot.cameras[name], sensor_size(robot.cameras[name], size))
            for name in robot.camera_names
        ]
        self._camera_topics = {
            name: self.create_publisher(
                CompressedImage if camera.transport == 'compressed' else Image,
                camera.topic,
                qos(1, RELIABILITY[camera.reliability]),
            )
            for name, camera, _ in self._cameras
        }
        if urdf is not None:
            description = self.create_publisher(
                String, ROBOT_DESCRIPTION, qos(1, ReliabilityPolicy.RELIABLE, latched=True)
            )
            description.publish(String(data=urdf))
        self.create_timer(JOINT_PERIOD, self._move)
        self.create_timer(CAMERA_PERIOD, self._shoot)
        if robot.safety.interlock_topic:
            self._interlock = self.create_publisher(
                Bool, robot.safety.interlock_topic, qos(1, ReliabilityPolicy.RELIABLE)
            )
            self.create_timer(INTERLOCK_PERIOD, self._permit)

    def introduction(self) -> str:
        """Return what the robot is made of, several lines."""
        outputs = [
            f'  output {name}: {self._robot.outputs[name].type} on '
            f'{self.resolve_topic_name(self._robot.outputs[name].topic)}'
            for name in self._robot.output_names
        ]
        cameras = [
            f'  camera {name}: {camera.transport} on {self.resolve_topic_name(camera.topic)}'
            for name, camera, _ in self._cameras
        ]
        lines = [
            f'fake robot {self.get_fully_qualified_name()}',
            f'  joints: {", ".join(self._model.joints) or "none"}',
            *cameras,
            *(outputs or ['  no outputs: nothing can move it']),
        ]
        return '\n'.join(lines)

    def summary(self) -> str:
        """Return in one line where the joints are, and the commands since the last such line."""
        taken, before = dict(self._model.taken), self._taken_before
        self._taken_before = taken
        rates = [f'{name} {taken[name] - before[name]}/s' for name in taken]
        places = ' '.join(f'{place:+.3f}' for place in self._model.positions.values())
        refused = sum(self._model.refused.values())
        parts = [f'{self._elapsed():4.0f} s', places, ', '.join(rates)]
        if refused:
            parts.append(f'{refused} refused')
        faults = [one.kind for one in self._faults if one.start <= self._elapsed() < one.end]
        if faults:
            parts.append(f'fault: {", ".join(faults)}')
        return ' | '.join(part for part in parts if part)

    def _now(self) -> int:
        return int(self.get_clock().now().nanoseconds)

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _fault(self, kind: str, target: str = '') -> Fault | None:
        return active(self._faults, kind, target, self._elapsed())

    def _open_output(self, name: str) -> None:
        output = self._robot.outputs[name]
        profile = qos(10, ReliabilityPolicy.RELIABLE)
        if output.type == 'trajectory':
            self.create_subscription(
                JointTrajectory,
                output.topic,
                self._taking(name, lambda message: self._follow(name, message)),
                profile,
            )
        elif output.type == 'array':
            self.create_subscription(
                Float64MultiArray,
                output.topic,
                self._taking(
                    name,
                    lambda message: self._model.take_values(name, message.data, self._now()),
                ),
                profile,
            )
        else:
            self._open_gripper(name, output.topic)

    def _open_gripper(self, name: str, topic: str) -> None:
        from rclpy.action import ActionServer

        try:
            action = gripper_action(name)
        except ConfigurationError as error:
            _log.warning('no action server on %s: %s', topic, error.problems[0])
            return

        def execute(goal: Any) -> Any:
            # Reached at once: the model follows in its own time, and nobody waits for the result.
            position = goal.request.command.position
            problem = self._model.take_values(name, [position], self._now())
            result = action.Result()
            result.position = position
            result.reached_goal = not problem
            if problem:
                self._complain(name, problem)
                goal.abort()
            else:
                goal.succeed()
            return result

        self._gripper_servers.append(ActionServer(self, action, topic, execute))

    def _taking(self, output: str, take: Callable[[Any], str]) -> Callable[[Any], None]:
        def taking(message: Any) -> None:
            problem = take(message)
            if problem:
                self._complain(output, problem)

        return taking

    def _follow(self, output: str, message: JointTrajectory) -> str:
        return self._model.take_trajectory(output, read_trajectory(message), self._now())

    def _complain(self, output: str, problem: str) -> None:
        now = time.monotonic()
        if now - self._told.get(output, -TOLD_AGAIN) >= TOLD_AGAIN:
            self._told[output] = now
            _log.warning('output %r: a command is refused: %s', output, problem)

    def _move(self) -> None:
        self._model.stuck = self._fault('stuck') is not None
        now = self._now()
        self._model.step(now)
        if self._fault('joints') is not None:
            return
        for known, publisher in self._joint_topics:
            names = [name for name in known if self._fault('joints', name) is None]
            message = JointState(name=[known[name] for name in names])
            message.position = array('d', [self._model.positions[name] for name in names])
            _stamp(message, now)
            publisher.publish(message)

    def _shoot(self) -> None:
        self._pictures += 1
        now = self._now()
        for name, camera, size in self._cameras:
            if self._fault('camera', name) is not None:
                continue
            picture = draw(
                name, camera, size, self._pictures, self._model.positions, self._model.joints
            )
            skew = self._fault('skew', name)
            message = _image(camera, picture)
            message.header.frame_id = name
            _stamp(message, now if skew is None else now - round(skew.value * NANOSECONDS))
            self._camera_topics[name].publish(message)

    def _permit(self) -> None:
        if self._fault('interlock_silent') is None:
            self._interlock.publish(Bool(data=self._fault('interlock') is None))


def read_trajectory(message: JointTrajectory) -> Trajectory:
    """Return a message without ROS."""
    points, stamp = message.points, message.header.stamp
    others = ('velocities', 'accelerations', 'effort')
    return Trajectory(
        joints=tuple(message.joint_names),
        times_ns=tuple(
            one.time_from_start.sec * NANOSECONDS + one.time_from_start.nanosec for one in points
        ),
        rows=tuple(tuple(one.positions) for one in points),
        stamp_ns=stamp.sec * NANOSECONDS + stamp.nanosec,
        extras=tuple(name for name in others if any(len(getattr(one, name)) for one in points)),
    )


def _image(camera: Camera, picture: Any) -> Image | CompressedImage:
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


def _stamp(message: Any, time_ns: int) -> None:
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(time_ns, NANOSECONDS)
