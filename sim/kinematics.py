# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the tool is for given joint angles, and which way it moves with them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.renderer import mujoco
from openpi_policy_ros_sim.scene import build_xml
from openpi_policy_ros_sim.state import Vector

_DAMPING = 0.03
# How fast the joints that the tool does not need return to the reset pose, per s.
_POSTURE = 0.8


class Kinematics:
    """Forward and differential kinematics of the arm, apart from any simulation."""

    def __init__(self) -> None:
        self._model = mujoco.MjModel.from_xml_string(build_xml())
        self._data = mujoco.MjData(self._model)
        self._tool = self._model.site('tool').id

    def pose(self, joints: npt.ArrayLike) -> tuple[Vector, Vector]:
        """Return the tool's position [3] in m and rotation [3, 3] for joint angles [7] in rad."""
        self._data.qpos[: c.JOINTS] = joints
        mujoco.mj_kinematics(self._model, self._data)
        return (
            self._data.site_xpos[self._tool].copy(),
            self._data.site_xmat[self._tool].reshape(3, 3).copy(),
        )

    def jacobian(self, joints: npt.ArrayLike) -> Vector:
        """Return the tool's Jacobian, float64 [6, 7]: linear over angular, in the base frame."""
        self.pose(joints)
        mujoco.mj_comPos(self._model, self._data)
        full = np.empty((6, self._model.nv))
        mujoco.mj_jacSite(self._model, self._data, full[:3], full[3:], self._tool)
        return full[:, : c.JOINTS]

    def joint_velocity(self, joints: Vector, twist: Vector) -> Vector:
        """Return joint velocities [7] that move the tool by ``twist`` [6] (m/s, rad/s).

        Damped least squares; what the seven joints have to spare returns to the reset pose. The
        result is scaled down as a whole where a joint would exceed its speed limit.
        """
        jacobian = self.jacobian(joints)
        square = jacobian @ jacobian.T + _DAMPING**2 * np.eye(6)
        inverse = jacobian.T @ np.linalg.inv(square)
        posture = _POSTURE * (np.asarray(c.HOME) - joints)
        velocity = inverse @ twist + posture - inverse @ (jacobian @ posture)
        excess = np.max(np.abs(velocity) / np.asarray(c.VELOCITY))
        return velocity / max(1.0, float(excess))
