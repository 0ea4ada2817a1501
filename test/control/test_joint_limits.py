# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Limits come from parameters, then from the URDF, and what nobody states is named."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from fakes import make_spec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from openpi_policy_ros.configuration.execution import Limits
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.axes import Axes, make_axes
from openpi_policy_ros.control.limits import (
    JointLimit,
    JointLimits,
    from_parameters,
    from_urdf,
    make_limits,
)
from openpi_policy_ros.errors import ConfigurationError

URDF = """<?xml version="1.0" encoding="utf-8"?>
<robot name="r" xmlns:xacro="http://ros.org/wiki/xacro">
  <link name="base"/>
  <joint name="turn" type="revolute"><limit lower="-1.5" upper="2" effort="1" velocity="3"/></joint>
  <joint name="slide" type="prismatic"><limit upper="0.04" effort="1" velocity="0.1"/></joint>
  <joint name="wheel" type="continuous"><limit effort="1" velocity="6"/></joint>
  <joint name="free" type="continuous"/>
  <joint name="second" type="prismatic"><limit lower="0" upper="1" velocity="1"/>
    <mimic joint="slide"/></joint>
  <joint name="mount" type="fixed"/>
  <joint name="bare" type="revolute"/>
  <joint name="slow" type="revolute"><limit lower="-1" upper="1" velocity="0"/></joint>
  <joint name="odd" type="revolute"><limit lower="nan" upper="ten" velocity="inf"/></joint>
  <joint name="upside" type="revolute"><limit lower="1" upper="-1" velocity="1"/></joint>
  <joint name="empty" type="revolute"><limit effort="1" velocity="1"/></joint>
  <transmission name="t"><joint name="hidden"/></transmission>
</robot>
"""


def read(name: str) -> JointLimit:
    return from_urdf(URDF, [name])[name]


def axes(*names: str, space: str = 'joint_position', gripper: str = '') -> Axes:
    columns = range(len(names))
    outputs: dict[str, Any] = {
        'arm': {
            'type': 'array',
            'topic': 'arm',
            'joints': list(names),
            'action_indices': list(columns),
        }
    }
    if gripper:
        outputs['hand'] = {
            'type': 'gripper',
            'topic': 'hand',
            'joints': [gripper],
            'action_indices': [len(names)],
        }
    robot = validate(
        RobotConfig,
        {
            'joints': {'names': list(names), 'keys': ['state']},
            'timing': {'action_rate': 15.0},
            'output_names': list(outputs),
            'outputs': outputs,
        },
        'test',
    )
    return make_axes(robot, make_spec(10, len(names) + 1, action_space=space))


@pytest.mark.parametrize(
    ('name', 'expected'),
    [
        ('turn', JointLimit(-1.5, 2.0, 3.0)),
        ('slide', JointLimit(0.0, 0.04, 0.1)),
        ('wheel', JointLimit(-math.inf, math.inf, 6.0)),
        ('free', JointLimit(-math.inf, math.inf, None, 'the URDF has no <limit> for it')),
        ('second', JointLimit(why='the URDF has it mimic slide')),
        ('mount', JointLimit(why='the URDF has it fixed')),
        ('bare', JointLimit(why='the URDF has no <limit> for it')),
        ('slow', JointLimit(-1.0, 1.0, None, 'its <limit> in the URDF has velocity 0.0')),
        (
            'odd',
            JointLimit(why="its <limit> in the URDF has velocity 'inf', lower 'nan', upper 'ten'"),
        ),
        (
            'upside',
            JointLimit(None, None, 1.0, 'its <limit> in the URDF has lower 1.0 and upper -1.0'),
        ),
        (
            'empty',
            JointLimit(None, None, 1.0, 'its <limit> in the URDF has lower 0.0 and upper 0.0'),
        ),
        ('hidden', JointLimit(why='the URDF has no such joint')),
    ],
)
def test_a_urdf_says_what_a_joint_may_do_or_why_it_does_not(
    name: str, expected: JointLimit
) -> None:
    assert read(name) == expected


@pytest.mark.parametrize(
    ('text', 'named'),
    [
        ('', 'cannot be read: '),
        ('<robot>', 'cannot be read: '),
        ('<sdf version="1"/>', 'holds a <sdf>, expected <robot>'),
        (
            '<!DOCTYPE robot [<!ENTITY a "1"><!ENTITY b "&a;&a;">]><robot name="&b;"/>',
            'it has a document type',
        ),
        (
            '<!DOCTYPE robot [<!ENTITY a SYSTEM "file:///etc/hostname">]><robot>&a;</robot>',
            'it has a document type',
        ),
        ('<!DOCTYPE robot SYSTEM "http://localhost/r.dtd"><robot/>', 'it has a document type'),
    ],
)
def test_what_is_no_urdf_is_refused(text: str, named: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_urdf(text, ['a'])
    assert named in caught.value.problems[0]


def test_parameters_are_in_the_order_of_the_joints() -> None:
    limits = Limits(position_min=[-1.0, -2.0], position_max=[1.0, 2.0], velocity=[3.0, 4.0])
    assert from_parameters(limits, ['a', 'b']) == {
        'a': JointLimit(-1.0, 1.0, 3.0),
        'b': JointLimit(-2.0, 2.0, 4.0),
    }


def test_parameters_win_over_the_urdf_number_by_number() -> None:
    parameters = from_parameters(Limits(velocity=[1.0, 2.0]), ['slide', 'turn'])
    urdf = from_urdf(URDF, ['turn', 'slide'])
    limits, problems = make_limits(axes('turn', 'slide'), parameters, urdf)
    assert problems == []
    assert limits.lower.tolist() == [-1.5, 0.0]
    assert limits.upper.tolist() == [2.0, 0.04]
    assert limits.velocity.tolist() == [2.0, 1.0]


def test_parameters_make_up_for_what_the_urdf_lacks() -> None:
    limits = Limits(position_min=[-1.0], position_max=[1.0], velocity=[2.0])
    for name in ('bare', 'odd', 'second', 'nowhere'):
        made, problems = make_limits(
            axes(name), from_parameters(limits, [name]), from_urdf(URDF, [name])
        )
        assert problems == []
        assert (made.lower[0], made.upper[0], made.velocity[0]) == (-1.0, 1.0, 2.0)


def test_every_joint_without_limits_is_named_with_why() -> None:
    names = ('turn', 'mount', 'free', 'upside')
    silent = from_parameters(Limits(), names)
    _, problems = make_limits(axes(*names), silent, from_urdf(URDF, names))
    assert [problem.split(':')[0] for problem in problems] == ['mount', 'free', 'upside']
    assert 'mount: no position and no velocity limit (' in problems[0]
    assert 'the URDF has it fixed' in problems[0]
    assert 'free: no velocity limit (' in problems[1]
    assert 'upside: no position limit (' in problems[2]
    assert 'limits.position_min' in problems[2]


def test_without_any_source_everything_is_unlimited_and_a_problem() -> None:
    limits, problems = make_limits(axes('a', gripper='finger'))
    assert problems == ['a: no position and no velocity limit (nobody states it)']
    assert limits.lower.tolist() == [-math.inf] * 2
    assert limits.upper.tolist() == limits.velocity.tolist() == [math.inf] * 2


def test_velocities_need_no_positions_and_grippers_nothing() -> None:
    one = axes('a', space='joint_velocity', gripper='finger')
    limits, problems = make_limits(one, {'a': JointLimit(velocity=2.0)})
    assert problems == []
    assert limits.velocity.tolist() == [2.0, math.inf]


def test_a_range_put_together_from_two_sources_must_be_one() -> None:
    limits, problems = make_limits(
        axes('a'), {'a': JointLimit(lower=3.0)}, {'a': JointLimit(0.0, 2.0, 1.0)}
    )
    assert problems == ['a: the positions 3.0 to 2.0 are no range']
    assert (limits.lower[0], limits.upper[0]) == (-math.inf, math.inf)


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@settings(deadline=None)
@example(lower=math.nan, upper=1.0, velocity=1.0)
@example(lower=0.0, upper=math.nan, velocity=1.0)
@example(lower=0.0, upper=1.0, velocity=math.nan)
@example(lower=-math.inf, upper=math.inf, velocity=math.inf)
@given(lower=NUMBERS, upper=NUMBERS, velocity=NUMBERS)
def test_limits_that_bound_nothing_cannot_be_made(
    lower: float, upper: float, velocity: float
) -> None:
    good = lower < upper and velocity > 0.0
    arrays = [np.array([1.0, value]) for value in (upper, velocity)]
    try:
        JointLimits(np.array([0.0, lower]), *arrays)
    except ValueError:
        assert not good
    else:
        assert good


def test_limits_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match='expected one number for each axis'):
        JointLimits(np.zeros(2), np.ones(2), np.ones(3))
