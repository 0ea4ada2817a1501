# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ROS shell of the fake robot: topics in and out of ``model``, ``pictures`` and ``faults``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from std_msgs.msg import Bool

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.fake_robot.controller_topics import ControllerTopics
from openpi_policy_ros.fake_robot.faults import Fault, active
from openpi_policy_ros.fake_robot.joints import Joint
from openpi_policy_ros.fake_robot.model import RobotModel
from openpi_policy_ros.fake_robot.pictures import draw, sensor_size
from openpi_policy_ros.fake_robot.sensor_topics import SensorTopics, publish_description
from openpi_policy_ros.ros.sensors import qos

JOINT_PERIOD, CAMERA_PERIOD, INTERLOCK_PERIOD = 0.01, 1.0 / 30.0, 0.04
"""Seconds between two messages."""


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
        self._taken_before = dict(self._model.taken)
        self._controllers = ControllerTopics(self, robot, lambda: self._model, self._now)
        self._cameras = [
            (name, robot.cameras[name], sensor_size(robot.cameras[name], size))
            for name in robot.camera_names
        ]
        self._sensors = SensorTopics(self, robot)
        if urdf is not None:
            publish_description(self, urdf)
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

    def _move(self) -> None:
        self._model.stuck = self._fault('stuck') is not None
        now = self._now()
        self._model.step(now)
        if self._fault('joints') is not None:
            return
        gone = [name for name in self._model.joints if self._fault('joints', name) is not None]
        self._sensors.publish_joints(self._model.positions, now, without=gone)

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
            time_ns = now if skew is None else now - round(skew.value * NANOSECONDS)
            self._sensors.publish_image(name, picture, time_ns)

    def _permit(self) -> None:
        if self._fault('interlock_silent') is None:
            self._interlock.publish(Bool(data=self._fault('interlock') is None))
