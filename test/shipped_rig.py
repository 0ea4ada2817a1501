# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A shipped robot file driven through the control core, by a robot that does what it is told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.control.axes import axes_problems, make_axes
from openpi_policy_ros.control.commands import Command, GripperCommand, TrajectoryCommand
from openpi_policy_ros.control.controller import Controller, Tick
from openpi_policy_ros.control.gates import StreamReport
from openpi_policy_ros.control.limits import from_parameters, make_limits
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.policies.base import ActionChunk, PolicySpec, StateSpec

SECOND = 1_000_000_000
HORIZON = 50


def spec_of(robot: RobotConfig) -> PolicySpec:
    """Return the facts of a policy as the file's profile cuts it."""
    profile = robot.profile
    columns = profile.crop_columns
    assert columns is not None
    rows = profile.crop_rows or HORIZON
    return PolicySpec(
        name='shipped',
        model='',
        cameras=(),
        state=StateSpec(('state',), columns),
        horizon=rows,
        action_dim=columns,
        action_space=profile.action_space,
        action_names=tuple(profile.action_names),
        output_shapes={'actions': (rows, columns)},
        handshake=None,
    )


class ShippedRig:
    """One robot file, its controllers played without a fault, and everything it was told.

    Attributes:
        at: joint → position, rad or m.
        told: joint → every position it was told to be at, one for each control tick.
        wire: every command.

    """

    def __init__(self, name: str, at: dict[str, float]) -> None:
        self.robot = load_robot(name)
        self.spec = spec_of(self.robot)
        assert axes_problems(self.robot, self.spec) == []
        axes = make_axes(self.robot, self.spec)
        self.limits, missing = make_limits(
            axes, from_parameters(self.robot.limits, self.robot.joints.names)
        )
        assert missing == []
        self.joints = axes.names
        self._rate = self.robot.execution.control_rate
        self._steps = self.robot.timing.action_rate or 0.0
        self.at = dict(at)
        self.told: dict[str, list[float]] = {joint: [] for joint in axes.names}
        self.wire: list[Command] = []
        self.now_ns = 1_700_000_000 * SECOND
        self.controller = Controller(
            self.robot, self.spec, axes, inference_timeout=60.0, dry_run=False
        )
        self.controller.set_limits(self.limits)
        self.controller.activate()

    def drive(self, plan: Callable[[float], npt.NDArray[np.float64]], seconds: float) -> Tick:
        """Enable, and drive by chunks of what ``plan`` says of each moment; return the last tick.

        Args:
            plan: seconds since the beginning → [columns], in the policy's units.
            seconds: how long.

        """
        self._tick()
        done, text = self.controller.enable(True, self.now_ns)
        assert done, text
        began = self.now_ns
        tick = None
        for number in range(round(seconds * self._rate)):
            # As often as a policy of 0.2 s answers.
            if number % round(self._rate / 5) == 0:
                elapsed = (self.now_ns - began) / SECOND
                rows = [plan(elapsed + (i + 1) / self._steps) for i in range(self.spec.horizon)]
                chunk = ActionChunk({'actions': np.array(rows, np.float32)})
                refused = self.controller.on_chunk(chunk, self.now_ns, 0, self.now_ns, self.now_ns)
                assert refused == ''
            tick = self._tick()
            assert tick.state is State.ENABLED, tick.reason
        assert tick is not None
        return tick

    def _tick(self) -> Tick:
        self.now_ns += round(SECOND / self._rate)
        self.controller.on_joints(self.at, self.now_ns)
        tick = self.controller.tick(self.now_ns, self.now_ns, StreamReport())
        self.controller.sent(tick, self.now_ns)
        self.wire += tick.commands
        for command in tick.commands:
            joints = self.robot.outputs[command.output].joints
            for joint, position in zip(joints, self._next(command), strict=True):
                self.at[joint] = position
                self.told[joint].append(position)
        return tick

    def _next(self, command: Command) -> tuple[float, ...]:
        """Return where the joints are one control period after a command."""
        if isinstance(command, GripperCommand):
            return (command.position,)
        if not isinstance(command, TrajectoryCommand):
            return command.values
        period = SECOND / self._rate
        rows = np.array(command.rows)
        here = [self.at[joint] for joint in command.joints]
        times = [0.0, *command.times_ns]
        return tuple(
            float(np.interp(period, times, [start, *column]))
            for start, column in zip(here, rows.T, strict=True)
        )
