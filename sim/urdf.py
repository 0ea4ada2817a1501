# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot as a URDF, from the same numbers as the MuJoCo scene."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.scene import LINKS
from openpi_policy_ros_sim.state import rotation

ROOT: Final = 'panda_link0'
TOOL: Final = 'tool'
"""Link between the fingertips, where MuJoCo's site of that name is."""
FINGER_JOINT: Final = 'finger_joint'
"""How far a finger has come from open, 0 to ``STROKE`` m; the other one mirrors it."""
OTHER_FINGER: Final = 'finger_joint_mirror'
FINGER_SPEED: Final = 0.5
"""Limit of a finger in m/s; what closes it does less by itself."""
FINGER_EFFORT: Final = 40.0


def build_urdf() -> str:
    """Return the robot description: joints, limits, inertias; no shapes.

    The root is the robot's base, which is also the origin of the scene.
    """
    return '\n'.join(
        ['<?xml version="1.0"?>', '<robot name="sim_droid">', *_links(), *_hand(), '</robot>', '']
    )


def _links() -> Iterator[str]:
    yield f'<link name="{ROOT}"/>'
    parent = ROOT
    for index, link in enumerate(LINKS):
        name = f'panda_link{index + 1}'
        xx, yy, zz, xy, xz, yz = link.inertia.split()
        yield (
            f'<link name="{name}">\n'
            f'  <inertial><origin xyz="{link.centre}"/><mass value="{link.mass}"/>\n'
            f'    <inertia ixx="{xx}" ixy="{xy}" ixz="{xz}" iyy="{yy}" iyz="{yz}" izz="{zz}"/>'
            '</inertial>\n'
            '</link>'
        )
        yield (
            f'<joint name="{c.JOINT_NAMES[index]}" type="revolute">\n'
            f'  <parent link="{parent}"/><child link="{name}"/>\n'
            f'  <origin xyz="{link.position}" rpy="{_rpy(link.quaternion)}"/>'
            '<axis xyz="0 0 1"/>\n'
            f'  <limit lower="{c.LOWER[index]}" upper="{c.UPPER[index]}" '
            f'velocity="{c.VELOCITY[index]}" effort="{c.TORQUE[index]}"/>\n'
            '</joint>'
        )
        parent = name


def _hand() -> Iterator[str]:
    yield from _fixed('flange', f'panda_link{c.JOINTS}', 'gripper', c.FLANGE)
    yield from _fixed('tool_fixed', 'gripper', TOOL, c.TOOL)
    for joint, link, axis in ((FINGER_JOINT, 'left_finger', -1), (OTHER_FINGER, 'right_finger', 1)):
        mimic = '' if joint == FINGER_JOINT else f'<mimic joint="{FINGER_JOINT}"/>'
        yield f'<link name="{link}"/>'
        yield (
            f'<joint name="{joint}" type="prismatic">\n'
            f'  <parent link="gripper"/><child link="{link}"/>\n'
            f'  <origin xyz="0 0 0"/><axis xyz="0 {axis} 0"/>{mimic}\n'
            f'  <limit lower="0" upper="{c.STROKE}" velocity="{FINGER_SPEED}" '
            f'effort="{FINGER_EFFORT}"/>\n'
            '</joint>'
        )


def _fixed(joint: str, parent: str, child: str, height: float) -> Iterator[str]:
    yield f'<link name="{child}"/>'
    yield (
        f'<joint name="{joint}" type="fixed">\n'
        f'  <parent link="{parent}"/><child link="{child}"/><origin xyz="0 0 {height}"/>\n'
        '</joint>'
    )


def _rpy(quaternion: str) -> str:
    """Return the angles of Rz · Ry · Rx of a rotation w, x, y, z whose pitch is not ±90°."""
    matrix = rotation([float(part) for part in quaternion.split()])
    roll = math.atan2(matrix[2, 1], matrix[2, 2])
    pitch = -math.asin(matrix[2, 0])
    yaw = math.atan2(matrix[1, 0], matrix[0, 0])
    return ' '.join(repr(float(angle) + 0.0) for angle in (roll, pitch, yaw))
