# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The expert does both tasks by friction, and finds its way back from anywhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip('mujoco')

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim import expert as expert_module
from openpi_policy_ros_sim.episodes import run_episode
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.expert import Expert
from openpi_policy_ros_sim.noise import Noise
from openpi_policy_ros_sim.tasks import TASKS, Judge

BOTH = pytest.mark.parametrize('task', ['lift', 'bowl'])


def finish(environment, expert, task: str, steps: int = 225):
    """Act until the task is done; return the last state, or fail."""
    judge, state = Judge(TASKS[task]), environment.state()
    for _ in range(steps):
        if judge.see(state):
            return state
        state = environment.step(expert.act(state))
    pytest.fail(f'{task}: cube at {state.cube[:3]}, tool at {state.tool_position}')


@BOTH
def test_it_does_its_task_on_twenty_tables(environment, kinematics, task):
    for seed in range(20):
        environment.reset(seed)
        finish(environment, Expert(task, kinematics), task)
        assert environment.clamped == {}


@BOTH
def test_it_copes_with_noise(environment, kinematics, task):
    for seed in range(3):
        noise = Noise(np.random.default_rng(seed))
        expert = Expert(task, kinematics)
        episode = run_episode(
            environment,
            lambda seen, expert=expert, noise=noise: [noise.disturb(expert.act(seen.state))],
            seed=seed,
            task=task,
            horizon=1,
        )
        assert episode.succeeded, seed


@BOTH
def test_it_follows_a_cube_that_somebody_moves(environment, kinematics, task):
    environment.reset(8)
    expert, state = Expert(task, kinematics), environment.state()
    while state.gripper_position < 0.3:
        state = environment.step(expert.act(state))
        assert state.time < 5.0
    cube = state.cube.copy()
    cube[:3] = (0.40, 0.22, 0.022)
    environment.set_state(dataclasses.replace(state, cube=cube), closing=True)
    finish(environment, expert, task)


@BOTH
def test_it_needs_no_memory(environment, kinematics, task):
    judge, state = Judge(TASKS[task]), environment.reset(9)
    for _ in range(150):
        state = environment.step(Expert(task, kinematics).act(state))
        if judge.see(state):
            return
    pytest.fail(f'cube at {state.cube[:3]}')


def test_it_takes_the_cube_out_of_the_bowl_again(environment, kinematics):
    environment.reset(10)
    finish(environment, Expert('bowl', kinematics), 'bowl')
    finish(environment, Expert('lift', kinematics), 'lift')


def test_told_to_lift_it_does_not_put_the_cube_in_the_bowl(environment, kinematics):
    expert = Expert('lift', kinematics)
    episode = run_episode(
        environment,
        lambda seen: [expert.act(seen.state)],
        seed=4,
        task='lift',
        horizon=1,
        max_steps=120,
        stop_at_success=False,
    )
    assert episode.succeeded
    assert episode.success['bowl'] is None
    assert episode.states[-1].cube[2] > 0.12


def test_without_friction_nothing_is_lifted(environment, kinematics):
    # Proof that the cube hangs on nothing else.
    geoms = [environment.model.geom(name) for name in ('left_finger_pad', 'right_finger_pad')]
    kept = [geom.friction.copy() for geom in geoms]
    try:
        for geom in geoms:
            geom.friction[:] = (0.01, 0.0, 0.0)
        expert = Expert('lift', kinematics)
        episode = run_episode(
            environment,
            lambda seen: [expert.act(seen.state)],
            seed=0,
            task='lift',
            horizon=1,
            max_steps=90,
        )
        assert episode.success['reach'] is not None
        assert max(state.cube[2] for state in episode.states) < 0.06
    finally:
        for geom, friction in zip(geoms, kept, strict=True):
            geom.friction[:] = friction


def test_a_chunk_is_what_it_would_do_and_moves_nothing(environment, kinematics):
    environment.reset(12)
    expert = Expert('lift', kinematics)
    for _ in range(12):
        environment.step(expert.act(environment.state()))
    before, memory = environment.snapshot(), expert.memory()
    chunk = expert.chunk(environment, 10)
    np.testing.assert_array_equal(environment.snapshot(), before)
    assert chunk.shape == (10, c.ACTION_DIM)
    after = expert.memory()
    expert.recall(memory)
    for number, row in enumerate(chunk):
        action = expert.act(environment.state())
        if number == 0:
            assert expert.memory() == after
        np.testing.assert_allclose(action, row, atol=1e-9)
        environment.step(action)


@BOTH
def test_open_loop_chunks_do_the_task(environment, kinematics, task):
    expert = Expert(task, kinematics)
    episode = run_episode(
        environment, lambda seen: expert.chunk(environment, 10), seed=13, task=task, horizon=8
    )
    assert episode.succeeded


def test_it_refuses_a_task_it_does_not_know(kinematics):
    with pytest.raises(SimulationError, match='expected lift or bowl'):
        Expert('reach', kinematics)


def test_noise_is_repeatable_and_none_at_level_0():
    action = np.array([*c.HOME, 1.0])
    runs = []
    for _ in range(2):
        noise = Noise(np.random.default_rng(3), 1.0)
        runs.append([noise.disturb(action) for _ in range(50)])
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.std(runs[0], axis=0)[:7].min() > 0.005
    quiet = Noise(np.random.default_rng(3), 0.0)
    np.testing.assert_array_equal(quiet.disturb(action), action)


def test_the_command_counts_successes(capsys):
    arguments = ['--task', 'lift', '--episodes', '2', '--seed', '5']
    assert expert_module.main(arguments) == 0
    assert 'lift: 2 of 2, noise 0' in capsys.readouterr().out
    assert expert_module.main([*arguments, '--max-steps', '5']) == 1
    assert 'failed seeds: 5, 6' in capsys.readouterr().out
