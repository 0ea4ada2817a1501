# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the node makes of a robot's topics is what a client of the same robot sends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from families import FAMILIES, Family, Servers, flatten, infer

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.control.joints import JointMap
from openpi_policy_ros.control.match import robot_problems
from openpi_policy_ros.control.observation import Assembler, Ready

every = pytest.mark.parametrize('family', FAMILIES.values(), ids=FAMILIES.keys())


@every
def test_cameras_joints_and_rate_fit_the_policy(family: Family, servers: Servers) -> None:
    robot = load_robot(family.robot)
    assert robot_problems(robot, servers[family.robot].engine.spec) == []
    assert bool(robot.camera_names) is bool(robot.joints.names) is bool(family.positions)
    assert robot.timing.action_rate == family.rate


@every
def test_topics_give_what_a_client_of_the_family_sends(family: Family, servers: Servers) -> None:
    if not family.positions:
        assert family.robot == 'libero'
        return
    robot = load_robot(family.robot)
    observation = from_topics(robot, family)
    sent = flatten(family.observation)
    carried = {camera.key for camera in robot.cameras.values()} | set(robot.joints.keys)
    assert observation.keys() == carried | {'prompt'}
    for key in carried:
        assert observation[key].shape == np.shape(sent[key]), key
        np.testing.assert_allclose(observation[key], sent[key], atol=1e-4, err_msg=key)
    rows, columns = family.shape
    np.testing.assert_allclose(
        infer(servers[family.robot].engine, observation),
        servers.model_chunk(family)[:rows, :columns],
        atol=1e-4,
    )


@every
def test_a_position_asked_for_where_the_robot_stands_leaves_it_standing(family: Family) -> None:
    robot = load_robot(family.robot)
    joint_map = JointMap(robot.joints)
    commanded = [name for name, _ in joint_map.commanded]
    arms = [name for name in robot.joints.names if 'finger' not in name]
    assert [name for name in commanded if 'finger' not in name] == arms
    if family.action_space == 'joint_position':
        np.testing.assert_allclose(
            joint_map.to_positions(family.state),
            [family.positions[name] for name in commanded],
            atol=1e-5,
        )


def from_topics(robot: RobotConfig, family: Family) -> dict[str, Any]:
    """Return the observation that the node makes of messages that say what the client says."""
    second = 1_700_000_000
    sensors = Assembler(robot, lambda: second * 10**9)
    sensors.set_prompt(family.prompt)
    header = SimpleNamespace(stamp=SimpleNamespace(sec=second, nanosec=0))
    feature_of = dict(robot.profile.pairs())
    for name, camera in robot.cameras.items():
        pixels = family.images[feature_of[camera.key]]
        message = SimpleNamespace(
            header=header,
            height=224,
            width=224,
            step=3 * 224,
            encoding='rgb8',
            is_bigendian=0,
            data=pixels.tobytes(),
        )
        sensors.add_image(name, message)
    # In an order of their own: joints are found by name.
    names = sorted(family.positions)
    positions = [float(family.positions[name]) for name in names]
    sensors.add_joints(SimpleNamespace(header=header, name=names, position=positions))
    result = sensors.snapshot()
    assert isinstance(result, Ready), result
    return dict(result.observation)


@pytest.mark.parametrize(
    ('robot', 'joint', 'ros', 'policy'),
    [
        ('droid', 'finger_joint', (0.0, 0.8), (0.0, 1.0)),
        ('droid_jointpos', 'finger_joint', (0.0, 0.8), (0.0, 1.0)),
        ('droid_jointpos_delta', 'finger_joint', (0.0, 0.8), (0.0, 1.0)),
        ('roboarena', 'finger_joint', (0.0, 0.8), (0.0, 1.0)),
        # Open and closed the other way round.
        ('fr3', 'fr3_finger_joint1', (0.04, 0.0), (0.0, 1.0)),
        ('aloha', 'left/left_finger', (0.0440, 0.0579), (0.0, 1.0)),
        ('aloha', 'right/left_finger', (0.0440, 0.0579), (0.0, 1.0)),
        ('so101', 'gripper', (-0.174533, 1.74533), (0.0, 100.0)),
        ('so101', 'elbow_flex', (-np.pi / 2, np.pi), (-90.0, 180.0)),
    ],
)
def test_the_ends_of_a_joints_range_are_those_the_policy_knows_both_ways(
    robot: str, joint: str, ros: tuple[float, float], policy: tuple[float, float]
) -> None:
    joints = load_robot(robot).joints
    joint_map = JointMap(joints)
    rest = dict.fromkeys(joints.names, 0.0)
    for position, value in zip(ros, policy, strict=True):
        state = np.concatenate(list(joint_map.state({**rest, joint: position}).values()))
        assert state[joints.names.index(joint)] == pytest.approx(value, abs=1e-3)
        column = joints.action_indices[joints.names.index(joint)]
        if column >= 0:
            action = np.zeros(len(joints.names))
            action[column] = value
            commanded = joint_map.to_positions(action)
            names = [name for name, _ in joint_map.commanded]
            assert commanded[names.index(joint)] == pytest.approx(position, abs=1e-5)
