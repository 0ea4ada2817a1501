# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""See that no other simulator runs on the same topics: two clocks in turn are none."""

from __future__ import annotations

import time
from typing import Any, Final

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.fake_robot.joints import joint_topics
from openpi_policy_ros.ros.sensors import qos
from openpi_policy_ros_sim.errors import SimulationError

LISTEN_S: Final = 1.0
"""Discovery, and many times the period of what a robot says."""


def refuse_company(robot: RobotConfig, *, clock: bool) -> None:
    """Listen, before anything is said, whether the robot's topics are somebody else's.

    The graph is not asked: it remembers for a while who was killed.

    Args:
        robot: whose joint states are listened for.
        clock: also listen for ``/clock``.

    Raises:
        SimulationError: somebody publishes there.

    """
    node = rclpy.create_node('sim_robot_listener')
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    heard: list[str] = []
    try:
        kinds: dict[str, Any] = dict.fromkeys(joint_topics(robot), JointState)
        if clock:
            kinds['/clock'] = Clock
        for topic, kind in kinds.items():
            name = node.resolve_topic_name(topic)
            node.create_subscription(
                kind,
                topic,
                lambda _, name=name: heard.append(name),
                qos(1, ReliabilityPolicy.BEST_EFFORT),
            )
        until = time.monotonic() + LISTEN_S
        while not heard and (left := until - time.monotonic()) > 0.0:
            executor.spin_once(timeout_sec=left)
    finally:
        executor.shutdown()
        node.destroy_node()
    if heard:
        raise SimulationError(
            f'somebody publishes {heard[0]} already: another simulator, or a robot',
            expected='a ROS domain of its own',
            remedy='end the other, or set another ROS_DOMAIN_ID here and for the policy node',
        )
