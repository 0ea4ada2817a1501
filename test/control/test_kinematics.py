# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forward kinematics agree with numbers that come from elsewhere, and with geometry."""

from __future__ import annotations

import math
from collections.abc import Mapping

import franka
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.control.kinematics import KinematicTree, about, from_rpy
from openpi_policy_ros.errors import ConfigurationError

ANGLES = st.lists(st.floats(-3.0, 3.0), min_size=7, max_size=7)
SMALL = st.floats(-2.0, 2.0)
THREE = st.tuples(SMALL, SMALL, SMALL)
FR3 = KinematicTree(franka.URDF)
ARM = '<link name="base"/><link name="arm"/><link name="tip"/>'


def joint(
    name: str,
    parent: str,
    child: str,
    kind: str = 'revolute',
    *,
    xyz: str = '0 0 0',
    rpy: str = '0 0 0',
    inside: str = '',
) -> str:
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/>{inside}</joint>'
    )


def robot(*parts: str) -> str:
    return f'<robot name="r">{"".join(parts)}</robot>'


def links(*names: str) -> str:
    return ''.join(f'<link name="{name}"/>' for name in names)


def text(numbers: tuple[float, ...]) -> str:
    return ' '.join(map(repr, numbers))


def at(urdf: str, tip: str, positions: Mapping[str, float]) -> np.ndarray:
    return KinematicTree(urdf).chain(tip).poses(positions)[1]


@settings(max_examples=60, deadline=None)
@given(ANGLES)
def test_a_franka_is_where_its_denavit_hartenberg_table_says(angles: list[float]) -> None:
    rotation, place = FR3.chain('fr3_hand_tcp').poses(dict(zip(franka.JOINTS, angles, strict=True)))
    expected = franka.dh_pose(angles)
    np.testing.assert_allclose(place, expected[:3, 3], atol=1e-12)
    np.testing.assert_allclose(rotation, expected[:3, :3], atol=1e-12)


def test_a_franka_that_is_ready_points_down_before_its_base() -> None:
    ready = dict(zip(franka.JOINTS, franka.READY, strict=True))
    # As MoveIt shows the Panda's flange in its pose called ready.
    np.testing.assert_allclose(
        FR3.chain('fr3_link8').poses(ready)[1], [0.306891, 0.0, 0.590282], atol=1e-6
    )
    rotation, place = FR3.chain('fr3_hand_tcp').poses(ready)
    np.testing.assert_allclose(place, [0.306891, 0.0, 0.590282 - 0.1034], atol=1e-6)
    np.testing.assert_allclose(rotation, np.diag([1.0, -1.0, -1.0]), atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(ANGLES, min_size=1, max_size=4))
def test_many_rows_at_once_are_the_rows_one_by_one(rows: list[list[float]]) -> None:
    chain = FR3.chain('fr3_hand_tcp')
    columns = dict(zip(franka.JOINTS, np.array(rows).T, strict=True))
    rotations, places = chain.poses(columns)
    assert rotations.shape == (len(rows), 3, 3)
    assert places.shape == (len(rows), 3)
    for row, rotation, place in zip(rows, rotations, places, strict=True):
        alone = chain.poses(dict(zip(franka.JOINTS, row, strict=True)))
        np.testing.assert_allclose(rotation, alone[0], atol=1e-12)
        np.testing.assert_allclose(place, alone[1], atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(THREE, st.floats(-10.0, 10.0))
def test_a_rotation_keeps_lengths_its_axis_and_the_hand(
    axis: tuple[float, float, float], angle: float
) -> None:
    direction = np.array(axis) + np.array([3.0, 0.0, 0.0])
    direction /= np.linalg.norm(direction)
    turned = about(direction, np.array(angle))
    np.testing.assert_allclose(turned @ turned.T, np.eye(3), atol=1e-12)
    assert math.isclose(np.linalg.det(turned), 1.0, abs_tol=1e-12)
    np.testing.assert_allclose(turned @ direction, direction, atol=1e-12)
    assert math.isclose(np.trace(turned), 1.0 + 2.0 * math.cos(angle), abs_tol=1e-12)


def test_roll_pitch_and_yaw_turn_about_axes_that_stay() -> None:
    # Each by a quarter: the one after the other, as the axes of the parent are.
    quarter = math.pi / 2
    np.testing.assert_allclose(from_rpy(quarter, 0, 0) @ [0, 1, 0], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(from_rpy(0, quarter, 0) @ [1, 0, 0], [0, 0, -1], atol=1e-12)
    np.testing.assert_allclose(from_rpy(0, 0, quarter) @ [1, 0, 0], [0, 1, 0], atol=1e-12)
    # Roll takes y to z, then yaw leaves z; pitch would not have.
    np.testing.assert_allclose(from_rpy(quarter, 0, quarter) @ [0, 1, 0], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(from_rpy(quarter, quarter, 0) @ [0, 1, 0], [1, 0, 0], atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(THREE, THREE, ANGLES)
def test_moving_the_base_moves_everything_with_it(
    xyz: tuple[float, float, float], rpy: tuple[float, float, float], angles: list[float]
) -> None:
    base = '<origin xyz="0 0 0" rpy="0 0 0"/>'
    assert franka.URDF.count(base) == 1
    moved = franka.URDF.replace(base, f'<origin xyz="{text(xyz)}" rpy="{text(rpy)}"/>', 1)
    positions = dict(zip(franka.JOINTS, angles, strict=True))
    rotation, place = KinematicTree(moved).chain('fr3_hand_tcp').poses(positions)
    pose = franka.dh_pose(angles)
    np.testing.assert_allclose(rotation, from_rpy(*rpy) @ pose[:3, :3], atol=1e-11)
    np.testing.assert_allclose(place, from_rpy(*rpy) @ pose[:3, 3] + xyz, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(THREE, THREE, THREE, THREE)
def test_two_fixed_joints_are_as_one(
    xyz: tuple[float, float, float],
    rpy: tuple[float, float, float],
    xyz2: tuple[float, float, float],
    rpy2: tuple[float, float, float],
) -> None:
    urdf = robot(
        ARM,
        joint('one', 'base', 'arm', 'fixed', xyz=text(xyz), rpy=text(rpy)),
        joint('two', 'arm', 'tip', 'fixed', xyz=text(xyz2), rpy=text(rpy2)),
    )
    chain = KinematicTree(urdf).chain('tip')
    assert chain.drivers == ()
    rotation, place = chain.poses({})
    np.testing.assert_allclose(place, np.array(xyz) + from_rpy(*rpy) @ xyz2, atol=1e-12)
    np.testing.assert_allclose(rotation, from_rpy(*rpy) @ from_rpy(*rpy2), atol=1e-12)


def test_a_prismatic_joint_slides_along_its_axis_whatever_its_length() -> None:
    urdf = robot(
        ARM,
        joint('turn', 'base', 'arm', inside='<axis xyz="0 0 5"/>'),
        joint('slide', 'arm', 'tip', 'prismatic', xyz='1 0 0', inside='<axis xyz="0 3 0"/>'),
    )
    np.testing.assert_allclose(at(urdf, 'tip', {'turn': 0.0, 'slide': 0.5}), [1, 0.5, 0])
    np.testing.assert_allclose(
        at(urdf, 'tip', {'turn': math.pi / 2, 'slide': 0.5}), [-0.5, 1, 0], atol=1e-12
    )


def test_a_joint_without_an_axis_turns_about_x() -> None:
    urdf = robot(
        ARM,
        joint('turn', 'base', 'arm', 'continuous'),
        joint('f', 'arm', 'tip', 'fixed', xyz='0 1 0'),
    )
    np.testing.assert_allclose(at(urdf, 'tip', {'turn': math.pi / 2}), [0, 0, 1], atol=1e-12)


def test_a_mimic_follows_its_driver_also_through_another_mimic() -> None:
    urdf = robot(
        ARM,
        links('side'),
        joint('lead', 'base', 'side', 'prismatic'),
        joint(
            'slow',
            'base',
            'arm',
            'prismatic',
            inside='<mimic joint="lead" multiplier="2" offset="0.1"/>',
        ),
        joint('half', 'arm', 'tip', 'prismatic', inside='<mimic joint="slow" multiplier="-0.5"/>'),
    )
    chain = KinematicTree(urdf).chain('tip')
    assert chain.drivers == ('lead',)
    # slow = 2 · 0.4 + 0.1 = 0.9, half = −0.45.
    np.testing.assert_allclose(chain.poses({'lead': 0.4})[1], [0.45, 0, 0])


def test_a_fixed_joint_stays_whatever_it_is_said_to_mimic() -> None:
    stuck = joint('a', 'b', 't', 'fixed', xyz='1 0 0', inside='<mimic joint="gone"/>')
    np.testing.assert_allclose(at(robot(links('b', 't'), stuck), 't', {}), [1, 0, 0])


def test_a_finger_of_the_franka_hand_mimics_the_other() -> None:
    chain = FR3.chain('fr3_rightfinger')
    assert chain.drivers == (*franka.JOINTS, 'fr3_finger_joint1')
    positions = dict.fromkeys(franka.JOINTS, 0.0)
    left = FR3.chain('fr3_leftfinger').poses({**positions, 'fr3_finger_joint1': 0.03})[1]
    right = chain.poses({**positions, 'fr3_finger_joint1': 0.03})[1]
    assert math.isclose(np.linalg.norm(left - right), 0.06, abs_tol=1e-12)


def test_the_tip_of_an_arm_is_behind_its_last_joint_and_the_fixed_ones() -> None:
    assert FR3.root == 'base'
    assert FR3.tips(franka.JOINTS) == ('fr3_hand_tcp',)
    assert FR3.tips(['fr3_finger_joint1']) == ('fr3_leftfinger',)
    assert FR3.tips(['fr3_joint2', 'fr3_joint1']) == ('fr3_link2',)


def test_two_arms_have_two_tips_and_a_fork_of_fixed_joints_is_where_a_tip_ends() -> None:
    urdf = robot(
        links('base', 'l', 'lt', 'lt_cam', 'lt_tool', 'r', 'rt'),
        joint('left', 'base', 'l'),
        joint('right', 'base', 'r'),
        joint('lf', 'l', 'lt', 'fixed'),
        joint('lc', 'lt', 'lt_cam', 'fixed'),
        joint('lo', 'lt', 'lt_tool', 'fixed'),
        joint('rf', 'r', 'rt', 'fixed'),
    )
    assert KinematicTree(urdf).tips(['right', 'left']) == ('lt', 'rt')


@pytest.mark.parametrize(
    ('urdf', 'named'),
    [
        (robot(ARM, joint('a', 'base', 'arm')), "no joint carries, found 'base', 'tip'"),
        (
            robot(
                ARM, joint('a', 'base', 'arm'), joint('b', 'base', 'arm'), joint('c', 'arm', 'tip')
            ),
            "'arm' is the child of 'a' and 'b'",
        ),
        (
            robot(links('x', 'y'), joint('a', 'x', 'y'), joint('b', 'y', 'x')),
            'the joints form a ring',
        ),
        (
            robot(links('o', 'x', 'y'), joint('a', 'x', 'y'), joint('b', 'y', 'x')),
            'does not hang on the root',
        ),
        (robot(links('x'), joint('a', 'x', 'nowhere')), "there is no link 'nowhere'"),
        (
            robot(ARM, '<joint name="a" type="fixed"><child link="arm"/></joint>'),
            "'a' has no parent",
        ),
        (robot(ARM, joint('a', 'base', 'arm', 'ball')), "'a' has type 'ball'"),
        (robot(ARM, joint('a', 'base', 'arm', xyz='0 0')), "'a': origin xyz='0 0', expected three"),
        (robot(ARM, joint('a', 'base', 'arm', rpy='0 nan 0')), "'a': origin rpy='0 nan 0'"),
        (robot(ARM, joint('a', 'base', 'arm', inside='<axis xyz="0 0 0"/>')), 'points nowhere'),
        (
            robot(links('b', 't'), joint('a', 'b', 't', inside='<mimic joint="z"/>')),
            "'a' mimics 'z', which is not there",
        ),
        (
            robot(links('b', 't'), joint('a', 'b', 't', inside='<mimic joint="a" offset="one"/>')),
            "mimic offset='one', expected a number",
        ),
        (
            robot(
                ARM,
                joint('a', 'base', 'arm', inside='<mimic joint="b"/>'),
                joint('b', 'arm', 'tip', inside='<mimic joint="a"/>'),
            ),
            'mimic each other in a ring',
        ),
        (
            robot(
                ARM,
                joint('a', 'base', 'arm', 'fixed'),
                joint('b', 'arm', 'tip', inside='<mimic joint="a"/>'),
            ),
            "'b' mimics 'a', which is fixed",
        ),
    ],
)
def test_what_is_no_tree_of_joints_is_refused_by_name(urdf: str, named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KinematicTree(urdf)
    assert named in '; '.join(caught.value.problems)


def test_a_link_behind_a_floating_joint_has_no_chain_the_others_have() -> None:
    urdf = robot(
        ARM,
        links('side'),
        joint('a', 'base', 'arm', 'floating'),
        joint('b', 'arm', 'tip'),
        joint('c', 'base', 'side'),
    )
    tree = KinematicTree(urdf)
    assert tree.chain('side').drivers == ('c',)
    with pytest.raises(ConfigurationError, match="'a' is floating"):
        tree.chain('tip')
    with pytest.raises(ConfigurationError, match="no link 'hand'"):
        tree.chain('hand')
