# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Turn gripper actions into gripper commands that do not chatter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openpi_policy_ros.configuration.execution import Output
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.axes import Axes, joint_scales
from openpi_policy_ros.control.timed_chunk import Row, Rows


class Gripper:
    """One number of a gripper: inverted, then scaled, or open and closed with a hysteresis.

    With a threshold, an action at or above it closes the gripper and one below opens it. Once it
    is either, an action must lie beyond the threshold by the hysteresis to change it.
    """

    def __init__(self, output: Output, scale: float, offset: float) -> None:
        """Prepare one axis.

        Args:
            output: of the robot file.
            scale: used where the output has none.
            offset: used where the output has none.

        """
        self._output = output
        self._scale = scale if output.scale is None else output.scale
        self._offset = offset if output.offset is None else output.offset

    def command(self, action: float, closed: bool | None) -> tuple[float, bool | None]:
        """Return the command in ROS units, and whether the gripper is closed thereafter.

        Args:
            action: in the policy's units.
            closed: whether it was closed before; None = unknown, or no threshold.

        """
        output = self._output
        value = 1.0 - action if output.invert else action
        if output.threshold is None or output.closed is None or output.open is None:
            return (value - self._offset) / self._scale, None
        band = 0.0 if closed is None else output.hysteresis
        closed = value >= output.threshold + (-band if closed else band)
        return (output.closed if closed else output.open), closed


class GripperShaper:
    """All gripper axes of a robot; the other axes pass as they are."""

    def __init__(self, grippers: Mapping[int, Gripper]) -> None:
        """Shape the axes that are the keys of ``grippers``."""
        self._grippers = dict(grippers)
        self._closed: dict[int, bool | None] = dict.fromkeys(grippers)

    def command(self, row: Row) -> Row:
        """Return the commands of a row that goes to the robot now, float64 [N]."""
        shaped, self._closed = self._shape(row, self._closed)
        return shaped

    def preview(self, rows: Rows) -> Rows:
        """Return the commands of rows to come, float64 [M, N]; what is open or closed stays so."""
        shaped = np.array(rows, np.float64)
        closed = self._closed
        for index, row in enumerate(shaped):
            shaped[index], closed = self._shape(row, closed)
        return shaped

    def reset(self) -> None:
        """Forget what is open and what is closed."""
        self._closed = dict.fromkeys(self._grippers)

    def _shape(
        self, row: Row, before: Mapping[int, bool | None]
    ) -> tuple[Row, dict[int, bool | None]]:
        shaped = np.array(row, np.float64)
        after = dict(before)
        for axis, gripper in self._grippers.items():
            shaped[axis], after[axis] = gripper.command(float(row[axis]), before[axis])
        return shaped, after


def make_gripper_shaper(robot: RobotConfig, axes: Axes) -> GripperShaper:
    """Return the shaper of a robot's grippers, scaled as positions whatever the policy commands."""
    scale, offset = joint_scales(robot, axes.names, velocity=False)
    return GripperShaper(
        {
            axis: Gripper(robot.outputs[name], float(scale[axis]), float(offset[axis]))
            for name, where in axes.outputs.items()
            if robot.outputs[name].is_gripper
            for axis in range(where.start, where.stop)
        }
    )
