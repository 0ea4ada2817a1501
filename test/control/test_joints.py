# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Joints are mapped by name, in both directions, whatever order a publisher has."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.configuration.robot import Joints, load_robot
from openpi_policy_ros.control.joints import JointMap, put_prefix, read_joint_state
from openpi_policy_ros.errors import InvalidObservation

ANGLES = st.floats(-3.2, 3.2)
DROID = JointMap(load_robot('droid').joints)


def message(**positions: float) -> Any:
    return SimpleNamespace(name=list(positions), position=list(positions.values()))


@settings(deadline=None)
@given(order=st.permutations(range(8)), angles=st.lists(ANGLES, min_size=8, max_size=8))
def test_the_publishers_order_does_not_matter(order: list[int], angles: list[float]) -> None:
    joints = DROID
    sent = SimpleNamespace(
        name=[joints.names[i] for i in order], position=[angles[i] for i in order]
    )
    positions, problems = read_joint_state(sent, frozenset(joints.names))
    state = joints.state(positions)
    assert problems == {}
    np.testing.assert_array_equal(
        state['observation/joint_position'], np.array(angles[:7], np.float32)
    )
    np.testing.assert_array_equal(
        state['observation/gripper_position'], np.array([angles[7] * 1.25], np.float32)
    )


def test_state_is_scale_times_position_plus_offset_in_float32() -> None:
    joints = JointMap(Joints(names=['a', 'b'], keys=['s'], scale=[2.0, -1.0], offset=[0.5, 0.25]))
    state = joints.state({'b': 3.0, 'a': 1.0})
    assert list(state) == ['s']
    assert state['s'].dtype == np.float32
    np.testing.assert_array_equal(state['s'], [2.5, -2.75])


@pytest.mark.filterwarnings('error')
def test_a_position_beyond_float32_is_infinite_without_a_warning() -> None:
    joints = JointMap(Joints(names=['a'], keys=['state']))
    assert joints.state({'a': 1e300})['state'] == np.inf


def test_joints_of_one_key_are_concatenated_in_order_and_a_joint_without_key_is_left_out() -> None:
    joints = JointMap(Joints(names=['a', 'b', 'c', 'd'], keys=['x', 'y', '', 'x']))
    state = joints.state({'a': 1.0, 'b': 2.0, 'c': 3.0, 'd': 4.0})
    assert {key: list(values) for key, values in state.items()} == {'x': [1.0, 4.0], 'y': [2.0]}
    assert joints.keys == ('x', 'y')


@settings(deadline=None)
@given(
    scale=st.lists(st.floats(0.1, 10.0) | st.floats(-10.0, -0.1), min_size=3, max_size=3),
    offset=st.lists(ANGLES, min_size=3, max_size=3),
    angles=st.lists(ANGLES, min_size=3, max_size=3),
)
def test_a_commanded_position_is_the_inverse_of_a_measured_one(
    scale: list[float], offset: list[float], angles: list[float]
) -> None:
    joints = JointMap(
        Joints(
            names=['a', 'b', 'c'],
            keys=['s'],
            scale=scale,
            offset=offset,
            action_indices=[2, 0, 1],
        )
    )
    measured = joints.state(dict(zip('abc', angles, strict=True)))['s']
    action = np.empty((1, 3), np.float32)
    action[0, [2, 0, 1]] = measured
    np.testing.assert_allclose(joints.to_positions(action)[0], angles, atol=2e-5)


def test_velocities_know_no_offset_and_unnamed_columns_are_left_out() -> None:
    joints = JointMap(
        Joints(
            names=['a', 'b', 'c'],
            keys=['s'],
            scale=[2.0, 1.0, -4.0],
            offset=[9.0, 9.0, 9.0],
            action_indices=[3, -1, 0],
        )
    )
    assert joints.commanded == (('a', 3), ('c', 0))
    np.testing.assert_array_equal(joints.to_velocities([[8.0, 1.0, 1.0, 6.0, 1.0]]), [[3.0, -2.0]])


def test_velocities_may_have_a_unit_of_their_own() -> None:
    joints = JointMap(
        Joints(
            names=['a', 'b'],
            keys=['s'],
            scale=[2.0, 4.0],
            velocity_scale=[0.5, -1.0],
            action_indices=[0, 1],
        )
    )
    np.testing.assert_array_equal(joints.to_velocities([[1.0, 3.0]]), [[2.0, -3.0]])
    np.testing.assert_array_equal(joints.to_positions([[1.0, 4.0]]), [[0.5, 1.0]])


def test_the_largest_velocity_of_droid_is_its_step_of_02_rad_at_15_hz() -> None:
    largest = JointMap(load_robot('droid').joints).to_velocities([1.0] * 8)
    np.testing.assert_allclose(largest, [0.2 * 15.0] * 7, rtol=1e-12)


def test_a_message_may_carry_some_joints_and_others_that_are_nobodys() -> None:
    positions, problems = read_joint_state(message(b=2.0, tray=7.0), frozenset('ab'))
    assert (positions, problems) == ({'b': 2.0}, {})


@pytest.mark.parametrize('bad', [math.nan, math.inf, -math.inf])
def test_a_position_that_is_no_number_is_refused_by_joint(bad: float) -> None:
    positions, problems = read_joint_state(message(a=1.0, b=bad, tray=bad), frozenset('ab'))
    assert positions == {'a': 1.0}
    assert problems == {'b': f'position is {bad}'}


@pytest.mark.parametrize('position', [[], [1.0], [1.0, 2.0, 3.0]])
def test_names_and_positions_of_different_number_are_refused(position: list[float]) -> None:
    sent = SimpleNamespace(name=['a', 'b'], position=position)
    with pytest.raises(InvalidObservation, match=f'2 names and {len(position)} positions'):
        read_joint_state(sent, frozenset('ab'))


def test_a_joint_named_twice_in_one_message_is_refused() -> None:
    sent = SimpleNamespace(name=['a', 'b', 'a'], position=[1.0, 2.0, 3.0])
    with pytest.raises(InvalidObservation, match="'a' comes twice"):
        read_joint_state(sent, frozenset('ab'))
    assert read_joint_state(sent, frozenset('b')) == ({'b': 2.0}, {})


def test_a_prefix_tells_arms_with_equal_names_apart_before_the_joints_are_read() -> None:
    wanted = frozenset(('left/waist', 'right/waist'))
    found = {}
    for prefix, position in (('left/', 1.0), ('right/', 2.0)):
        sent = SimpleNamespace(name=['waist', 'elbow'], position=[position, 9.0])
        put_prefix(sent, prefix)
        found |= read_joint_state(sent, wanted)[0]
    assert found == {'left/waist': 1.0, 'right/waist': 2.0}
    bare = SimpleNamespace(name=['waist'], position=[1.0])
    put_prefix(bare, '')
    assert bare.name == ['waist']
