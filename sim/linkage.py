# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Swing the drawn rods of a Robotiq 2F-85 with fingers that slide, so that they stay linked.

Each finger of the real gripper hangs on two parallel rods: its tip keeps its direction, moves
inwards, and up to 13 mm outwards on an arc. Ours moves inwards only. The tips are drawn where ours
are, since those touch; the rods turn as the real ones do, about the finger's two pins, and it is
their other ends, within the housing, that give way by those millimetres.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from openpi_policy_ros_sim.state import Vector


class Rod(NamedTuple):
    """Something that turns about a pin of a finger.

    Attributes:
        geom: its name in the model.
        pin: [3] in m, in the frame of the finger's body.

    """

    geom: str
    pin: Vector


class Finger(NamedTuple):
    """One finger and its rods.

    Attributes:
        joint: of the scene: how far the finger has slid inwards, m.
        side: sign of the finger's y.
        reach: along y and z, m, from a rod's pin at the housing to the one at the open finger.
        rods: what turns.

    """

    joint: str
    side: int
    reach: tuple[float, float]
    rods: tuple[Rod, ...]

    def angle(self, travel: float) -> float:
        """Return by how much the rods have turned inwards when the finger slid so far, rad."""
        out, along = self.reach
        return math.acos((out - travel) / math.hypot(out, along)) - math.atan2(along, out)


class Swinging:
    """Puts rods where the fingers of a moment have them; touches nothing but what is drawn.

    Args:
        model: which has the geoms, the joints and their bodies.
        fingers: with rods.

    """

    def __init__(self, model: Any, fingers: tuple[Finger, ...]) -> None:
        self._fingers = [
            (
                finger,
                int(model.joint(finger.joint).qposadr[0]),
                int(model.joint(finger.joint).bodyid[0]),
                [(model.geom(rod.geom).id, *_resting(model, rod)) for rod in finger.rods],
            )
            for finger in fingers
        ]

    def draw_from(self, data: Any) -> None:
        """Move the rods in ``data``, until MuJoCo computes poses again."""
        for finger, at, body, rods in self._fingers:
            turn = _about_x(finger.side * finger.angle(float(data.qpos[at])))
            rotation = data.xmat[body].reshape(3, 3)
            for geom, pin, offset, resting in rods:
                data.geom_xpos[geom] = data.xpos[body] + rotation @ (pin + turn @ offset)
                data.geom_xmat[geom] = (rotation @ turn @ resting).ravel()


def _resting(model: Any, rod: Rod) -> tuple[Vector, Vector, Vector]:
    """Return the pin, and position from there and rotation of the rod when the finger is open."""
    import mujoco

    geom = model.geom(rod.geom)
    rotation = np.empty(9)
    mujoco.mju_quat2Mat(rotation, geom.quat)
    return rod.pin, geom.pos - rod.pin, rotation.reshape(3, 3)


def _about_x(angle: float) -> Vector:
    cosine, sine = math.cos(angle), math.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
