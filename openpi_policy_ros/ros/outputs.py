# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Hand commands to the robot's controllers: trajectories, arrays, and goals of grippers.

What is sent has passed the gates; nothing is decided here.
"""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from builtin_interfaces.msg import Duration
from rclpy.action import ActionClient
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.duration import Duration as Period
from rclpy.exceptions import NameValidationException
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import ReliabilityPolicy
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from openpi_policy_ros.configuration.execution import Output
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.control.commands import (
    ArrayCommand,
    Command,
    GripperCommand,
    TrajectoryCommand,
)
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.own_topics import own_topics
from openpi_policy_ros.ros.sensors import qos

_log = logging.getLogger('openpi_policy_ros.ros.outputs')

FLUSH = 0.5
"""Longest wait until controllers have acknowledged the last message, s."""

MESSAGE_TYPES = {'trajectory': JointTrajectory, 'array': Float64MultiArray}


def joint_trajectory(
    command: TrajectoryCommand, names: Sequence[str] | None = None
) -> JointTrajectory:
    """Return the message: positions only, and stamp zero, which means from its arrival on.

    Args:
        command: what the gates let through.
        names: the controller's own names of the command's joints; None = the same.

    """
    message = JointTrajectory()
    message.joint_names = list(command.joints if names is None else names)
    for row, time_ns in zip(command.rows, command.times_ns, strict=True):
        point = JointTrajectoryPoint()
        point.positions = array('d', row)
        point.time_from_start = Duration(sec=time_ns // NANOSECONDS, nanosec=time_ns % NANOSECONDS)
        message.points.append(point)
    return message


def multi_array(command: ArrayCommand) -> Float64MultiArray:
    """Return the message: one number per joint, without layout, as forward controllers want it."""
    return Float64MultiArray(data=array('d', command.values))


def gripper_goal(action: Any, command: GripperCommand) -> Any:
    """Return the goal of a ``control_msgs/action/GripperCommand``, whose class is ``action``."""
    goal = action.Goal()
    goal.command.position = command.position
    goal.command.max_effort = command.max_effort
    return goal


def gripper_action(output: str) -> Any:
    """Return the class ``control_msgs.action.GripperCommand``; only needed by such outputs.

    Raises:
        ConfigurationError: control_msgs is not installed.

    """
    try:
        import control_msgs.action
    except ImportError as error:
        raise ConfigurationError(
            'outputs',
            [
                f'outputs.{output}.type: gripper needs the package control_msgs, which cannot be '
                f'imported ({error}); install it (apt install ros-$ROS_DISTRO-control-msgs, then '
                f'source ROS again), or leave {output} out of output_names, or command the gripper '
                'by type: array or trajectory with gripper: true, where its driver takes one'
            ],
        ) from error
    return control_msgs.action.GripperCommand


def output_problems(node: Node, robot: RobotConfig) -> list[str]:
    """Return why outputs cannot be opened: a refused, shared or own topic, no control_msgs.

    They are opened for a moment and send nothing, so that this is known before a policy warms up.
    """
    try:
        Outputs(node, robot).close()
    except ConfigurationError as error:
        return list(error.problems)
    return []


class GripperGoals:
    """Sends goals to one gripper's action server, and tells which it refuses."""

    def __init__(self, name: str, topic: str, action: Any, client: Any) -> None:
        """Take an action client of ``topic``; ``action`` is the class of the action."""
        self._name = name
        self._topic = topic
        self._action = action
        self._client = client

    def send(self, command: GripperCommand) -> None:
        """Send a goal; it replaces the one before.

        Raises:
            RuntimeError: no action server is there.

        """
        if not self._client.server_is_ready():
            raise RuntimeError(
                f'no action server on {self._topic}; start the gripper controller, or correct '
                f'outputs.{self._name}.topic'
            )
        goal = gripper_goal(self._action, command)
        self._client.send_goal_async(goal).add_done_callback(self._answered)

    def close(self) -> None:
        """Take the client back."""
        self._client.destroy()

    def _answered(self, future: Any) -> None:
        error = future.exception()
        if error is not None:
            _log.error('output %r: the goal failed: %s', self._name, error)
        elif not future.result().accepted:
            _log.error('output %r: %s refused the goal', self._name, self._topic)


class Outputs:
    """Publishers and action clients of every output of a robot.

    Args:
        node: owns them.
        robot: which outputs.

    Raises:
        ConfigurationError: names that ROS refuses, one topic for two outputs, one that the node
            itself uses, or control_msgs is missing for a gripper; all of them.

    """

    def __init__(self, node: Node, robot: RobotConfig) -> None:
        self._node = node
        self._topics = {name: robot.outputs[name].topic for name in robot.output_names}
        self._publishers: dict[str, Publisher] = {}
        self._grippers: dict[str, GripperGoals] = {}
        self._senders: dict[str, Callable[[Any], None]] = {}
        problems = _shared_topics(node, robot)
        for name in robot.output_names:
            output = robot.outputs[name]
            try:
                if output.type == 'gripper':
                    self._add_gripper(name, output.topic)
                else:
                    self._add_publisher(name, output)
            except ConfigurationError as error:
                problems += error.problems
            except (RuntimeError, NameValidationException) as error:
                # What rclpy raises for a name it refuses, or one in use with another type.
                problems.append(
                    f'outputs.{name}.topic: {output.topic!r} is refused by ROS for the type '
                    f'{output.type}: {error}'
                )
        if problems:
            self.close()
            raise ConfigurationError('outputs', problems)

    def send(self, command: Command) -> None:
        """Send one command; raises what the middleware raises."""
        self._senders[command.output](command)

    def flush(self) -> None:
        """Wait until controllers have what was sent, so that leaving does not take it back."""
        deadline = time.monotonic() + FLUSH
        for name, publisher in self._publishers.items():
            left = Period(seconds=max(0.0, deadline - time.monotonic()))
            try:
                done = publisher.wait_for_all_acked(left)
            except Exception as error:
                _log.warning('output %r: cannot wait for its controller: %s', name, error)
                continue
            if not done:
                _log.warning('output %r: its controller has not acknowledged the last hold', name)

    def close(self) -> None:
        """Take the topics and actions back."""
        for publisher in self._publishers.values():
            self._node.destroy_publisher(publisher)
        for gripper in self._grippers.values():
            gripper.close()
        self._publishers.clear()
        self._grippers.clear()
        self._senders.clear()

    def rivals(self) -> list[str]:
        """Return who else publishes what a controller hears from here: ``/node on /topic``."""
        own = (self._node.get_name(), self._node.get_namespace())
        found: dict[str, None] = {}
        for name in self._publishers:
            topic = self._node.resolve_topic_name(self._topics[name])
            for one in self._node.get_publishers_info_by_topic(topic):
                if (one.node_name, one.node_namespace) != own:
                    found[f'{one.node_namespace.rstrip("/")}/{one.node_name} on {topic}'] = None
        return list(found)

    def _add_publisher(self, name: str, output: Output) -> None:
        publisher = self._node.create_publisher(
            MESSAGE_TYPES[output.type], output.topic, qos(1, ReliabilityPolicy.RELIABLE)
        )
        self._publishers[name] = publisher
        convert: Callable[[Any], Any] = multi_array
        if output.type == 'trajectory':
            convert = partial(joint_trajectory, names=output.message_names)
        self._senders[name] = lambda command: publisher.publish(convert(command))

    def _add_gripper(self, name: str, topic: str) -> None:
        action = gripper_action(name)
        client = ActionClient(
            self._node, action, topic, callback_group=MutuallyExclusiveCallbackGroup()
        )
        self._grippers[name] = GripperGoals(
            name, self._node.resolve_topic_name(topic), action, client
        )
        self._senders[name] = self._grippers[name].send


def _shared_topics(node: Node, robot: RobotConfig) -> list[str]:
    """Return the outputs that share a topic, however it is written or remapped."""
    problems: list[str] = []
    own = {_resolved(node, topic): what for topic, what in own_topics(robot).items()}
    owners: dict[str, str] = {}
    for name in robot.output_names:
        topic = robot.outputs[name].topic
        resolved = _resolved(node, topic)
        if not resolved:
            # Told where it is opened.
            continue
        other = owners.setdefault(resolved, name)
        if other != name:
            problems.append(
                f'outputs.{name}.topic: {topic!r} is {resolved}, and so is that of '
                f'outputs.{other} ({robot.outputs[other].topic!r}): their commands would take '
                'turns; give each controller its own'
            )
        if resolved in own:
            problems.append(
                f'outputs.{name}.topic: {topic!r} is {resolved}, which this node itself uses for '
                f'{own[resolved]}; name the topic of the controller'
            )
    return problems


def _resolved(node: Node, topic: str) -> str:
    """Return the full name of a topic, '' where ROS refuses it."""
    try:
        return str(node.resolve_topic_name(topic))
    except (RuntimeError, NameValidationException):
        return ''
