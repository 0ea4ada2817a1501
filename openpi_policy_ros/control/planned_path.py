# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a chunk takes the tips of the arms, as far as the URDF tells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.robot import Joints, RobotConfig
from openpi_policy_ros.control.axes import make_axes
from openpi_policy_ros.control.chunk import JOINT_SPACES, space_problem
from openpi_policy_ros.control.joints import JointMap
from openpi_policy_ros.control.kinematics import FIXED, FREE, Chain, KinematicTree
from openpi_policy_ros.control.urdf import SOURCE
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import ActionChunk, PolicySpec


class PathUnknown(Exception):
    """A chunk's way cannot be computed now; the text says what is missing."""


@dataclass(frozen=True)
class TipPath:
    """The way of one link.

    Attributes:
        output: whose joints move it; '' = of none.
        link: its name in the URDF.
        points: float64 [H, 3], in m seen from the root link; row i is where action i leads to.

    """

    output: str
    link: str
    points: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Group:
    """Joints that belong together.

    Attributes:
        where: in the robot file, for messages.
        output: whose joints they are; '' = of none.
        joints: their names.

    """

    where: str
    output: str
    joints: tuple[str, ...]


class ChunkJoints:
    """The joints that a policy's chunks move, and where they lead them.

    Attributes:
        names: each joint once; grippers only where ``joints.action_indices`` has them.
        groups: joints that belong together: those of each output that is no gripper; where there
            is no output, those of each observation key.
        why_not: why chunks say nothing of joints; '' where they do.

    """

    def __init__(self, robot: RobotConfig, spec: PolicySpec) -> None:
        self._map = JointMap(robot.joints)
        self._axes = make_axes(robot, spec)
        self._velocity = JOINT_SPACES.get(spec.action_space) == 'velocities'
        rate = robot.timing.action_rate
        self._dt = 1.0 / rate if rate else 0.0
        arms = [axis for axis in range(len(self._axes)) if not self._axes.gripper[axis]]
        self._arms = {self._axes.names[axis]: axis for axis in arms}
        mapped = [name for name, _ in self._map.commanded]
        self.names: tuple[str, ...] = tuple(dict.fromkeys([*self._arms, *mapped]))
        self.groups: tuple[Group, ...] = tuple(
            Group(f'outputs.{name}', name, tuple(robot.outputs[name].joints))
            for name in robot.output_names
            if not robot.outputs[name].is_gripper
        ) or _by_key(robot.joints, mapped)
        self.why_not = space_problem(spec)
        if not self.names:
            self.why_not = (
                'the robot file names no joint for any action (joints.action_indices, outputs)'
            )

    def positions(
        self, chunk: ActionChunk, measured: Mapping[str, float]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return joint → positions after each action, float64 [H], rad or m.

        Velocities are summed up from the measured position, each over one action period; a joint
        whose position was not measured is left out.
        """
        rows = dict(zip(self._map_names(), self._mapped(chunk).T, strict=True))
        if self._arms:
            of_outputs = self._axes.rows(chunk.actions)
            rows.update({name: of_outputs[:, axis] for name, axis in self._arms.items()})
        if not self._velocity:
            return rows
        return {
            name: measured[name] + np.cumsum(column) * self._dt
            for name, column in rows.items()
            if name in measured
        }

    def _map_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._map.commanded)

    def _mapped(self, chunk: ActionChunk) -> npt.NDArray[np.float64]:
        if self._velocity:
            return self._map.to_velocities(chunk.actions)
        return self._map.to_positions(chunk.actions)


class PathPlanner:
    """Computes the ways of the tips of one robot, once ``describe`` has told how it is built.

    Attributes:
        joints: what chunks move.
        frame: root link with the prefix that TF has; '' before ``describe``.
        left_out: groups of joints whose tips are not known, each with its reason.

    """

    def __init__(self, robot: RobotConfig, spec: PolicySpec) -> None:
        self.joints = ChunkJoints(robot, spec)
        self._visual = robot.visual
        self._tips: list[tuple[str, Chain]] = []
        self.frame = ''
        self.left_out: tuple[str, ...] = ()

    @property
    def links(self) -> tuple[str, ...]:
        """Return the links whose way is computed."""
        return tuple(chain.tip for _, chain in self._tips)

    def describe(self, urdf: str) -> None:
        """Use a robot description.

        Raises:
            ConfigurationError: it tells the way of no tip, or not of one that the robot file names;
                nothing is computed from then on.

        """
        self._tips, self.frame, self.left_out = [], '', ()
        tree = KinematicTree(urdf)
        problems: list[str] = []
        if self._visual.tip_links:
            tips = self._named_tips(tree, problems)
            if problems:
                raise ConfigurationError(SOURCE, problems)
        else:
            tips = self._derived_tips(tree, problems)
            if not tips:
                raise ConfigurationError(SOURCE, problems)
        self._tips = tips
        self.left_out = tuple(problems)
        self.frame = f'{self._visual.frame_prefix}{tree.root}'

    def plan(self, chunk: ActionChunk, measured: Mapping[str, float]) -> list[TipPath]:
        """Return the way of every tip.

        Args:
            chunk: of the policy.
            measured: joint → position when the chunk's observation was made, rad or m.

        Raises:
            PathUnknown: a joint on the way to a tip is neither moved by the chunk nor measured.

        """
        finite = {name: value for name, value in measured.items() if math.isfinite(value)}
        known: dict[str, npt.ArrayLike] = {**finite, **self.joints.positions(chunk, finite)}
        needed = dict.fromkeys(name for _, chain in self._tips for name in chain.drivers)
        missing = [name for name in needed if name not in known]
        if missing:
            raise PathUnknown(f'the position of {", ".join(missing)} is not measured')
        steps = len(chunk.actions)
        return [
            TipPath(output, chain.tip, np.broadcast_to(chain.poses(known)[1], (steps, 3)))
            for output, chain in self._tips
        ]

    def _named_tips(self, tree: KinematicTree, problems: list[str]) -> list[tuple[str, Chain]]:
        tips = []
        for link in self._visual.tip_links:
            try:
                chain = tree.chain(link)
            except ConfigurationError as error:
                problems += [f'visual.tip_links: {problem}' for problem in error.problems]
                continue
            moving = [name for name in chain.drivers if name in self.joints.names]
            if not moving:
                problems.append(f'visual.tip_links: no joint of a chunk moves {link!r}')
                continue
            tips.append((self._output_of(moving), chain))
        return tips

    def _derived_tips(self, tree: KinematicTree, problems: list[str]) -> list[tuple[str, Chain]]:
        tips = []
        for group in self.joints.groups:
            wrong = list(_not_movable(tree, group.joints))
            chains: list[Chain] = []
            try:
                chains = [] if wrong else [tree.chain(link) for link in tree.tips(group.joints)]
            except ConfigurationError as error:
                wrong = list(error.problems)
            if wrong:
                problems.append(f'{group.where}: {"; ".join(wrong)}')
            tips += [(group.output, chain) for chain in chains]
        return tips

    def _output_of(self, moving: Iterable[str]) -> str:
        """Return the output of the joint nearest to the tip."""
        owners = [
            group.output for name in moving for group in self.joints.groups if name in group.joints
        ]
        return owners[-1] if owners else ''


def _by_key(joints: Joints, names: Sequence[str]) -> tuple[Group, ...]:
    keys = joints.keys * len(joints.names) if len(joints.keys) == 1 else joints.keys
    groups: dict[str, list[str]] = {}
    for name, key in zip(joints.names, keys, strict=True):
        if name in names:
            groups.setdefault(key, []).append(name)
    return tuple(Group(f'joints of {key!r}', '', tuple(of)) for key, of in groups.items())


def _not_movable(tree: KinematicTree, joints: Iterable[str]) -> Iterable[str]:
    for name in joints:
        joint = tree.joints.get(name)
        if joint is None:
            yield f'the URDF has no joint {name!r}'
        elif joint.kind in (FIXED, *FREE):
            yield f'the URDF has {name!r} {joint.kind}'
        elif joint.driver != name:
            yield f'the URDF has {name!r} mimic {joint.driver!r}'
