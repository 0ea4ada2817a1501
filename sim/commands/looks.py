# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The argument for what the robot is drawn with, which all loops have."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openpi_policy_ros_sim.meshes import Meshes


def add_meshes(group: Any) -> None:
    """Add ``--meshes``."""
    group.add_argument(
        '--meshes',
        metavar='DIR',
        help="draw the robot with meshes that you have: mujoco_menagerie's folder "
        'franka_emika_panda, or one that has it and, for the gripper, robotiq_2f85; the physics '
        'stays the same (default: with simple shapes, several times as fast)',
    )


def chosen_meshes(options: argparse.Namespace) -> Meshes | None:
    """Return them, read; None where none are wanted. MuJoCo has to be there.

    Raises:
        ConfigurationError: what is wrong with the folder.

    """
    if options.meshes is None:
        return None
    from openpi_policy_ros_sim.meshes import read_meshes

    return read_meshes(options.meshes)
