# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``/diagnostics``: how the node and every part of it fares, once a second."""

from __future__ import annotations

import logging
from collections.abc import Callable

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy

from openpi_policy_ros.ros.sensors import qos
from openpi_policy_ros.ros.settings import NodeConfig
from openpi_policy_ros.ros.vitals import Part, Vitals

_log = logging.getLogger('openpi_policy_ros.ros.diagnostics')

TOPIC = '/diagnostics'
"""Absolute: the diagnostics of every robot meet there, told apart by their names."""

PERIOD = 1.0
"""Seconds between two messages."""


class Diagnostics:
    """Publishes for as long as the node lives: what ``~/status`` says, and what is watched.

    Args:
        node: whose diagnostics these are.
        status: returns the newest status of the node; None = there is none yet.

    """

    def __init__(self, node: Node, status: Callable[[], DiagnosticStatus | None]) -> None:
        self._node = node
        self._status = status
        self._name = node.get_fully_qualified_name()
        self._vitals: Vitals | None = None
        self._failing = False
        self._publisher = node.create_publisher(
            DiagnosticArray, TOPIC, qos(1, ReliabilityPolicy.RELIABLE)
        )
        # On a steady clock: with use_sim_time and no /clock, the node's timers stand still.
        self._clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = node.create_timer(
            PERIOD, self._tick, callback_group=MutuallyExclusiveCallbackGroup(), clock=self._clock
        )

    def watch(self, vitals: Vitals) -> None:
        """Tell of a configured node's parts from now on."""
        self._vitals = vitals

    def tune(self, config: NodeConfig) -> None:
        """Judge by other settings from now on. Any thread."""
        vitals = self._vitals
        if vitals is not None:
            vitals.tune(config)

    def forget(self) -> None:
        """Tell of no parts any more: they are taken down."""
        self._vitals = None

    def publish(self) -> None:
        """Say now how everything fares; once a second this is done by itself."""
        self._publisher.publish(self._array())

    def _array(self) -> DiagnosticArray:
        vitals, status = self._vitals, self._status()
        parts = [] if vitals is None else vitals.parts()
        array = DiagnosticArray()
        array.header.stamp = self._node.get_clock().now().to_msg()
        array.status = [self._message(part) for part in parts]
        if status is not None:
            status.hardware_id = self._name
            array.status.insert(0, status)
        return array

    def _tick(self) -> None:
        # An exception in a callback would end the executor's turn, and be told as another's.
        try:
            self.publish()
            self._failing = False
        except Exception:
            if not self._failing:
                _log.exception('/diagnostics cannot be published')
            self._failing = True

    def _message(self, part: Part) -> DiagnosticStatus:
        return DiagnosticStatus(
            level=bytes([part.health.level]),
            name=f'{self._name}: {part.name}',
            message=part.health.message,
            hardware_id=part.hardware_id,
            values=[KeyValue(key=key, value=value) for key, value in part.health.values.items()],
        )
