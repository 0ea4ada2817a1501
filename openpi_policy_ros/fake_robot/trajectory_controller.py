# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What ``joint_trajectory_controller`` does with the trajectories it gets, without ROS.

After the published behaviour of ros2_controllers with ``interpolate_from_desired_state: true``, the
setting for a reference that comes in many short messages, and ``allow_partial_joints_goal: false``:

* a message is refused that names other joints, that has no points, points of the wrong size, times
  that do not rise, or (stamped) an end that is past; the running trajectory goes on then;
* otherwise it replaces the running one at once: from the desired state of that moment the path
  leads straight to its first point;
* stamp 0 means "start now"; with a stamp in the past the path is entered in its middle;
* positions are interpolated linearly, the last point is held;
* a NaN is not looked for. It becomes the desired position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Trajectory:
    """A ``trajectory_msgs/JointTrajectory`` without ROS.

    Attributes:
        joints: ``joint_names``.
        times_ns: ``time_from_start`` of each point.
        rows: ``positions`` of each point.
        stamp_ns: of the header; 0 = start at arrival.
        extras: names of the other fields that some point fills in.

    """

    joints: tuple[str, ...]
    times_ns: tuple[int, ...]
    rows: tuple[tuple[float, ...], ...]
    stamp_ns: int = 0
    extras: tuple[str, ...] = ()


class TrajectoryController:
    """One controller, from its activation at ``start`` on."""

    def __init__(self, joints: Sequence[str], start: Sequence[float]) -> None:
        self.joints = tuple(joints)
        self._before = np.array(start, np.float64)
        self._arrival_ns = 0
        self._dues = np.zeros(1, np.int64)
        self._rows = self._before[np.newaxis].copy()

    def take(self, message: Trajectory, now_ns: int) -> str:
        """Follow a trajectory from now on; return why it is refused, '' = it is not."""
        problem = self._problem(message, now_ns)
        if problem:
            return problem
        before = self.desired(now_ns)
        columns = [message.joints.index(joint) for joint in self.joints]
        start_ns = message.stamp_ns or now_ns
        self._before, self._arrival_ns = before, now_ns
        self._dues = start_ns + np.array(message.times_ns, np.int64)
        self._rows = np.array(message.rows, np.float64)[:, columns]
        return ''

    def desired(self, now_ns: int) -> Row:
        """Return where the joints are told to be, [n], in the controller's order."""
        first = int(self._dues[0])
        if now_ns < first:
            share = (now_ns - self._arrival_ns) / (first - self._arrival_ns)
            return np.asarray(self._before + max(share, 0.0) * (self._rows[0] - self._before))
        last = int(np.searchsorted(self._dues, now_ns, side='right')) - 1
        if last == len(self._dues) - 1:
            return self._rows[last].copy()
        share = (now_ns - self._dues[last]) / (self._dues[last + 1] - self._dues[last])
        return np.asarray(self._rows[last] + share * (self._rows[last + 1] - self._rows[last]))

    @property
    def ends_ns(self) -> int:
        """Return when the last point is due: after that nothing moves."""
        return int(self._dues[-1])

    def _problem(self, message: Trajectory, now_ns: int) -> str:
        if len(message.joints) != len(self.joints) or set(message.joints) != set(self.joints):
            return f'joints {list(message.joints)} do not match {list(self.joints)}'
        if not message.times_ns:
            return 'no points'
        if len(message.rows) != len(message.times_ns):
            return f'{len(message.rows)} rows for {len(message.times_ns)} times'
        for number, row in enumerate(message.rows):
            if len(row) != len(message.joints):
                return f'point {number} has {len(row)} positions for {len(message.joints)} joints'
        gaps = np.diff(np.array(message.times_ns, np.int64))
        if (gaps <= 0).any():
            return f'times do not rise: {list(message.times_ns)}'
        if message.stamp_ns and message.stamp_ns + message.times_ns[-1] < now_ns:
            return 'it ended before it came'
        return ''
