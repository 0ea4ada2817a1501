# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every number of a chunk that commands something, all outputs side by side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.execution import Output
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.chunk import JOINT_SPACES
from openpi_policy_ros.control.timed_chunk import Rows
from openpi_policy_ros.errors import InvalidOutput
from openpi_policy_ros.policies.base import PolicySpec


class Axes:
    """The N commanded numbers of a robot, in the order of ``output_names`` and of their joints.

    Attributes:
        names: joint of each axis; all different.
        columns: column of the chunk of each axis.
        velocity: whether the policy's actions are joint velocities.
        gripper: bool [N], the axes of grippers.
        position: bool [N], the axes commanded as positions: all, or the grippers of a policy of
            velocities.
        outputs: name → its axes.

    """

    def __init__(self, robot: RobotConfig, *, velocity: bool) -> None:
        """Lay out the outputs of a robot that ``axes_problems`` found fit for the policy."""
        outputs = [(name, robot.outputs[name]) for name in robot.output_names]
        self.names = tuple(joint for _, output in outputs for joint in output.joints)
        self.columns = tuple(column for _, output in outputs for column in output.action_indices)
        self.velocity = velocity
        self.gripper: npt.NDArray[np.bool_] = np.array(
            [output.is_gripper for _, output in outputs for _ in output.joints], np.bool_
        )
        self.position: npt.NDArray[np.bool_] = self.gripper | (not velocity)
        self.outputs: Mapping[str, slice] = _slices(outputs)
        scale, offset = joint_scales(robot, self.names, velocity=velocity)
        # GripperShaper scales a gripper, after it has inverted it.
        self._scale = np.where(self.gripper, 1.0, scale)
        self._offset = np.where(self.gripper, 0.0, offset)

    def __len__(self) -> int:
        """Return N."""
        return len(self.names)

    def rows(self, actions: npt.ArrayLike) -> Rows:
        """Return the axes of a chunk in ROS units; those of grippers still in the policy's.

        Position = (action − offset) / scale, velocity = action / velocity_scale, as in
        ``control.joints``.

        Args:
            actions: [H, D], the policy's units.

        Returns:
            float64 [H, N].

        Raises:
            InvalidOutput: not two-dimensional, or too narrow for the columns.

        """
        values = np.asarray(actions, np.float64)
        width = max(self.columns, default=-1) + 1
        if values.ndim != 2 or values.shape[1] < width:
            raise InvalidOutput(
                f'a chunk of shape {list(values.shape)}',
                expected=f'[steps, {width} columns or more], as the outputs name them',
                remedy='the policy answers with another shape than it declared',
            )
        return np.asarray((values[:, list(self.columns)] - self._offset) / self._scale)


def joint_scales(
    robot: RobotConfig, names: tuple[str, ...], *, velocity: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return scale and offset of joints, float64 [N]: 1 and 0 for one that joints.names lacks."""
    joints = robot.joints
    scales = (joints.velocity_scale or joints.scale) if velocity else joints.scale
    scale = dict(zip(joints.names, scales, strict=False))
    # An offset shifts positions and drops out of their rate.
    offset = dict(zip(joints.names, [] if velocity else joints.offset, strict=False))
    return (
        np.array([scale.get(name, 1.0) for name in names], np.float64),
        np.array([offset.get(name, 0.0) for name in names], np.float64),
    )


def axes_problems(robot: RobotConfig, spec: PolicySpec) -> list[str]:
    """Return everything in which the outputs, and how they are played, do not fit the policy."""
    if not robot.outputs:
        return []
    problems = [
        f'outputs.{name}.action_indices: {joint} takes column {column}, but the policy has '
        f'{spec.action_dim} (0..{spec.action_dim - 1})'
        for name, output in robot.outputs.items()
        for joint, column in zip(output.joints, output.action_indices, strict=True)
        if column >= spec.action_dim
    ]
    problems += _action_space(robot, spec)
    if robot.execution.mode == 'rtc' and not spec.supports_rtc:
        problems.append(
            f'execution.mode: {spec.name} does not support real-time chunking (rtc); async '
            'changes from chunk to chunk without it'
        )
    steps = robot.execution.open_loop_steps
    if steps is not None and steps > spec.horizon:
        problems.append(
            f'execution.open_loop_steps is {steps}, but a chunk has {spec.horizon} actions'
        )
    return problems


def make_axes(robot: RobotConfig, spec: PolicySpec) -> Axes:
    """Return the axes of a robot without ``axes_problems``."""
    return Axes(robot, velocity=JOINT_SPACES.get(spec.action_space) == 'velocities')


def _action_space(robot: RobotConfig, spec: PolicySpec) -> list[str]:
    quantity = JOINT_SPACES.get(spec.action_space)
    if quantity is None:
        space = f'is {spec.action_space!r}' if spec.action_space else 'is not declared'
        return [
            f'outputs: the action space {space}, which no output can express; expected '
            f'{" or ".join(JOINT_SPACES)} (profile.action_space)'
        ]
    return [
        f'outputs.{name}.type: a trajectory holds positions, but the action space is '
        f'{spec.action_space}; use type: array with a velocity controller'
        for name, output in robot.outputs.items()
        if quantity == 'velocities' and output.type == 'trajectory' and not output.is_gripper
    ]


def _slices(outputs: list[tuple[str, Output]]) -> dict[str, slice]:
    slices = {}
    start = 0
    for name, output in outputs:
        slices[name] = slice(start, start + len(output.joints))
        start += len(output.joints)
    return slices
