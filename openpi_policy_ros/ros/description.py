# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Hear the robot description: ``robot_state_publisher`` publishes the URDF, latched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from std_msgs.msg import String

from openpi_policy_ros.ros.sensors import qos

_log = logging.getLogger('openpi_policy_ros.ros.description')

ROBOT_DESCRIPTION = 'robot_description'


class DescriptionSource:
    """Subscribes ``robot_description``.

    Args:
        node: owns the subscription.
        take: called with every URDF, in the executor's thread.

    """

    def __init__(self, node: Node, take: Callable[[str], None]) -> None:
        self._node = node
        self._take_text = take
        self._subscription = node.create_subscription(
            String,
            ROBOT_DESCRIPTION,
            self._take,
            qos(1, ReliabilityPolicy.RELIABLE, latched=True),
            callback_group=MutuallyExclusiveCallbackGroup(),
        )

    def close(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)

    def _take(self, message: Any) -> None:
        # An exception in a callback would end the executor's turn, and be told as another's.
        try:
            self._take_text(message.data)
        except Exception:
            _log.exception('%s could not be taken in', ROBOT_DESCRIPTION)
