# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the joints' limits come from: the robot file, and ``robot_description`` for the rest."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from rclpy.node import Node

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.limits import (
    JointLimit,
    JointLimits,
    from_parameters,
    from_urdf,
    make_limits,
)
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.description import DescriptionSource

_log = logging.getLogger('openpi_policy_ros.ros.limits')

PARAMETERS = 'limits.* of the robot file'


class LimitsBook:
    """The limits known so far; parameters win over the URDF, number by number.

    Args:
        robot: a validated robot file.
        axes: what is commanded.
        topic: full name of the robot description's, for messages.
        use: takes limits and what is missing; raises RuntimeError while the robot is enabled, and
            ConfigurationError where a joint is left no room.

    Attributes:
        facts: where the limits come from, and what they lack.
        complete: whether the robot file says all.

    Raises:
        ConfigurationError: the robot file's own limits leave a joint no room.

    """

    def __init__(
        self,
        robot: RobotConfig,
        axes: Axes,
        topic: str,
        use: Callable[[JointLimits, Sequence[str]], None],
    ) -> None:
        self._axes = axes
        self._topic = topic
        self._use = use
        self._parameters = from_parameters(robot.limits, robot.joints.names)
        # A second caller waits here, so that what was read last is also used last.
        self._lock = threading.Lock()
        self._waiting: tuple[JointLimits, list[str]] | None = None
        self._missing: list[str] = []
        self._source = PARAMETERS
        self.facts = ''
        limits, missing = make_limits(axes, self._parameters)
        self.complete = not missing
        self._own = limits, missing
        self._offer(
            limits, [*missing, f'set limits.*, or publish a URDF on {topic}'] if missing else []
        )

    def describe(self, urdf: str) -> None:
        """Take in a robot description; while enabled, it counts from the next disabling on."""
        with self._lock:
            try:
                self._read(from_urdf(urdf, self._axes.names))
            except ConfigurationError as error:
                _log.error('limits: %s: %s', self._topic, error)
                if self._missing:
                    limits, missing = self._own
                    self._offer(limits, [*missing, *error.problems])

    def settle(self) -> None:
        """Use what could not be used while the robot was enabled."""
        with self._lock:
            if self._waiting is not None:
                self._offer_or_refuse(*self._waiting)

    def _read(self, said: Mapping[str, JointLimit]) -> None:
        limits, missing = make_limits(self._axes, self._parameters, said)
        self._source = f'{PARAMETERS}, then {self._topic}'
        self._offer_or_refuse(limits, missing)

    def _offer_or_refuse(self, limits: JointLimits, missing: list[str]) -> None:
        """Use limits; those that leave a joint no room are why enabling is refused from now on."""
        try:
            self._offer(limits, missing)
        except ConfigurationError as error:
            _log.error('limits: %s: %s', self._topic, error)
            own, lacking = self._own
            self._offer(own, [*lacking, *error.problems])

    def _offer(self, limits: JointLimits, missing: list[str]) -> None:
        self._waiting = limits, missing
        try:
            self._use(limits, missing)
        except RuntimeError:
            _log.warning('limits: %s changed; it counts once the robot is disabled', self._topic)
            return
        self._waiting = None
        if missing:
            _log.warning('limits: %s', '; '.join(missing))
        elif self._missing:
            _log.info('limits: complete, from %s', self._source)
        self._missing = missing
        self.facts = '; missing: '.join([self._source, *(['; '.join(missing)] if missing else [])])


class LimitsSource:
    """Listens to ``robot_description`` where the robot file leaves limits out."""

    def __init__(self, node: Node, book: LimitsBook) -> None:
        self._source = None if book.complete else DescriptionSource(node, book.describe)

    def close(self) -> None:
        """Unsubscribe."""
        if self._source is not None:
            self._source.close()
