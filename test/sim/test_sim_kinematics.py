# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The arm is a Panda: its kinematics are those of Franka's published table."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip('mujoco')

from openpi_policy_ros_sim import constants as c

# Franka's table, Craig's convention: a, d, alpha of each joint, then the flange.
TABLE = (
    (0.0, 0.333, 0.0),
    (0.0, 0.0, -math.pi / 2),
    (0.0, 0.316, math.pi / 2),
    (0.0825, 0.0, math.pi / 2),
    (-0.0825, 0.384, -math.pi / 2),
    (0.0, 0.0, math.pi / 2),
    (0.088, 0.0, math.pi / 2),
)
FLANGE, FINGERTIPS = 0.107, 0.145
LIMITS = (
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
)


def step(a: float, d: float, alpha: float, theta: float) -> np.ndarray:
    cos, sin, ca, sa = math.cos(theta), math.sin(theta), math.cos(alpha), math.sin(alpha)
    return np.array(
        [
            [cos, -sin, 0, a],
            [sin * ca, cos * ca, -sa, -d * sa],
            [sin * sa, cos * sa, ca, d * ca],
            [0, 0, 0, 1],
        ]
    )


def by_the_table(joints) -> np.ndarray:
    frame = np.eye(4)
    for (a, d, alpha), theta in zip(TABLE, joints, strict=True):
        frame = frame @ step(a, d, alpha, theta)
    return frame @ step(0.0, FLANGE + FINGERTIPS, 0.0, 0.0)


def anywhere(count: int) -> np.ndarray:
    low, high = np.transpose(LIMITS)
    return np.random.default_rng(7).uniform(low, high, (count, 7))


def test_the_tool_is_where_the_published_table_says(kinematics):
    for joints in [np.array(c.HOME), *anywhere(50)]:
        position, rotation = kinematics.pose(joints)
        frame = by_the_table(joints)
        np.testing.assert_allclose(position, frame[:3, 3], atol=1e-9)
        np.testing.assert_allclose(rotation, frame[:3, :3], atol=1e-9)


def test_at_the_reset_pose_the_fingers_point_down_and_open_sideways(kinematics):
    _, rotation = kinematics.pose(c.HOME)
    np.testing.assert_allclose(rotation, np.diag([1.0, -1.0, -1.0]), atol=1e-9)


def test_the_jacobian_is_the_derivative_of_the_pose(kinematics):
    small = 1e-6
    for joints in anywhere(5):
        jacobian = kinematics.jacobian(joints)
        _, rotation = kinematics.pose(joints)
        for joint in range(7):
            moved = joints.copy()
            moved[joint] += small
            position, turned = kinematics.pose(moved)
            linear = (position - kinematics.pose(joints)[0]) / small
            skew = (turned @ rotation.T - np.eye(3)) / small
            angular = np.array([skew[2, 1], skew[0, 2], skew[1, 0]])
            np.testing.assert_allclose(jacobian[:3, joint], linear, atol=1e-5)
            np.testing.assert_allclose(jacobian[3:, joint], angular, atol=1e-5)


def test_joint_velocities_move_the_tool_as_asked(kinematics):
    twist = np.array([0.1, -0.05, 0.08, 0.0, 0.0, 0.3])
    joints = np.array(c.HOME) + 0.1
    moved = kinematics.jacobian(joints) @ kinematics.joint_velocity(joints, twist)
    np.testing.assert_allclose(moved, twist, atol=0.01)


def test_no_joint_is_asked_to_be_faster_than_its_limit(kinematics):
    velocity = kinematics.joint_velocity(np.array(c.HOME), np.array([9.0, 9, 9, 0, 0, 0]))
    assert np.max(np.abs(velocity) / c.VELOCITY) == pytest.approx(1.0)


def test_limits_and_torques_are_the_published_ones(environment):
    model = environment.model
    joints = [model.joint(name) for name in c.JOINT_NAMES]
    np.testing.assert_allclose([joint.range for joint in joints], LIMITS)
    forces = [model.actuator(name).forcerange[1] for name in c.JOINT_NAMES]
    assert forces == [87.0] * 4 + [12.0] * 3
    assert model.opt.timestep * c.SUBSTEPS == pytest.approx(1 / 15, abs=1e-15)
