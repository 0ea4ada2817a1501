# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Turn what the chunks want into commands within the limits, and into holds.

Whether anything may be commanded at all is not decided here (see ``controller``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.buffers import NANOSECONDS, to_nanoseconds
from openpi_policy_ros.control.commanded import Commanded
from openpi_policy_ros.control.commands import (
    ArrayCommand,
    Command,
    GripperCommand,
    TrajectoryCommand,
)
from openpi_policy_ros.control.executor import ChunkExecutor
from openpi_policy_ros.control.governor import Governor, Times
from openpi_policy_ros.control.gripper import make_gripper_shaper
from openpi_policy_ros.control.limits import JointLimits
from openpi_policy_ros.control.timed_chunk import Row, Rows


@dataclass(frozen=True)
class Driven:
    """What one tick of driving came to.

    Attributes:
        commands: to be sent; none where ``stop`` is set.
        clamped: whether a position limit changed anything.
        slowed: whether a velocity limit changed anything.
        stop: why the robot must hold instead; '' = it need not.

    """

    commands: tuple[Command, ...] = ()
    clamped: bool = False
    slowed: bool = False
    stop: str = ''


@dataclass(frozen=True)
class _Wanted:
    """What the limits left of the chunk: the row for now, and waypoints (none near its end)."""

    row: Row
    times_ns: Times
    points: Rows


class Driver:
    """The outputs of one robot.

    Attributes:
        executor: the chunks that are played.

    """

    def __init__(
        self, robot: RobotConfig, axes: Axes, dt_ns: int, disabled: frozenset[str] = frozenset()
    ) -> None:
        """Start with nothing commanded and no limits known.

        Args:
            robot: outputs, execution, safety.
            axes: of these outputs.
            dt_ns: one action step.
            disabled: gates that are switched off.

        """
        self.executor = ChunkExecutor(axes, robot.execution, dt_ns, disabled)
        self._robot = robot
        self._axes = axes
        self._disabled = disabled
        self._shaper = make_gripper_shaper(robot, axes)
        self._limits: JointLimits | None = None
        self._governor: Governor | None = None
        self._commanded = Commanded(axes)
        self.period_ns = to_nanoseconds(1.0 / robot.execution.control_rate)
        self._lookahead_ns = to_nanoseconds(robot.execution.max_lookahead)
        self._outputs = [(name, robot.outputs[name]) for name in axes.outputs]
        self._streams = np.zeros(len(axes.names), bool)
        self._unpaced = np.zeros(len(axes.names), bool)
        for name, output in self._outputs:
            self._streams[axes.outputs[name]] = output.type != 'trajectory'
            self._unpaced[axes.outputs[name]] = output.type == 'gripper'
        self._last_ns: int | None = None
        self._fresh = True

    def set_limits(self, limits: JointLimits) -> None:
        """Use these limits from now on.

        Raises:
            ConfigurationError: ``safety.position_margin`` leaves a joint no room.

        """
        self._governor = Governor(
            self._axes,
            limits,
            self._robot.safety,
            self._robot.execution.max_lookahead,
            unpaced=self._unpaced,
            disabled=self._disabled,
        )
        self._limits = limits

    def tune(self, robot: RobotConfig) -> None:
        """Keep to another ``velocity_scale`` from now on, to the rest from the next chunk on.

        Args:
            robot: as before, but for ``safety.velocity_scale``, ``execution.blend_steps`` and
                ``execution.ensemble_decay``.

        """
        self._robot = robot
        self.executor.tune(robot.execution)
        if self._limits is not None:
            self.set_limits(self._limits)

    def begin(self) -> None:
        """Forget what was commanded: others may have moved the robot since."""
        self._commanded.begin()
        self._shaper.reset()
        self._last_ns = None
        self.pause()

    def pause(self) -> None:
        """Drop the chunks; the next one is compared with the measured joints before it moves."""
        self.executor.clear()
        self._fresh = True

    def drive(self, now_ns: int, measured: Mapping[str, float]) -> Driven | None:
        """Return the commands of this tick, or None where no chunk says anything about it.

        Args:
            now_ns: the node's ROS clock.
            measured: joint → position in ROS units.

        """
        assert self._governor is not None, 'enabled without limits'
        sample = self.executor.sample(now_ns)
        if sample is None:
            return None
        times_ns, points = self.executor.waypoints(now_ns, self._lookahead_ns)
        raw = _Wanted(self._shaper.command(sample), times_ns, self._shaper.preview(points))
        clamped = self._governor.clamp(np.vstack([raw.row, raw.points]), measured)
        stop = clamped.violation
        if self._fresh and not stop:
            first = raw.points[0] if len(raw.points) else raw.row
            stop = self._governor.start_jump(np.where(self._streams, raw.row, first), measured)
        if stop:
            return Driven(clamped=clamped.changed, stop=stop)
        if self._fresh:
            self._commanded.start_from(measured)
            self._fresh = False
        wanted = _Wanted(clamped.rows[0], times_ns, clamped.rows[1:])
        commands, slowed = self._write(wanted, now_ns)
        return Driven(commands, clamped.changed, slowed)

    def commanded_at(self, now_ns: int) -> Row | None:
        """Return where the commands have the robot, float64 [N]; None while nothing drives it."""
        return None if self._fresh else self._commanded.all_at(now_ns)

    def moved(self, measured: Mapping[str, float], now_ns: int) -> dict[str, float]:
        """Return where velocities have led since the last tick joints that nobody measured since.

        So that S6 does not go by where they were before joint_states stopped.

        Args:
            measured: joint → position in ROS units, as of the last tick or measured since.
            now_ns: the node's ROS clock.

        """
        elapsed_ns = 0 if self._last_ns is None else max(now_ns - self._last_ns, 0)
        velocities = self._commanded.all_at(now_ns)
        return {
            self._axes.names[axis]: measured[self._axes.names[axis]]
            + velocities[axis] * elapsed_ns / NANOSECONDS
            for axis in np.flatnonzero(~self._axes.position & np.isfinite(velocities))
            if self._axes.names[axis] in measured
        }

    def wait(self, now_ns: int) -> tuple[Command, ...]:
        """Drop the chunks and return the hold, which counts as the last command from now on."""
        self.pause()
        self._last_ns = now_ns
        commands = self.hold(now_ns)
        self.stopped(commands, now_ns)
        return commands

    def stopped(self, holds: Iterable[Command], now_ns: int) -> None:
        """Note holds that left at this time as the last commands: the outputs stay there."""
        for command in holds:
            if isinstance(command, TrajectoryCommand):
                rows = np.array(command.rows)
                if len(self._commanded.others_at(command.output, now_ns)):
                    times = np.array(command.times_ns, np.int64)
                    self._commanded.set_path(command.output, times, rows, now_ns)
                else:
                    self._commanded.set_row(command.output, rows[-1])
            elif isinstance(command, ArrayCommand):
                self._commanded.set_row(command.output, np.array(command.values))

    def hold(self, now_ns: int) -> tuple[TrajectoryCommand | ArrayCommand, ...]:
        """Return the commands that stop what was commanded; none where nothing was.

        A row is held as it was sent, zeros for velocities. On a path the robot stops where it
        will be one control period from now, so that it never steps back. A gripper's own
        controller keeps its last goal.
        """
        commands: list[TrajectoryCommand | ArrayCommand] = []
        for name, output in self._outputs:
            if output.type == 'gripper' or not self._commanded.has(name):
                continue
            row = self._commanded.held(name, now_ns + self.period_ns)
            if output.type == 'trajectory':
                times, rows = np.array([self.period_ns], np.int64), row[None]
                others = self._commanded.others_at(name, now_ns)
                if len(others) and self._governor is not None:
                    start = self._commanded.at(name, now_ns)
                    path = self._governor.retime(
                        self._axes.outputs[name], start, times, rows, others
                    )
                    assert path.times_ns is not None
                    times, rows = path.times_ns, path.rows
                commands.append(self._trajectory(name, times, rows))
            else:
                commands.append(ArrayCommand(name, _numbers(row)))
        return tuple(commands)

    def clock_jumped(self, by_ns: int) -> None:
        """Drop the chunks; tell by the new clock where the robot was commanded to be."""
        self.pause()
        self._commanded.shift(by_ns)
        self._last_ns = None

    def clock_stepped(self, by_ns: int) -> None:
        """Note that the clock got ahead by so much, too little to be a jump.

        Controllers of trajectories go by that clock, or do not; both must keep the limits.
        """
        self._commanded.step(by_ns)

    def _write(self, wanted: _Wanted, now_ns: int) -> tuple[tuple[Command, ...], bool]:
        assert self._governor is not None
        paced = self._governor.step(
            wanted.row, self._commanded.all_at(now_ns), self._elapsed_ns(now_ns)
        )
        slowed = bool(((paced.rows != wanted.row) & self._streams).any())
        commands: list[Command] = []
        for name, output in self._outputs:
            axes = self._axes.outputs[name]
            row = paced.rows[axes]
            if output.type == 'trajectory':
                start = self._commanded.at(name, now_ns)
                others = self._commanded.others_at(name, now_ns)
                if len(wanted.points):
                    path = self._governor.retime(
                        axes, start, wanted.times_ns, wanted.points[:, axes], others
                    )
                else:
                    # The last point is due sooner than a new path could begin: let it come.
                    ahead = self._commanded.at(name, now_ns + self.period_ns)
                    ahead = np.where(np.isnan(ahead), wanted.row[axes], ahead)
                    path = self._governor.retime(
                        axes, start, np.array([self.period_ns]), ahead[None], others
                    )
                slowed = slowed or path.slowed
                assert path.times_ns is not None
                self._commanded.set_path(name, path.times_ns, path.rows, now_ns)
                commands.append(self._trajectory(name, path.times_ns, path.rows))
            elif output.type == 'array':
                self._commanded.set_row(name, row)
                commands.append(ArrayCommand(name, _numbers(row)))
            else:
                known = self._commanded.has(name)
                if not known or self._commanded.at(name, now_ns)[0] != row[0]:
                    commands.append(GripperCommand(name, float(row[0]), output.max_effort))
                self._commanded.set_row(name, row)
        self._last_ns = now_ns
        return tuple(commands), slowed

    def _elapsed_ns(self, now_ns: int) -> int:
        """Return how long the last command has acted, at most a period: late ticks do not leap."""
        if self._last_ns is None:
            return self.period_ns
        return min(max(now_ns - self._last_ns, 0), self.period_ns)

    def _trajectory(self, name: str, times_ns: Times, rows: Rows) -> TrajectoryCommand:
        joints = tuple(self._robot.outputs[name].joints)
        return TrajectoryCommand(
            name, joints, tuple(times_ns.tolist()), tuple(_numbers(row) for row in rows)
        )


def _numbers(row: Row) -> tuple[float, ...]:
    return tuple(row.tolist())
