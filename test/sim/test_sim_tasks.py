# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges, on histories made up for them."""

from __future__ import annotations

import numpy as np
import pytest

from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.tasks import BOWL, LIFT, REACH, TASKS, task_named

UPRIGHT = (1.0, 0.0, 0.0, 0.0)
BOWL_AT = np.array([0.5, -0.3, 0.0])


def moment(
    step: int, *, tool=(0.4, 0, 0.3), cube=(0.5, 0, 0.022), gripper=0.0, speed=0.0, bowl=UPRIGHT
) -> State:
    still = np.array([0.5, 0.4, 0.03, *UPRIGHT])
    return State(
        time=step / 15,
        joint_position=np.zeros(7),
        joint_velocity=np.zeros(7),
        gripper_position=gripper,
        tool_position=np.array(tool),
        tool_quaternion=np.array([0.0, 1, 0, 0]),
        cube=np.array([*cube, *UPRIGHT]),
        cube_velocity=np.array([speed, 0, 0, 0, 0, 0]),
        bowl=np.array([*BOWL_AT, *bowl]),
        can=still,
        box=still,
    )


def heights(*values: float) -> list[State]:
    return [moment(step, cube=(0.5, 0, 0.022 + value)) for step, value in enumerate(values)]


def test_reach_is_3_cm_between_fingers_and_cube():
    near, far = (0.5, 0.0, 0.022 + 0.029), (0.5, 0.0, 0.022 + 0.031)
    assert REACH.success([moment(0), moment(1, tool=far)]) is None
    assert REACH.success([moment(0), moment(1, tool=near)]) == pytest.approx(1 / 15)


def test_lift_is_10_cm_for_a_second_without_a_break():
    assert LIFT.success(heights(0.0, *[0.101] * 16)) == pytest.approx(16 / 15)
    assert LIFT.success(heights(0.0, *[0.101] * 15)) is None
    assert LIFT.success(heights(*[0.099] * 60)) is None
    assert LIFT.success(heights(*[0.101] * 14, 0.05, *[0.101] * 14)) is None
    assert LIFT.success(heights(*[0.101] * 14, 0.05, *[0.101] * 16)) == pytest.approx(2.0)


def test_the_time_of_success_is_the_first():
    assert LIFT.success(heights(*[0.2] * 60)) == pytest.approx(1.0)


INSIDE = tuple(np.add(BOWL_AT, [0.02, 0.0, 0.03]))


def test_bowl_is_the_cube_at_rest_inside_with_the_gripper_open():
    assert BOWL.success([moment(step, cube=INSIDE) for step in range(9)]) is not None


def test_bowl_is_half_a_second_without_a_break():
    def inside(*held: bool) -> list[State]:
        return [
            moment(step, cube=INSIDE if one else (0.4, 0.1, 0.3)) for step, one in enumerate(held)
        ]

    assert BOWL.success(inside(*[True] * 7)) is None
    assert BOWL.success(inside(*[True] * 9)) == pytest.approx(0.5, abs=1 / 15)
    assert BOWL.success(inside(*[True] * 6, False, *[True] * 7)) is None
    assert BOWL.success(inside(*[True] * 6, False, *[True] * 9)) == pytest.approx(
        7 / 15 + 0.5, abs=1 / 15
    )


@pytest.mark.parametrize('wrong', [
    {'cube': tuple(np.add(BOWL_AT, [0.09, 0, 0.03]))},  # beside it
    {'cube': tuple(np.add(BOWL_AT, [0, 0, 0.08]))},  # above it
    {'cube': tuple(np.add(BOWL_AT, [0.078, 0, 0.045]))},  # on the rim
    {'cube': INSIDE, 'gripper': 0.48},  # still held
    {'cube': INSIDE, 'speed': 0.05},  # still moving
    {'cube': INSIDE, 'bowl': (0.707, 0.707, 0, 0)},  # the bowl lies on its side
])  # fmt: skip
def test_what_is_not_in_the_bowl(wrong):
    assert BOWL.success([moment(step, **wrong) for step in range(60)]) is None


def test_no_state_is_no_success():
    for task in TASKS.values():
        assert task.success([]) is None


def test_the_two_prompts_differ_and_unknown_tasks_are_refused():
    assert task_named('lift').prompt == 'lift the red cube'
    assert task_named('bowl').prompt == 'put the red cube in the bowl'
    with pytest.raises(SimulationError, match='expected reach or lift or bowl'):
        task_named('fly')
