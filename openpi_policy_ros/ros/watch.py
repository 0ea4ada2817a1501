# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Look once a second at who publishes the cameras' topics and how much of it arrives."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from rclpy.utilities import get_rmw_implementation_identifier

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.delivery import Delivery, Sender, explain, fitting
from openpi_policy_ros.control.observation import Assembler
from openpi_policy_ros.ros.launch_arguments import PROFILE_VARIABLES

_log = logging.getLogger('openpi_policy_ros.ros.watch')

PERIOD = 1.0
"""Seconds between two looks."""


def loss_remedy(rmw: str, environment: Mapping[str, str]) -> str:
    """Return what to do about lost images with this middleware and environment."""
    if 'fastrtps' not in rmw:
        return f'raise the receive buffers of {rmw} on both sides'
    here = any(environment.get(name) for name in PROFILE_VARIABLES)
    return (
        "Fast DDS's default buffers are too small for images; set "
        f'{PROFILE_VARIABLES[0]} to the shipped config/fastdds_profile.xml for the camera '
        + ('driver too (this node has a profile)' if here else 'driver and for this node')
    )


class CameraWatch:
    """Keeps the assembler told why a camera is silent or thin.

    Args:
        node: owns the timer and knows the graph.
        robot: which cameras.
        assembler: is told.

    """

    def __init__(self, node: Node, robot: RobotConfig, assembler: Assembler) -> None:
        self._node = node
        self._robot = robot
        self._assembler = assembler
        self._remedy = loss_remedy(get_rmw_implementation_identifier(), os.environ)
        self._deliveries = {name: Delivery() for name in robot.camera_names}
        self._losing: set[str] = set()
        # On a steady clock: with use_sim_time and no /clock, the node's timers stand still.
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(
            PERIOD, self._look, callback_group=MutuallyExclusiveCallbackGroup(), clock=self._clock
        )

    def close(self) -> None:
        """Look no more."""
        self._node.destroy_timer(self._timer)

    def came(self, camera: str) -> None:
        """Count an image."""
        self._deliveries[camera].came()

    def missed(self, camera: str, event: Any) -> None:
        """Count what the middleware tells was lost (``QoSMessageLostInfo``)."""
        self._deliveries[camera].missed(event.total_count_change)

    def lost(self, camera: str) -> int:
        """Return how many images the middleware knows were lost so far."""
        return self._deliveries[camera].lost

    def _look(self) -> None:
        # An exception in a callback would end the executor's turn, and be told as another's.
        try:
            for name in self._robot.camera_names:
                self._look_at(name)
        except Exception:
            _log.exception('the graph could not be looked at')

    def _look_at(self, name: str) -> None:
        camera = self._robot.cameras[name]
        topic = self._node.resolve_topic_name(camera.topic)
        senders = self._senders(camera.topic)
        account = self._deliveries[name].look(fitting(camera, senders))
        hint = explain(name, camera, topic, senders, account, self._remedy)
        self._assembler.explain_silence(name, hint)
        if account.losing and name not in self._losing:
            # Told even while chunks flow: the policy sees fewer images than the camera takes.
            _log.warning('camera %r: %s', name, hint)
        self._losing = self._losing | {name} if account.losing else self._losing - {name}

    def _senders(self, topic: str) -> list[Sender]:
        return [
            Sender(
                f'{one.node_namespace.rstrip("/")}/{one.node_name}',
                one.topic_type,
                one.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT,
            )
            for one in self._node.get_publishers_info_by_topic(topic)
        ]
