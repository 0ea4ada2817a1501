# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From joints and gripper to the model's state, and from its actions back to joints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.policies.base import FloatArray
from openpi_policy_ros.policies.dreamzero.metadata import (
    GRIPPER,
    JOINTS,
    PARTS,
    Metadata,
    PartStatistics,
)

Array = npt.NDArray[Any]

COLUMNS = sum(PARTS.values())
"""Columns of a chunk in the robot's units: the joints and the gripper."""


@dataclass(frozen=True)
class Units:
    """Normalisation of one checkpoint.

    Attributes:
        metadata: its statistics.
        max_state_dim: width of the model's state.
        relative: whether the joints of a chunk are differences from the measured ones.

    """

    metadata: Metadata
    max_state_dim: int
    relative: bool

    def normalise_state(self, joint: Array, gripper: Array) -> FloatArray:
        """Return the state as the model sees it, float32 [1, 1, max_state_dim].

        Computed in float64; with q99 what lies outside the statistics is cut to −1..1; the rest
        is 0 (DreamZero reference, GR00T's state transform).

        Args:
            joint: measured joints, float [7].
            gripper: its position, float [1].

        """
        state = self.metadata.state
        parts = [normalised(joint, state[JOINTS]), normalised(gripper, state[GRIPPER])]
        padded = np.zeros((1, 1, self.max_state_dim), np.float32)
        padded[0, 0, :COLUMNS] = np.concatenate(parts)
        return padded

    def robot_actions(self, prediction: FloatArray, joint: Array) -> FloatArray:
        """Return a chunk in the robot's units, float32 [H, 8]: joints in rad, gripper 0..1.

        Nothing is clipped.

        Args:
            prediction: what the model answered, float32 [H, A], A >= 8.
            joint: the joints that the call's state held, float [7].

        """
        action, count = self.metadata.action, PARTS[JOINTS]
        joints = denormalised(prediction[:, :count], action[JOINTS])
        if self.relative:
            joints = joints + np.asarray(joint, np.float64)
        gripper = denormalised(prediction[:, count:COLUMNS], action[GRIPPER])
        return np.concatenate([joints, gripper], axis=1).astype(np.float32)

    def middle(self) -> FloatArray:
        """Return the state in the middle of the statistics, float32 [8]."""
        halves = []
        for name, width in PARTS.items():
            part = self.metadata.state[name]
            middle = part.low if part.mode == 'mean_std' else (part.low + part.high) / 2.0
            halves.append(np.broadcast_to(middle, (width,)))
        return np.concatenate(halves).astype(np.float32)


def normalised(values: Array, statistics: PartStatistics) -> npt.NDArray[np.float64]:
    """Return ``values`` [D] in the model's units.

    A column whose range is 0 keeps its value with q99 and mean_std, and is 0 with min_max.
    """
    raw = np.asarray(values, np.float64)
    low, high = statistics.low, statistics.high
    if statistics.mode == 'mean_std':
        flat = high == 0.0
        return np.where(flat, raw, (raw - low) / np.where(flat, 1.0, high))
    flat = high == low
    scaled = 2.0 * (raw - low) / np.where(flat, 1.0, high - low) - 1.0
    if statistics.mode == 'min_max':
        return np.where(flat, 0.0, scaled)
    return np.clip(np.where(flat, raw, scaled), -1.0, 1.0)


def denormalised(values: FloatArray, statistics: PartStatistics) -> FloatArray:
    """Return the model's ``values`` [H, D] in the robot's units, float32.

    Computed in float32 as the reference does; statistics may have a row for each step.
    """
    low, high = statistics.low.astype(np.float32), statistics.high.astype(np.float32)
    if statistics.mode == 'mean_std':
        return values * high + low
    return (values + np.float32(1.0)) / np.float32(2.0) * (high - low) + low
