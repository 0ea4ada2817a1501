# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Everything the simulator knows at one moment; a policy sees a small part of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class State:
    """One moment. Positions in m in the robot's base frame, quaternions w, x, y, z.

    Attributes:
        time: since the reset, in s.
        joint_position: float64 [7], rad.
        joint_velocity: float64 [7], rad/s.
        gripper_position: 0 open … 1 closed.
        tool_position: float64 [3], between the fingertips.
        tool_quaternion: float64 [4]; z is where the fingers point, they open along y.
        cube: pose, float64 [7]: position, quaternion.
        cube_velocity: float64 [6]: linear in m/s, angular in rad/s.
        bowl: pose, float64 [7]; its frame is in the middle of its foot.
        can: pose, float64 [7].
        box: pose, float64 [7].

    """

    time: float
    joint_position: Vector
    joint_velocity: Vector
    gripper_position: float
    tool_position: Vector
    tool_quaternion: Vector
    cube: Vector
    cube_velocity: Vector
    bowl: Vector
    can: Vector
    box: Vector

    @property
    def policy_state(self) -> npt.NDArray[np.float32]:
        """Return what DROID measures: seven angles and the gripper, float32 [8]."""
        return np.append(self.joint_position, self.gripper_position).astype(np.float32)


def rotation(quaternion: npt.ArrayLike) -> Vector:
    """Return the rotation matrix, float64 [3, 3], of a unit quaternion w, x, y, z."""
    w, x, y, z = np.asarray(quaternion, dtype=np.float64)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
