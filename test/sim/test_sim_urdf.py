# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot description: what others compute from it is what MuJoCo simulates."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('mujoco')

import mujoco

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.control.kinematics import KinematicTree
from openpi_policy_ros.control.limits import from_urdf
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.urdf import FINGER_JOINT, ROOT, TOOL, build_urdf


def random_joints(count: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(c.LOWER, c.UPPER, (count, c.JOINTS))


def test_the_tool_is_where_mujoco_has_it(kinematics):
    chain = KinematicTree(build_urdf()).chain(TOOL)
    assert chain.root == ROOT
    for joints in (np.array(c.HOME), *random_joints(50)):
        rotation, position = chain.poses(dict(zip(c.JOINT_NAMES, joints, strict=True)))
        expected, turned = kinematics.pose(joints)
        np.testing.assert_allclose(position, expected, atol=1e-6)
        np.testing.assert_allclose(rotation, turned, atol=1e-6)


def test_every_link_is_where_mujoco_has_it(environment):
    tree = KinematicTree(build_urdf())
    data = mujoco.MjData(environment.model)
    for joints in random_joints(5):
        data.qpos[: c.JOINTS] = joints
        data.qpos[c.JOINTS : c.JOINTS + 2] = 0.01
        mujoco.mj_kinematics(environment.model, data)
        at = {**dict(zip(c.JOINT_NAMES, joints, strict=True)), FINGER_JOINT: 0.01}
        names = {f'panda_link{number}': f'link{number}' for number in range(1, 8)}
        names |= {name: name for name in ('gripper', 'left_finger', 'right_finger')}
        for link, body in names.items():
            _, position = tree.chain(link).poses(at)
            np.testing.assert_allclose(position, data.body(body).xpos, atol=1e-6, err_msg=link)


def test_its_limits_are_those_of_the_scene(environment):
    limits = from_urdf(build_urdf(), [*c.JOINT_NAMES, FINGER_JOINT])
    for index, name in enumerate(c.JOINT_NAMES):
        low, high = environment.model.joint(name).range
        assert (limits[name].lower, limits[name].upper) == pytest.approx((low, high))
        assert limits[name].velocity == c.VELOCITY[index]
    finger = limits[FINGER_JOINT]
    assert (finger.lower, finger.upper) == pytest.approx(
        environment.model.joint('left_finger').range
    )


def test_its_masses_are_those_of_the_scene(environment):
    from xml.etree import ElementTree

    for link in ElementTree.fromstring(build_urdf()).iter('link'):
        mass = link.find('inertial/mass')
        if mass is not None:
            body = environment.model.body(link.attrib['name'].removeprefix('panda_'))
            assert float(mass.attrib['value']) == pytest.approx(body.mass[0])


def test_the_path_of_the_shipped_robot_file_ends_at_the_tool():
    robot = load_robot('sim_droid')
    tree = KinematicTree(build_urdf())
    assert set(robot.joints.names) <= set(tree.joints)
    assert tree.tips(robot.outputs['arm'].joints) == (TOOL,)
