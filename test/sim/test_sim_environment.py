# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated robot: deterministic, within its limits, and clear about bad actions."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip('mujoco')

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.errors import InvalidAction, SimulationError

STAY = (*c.HOME, 0.0)


def same(one, other) -> None:
    for field in dataclasses.fields(one):
        np.testing.assert_array_equal(
            getattr(one, field.name), getattr(other, field.name), field.name
        )


def wander(environment, seed: int, steps: int = 25):
    random = np.random.default_rng(seed)
    for _ in range(steps):
        target = np.array(c.HOME) + random.normal(0, 0.15, 7)
        state = environment.step([*target, random.random()])
    return state


def test_equal_seeds_and_actions_give_equal_histories(environment):
    environment.reset(11)
    first = wander(environment, 1)
    with Environment() as other:
        other.reset(5)
        wander(other, 9)
        other.reset(11)
        same(first, wander(other, 1))


def test_other_seeds_give_other_tables(environment):
    assert not np.array_equal(environment.reset(1).cube, environment.reset(2).cube)


def test_a_restored_snapshot_goes_on_exactly(environment):
    environment.reset(3)
    wander(environment, 4, 10)
    saved = environment.snapshot()
    first = wander(environment, 5, 10)
    wander(environment, 6, 10)
    environment.restore(saved)
    same(first, wander(environment, 5, 10))


def test_things_stand_still_after_a_reset(environment):
    before = environment.reset(4)
    for _ in range(30):
        after = environment.step(STAY)
    for name in ('cube', 'bowl', 'can', 'box'):
        np.testing.assert_allclose(getattr(after, name), getattr(before, name), atol=5e-4)
    np.testing.assert_allclose(after.joint_position, c.HOME, atol=1e-3)


def test_a_step_is_a_fifteenth_of_a_second(environment):
    environment.reset(0)
    for _ in range(30):
        state = environment.step(STAY)
    assert state.time == pytest.approx(2.0, abs=1e-9)


def test_the_arm_arrives_where_it_is_told(environment):
    environment.reset(0)
    target = np.add(c.HOME, [0.3, -0.1, 0.2, 0.2, -0.3, 0.1, 0.5])
    for _ in range(45):
        state = environment.step([*target, 0.0])
    np.testing.assert_allclose(state.joint_position, target, atol=2e-3)
    assert state.policy_state.shape == (8,)
    assert state.policy_state.dtype == np.float32


def test_the_gripper_is_0_open_and_1_closed_and_switches_at_a_half(environment):
    state = environment.reset(0)
    assert state.gripper_position == pytest.approx(0.0, abs=1e-3)
    for command, reading in ((0.51, 1.0), (0.5, 0.0), (7.0, 1.0), (-3.0, 0.0)):
        for _ in range(25):
            state = environment.step([*c.HOME, command])
        assert state.gripper_position == pytest.approx(reading, abs=0.01), command


def test_the_drives_are_as_soft_as_droids(environment):
    for name in c.JOINT_NAMES:
        drive = environment.model.actuator(name)
        np.testing.assert_array_equal(drive.gainprm[:3], [400.0, 0.0, 0.0], name)
        np.testing.assert_array_equal(drive.biasprm[:3], [0.0, -400.0, -80.0], name)


def test_the_cube_weighs_50_g(environment):
    assert environment.model.body('cube').mass == pytest.approx(0.05)


def test_a_velocity_is_a_target_two_tenths_of_a_second_ahead(environment):
    velocity = np.array([0.5, -0.2, 0.1, 0.4, 0.0, -0.3, 1.0])
    state = environment.reset(6)
    with Environment('joint_velocity') as driven:
        driven.reset(6)
        for _ in range(10):
            state = environment.step([*(state.joint_position + 0.2 * velocity), 1.0])
            same(state, driven.step([*velocity, 1.0]))
        assert driven.clamped == {}


def test_a_velocity_beyond_1_is_scaled_as_a_whole_and_counted():
    with Environment('joint_velocity') as environment:
        environment.reset(0)
        exact = environment.step([0.25, -0.5, 0, 1.0, 0, 0, 0, 0])
        environment.reset(0)
        scaled = environment.step([0.5, -1.0, 0, 2.0, 0, 0, 0, 0])
        np.testing.assert_array_equal(scaled.joint_position, exact.joint_position)
        assert environment.clamped == {'scale': 1}
        environment.reset(0)
        assert environment.clamped == {}


@pytest.mark.parametrize('joint', range(7))
@pytest.mark.parametrize('side', [-1, 1])
def test_no_target_drives_a_joint_beyond_its_range_or_its_speed(environment, joint, side):
    environment.reset(0)
    target = np.array(c.HOME)
    target[joint] = side * 10.0
    fastest = 0.0
    for _ in range(12):
        state = environment.step([*target, 0.0])
        fastest = max(fastest, abs(state.joint_velocity[joint]))
        assert c.LOWER[joint] - 0.01 < state.joint_position[joint] < c.UPPER[joint] + 0.01
    assert fastest < c.VELOCITY[joint] * 1.02
    assert environment.clamped['position'] == 12
    assert environment.clamped['velocity'] > 0


def test_a_limit_is_logged_once_in_an_episode(environment, caplog):
    environment.reset(0)
    for _ in range(3):
        environment.step([9.0, *c.HOME[1:], 0.0])
    assert [record.getMessage().split(' came')[0] for record in caplog.records] == [
        'limit on position',
        'limit on velocity',
    ]


@pytest.mark.parametrize(('action', 'expected'), [
    ([0.0] * 7, r'shape \(7,\)'),
    ([[0.0] * 8], r'shape \(1, 8\)'),
    ([float('nan'), *STAY[1:]], 'expected finite numbers'),
    ([*STAY[:7], float('inf')], 'expected finite numbers'),
    ('left', 'no array of numbers'),
    ([None] * 8, 'finite numbers|no array'),
])  # fmt: skip
def test_what_is_no_action_is_refused_and_moves_nothing(environment, action, expected):
    before = environment.reset(0)
    with pytest.raises(InvalidAction, match=expected):
        environment.step(action)
    same(before, environment.state())


def test_the_callers_action_is_not_changed():
    with Environment('joint_velocity') as environment:
        action = np.full(8, 3.0)
        environment.step(action)
        assert (action == 3.0).all()


def test_physics_that_break_down_are_an_error_not_a_fresh_start(
    environment, tmp_path, monkeypatch, caplog
):
    monkeypatch.chdir(tmp_path)
    environment.reset(0)
    environment.data.qvel[:] = np.nan
    with pytest.raises(SimulationError, match='the physics broke down'):
        environment.step(STAY)
    assert 'MuJoCo: Nan, Inf or huge value in QVEL' in caplog.text
    # Left to itself MuJoCo writes a file wherever it runs.
    assert list(tmp_path.iterdir()) == []
    environment.reset(0)
    environment.step(STAY)


def test_a_state_can_be_put_back(environment):
    environment.reset(2)
    state = wander(environment, 3)
    environment.reset(1)
    environment.set_state(state)
    again = environment.state()
    for field in ('joint_position', 'cube', 'bowl', 'tool_position', 'time'):
        np.testing.assert_allclose(getattr(again, field), getattr(state, field), atol=1e-9)
    assert again.gripper_position == pytest.approx(state.gripper_position)


def test_a_closed_environment_says_so_and_closes_twice():
    environment = Environment()
    environment.close()
    environment.close()
    with pytest.raises(SimulationError, match='the environment is closed'):
        environment.render('wrist', 8, 8)


def test_an_unknown_action_space_is_refused():
    with pytest.raises(SimulationError, match='expected joint_position or joint_velocity'):
        Environment('cartesian')
