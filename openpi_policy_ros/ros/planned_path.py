# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draw on ``~/planned_path`` where the last chunk takes the tips of the arms.

A ``visualization_msgs/MarkerArray`` with, for each tip, a line and a dot for every action, and the
node's state above the first of them. A thread of its own draws the newest chunk alone, and none
while nobody looks on.
"""

from __future__ import annotations

import logging
import textwrap
import threading
from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Point
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import ColorRGBA

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.control.measured import MeasuredJoints
from openpi_policy_ros.control.planned_path import PathPlanner, PathUnknown, TipPath
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import ActionChunk, PolicySpec
from openpi_policy_ros.ros.description import ROBOT_DESCRIPTION, DescriptionSource
from openpi_policy_ros.ros.listener import RobotListener
from openpi_policy_ros.ros.publishers import Status
from openpi_policy_ros.ros.sensors import qos

_log = logging.getLogger('openpi_policy_ros.ros.planned_path')

TOPIC = '~/planned_path'
FACT = 'planned_path'
"""Key in ``~/status`` under which it is told what is drawn, or why nothing is."""

COLOURS = (
    (0.00, 0.45, 0.70),
    (0.90, 0.62, 0.00),
    (0.00, 0.62, 0.45),
    (0.80, 0.47, 0.65),
    (0.34, 0.71, 0.91),
    (0.84, 0.37, 0.00),
)
"""Red, green and blue of each tip in turn (Okabe-Ito): blue, orange, green, pink, sky blue, red."""

FAINTEST = 0.15
"""Opacity of the last action; the first one's is 1."""

LINE, DOT, TEXT = 0.004, 0.012, 0.04
"""Width of the line, size of the dots, height of the letters, m."""

ABOVE = 0.12
"""How far above the first action of the first tip the state is written, m."""

SHORTEST = 1.0
"""Least time for which a path is shown, s; it is that of the chunk where that is longer."""

LEVELS = {
    DiagnosticStatus.OK: (0.85, 0.85, 0.85),
    DiagnosticStatus.WARN: (0.95, 0.75, 0.10),
    DiagnosticStatus.ERROR: (0.95, 0.25, 0.20),
}
"""Colours of the state: grey, amber, red."""

_JOIN = 5.0


def path_messages(
    markers: ModuleType, paths: Sequence[TipPath], frame: str, t_obs_ns: int, lifetime_ns: int
) -> list[Any]:
    """Return a line and dots for each path.

    The namespace is ``<output>: <link>`` and the id 0 or 1, so that the next chunk's replace them.
    They are locked to the frame: shown where it is now, not where it was at the stamp.

    Args:
        markers: the module ``visualization_msgs.msg``.
        paths: of one chunk.
        frame: what the points are seen from.
        t_obs_ns: when what the chunk answers was observed.
        lifetime_ns: how long they are shown after they arrived.

    """
    messages = []
    for number, path in enumerate(paths):
        points = [Point(x=x, y=y, z=z) for x, y, z in path.points.tolist()]
        for kind in (markers.Marker.LINE_STRIP, markers.Marker.SPHERE_LIST):
            message = _marker(markers, frame, t_obs_ns, lifetime_ns)
            message.ns = f'{path.output}: {path.link}' if path.output else path.link
            message.type = kind
            message.points = points
            message.colors = fading(number, len(points))
            if kind == markers.Marker.LINE_STRIP:
                message.id, message.scale.x = 0, LINE
            else:
                message.id = 1
                message.scale.x = message.scale.y = message.scale.z = DOT
            messages.append(message)
    return messages


def state_message(
    markers: ModuleType,
    status: Status,
    path: TipPath,
    frame: str,
    t_obs_ns: int,
    lifetime_ns: int,
) -> Any:
    """Return the node's state as a text above the beginning of a path; arguments as above."""
    message = _marker(markers, frame, t_obs_ns, lifetime_ns)
    message.ns = 'state'
    message.type = markers.Marker.TEXT_VIEW_FACING
    text = f'{status.state}: {status.reason}' if status.reason else status.state
    message.text = textwrap.fill(textwrap.shorten(text, 160, placeholder=' …'), 40)
    x, y, z = path.points[0].tolist()
    message.pose.position = Point(x=x, y=y, z=z + ABOVE)
    message.scale.z = TEXT
    red, green, blue = LEVELS.get(status.level, LEVELS[DiagnosticStatus.ERROR])
    message.color = ColorRGBA(r=red, g=green, b=blue, a=1.0)
    return message


@lru_cache(maxsize=64)
def fading(number: int, steps: int) -> list[ColorRGBA]:
    """Return the colours of a path of so many actions, from the next one to the last."""
    red, green, blue = COLOURS[number % len(COLOURS)]
    fade = (1.0 - FAINTEST) / max(steps - 1, 1)
    return [ColorRGBA(r=red, g=green, b=blue, a=1.0 - fade * step) for step in range(steps)]


def _marker(markers: ModuleType, frame: str, t_obs_ns: int, lifetime_ns: int) -> Any:
    message = markers.Marker(frame_locked=True)
    message.header.frame_id = frame
    message.header.stamp = Time(sec=t_obs_ns // NANOSECONDS, nanosec=t_obs_ns % NANOSECONDS)
    message.lifetime = Duration(sec=lifetime_ns // NANOSECONDS, nanosec=lifetime_ns % NANOSECONDS)
    message.pose.orientation.w = 1.0
    return message


class PlannedPath(RobotListener):
    """Draws the chunks of one configured robot.

    Args:
        node: owns the topic and the subscription.
        markers: the module ``visualization_msgs.msg``.
        planner: of the robot and its policy.
        horizon: seconds that a chunk lasts.

    """

    def __init__(
        self, node: Node, markers: ModuleType, planner: PathPlanner, horizon: float
    ) -> None:
        self._node = node
        self._markers = markers
        self._planner = planner
        self._lifetime_ns = round(max(horizon, SHORTEST) * NANOSECONDS)
        self._measured = MeasuredJoints()
        self._topic = node.resolve_topic_name(ROBOT_DESCRIPTION)
        self._told = f'not drawn: nobody has published a URDF on {self._topic} yet'
        self._status: Status | None = None
        # What the thread has to do next; a newer one takes the place of one not yet begun.
        self._news = threading.Condition()
        self._urdf: str | None = None
        self._chunk: tuple[ActionChunk, int] | None = None
        self._ending = False
        # Of the thread alone.
        self._is_described = False
        self._has_drawn = False
        self._publisher = node.create_publisher(
            markers.MarkerArray, TOPIC, qos(1, ReliabilityPolicy.RELIABLE)
        )
        try:
            self._source = DescriptionSource(node, self._take_urdf)
        except Exception:
            node.destroy_publisher(self._publisher)
            raise
        self._thread = threading.Thread(target=self._run, name='planned-path', daemon=True)
        self._thread.start()
        _log.info('%s: %s', TOPIC, self._told)

    @property
    def facts(self) -> dict[str, str]:
        """Return what ``~/status`` says of it."""
        return {FACT: self._told}

    def on_chunk(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        """Let the thread draw it."""
        with self._news:
            self._chunk = chunk, t_obs_ns
            self._news.notify()

    def on_joints(self, message: JointState, now_ns: int) -> None:
        """Keep where the joints are."""
        stamp = message.header.stamp
        # Drivers that do not stamp leave 0.
        stamp_ns = stamp.sec * NANOSECONDS + stamp.nanosec or now_ns
        self._measured.add(message.name, message.position, stamp_ns)

    def on_status(self, status: Status) -> None:
        """Write this state beside the next chunk."""
        self._status = status

    def close(self) -> None:
        """End the thread and take the topic back."""
        with self._news:
            self._ending = True
            self._news.notify()
        self._source.close()
        self._thread.join(_JOIN)
        self._node.destroy_publisher(self._publisher)

    def _take_urdf(self, text: str) -> None:
        with self._news:
            self._urdf = text
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(self._has_news)
                if self._ending:
                    return
                urdf, self._urdf = self._urdf, None
                chunk, self._chunk = self._chunk, None
            try:
                if urdf is not None:
                    self._describe(urdf)
                if chunk is not None and self._is_described:
                    self._draw(*chunk)
            except Exception as error:
                if self._tell(f'not drawn: {type(error).__name__}: {error}'):
                    _log.exception('%s cannot be drawn', TOPIC)

    def _has_news(self) -> bool:
        return self._ending or self._urdf is not None or self._chunk is not None

    def _describe(self, urdf: str) -> None:
        try:
            self._planner.describe(urdf)
        except ConfigurationError as error:
            self._is_described = False
            told = f'not drawn: {self._topic}: {"; ".join(error.problems)}'
            if self._tell(told):
                _log.warning('%s: %s', TOPIC, told)
            return
        self._is_described, self._has_drawn = True, False
        if self._tell(self._what_is_drawn()):
            _log.info('%s: %s', TOPIC, self._told)

    def _what_is_drawn(self) -> str:
        drawn = f'{", ".join(self._planner.links)} seen from {self._planner.frame}'
        return '; not drawn: '.join([drawn, *self._planner.left_out])

    def _draw(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        # The first one is worked out for nobody, so that what is missing is told.
        if self._has_drawn and not self._publisher.get_subscription_count():
            return
        drawn = self._what_is_drawn()
        try:
            paths = self._planner.plan(chunk, self._measured.at(t_obs_ns))
        except PathUnknown as error:
            told = f'not drawn: {error}'
            if self._tell(told):
                _log.warning('%s: %s', TOPIC, told)
            return
        self._has_drawn = True
        if self._tell(drawn):
            _log.info('%s: %s', TOPIC, drawn)
        frame = self._planner.frame
        messages = path_messages(self._markers, paths, frame, t_obs_ns, self._lifetime_ns)
        if self._status is not None:
            messages.append(
                state_message(
                    self._markers, self._status, paths[0], frame, t_obs_ns, self._lifetime_ns
                )
            )
        self._publisher.publish(self._markers.MarkerArray(markers=messages))

    def _tell(self, told: str) -> bool:
        """Note what to tell; return whether it is new."""
        is_new, self._told = told != self._told, told
        return is_new


class NoPath(RobotListener):
    """Stands where nothing can be drawn, and says why."""

    def __init__(self, why: str) -> None:
        self._why = why
        _log.info('%s: not drawn: %s', TOPIC, why)

    @property
    def facts(self) -> dict[str, str]:
        """Return why nothing is drawn."""
        return {FACT: f'not drawn: {self._why}'}


def make_planned_path(node: Node, robot: RobotConfig, spec: PolicySpec) -> RobotListener:
    """Return what draws the chunks of a robot; without the topic where nothing can be drawn."""
    if not robot.visual.planned_path:
        return NoPath('visual.planned_path is false')
    planner = PathPlanner(robot, spec)
    if planner.joints.why_not:
        return NoPath(planner.joints.why_not)
    try:
        import visualization_msgs.msg as markers
    except ImportError as error:
        return NoPath(
            f'the package visualization_msgs cannot be imported ({error}); install it '
            '(apt install ros-$ROS_DISTRO-visualization-msgs)'
        )
    rate = robot.timing.action_rate
    return PlannedPath(node, markers, planner, spec.horizon / rate if rate else 0.0)
