# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What leaves for the robot at one tick, in ROS units, ready to be written into messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class TrajectoryCommand:
    """For ``trajectory_msgs/JointTrajectory``, stamp zero: the points count from its arrival.

    Attributes:
        output: name in the robot file.
        joints: one per column, in the controller's order.
        times_ns: time of each point from the start, positive and strictly rising.
        rows: positions of each point.

    """

    output: str
    joints: tuple[str, ...]
    times_ns: tuple[int, ...]
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ArrayCommand:
    """For ``std_msgs/Float64MultiArray``: one number per joint, in the controller's order."""

    output: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class GripperCommand:
    """For the goal of a ``control_msgs/action/GripperCommand``; only sent when it changes."""

    output: str
    position: float
    max_effort: float


Command: TypeAlias = TrajectoryCommand | ArrayCommand | GripperCommand
