# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``policy: sim_expert``: what it asks for, what it answers, what it refuses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from openpi_policy_ros.configuration.robot import Profile, load_robot
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.policies.loading import load_policy, needs_model
from openpi_policy_ros_sim.privileged import POSES

pytest.importorskip('mujoco')

from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.observing import Observer
from openpi_policy_ros_sim.request import make_plan


@pytest.fixture(scope='module')
def policy():
    made = load_policy('', policy='sim_expert')
    made.warm_up()
    yield made
    made.close()


@pytest.fixture(scope='module')
def observation(policy):
    plan = make_plan(policy.spec.handshake, 'droid_jointpos')
    with Environment() as environment:
        state = environment.reset(3)
        observer = Observer(plan, 'lift the red cube', 'one')
        observer.see(environment)
        return observer.request(state)


def answer(policy, observation):
    (result,) = policy.infer([InferenceRequest(observation, SessionKey('test', 'one'))])
    return result


def test_it_needs_no_model_and_asks_for_what_only_a_simulator_knows(policy):
    assert not needs_model('sim_expert')
    said = policy.spec.handshake
    assert said['privileged_keys'] == list(POSES)
    assert (said['n_external_cameras'], said['needs_wrist_camera']) == (0, False)
    assert (said['action_horizon'], said['action_dim']) == (10, 8)
    assert said['action_space'] == 'joint_position'


def test_equal_observations_get_equal_answers_whatever_came_between(policy, observation):
    first = answer(policy, observation)
    other = {**observation, 'prompt': 'put the red cube in the bowl'}
    moved = {**other, 'sim/cube_pose': observation['sim/cube_pose'] + np.eye(7)[1] * 0.1}
    assert not np.array_equal(answer(policy, moved).actions, first.actions)
    again = answer(policy, observation)
    np.testing.assert_array_equal(again.actions, first.actions)
    assert isinstance(first, ActionChunk)
    assert (first.actions.shape, first.actions.dtype) == ((10, 8), np.float32)


def test_velocities_stay_within_one(observation):
    policy = load_policy('', policy='sim_expert', profile=load_robot('droid').profile)
    assert policy.spec.action_space == 'joint_velocity'
    rates = answer(policy, observation).actions[:, :7]
    assert 0.5 < np.abs(rates).max() <= 1.0
    policy.close()


BAD = {
    'prompt': ('prompt', 'dance', "expected 'lift the red cube' or 'put the red cube in the bowl'"),
    'missing': ('sim/bowl_pose', None, 'the handshake asks for it'),
    'shape': ('sim/can_pose', np.zeros(6), 'has shape [6]'),
    'nan': ('observation/joint_position', np.full(7, np.nan), 'not finite'),
    'text': ('observation/gripper_position', 'open', 'has shape []'),
    'quaternion': ('sim/box_pose', np.zeros(7), 'a quaternion of length 0'),
}


@pytest.mark.parametrize(('key', 'value', 'reason'), BAD.values(), ids=BAD)
def test_a_wrong_observation_is_refused_alone(policy, observation, key, value, reason):
    wrong = {name: each for name, each in observation.items() if name != key}
    if value is not None:
        wrong[key] = value
    requests = [InferenceRequest(each, SessionKey('test', 'one')) for each in (wrong, observation)]
    refused, fine = policy.infer(requests)
    assert isinstance(refused, InvalidObservation)
    assert refused.field == key
    assert reason in str(refused)
    assert isinstance(fine, ActionChunk)


def test_a_robot_that_is_another_is_refused():
    with pytest.raises(ConfigurationError) as caught:
        load_policy('', policy='sim_expert', profile=load_robot('aloha').profile)
    assert 'the state has 14 numbers' in str(caught.value)
    with pytest.raises(ConfigurationError, match="action_space is ''"):
        load_policy('', policy='sim_expert', profile=Profile())


def test_other_policies_are_found_without_mujoco():
    script = (
        'import sys; sys.modules["mujoco"] = None\n'
        'from openpi_policy_ros.policies import registry\n'
        'from openpi_policy_ros.policies.loading import load_policy\n'
        'print(registry.find_by_model_type("pi0")[0], "sim_expert" in registry.names())\n'
        'try:\n    load_policy("", policy="sim_expert")\n'
        'except Exception as error:\n    print(error)\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', script], capture_output=True, text=True, timeout=60, check=True
    )
    first, second = done.stdout.splitlines()
    assert first == 'pi0 True'
    assert second.startswith('MuJoCo cannot be imported')
    assert "pip install 'openpi_policy_ros[sim]'" in second
