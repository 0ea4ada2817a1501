# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A Franka arm twice: its URDF, and the Denavit-Hartenberg table its maker publishes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

PATH = Path(__file__).parent / 'data' / 'fr3' / 'fr3.urdf'
URDF = PATH.read_text(encoding='utf-8')
JOINTS = [f'fr3_joint{i}' for i in range(1, 8)]
READY = [0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4]

# Craig's convention: a and alpha lead from the joint before, d and theta belong to the joint.
A = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088)
D = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0)
ALPHA = (0.0, -np.pi / 2, np.pi / 2, np.pi / 2, -np.pi / 2, np.pi / 2, np.pi / 2)
FLANGE, HAND_TURN, HAND_TO_TCP = 0.107, -np.pi / 4, 0.1034


def dh_pose(angles: Sequence[float]) -> np.ndarray:
    """Return the pose of the point between the fingers in the arm's base, float64 [4, 4]."""
    pose = np.eye(4)
    for a, d, alpha, theta in zip(A, D, ALPHA, angles, strict=True):
        pose = pose @ _craig(a, d, alpha, theta)
    return pose @ _craig(0.0, FLANGE, 0.0, HAND_TURN) @ _craig(0.0, HAND_TO_TCP, 0.0, 0.0)


def _craig(a: float, d: float, alpha: float, theta: float) -> np.ndarray:
    ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
    return np.array(
        [
            [ct, -st, 0.0, a],
            [st * ca, ct * ca, -sa, -d * sa],
            [st * sa, ct * sa, ca, d * ca],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )
