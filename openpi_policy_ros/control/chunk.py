# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Lay out a policy's chunk for ROS: timed joint rows, and every number with its label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.buffers import NANOSECONDS
from openpi_policy_ros.control.joints import JointMap
from openpi_policy_ros.policies.base import ActionChunk, PolicySpec

JointQuantity = Literal['positions', 'velocities']
JOINT_SPACES: dict[str, JointQuantity] = {
    'joint_position': 'positions',
    'joint_velocity': 'velocities',
}


@dataclass(frozen=True)
class JointTrajectoryRows:
    """A chunk as joint commands in ROS units.

    Attributes:
        names: joints, one per column.
        quantity: what the rows hold.
        rows: float64 [H, joints].
        times_ns: time of each row after t_obs, (i + 1) · dt.

    """

    names: tuple[str, ...]
    quantity: JointQuantity
    rows: npt.NDArray[np.float64]
    times_ns: tuple[int, ...]


@dataclass(frozen=True)
class LabelledRows:
    """A chunk as it left the policy, in the policy's units.

    Attributes:
        labels: one per column.
        rows: float64 [H, D].

    """

    labels: tuple[str, ...]
    rows: npt.NDArray[np.float64]

    @property
    def dimensions(self) -> tuple[tuple[str, int, int], ...]:
        """Return (label, size, stride) of each dimension for ``std_msgs/MultiArrayLayout``.

        The first is labelled ``step``, the second ``dimension: <label>,<label>,…``.
        """
        steps, width = self.rows.shape
        columns = 'dimension: ' + ','.join(self.labels)
        return (('step', steps, steps * width), (columns, width, width))


class ChunkLayout:
    """How one policy's chunks read on one robot.

    Attributes:
        no_trajectory: why chunks cannot be written as joint rows; '' where they can.

    """

    def __init__(self, robot: RobotConfig, spec: PolicySpec) -> None:
        """Prepare the layout of a robot that ``match.robot_problems`` found fit for the policy."""
        self._joints = JointMap(robot.joints)
        self._labels = tuple(spec.action_names)
        self._names = tuple(name for name, _ in self._joints.commanded)
        self._quantity = JOINT_SPACES.get(spec.action_space)
        self.no_trajectory = why_no_trajectory(robot, spec)
        rate = robot.timing.action_rate
        self._times_ns = (
            tuple(round((i + 1) * NANOSECONDS / rate) for i in range(spec.horizon)) if rate else ()
        )

    def trajectory(self, chunk: ActionChunk) -> JointTrajectoryRows | None:
        """Return the columns that ``joints.action_indices`` names, or None (``no_trajectory``)."""
        if self._quantity is None or self.no_trajectory:
            return None
        rows = (
            self._joints.to_positions(chunk.actions)
            if self._quantity == 'positions'
            else self._joints.to_velocities(chunk.actions)
        )
        return JointTrajectoryRows(self._names, self._quantity, rows, self._times_ns)

    def labelled(self, chunk: ActionChunk) -> LabelledRows:
        """Return every column with its label."""
        return LabelledRows(self._labels, np.asarray(chunk.actions, np.float64))


def why_no_trajectory(robot: RobotConfig, spec: PolicySpec) -> str:
    """Return why this policy's chunks cannot be written as joint rows; '' where they can."""
    if not any(column >= 0 for column in robot.joints.action_indices):
        return 'the robot file names no joint for any action (joints.action_indices)'
    return space_problem(spec)


def space_problem(spec: PolicySpec) -> str:
    """Return why a policy's actions are no commands of joints; '' where they are."""
    if spec.action_space in JOINT_SPACES:
        return ''
    space = f'is {spec.action_space!r}' if spec.action_space else 'is not declared'
    return f'the action space {space}, not {" or ".join(JOINT_SPACES)}'
