# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The outputs and limits of the shipped robot files, and what they make of a policy's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain

import numpy as np
import pytest
from families import FAMILIES
from shipped_rig import ShippedRig

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.control.commands import GripperCommand

DRIVEN = ('fr3', 'aloha', 'so101', 'sim_droid')
LEFT_OUT = ('droid', 'droid_jointpos', 'droid_jointpos_delta', 'roboarena', 'libero')

VX300S = {
    # interbotix_xsarm_descriptions: urdf/vx300s.urdf.xacro, in degrees where it is.
    'waist': (-math.pi, math.pi, math.pi),
    'shoulder': (math.radians(-106), math.radians(72), math.pi),
    'elbow': (math.radians(-101), math.radians(92), math.pi),
    'forearm_roll': (-math.pi, math.pi, math.pi),
    'wrist_angle': (math.radians(-107), math.radians(128), math.pi),
    'wrist_rotate': (-math.pi, math.pi, math.pi),
    # FOLLOWER_GRIPPER_POSITION_CLOSE and _OPEN of Interbotix' aloha; 1 m/s of the URDF.
    'left_finger': (0.0440, 0.0579, 1.0),
}
PANDA = {
    # franka_description: robots/fer/joint_limits.yaml.
    'panda_joint1': (-2.8973, 2.8973, 2.175),
    'panda_joint2': (-1.7628, 1.7628, 2.175),
    'panda_joint3': (-2.8973, 2.8973, 2.175),
    'panda_joint4': (-3.0718, -0.0698, 2.175),
    'panda_joint5': (-2.8973, 2.8973, 2.61),
    'panda_joint6': (-0.0175, 3.7525, 2.61),
    'panda_joint7': (-2.8973, 2.8973, 2.61),
    # ros2_robotiq_gripper: urdf/robotiq_2f_85_macro.urdf.xacro.
    'finger_joint': (0.0, 0.8, 0.5),
}
PUBLISHED: dict[str, Mapping[str, tuple[float, float, float]]] = {
    'fr3': {
        # franka_description: robots/fr3/joint_limits.yaml, end_effectors/common/franka_hand.xacro.
        'fr3_joint1': (-2.7437, 2.7437, 2.62),
        'fr3_joint2': (-1.7837, 1.7837, 2.62),
        'fr3_joint3': (-2.9007, 2.9007, 2.62),
        'fr3_joint4': (-3.0421, -0.1518, 2.62),
        'fr3_joint5': (-2.8065, 2.8065, 5.26),
        'fr3_joint6': (0.5445, 4.5169, 4.18),
        'fr3_joint7': (-3.0159, 3.0159, 5.26),
        'fr3_finger_joint1': (0.0, 0.04, 0.2),
    },
    'aloha': {f'{side}/{name}': of for side in ('left', 'right') for name, of in VX300S.items()},
    'so101': {
        # SO-ARM100: Simulation/SO101/so101_new_calib.urdf; 0.222 s per 60 degrees of Feetech.
        'shoulder_pan': (-1.91986, 1.91986, math.radians(60) / 0.222),
        'shoulder_lift': (-1.74533, 1.74533, math.radians(60) / 0.222),
        'elbow_flex': (-1.69, 1.69, math.radians(60) / 0.222),
        'wrist_flex': (-1.65806, 1.65806, math.radians(60) / 0.222),
        'wrist_roll': (-2.74385, 2.84121, math.radians(60) / 0.222),
        'gripper': (-0.174533, 1.74533, math.radians(60) / 0.222),
    },
    **dict.fromkeys(('droid', 'droid_jointpos', 'droid_jointpos_delta', 'roboarena'), PANDA),
}


@pytest.mark.parametrize('name', DRIVEN)
def test_every_column_of_an_action_has_one_output(name: str) -> None:
    robot = load_robot(name)
    outputs = [robot.outputs[output] for output in robot.output_names]
    columns = sorted(chain.from_iterable(output.action_indices for output in outputs))
    assert columns == list(range(len(robot.profile.action_names)))
    named = dict(zip(robot.joints.names, robot.joints.action_indices, strict=True))
    for output in outputs:
        for joint, column in zip(output.joints, output.action_indices, strict=True):
            # A gripper's joint may be measured in another unit than it is commanded in.
            assert named[joint] == column or (output.is_gripper and named[joint] == -1), joint
            assert ('gripper' in robot.profile.action_names[column]) == output.is_gripper


def test_robots_without_known_controllers_name_none() -> None:
    assert set(DRIVEN) | set(LEFT_OUT) == set(FAMILIES)
    assert [name for name in LEFT_OUT if load_robot(name).output_names] == []


@pytest.mark.parametrize('name', PUBLISHED)
def test_limits_are_within_the_published_ones(name: str) -> None:
    robot = load_robot(name)
    limits, published = robot.limits, PUBLISHED[name]
    assert set(robot.joints.names) == set(published)
    for joint, lower, upper, speed in zip(
        robot.joints.names, limits.position_min, limits.position_max, limits.velocity, strict=True
    ):
        low, high, fastest = published[joint]
        assert low <= lower < upper <= high, joint
        # Nor much narrower: an arm that cannot reach is no safer for it.
        assert upper - lower > 0.9 * (high - low), joint
        assert 0.9 * fastest < speed <= fastest, joint


@pytest.mark.parametrize('name', DRIVEN)
def test_two_controllers_share_no_topic_and_each_message_names_the_controllers_joints(
    name: str,
) -> None:
    robot = load_robot(name)
    assert len({output.topic for output in robot.outputs.values()}) == len(robot.outputs)
    prefixes = tuple(prefix for _, prefix in robot.joints.topics() if prefix)
    for output in robot.outputs.values():
        if output.type == 'trajectory':
            assert not any(joint.startswith(prefixes) for joint in output.message_names if prefixes)
            pairs = zip(output.joints, output.message_names, strict=True)
            assert all(joint.endswith(sent) for joint, sent in pairs)


def check_limits(rig: ShippedRig) -> None:
    """Every position told is within the limits, and reached no faster than allowed."""
    robot = rig.robot
    period = 1.0 / robot.execution.control_rate
    for axis, joint in enumerate(rig.joints):
        told = np.array(rig.told[joint])
        assert told.min() >= rig.limits.lower[axis]
        assert told.max() <= rig.limits.upper[axis]
        (output,) = [one for one in robot.outputs.values() if joint in one.joints]
        if output.type != 'gripper':
            fastest = np.abs(np.diff(told)).max() / period
            assert fastest <= rig.limits.velocity[axis] * robot.safety.velocity_scale + 1e-9


def check_calm(rig: ShippedRig) -> None:
    """Nothing had to be clamped, slowed down or waited for."""
    check_limits(rig)
    counters = rig.controller.counters
    assert (counters.clamped, counters.slowed, counters.starved, counters.holds) == (0, 0, 0, 0)
    assert (counters.refused, counters.late, counters.failures) == (0, 0, 0)


def ramp(at: float, seconds: float) -> float:
    return min(max(at, 0.0) / seconds, 1.0)


def test_so101_goes_from_degrees_and_percent_to_radians() -> None:
    joints = ['shoulder_pan', 'shoulder_lift', 'elbow_flex', 'wrist_flex', 'wrist_roll', 'gripper']
    half_open = (1.74533 - 0.174533) / 2
    rig = ShippedRig('so101', {**dict.fromkeys(joints, 0.0), 'gripper': half_open})
    goal = np.array([30.0, -45.0, 60.0, 20.0, -90.0, 100.0])
    start = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 50.0])
    rig.drive(lambda at: start + ramp(at, 2.0) * (goal - start), 3.0)
    expected = [*np.deg2rad([30, -45, 60, 20, -90]), 1.74533]
    assert [rig.at[joint] for joint in joints] == pytest.approx(expected, abs=1e-5)
    assert len(rig.told['elbow_flex']) == len(rig.told['gripper']) == 150
    check_calm(rig)


def test_aloha_moves_each_arm_by_its_own_columns_and_grippers_to_their_ends() -> None:
    arm = ['waist', 'shoulder', 'elbow', 'forearm_roll', 'wrist_angle', 'wrist_rotate']
    pose = [0.0, -0.96, 1.16, 0.0, -0.3, 0.0]
    sides = {'left': 0.0440, 'right': 0.0579}
    at = {f'{side}/left_finger': finger for side, finger in sides.items()}
    at |= {
        f'{side}/{joint}': angle for side in sides for joint, angle in zip(arm, pose, strict=True)
    }
    rig = ShippedRig('aloha', at)

    def plan(at: float) -> np.ndarray:
        way = 0.3 * ramp(at, 1.5)
        opening = ramp(at, 0.5)
        return np.array([*np.add(pose, way), opening, *np.subtract(pose, way), 1.0 - opening])

    rig.drive(plan, 3.0)
    for side, sign, finger in (('left', 1, 0.0579), ('right', -1, 0.0440)):
        reached = [rig.at[f'{side}/{joint}'] for joint in arm]
        assert reached == pytest.approx(np.add(pose, sign * 0.3), abs=1e-5)
        assert rig.at[f'{side}/left_finger'] == pytest.approx(finger, abs=1e-6)
    assert len(rig.told['left/waist']) == 150
    check_calm(rig)


def test_fr3_moves_and_its_hand_gets_two_goals_and_no_third() -> None:
    pose = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
    joints = [f'fr3_joint{i}' for i in range(1, 8)]
    at = dict(zip(joints, pose.tolist(), strict=True)) | {'fr3_finger_joint1': 0.04}
    rig = ShippedRig('fr3', at)
    # 0.2 is nearly open, 0.55 and 0.45 are within the hysteresis, 0.9 is nearly closed.
    gripper = ((0.5, 0.2), (1.0, 0.55), (1.5, 0.9), (9.0, 0.45))

    def plan(at: float) -> np.ndarray:
        return np.append(pose + 0.25 * ramp(at, 1.0), next(g for end, g in gripper if at < end))

    rig.drive(plan, 3.0)
    assert [rig.at[joint] for joint in joints] == pytest.approx(pose + 0.25, abs=1e-5)
    goals = [command for command in rig.wire if isinstance(command, GripperCommand)]
    assert [(goal.position, goal.max_effort) for goal in goals] == [(0.039, 20.0), (0.0, 20.0)]
    assert len(rig.told['fr3_joint4']) == 150
    check_calm(rig)


def test_a_shipped_limit_clamps_in_the_joints_own_units() -> None:
    # The gripper has no margin; 115 and -110 degrees are 0.09 and 0.17 rad beyond the ends.
    start = {'shoulder_pan': 1.7, 'shoulder_lift': -1.6, 'elbow_flex': 0.0}
    start |= {'wrist_flex': 0.0, 'wrist_roll': 0.0, 'gripper': 1.7}
    rig = ShippedRig('so101', start)
    first = np.rad2deg([1.7, -1.6, 0.0, 0.0, 0.0, 0.0])
    first[5] = 97.0
    goal = np.array([115.0, -110.0, 0.0, 0.0, 0.0, 104.0])
    rig.drive(lambda at: first + ramp(at, 2.0) * (goal - first), 3.0)
    assert rig.at['shoulder_pan'] == pytest.approx(1.91986 - 0.02)
    assert rig.at['shoulder_lift'] == pytest.approx(-1.74533 + 0.02)
    assert rig.at['gripper'] == pytest.approx(1.74533)
    check_limits(rig)
    assert rig.controller.counters.clamped > 0
