# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The fake robot without ROS: a controller behind every output, and joints that follow.

Joints go where their controller tells them, but no faster and no further than they can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openpi_policy_ros.configuration.execution import Output
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.fake_robot.forward_controller import (
    NANOSECONDS,
    ForwardController,
    VelocityController,
)
from openpi_policy_ros.fake_robot.joints import Joint, linked_joints
from openpi_policy_ros.fake_robot.trajectory_controller import Trajectory, TrajectoryController

VELOCITY = 'joint_velocity'


class RobotModel:
    """One robot. Not for several threads at once; times are nanoseconds of one clock.

    Attributes:
        joints: every joint by name.
        positions: where each is, as of the last ``step``.
        stuck: nothing moves, whatever is commanded.
        taken: output → commands that its controller has taken so far.
        refused: output → commands that it has refused so far.

    """

    def __init__(self, robot: RobotConfig, joints: Mapping[str, Joint], now_ns: int) -> None:
        """Stand at home.

        Args:
            robot: names the outputs.
            joints: see ``make_joints``.
            now_ns: the time.

        """
        self.joints = dict(joints)
        self.positions = {name: joint.home for name, joint in joints.items()}
        self.stuck = False
        self.taken = dict.fromkeys(robot.output_names, 0)
        self.refused = dict.fromkeys(robot.output_names, 0)
        self._outputs = {name: robot.outputs[name] for name in robot.output_names}
        velocity = robot.profile.action_space == VELOCITY
        self._trajectories = {
            name: TrajectoryController(output.message_names, self._home(output))
            for name, output in self._outputs.items()
            if output.type == 'trajectory'
        }
        self._arrays: dict[str, ForwardController | VelocityController] = {
            name: self._array(output, velocity and not output.is_gripper)
            for name, output in self._outputs.items()
            if output.type != 'trajectory'
        }
        self._links = linked_joints(robot)
        self._now_ns = now_ns

    def take_trajectory(self, output: str, trajectory: Trajectory, now_ns: int) -> str:
        """Follow a trajectory; return why it is refused, '' = it is not."""
        return self._count(output, self._trajectories[output].take(trajectory, now_ns))

    def take_values(self, output: str, values: Sequence[float], now_ns: int) -> str:
        """Follow a row of positions or velocities; return why it is refused, '' = it is not."""
        return self._count(output, self._arrays[output].take(values, now_ns))

    def targets(self, now_ns: int) -> dict[str, float]:
        """Return where the controllers want each joint now; what follows a gripper is told too."""
        targets: dict[str, float] = {}
        for name, controller in (self._trajectories | self._arrays).items():
            row = controller.desired(now_ns)
            targets.update(zip(self._outputs[name].joints, map(float, row), strict=True))
        for measured, link in self._links.items():
            if self.taken[link.output]:
                commanded = targets[self._outputs[link.output].joints[link.index]]
                targets[measured] = link.scale * commanded + link.offset
        return targets

    def step(self, now_ns: int) -> None:
        """Let the joints move until now."""
        seconds = max(0, now_ns - self._now_ns) / NANOSECONDS
        self._now_ns = max(now_ns, self._now_ns)
        targets = self.targets(self._now_ns)
        if self.stuck:
            return
        for name, target in targets.items():
            joint, here = self.joints[name], self.positions[name]
            reach = joint.speed * seconds
            # min and max let NaN through in one order and not in the other: here they do not.
            there = min(max(target, here - reach), here + reach)
            self.positions[name] = min(max(there, joint.lower), joint.upper)

    def _array(self, output: Output, velocity: bool) -> ForwardController | VelocityController:
        if not velocity:
            return ForwardController(output.joints, self._home(output))
        joints = [self.joints[name] for name in output.joints]
        return VelocityController(
            output.joints,
            self._home(output),
            lower=[joint.lower for joint in joints],
            upper=[joint.upper for joint in joints],
            speed=[joint.speed for joint in joints],
        )

    def _home(self, output: Output) -> list[float]:
        return [self.joints[name].home for name in output.joints]

    def _count(self, output: str, problem: str) -> str:
        (self.refused if problem else self.taken)[output] += 1
        return problem
