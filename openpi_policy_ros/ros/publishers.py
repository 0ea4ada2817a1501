# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Put chunks, the prompt and the status on their topics."""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.duration import Duration as Period
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from std_msgs.msg import Float64MultiArray, MultiArrayDimension, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.control.chunk import ChunkLayout, JointTrajectoryRows, LabelledRows
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.ros.sensors import qos

_log = logging.getLogger('openpi_policy_ros.ros.publishers')

REFRESH = 1.0
"""Least seconds between two status messages that differ in numbers only."""

FLUSH = 0.5
"""Longest wait until subscribers have acknowledged the last status, s."""


def trajectory_message(trajectory: JointTrajectoryRows, t_obs_ns: int) -> JointTrajectory:
    """Return the chunk as a message stamped with its observation; row i is at (i + 1) · dt."""
    message = JointTrajectory()
    message.header.stamp = Time(sec=t_obs_ns // NANOSECONDS, nanosec=t_obs_ns % NANOSECONDS)
    message.joint_names = list(trajectory.names)
    for row, time_ns in zip(trajectory.rows, trajectory.times_ns, strict=True):
        point = JointTrajectoryPoint()
        setattr(point, trajectory.quantity, array('d', row.tobytes()))
        point.time_from_start = Duration(sec=time_ns // NANOSECONDS, nanosec=time_ns % NANOSECONDS)
        message.points.append(point)
    return message


def array_message(chunk: LabelledRows) -> Float64MultiArray:
    """Return every number of the chunk, row by row; dimensions as ``LabelledRows`` has them."""
    message = Float64MultiArray()
    message.layout.dim = [
        MultiArrayDimension(label=label, size=size, stride=stride)
        for label, size, stride in chunk.dimensions
    ]
    message.data = array('d', chunk.rows.tobytes())
    return message


class ChunkPublishers:
    """``~/action_chunk`` (where the layout has joint rows) and ``~/action_chunk_array``."""

    def __init__(self, node: Node, layout: ChunkLayout) -> None:
        self._node = node
        self._layout = layout
        reliable = qos(1, ReliabilityPolicy.RELIABLE)
        self._trajectory = (
            None
            if layout.no_trajectory
            else node.create_publisher(JointTrajectory, '~/action_chunk', reliable)
        )
        self._array = node.create_publisher(Float64MultiArray, '~/action_chunk_array', reliable)

    def publish(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        """Publish a chunk that was made from an observation at ``t_obs_ns``."""
        trajectory = self._layout.trajectory(chunk)
        if self._trajectory is not None and trajectory is not None:
            self._trajectory.publish(trajectory_message(trajectory, t_obs_ns))
        self._array.publish(array_message(self._layout.labelled(chunk)))

    def close(self) -> None:
        """Take the topics back."""
        if self._trajectory is not None:
            self._node.destroy_publisher(self._trajectory)
        self._node.destroy_publisher(self._array)


class PromptPublisher:
    """``~/current_prompt``: what the policy is told at the moment."""

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(
            String, '~/current_prompt', qos(1, ReliabilityPolicy.RELIABLE, latched=True)
        )
        self.text = ''
        """The prompt in use; '' = none yet."""

    def publish(self, prompt: str) -> None:
        """Tell the prompt in use."""
        self.text = prompt
        self._publisher.publish(String(data=prompt))


@dataclass(frozen=True)
class Status:
    """What ``~/status`` says.

    Attributes:
        state: INIT, READY, DRY_RUN, ENABLED, WAIT or HOLD.
        reason: why; '' = all is well.
        level: OK, WARN or ERROR of ``DiagnosticStatus``.
        signature: equal for two statuses that differ in numbers only.
        facts: further keys and values.
        numbers: the same, of what may change at any time.

    """

    state: str
    reason: str = ''
    level: bytes = DiagnosticStatus.OK
    signature: object = None
    facts: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Return the state, and why."""
        return f'{self.state}: {self.reason}' if self.reason else self.state

    def values(self) -> dict[str, str]:
        """Return every key and value."""
        return {'state': self.state, 'reason': self.reason, **self.facts, **self.numbers}


class StatusPublisher:
    """``~/status``: published when something changes; numbers are refreshed once a second.

    Args:
        node: whose status it is.
        heard: called with every status that was published.

    """

    def __init__(self, node: Node, heard: Callable[[Status], None]) -> None:
        self._name = f'{node.get_fully_qualified_name()}: status'
        self._publisher = node.create_publisher(
            DiagnosticStatus, '~/status', qos(1, ReliabilityPolicy.RELIABLE, latched=True)
        )
        self._heard = heard
        self._lock = threading.Lock()
        self._last: Status | None = None
        self._published = 0.0
        self._alarm = ''

    def alarm(self, text: str) -> None:
        """Say from now on, with every status, what is wrong beside it; '' = nothing. Any thread."""
        with self._lock:
            changed, self._alarm = text != self._alarm, text
            if changed and self._last is not None:
                self._publisher.publish(self._message(self._last))

    def show(self, status: Status) -> None:
        """Publish the status unless it was just said. Any thread."""
        with self._lock:
            last, now = self._last, time.monotonic()
            if last is not None:
                if status == last:
                    return
                same = (last.state, last.level, last.facts, last.signature) == (
                    status.state,
                    status.level,
                    status.facts,
                    status.signature,
                )
                numbers_only = same and status.signature is not None
                if numbers_only and now - self._published < REFRESH:
                    return
            self._last, self._published = status, now
            self._publisher.publish(self._message(status))
        self._heard(status)

    def newest(self) -> DiagnosticStatus | None:
        """Return what was published last; None = nothing yet. Any thread."""
        with self._lock:
            return None if self._last is None else self._message(self._last)

    def flush(self) -> None:
        """Wait until subscribers have the last status, so that leaving does not take it back."""
        try:
            done = self._publisher.wait_for_all_acked(Period(seconds=FLUSH))
        except Exception as error:
            _log.warning('~/status: cannot wait for its subscribers: %s', error)
            return
        if not done:
            _log.warning('~/status: a subscriber has not acknowledged the last one')

    def _message(self, status: Status) -> DiagnosticStatus:
        alarm = self._alarm
        return DiagnosticStatus(
            level=DiagnosticStatus.ERROR if alarm else status.level,
            name=self._name,
            message=f'{status.text}; {alarm}' if alarm else status.text,
            values=[KeyValue(key=key, value=value) for key, value in status.values().items()],
        )
