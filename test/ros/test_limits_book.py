# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Limits come from the robot file, and from the robot description for what it leaves out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from rig import make_robot, make_spec

from openpi_policy_ros.configuration.execution import Limits
from openpi_policy_ros.control.axes import make_axes
from openpi_policy_ros.control.limits import JointLimits
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.limits_source import LimitsBook

pytestmark = pytest.mark.ros

TOPIC = '/robot_description'
JOINT = '<joint name="{}" type="revolute"><limit lower="-1" upper="{}" velocity="{}"/></joint>'


def urdf(upper: float = 1.0, velocity: float = 3.0) -> str:
    joints = ''.join(JOINT.format(name, upper, velocity) for name in ('shoulder', 'elbow'))
    return f'<robot name="r">{joints}</robot>'


class User:
    """Uses limits, unless it is told not to."""

    def __init__(self) -> None:
        self.given: list[tuple[JointLimits, list[str]]] = []
        self.raises: Exception | None = None

    def __call__(self, limits: JointLimits, missing: Sequence[str]) -> None:
        if self.raises is not None:
            raise self.raises
        self.given.append((limits, list(missing)))


def book(user: User, **limits: Any) -> LimitsBook:
    robot = make_robot().model_copy(update={'limits': Limits(**limits)})
    return LimitsBook(robot, make_axes(robot, make_spec()), TOPIC, user)


WHOLE = {
    'position_min': [-2.0, -2.0, 0.0],
    'position_max': [2.0, 2.0, 1.0],
    'velocity': [1.0, 1.0, 1.0],
}


def test_a_robot_file_that_says_all_needs_no_description() -> None:
    user = User()
    said = book(user, **WHOLE)
    assert said.complete
    assert user.given[0][1] == []
    assert said.facts == 'limits.* of the robot file'


def test_what_the_file_leaves_out_is_missing_until_the_description_comes() -> None:
    user = User()
    said = book(user, velocity=[1.0, 1.0, 1.0])
    assert not said.complete
    missing = user.given[0][1]
    assert missing[0].startswith('shoulder: no position limit')
    assert missing[-1] == f'set limits.*, or publish a URDF on {TOPIC}'
    assert 'missing: shoulder' in said.facts
    said.describe(urdf())
    limits, missing = user.given[-1]
    assert missing == []
    np.testing.assert_array_equal(limits.upper, [1.0, 1.0])
    # The parameters win, number by number.
    np.testing.assert_array_equal(limits.velocity, [1.0, 1.0])
    assert said.facts == f'limits.* of the robot file, then {TOPIC}'


def test_a_description_that_cannot_be_read_is_why_enabling_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    user = User()
    said = book(user)
    with caplog.at_level(logging.ERROR):
        said.describe('<robot name="r"><joint')
    assert 'cannot be read' in caplog.text
    assert any('cannot be read' in one for one in user.given[-1][1])
    assert 'cannot be read' in said.facts
    said.describe(urdf())
    assert user.given[-1][1] == []


def test_a_bad_description_does_not_take_good_limits_away() -> None:
    user = User()
    said = book(user)
    said.describe(urdf())
    said.describe('nonsense')
    assert len(user.given) == 2
    assert user.given[-1][1] == []


def test_a_description_that_comes_while_enabled_counts_once_disabled() -> None:
    user = User()
    said = book(user)
    said.describe(urdf())
    user.raises = RuntimeError('limits cannot change while the robot is enabled')
    said.describe(urdf(upper=0.5))
    said.settle()
    assert len(user.given) == 2
    user.raises = None
    said.settle()
    np.testing.assert_array_equal(user.given[-1][0].upper, [0.5, 0.5])
    said.settle()
    assert len(user.given) == 3


class Governed(User):
    """Refuses limits as the control core does: while enabled, and a range below its margins."""

    enabled = False

    def __call__(self, limits: JointLimits, missing: Sequence[str]) -> None:
        if self.enabled:
            raise RuntimeError('limits cannot change while the robot is enabled')
        if (limits.upper - limits.lower < 0.1).any():
            raise ConfigurationError('safety.position_margin', ['shoulder: nothing is left'])
        super().__call__(limits, missing)


@pytest.mark.parametrize('enabled', [False, True])
def test_a_description_that_leaves_a_joint_no_room_refuses_to_enable_and_no_call_fails(
    enabled: bool, caplog: pytest.LogCaptureFixture
) -> None:
    user = Governed()
    said = book(user)
    said.describe(urdf())
    assert user.given[-1][1] == []
    user.enabled = enabled
    said.describe(urdf(upper=-0.95))
    user.enabled = False
    said.settle()
    said.settle()
    assert 'shoulder: nothing is left' in user.given[-1][1]
    assert 'shoulder: nothing is left' in caplog.text
    said.describe(urdf())
    assert user.given[-1][1] == []


def test_limits_of_the_file_that_leave_no_room_refuse() -> None:
    user = User()
    user.raises = ConfigurationError('safety', ['position_margin leaves shoulder no room'])
    with pytest.raises(ConfigurationError, match='no room'):
        book(user, **WHOLE)
