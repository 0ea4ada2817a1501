# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A gripper gets its own scale and sign, and never chatters."""

from __future__ import annotations

from typing import Any

import numpy as np
from fakes import make_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.axes import make_axes
from openpi_policy_ros.control.gripper import GripperShaper, make_gripper_shaper

ACTIONS = st.floats(-0.5, 1.5)


def shaper(space: str = 'joint_position', joint: str = 'finger', **keys: Any) -> GripperShaper:
    """Return the shaper of an arm joint (axis 0) beside a gripper (axis 1)."""
    robot = validate(
        RobotConfig,
        {
            'joints': {
                'names': ['a', 'known'],
                'keys': ['state'],
                'scale': [3.0, -25.0],
                'offset': [1.0, 1.0],
                'velocity_scale': [7.0, 7.0],
            },
            'timing': {'action_rate': 15.0},
            'output_names': ['arm', 'hand'],
            'outputs': {
                'arm': {'type': 'array', 'topic': 'arm', 'joints': ['a'], 'action_indices': [0]},
                'hand': {
                    'type': 'gripper',
                    'topic': 'hand',
                    'joints': [joint],
                    'action_indices': [1],
                    **keys,
                },
            },
        },
        'test',
    )
    return make_gripper_shaper(robot, make_axes(robot, make_spec(10, 2, action_space=space)))


def commands(one: GripperShaper, actions: list[float]) -> list[float]:
    return [float(one.command(np.array([9.0, action]))[1]) for action in actions]


SNAP = {'threshold': 0.5, 'closed': 0.8, 'open': 0.0}


def test_other_axes_pass_as_they_are() -> None:
    row = np.array([9.0, 0.25])
    assert shaper(scale=2.0).command(row).tolist() == [9.0, 0.125]
    assert row.tolist() == [9.0, 0.25]


def test_a_gripper_that_joints_names_lacks_takes_the_action_itself() -> None:
    assert commands(shaper(), [0.0, 0.3, 1.0]) == [0.0, 0.3, 1.0]


def test_a_measured_gripper_is_scaled_as_its_joint_also_beside_velocities() -> None:
    for space in ('joint_position', 'joint_velocity'):
        # As fr3_finger_joint1: 0 is open at 0.04 m, 1 closed at 0 m.
        one = shaper(space, 'known')
        np.testing.assert_allclose(commands(one, [0.0, 0.5, 1.0]), [0.04, 0.02, 0.0], atol=1e-12)


def test_a_scale_of_the_output_wins_over_the_joints() -> None:
    assert commands(shaper(joint='known', scale=2.0, offset=0.5), [0.5, 1.5]) == [0.0, 0.5]
    assert commands(shaper(joint='known', scale=1.0), [3.0]) == [2.0]


def test_inverting_comes_before_scaling_and_before_the_threshold() -> None:
    assert commands(shaper(invert=True, scale=4.0, offset=0.5), [0.0, 1.0]) == [0.125, -0.125]
    assert commands(shaper(invert=True, **SNAP), [0.0, 1.0, 0.4]) == [0.8, 0.0, 0.8]


def test_the_threshold_itself_closes() -> None:
    assert commands(shaper(**SNAP), [0.49, 0.5, 0.49, 0.5]) == [0.0, 0.8, 0.0, 0.8]


def test_the_first_action_knows_no_hysteresis_and_the_next_ones_do() -> None:
    keys = {**SNAP, 'hysteresis': 0.25}
    assert commands(shaper(**keys), [0.5, 0.3, 0.25, 0.2, 0.7, 0.74, 0.75]) == (
        [0.8, 0.8, 0.8, 0.0, 0.0, 0.0, 0.8]
    )


@settings(deadline=None)
@given(
    hysteresis=st.floats(0.01, 0.4),
    actions=st.lists(ACTIONS, min_size=1, max_size=30),
    invert=st.booleans(),
)
def test_it_never_chatters(hysteresis: float, actions: list[float], invert: bool) -> None:
    """Between two changes the action has crossed the whole band around the threshold."""
    got = commands(shaper(**SNAP, hysteresis=hysteresis, invert=invert), actions)
    assert set(got) <= {0.0, 0.8}
    seen = [1.0 - action if invert else action for action in actions]
    for before, now, action in zip(got, got[1:], seen[1:], strict=False):
        if now > before:
            assert action >= 0.5 + hysteresis
        elif now < before:
            assert action < 0.5 - hysteresis
        elif now == 0.8:
            assert action >= 0.5 - hysteresis
        else:
            assert action < 0.5 + hysteresis


@settings(deadline=None)
@given(noise=st.lists(st.floats(-0.099, 0.099), min_size=2, max_size=30))
def test_noise_within_the_hysteresis_changes_nothing(noise: list[float]) -> None:
    one = shaper(**SNAP, hysteresis=0.1)
    assert len(set(commands(one, [0.5 + value for value in noise]))) == 1


@settings(deadline=None)
@given(actions=st.lists(ACTIONS, min_size=1, max_size=10), then=ACTIONS)
def test_a_preview_is_what_the_commands_would_be_and_leaves_no_trace(
    actions: list[float], then: float
) -> None:
    keys = {**SNAP, 'hysteresis': 0.2}
    looked, blind = shaper(**keys), shaper(**keys)
    commands(looked, [then])
    commands(blind, [then])
    rows = np.array([[9.0, action] for action in actions])
    preview = looked.preview(rows)
    assert preview[:, 1].tolist() == commands(blind, actions)
    assert rows[:, 1].tolist() == actions
    fresh = shaper(**keys)
    commands(fresh, [then])
    assert commands(looked, actions) == commands(fresh, actions)


def test_after_a_reset_the_gripper_decides_anew() -> None:
    one = shaper(**SNAP, hysteresis=0.2)
    assert commands(one, [0.9, 0.4]) == [0.8, 0.8]
    one.reset()
    assert commands(one, [0.4]) == [0.0]
