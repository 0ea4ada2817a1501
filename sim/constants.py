# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Published numbers of the robot and of the DROID setup."""

from __future__ import annotations

import math
from typing import Final

CONTROL_RATE: Final = 15.0
"""Actions per second."""
SUBSTEPS: Final = 32
TIMESTEP: Final = 1.0 / 480.0
"""Physics step in s: 32 of them are one action at 15 Hz exactly."""

JOINTS: Final = 7
ACTION_DIM: Final = 8
JOINT_NAMES: Final = tuple(f'panda_joint{index}' for index in range(1, 8))
HOME: Final = (0.0, -math.pi / 5, 0.0, -4 * math.pi / 5, 0.0, 3 * math.pi / 5, 0.0)
"""Reset pose of DROID in rad: the tool points straight down."""

# Franka's limits: rad, rad/s, N m.
LOWER: Final = (-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973)
UPPER: Final = (2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973)
VELOCITY: Final = (2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61)
TORQUE: Final = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)

STIFFNESS: Final = 400.0
DAMPING: Final = 80.0
VELOCITY_SCALE: Final = 0.2
"""A velocity action v moves the target v × 0.2 rad away from the measured angle."""

FLANGE: Final = 0.107
"""From joint 7 to the flange, in m."""
TOOL: Final = 0.145
"""From the flange to the point between the fingertips, in m."""
STROKE: Final = 0.0425
"""Travel of one finger in m: 85 mm between the pads when open, as the Robotiq 2F-85."""

CUBE_HALF: Final = 0.022
CUBE_MASS: Final = 0.05
BOWL_RIM: Final = 0.080
"""Inner radius of the bowl at its rim, in m."""
BOWL_HEIGHT: Final = 0.050

CAMERAS: Final = ('exterior_1', 'exterior_2', 'wrist')
EXTERIOR_POSITION: Final = (0.05, 0.57, 0.66)
EXTERIOR_FOVY: Final = 71.5
EXTERIOR_QUATERNION: Final = (-0.393, -0.195, 0.399, 0.805)
"""w, x, y, z; looks along −z with +y up, as OpenGL's and MuJoCo's cameras do."""
WRIST_FOVY: Final = 56.7
