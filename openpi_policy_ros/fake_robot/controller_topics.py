# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The topics and actions on which the controllers of a modelled robot hear commands."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.fake_robot.model import RobotModel
from openpi_policy_ros.fake_robot.trajectory_controller import Trajectory
from openpi_policy_ros.ros.outputs import gripper_action
from openpi_policy_ros.ros.sensors import qos

_log = logging.getLogger('openpi_policy_ros.fake_robot')

TOLD_AGAIN = 1.0
"""Seconds in which a refused command is told once."""


class ControllerTopics:
    """Hands what comes on the topics of every output to the model.

    Args:
        node: owns the subscriptions; everything happens in the thread of its executor.
        robot: names the outputs.
        model: returns who follows the commands now.
        now: returns the time in nanoseconds on the model's clock.

    """

    def __init__(
        self,
        node: Node,
        robot: RobotConfig,
        model: Callable[[], RobotModel],
        now: Callable[[], int],
    ) -> None:
        self._node = node
        self._model = model
        self._now = now
        self._told: dict[str, float] = {}
        self._gripper_servers: list[Any] = []
        for name in robot.output_names:
            self._open(name, robot.outputs[name].type, robot.outputs[name].topic)

    def _open(self, name: str, kind: str, topic: str) -> None:
        profile = qos(10, ReliabilityPolicy.RELIABLE)
        if kind == 'trajectory':
            self._node.create_subscription(
                JointTrajectory, topic, lambda message: self._follow(name, message), profile
            )
        elif kind == 'array':
            self._node.create_subscription(
                Float64MultiArray, topic, lambda message: self._set(name, message), profile
            )
        else:
            self._open_gripper(name, topic)

    def _follow(self, output: str, message: JointTrajectory) -> None:
        trajectory = read_trajectory(message)
        self._note(output, self._model().take_trajectory(output, trajectory, self._now()))

    def _set(self, output: str, message: Float64MultiArray) -> None:
        self._note(output, self._model().take_values(output, message.data, self._now()))

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
            problem = self._model().take_values(name, [position], self._now())
            result = action.Result()
            result.position = position
            result.reached_goal = not problem
            if problem:
                self._note(name, problem)
                goal.abort()
            else:
                goal.succeed()
            return result

        self._gripper_servers.append(ActionServer(self._node, action, topic, execute))

    def _note(self, output: str, problem: str) -> None:
        now = time.monotonic()
        if problem and now - self._told.get(output, -TOLD_AGAIN) >= TOLD_AGAIN:
            self._told[output] = now
            _log.warning('output %r: a command is refused: %s', output, problem)


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
