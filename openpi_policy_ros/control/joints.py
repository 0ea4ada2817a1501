# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Map joints by name between ``sensor_msgs/JointState`` and the policy's state and actions.

Never by position in the message: publishers order joints as they like.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from typing import Protocol

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.robot import Joints
from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import FloatArray


class JointStateMessage(Protocol):
    """The fields of ``sensor_msgs/JointState`` that are read."""

    name: Sequence[str]
    position: Sequence[float]


class JointMap:
    """The joints of one robot file: state = scale · position + offset, and the way back.

    Attributes:
        names: every joint of the robot file, in its order.
        commanded: (name, action column) of the joints that an action moves, in that order.

    """

    def __init__(self, joints: Joints) -> None:
        count = len(joints.names)
        self.names: tuple[str, ...] = tuple(joints.names)
        keys = joints.keys * count if len(joints.keys) == 1 else joints.keys
        self._scale = np.array(joints.scale or [1.0] * count, np.float64)
        self._offset = np.array(joints.offset or [0.0] * count, np.float64)
        self._velocity_scale = np.array(joints.velocity_scale or self._scale, np.float64)
        self._rows: dict[str, list[int]] = {}
        for row, key in enumerate(keys):
            if key:
                self._rows.setdefault(key, []).append(row)
        self._commanded = [row for row, column in enumerate(joints.action_indices) if column >= 0]
        self._columns = [joints.action_indices[row] for row in self._commanded]
        self.commanded: tuple[tuple[str, int], ...] = tuple(
            (self.names[row], column)
            for row, column in zip(self._commanded, self._columns, strict=True)
        )

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the observation keys that carry joints, each once."""
        return tuple(self._rows)

    def state(self, positions: Mapping[str, float]) -> dict[str, FloatArray]:
        """Return observation key → float32 [joints of that key], in the policy's units.

        Args:
            positions: joint name → measured position in ROS units; holds every one of ``names``.

        """
        raw = np.array([positions[name] for name in self.names], np.float64)
        # What float32 cannot hold becomes inf, which the policy refuses by name.
        with np.errstate(over='ignore'):
            values = (self._scale * raw + self._offset).astype(np.float32)
        return {key: values[rows] for key, rows in self._rows.items()}

    def to_positions(self, actions: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the commanded joints' positions in ROS units: (action − offset) / scale.

        Args:
            actions: [..., D] in the policy's units.

        Returns:
            float64 [..., len(commanded)], in the order of ``commanded``.

        """
        columns = np.asarray(actions, np.float64)[..., self._columns]
        return np.asarray((columns - self._offset[self._commanded]) / self._scale[self._commanded])

    def to_velocities(self, actions: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the commanded joints' velocities in ROS units: action / velocity_scale.

        An offset shifts positions and drops out of their rate. Shapes as in ``to_positions``.
        """
        columns = np.asarray(actions, np.float64)[..., self._columns]
        return np.asarray(columns / self._velocity_scale[self._commanded])


def put_prefix(message: JointStateMessage, prefix: str) -> None:
    """Put a prefix before every name in a message, which is the reader's own copy."""
    if prefix:
        message.name = [prefix + name for name in message.name]


def read_joint_state(
    message: JointStateMessage, wanted: Set[str]
) -> tuple[dict[str, float], dict[str, str]]:
    """Return what a message says of the wanted joints, and what is wrong with the others of them.

    A message may carry some joints, all, none or more than wanted: several publishers may share
    the topic.

    Returns:
        (joint → position, joint → why its position cannot be used).

    Raises:
        InvalidObservation: names and positions differ in number, or a wanted name comes twice, so
            that nothing in the message can be trusted.

    """
    names = list(message.name)
    if len(names) != len(message.position):
        raise InvalidObservation(
            'joint_states',
            f'{len(names)} names and {len(message.position)} positions',
            expected='one position per name',
            remedy='the publisher fills in the message wrongly',
        )
    positions: dict[str, float] = {}
    problems: dict[str, str] = {}
    for name, position in zip(names, message.position, strict=True):
        if name not in wanted:
            continue
        if name in positions or name in problems:
            raise InvalidObservation(
                'joint_states',
                f'joint {name!r} comes twice in one message',
                expected='each name once',
                remedy='two joints share a name in the URDF or the driver',
            )
        if math.isfinite(position):
            positions[name] = float(position)
        else:
            problems[name] = f'position is {position}'
    return positions, problems
