# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One episode: asked once a horizon, looked at only then, judged throughout."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('mujoco')

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.episodes import View, run_episode
from openpi_policy_ros_sim.errors import InvalidAction, SimulationError

STAY = np.tile([*c.HOME, 0.0], (10, 1))


def test_it_asks_once_a_horizon_and_executes_the_first_rows(environment):
    asked = []

    def act(seen):
        asked.append(seen.step)
        chunk = STAY.copy()
        chunk[:, 7] = np.arange(10) / 20
        return chunk

    episode = run_episode(environment, act, seed=1, task='lift', horizon=4, max_steps=10)
    assert asked == [0, 4, 8]
    assert [action[7] for action in episode.actions] == [0, 0.05, 0.1, 0.15] * 2 + [0, 0.05]
    assert len(episode.states) == 11
    assert episode.success == {'reach': None, 'lift': None, 'bowl': None}
    assert not episode.succeeded


def test_the_policy_sees_images_drawn_then_and_the_prompt(drawing):
    seen = []
    views = (View('exterior_1', 36, 64, (64, 64)), View('wrist', 32, 48))

    def act(observation):
        seen.append(observation)
        return STAY

    episode = run_episode(
        drawing, act, seed=2, task='bowl', horizon=8, max_steps=9, views=views, keep_images=True
    )
    assert [observation.step for observation in seen] == [0, 8]
    assert seen[0].prompt == 'put the red cube in the bowl'
    shapes = {camera: image.shape for camera, image in seen[0].images.items()}
    assert shapes == {'exterior_1': (64, 64, 3), 'wrist': (32, 48, 3)}
    assert sorted(episode.images) == [0, 8]
    assert episode.images[8] is seen[1].images


def test_the_prompt_can_be_another_than_the_judge(environment):
    prompts = set()

    def act(seen):
        prompts.add(seen.prompt)
        return STAY

    run_episode(environment, act, seed=2, task='lift', max_steps=2, prompt='wave')
    assert prompts == {'wave'}


def test_every_state_is_shown_to_whoever_watches(environment):
    times = []
    episode = run_episode(
        environment,
        lambda seen: STAY,
        seed=0,
        task='lift',
        max_steps=5,
        on_step=lambda world, state: times.append(state.time),
    )
    assert times == [state.time for state in episode.states]


def test_limits_that_came_to_bear_are_in_the_record(environment):
    wild = np.full((8, 8), 9.0)
    episode = run_episode(environment, lambda seen: wild, seed=0, task='lift', max_steps=3)
    assert episode.clamped['position'] == 3


@pytest.mark.parametrize('answer', [STAY[:5], STAY[0], STAY[:, :7], STAY[None]])
def test_a_chunk_of_another_shape_is_refused(environment, answer):
    with pytest.raises(InvalidAction, match='at least 8 rows'):
        run_episode(environment, lambda seen: answer, seed=0, task='lift', horizon=8)


def test_a_horizon_of_0_and_an_unknown_task_are_refused(environment):
    with pytest.raises(SimulationError, match='horizon 0'):
        run_episode(environment, lambda seen: STAY, seed=0, task='lift', horizon=0)
    with pytest.raises(SimulationError, match="task 'fly'"):
        run_episode(environment, lambda seen: STAY, seed=0, task='fly')
