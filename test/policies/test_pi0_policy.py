# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""π0 behind the policy seam: seeds, batches, refusals, profiles, timing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from openpi_policy_ros.configuration.robot import Profile, load_robot
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, RtcPrefix, SessionKey
from openpi_policy_ros.policies.pi0.load import load
from openpi_policy_ros.policies.pi0.policy import Noise, Pi0Policy
from openpi_policy_ros.policies.registry import LoadRequest

Observe = Callable[..., dict[str, Any]]
WRISTS = ['observation.images.left_wrist_0_rgb', 'observation.images.right_wrist_0_rgb']


@pytest.fixture(scope='module')
def policy(small: Path) -> Pi0Policy:
    return load(LoadRequest(str(small), options={'optional_cameras': WRISTS}), 'pi0')


def ask(observation: dict[str, Any], **changes: Any) -> InferenceRequest:
    return InferenceRequest(
        observation,
        SessionKey('test', 'x'),
        **{'seed': 1, 'num_inference_steps': 2, **changes},
    )


def answer(policy: Pi0Policy, observation: dict[str, Any], **changes: Any) -> ActionChunk:
    (result,) = policy.infer([ask(observation, **changes)])
    assert isinstance(result, ActionChunk), result
    return result


def refused(policy: Pi0Policy, observation: dict[str, Any], **changes: Any) -> InvalidObservation:
    (result,) = policy.infer([ask(observation, **changes)])
    assert isinstance(result, InvalidObservation), result
    assert result.expected
    assert result.remedy
    return result


# Seeds


def test_equal_seeds_are_bit_identical_whatever_ran_in_between(
    policy: Pi0Policy, observe: Observe
) -> None:
    first = answer(policy, observe())
    answer(policy, observe(seed=5, cameras=1), seed=None)
    torch.manual_seed(0)
    np.testing.assert_array_equal(answer(policy, observe()).actions, first.actions)


def test_other_seeds_and_no_seed_differ(policy: Pi0Policy, observe: Observe) -> None:
    chunks = [answer(policy, observe(), seed=seed).actions for seed in (1, 2, None, None)]
    for index, chunk in enumerate(chunks):
        for other in chunks[index + 1 :]:
            assert np.abs(chunk - other).max() > 0.1


def test_noise_without_a_seed_does_not_depend_on_the_global_generator(
    policy: Pi0Policy, observe: Observe
) -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = answer(policy, observe(), seed=None).actions
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(0)
    assert np.abs(answer(policy, observe(), seed=None).actions - first).max() > 0.1


def test_noise_without_a_seed_differs_from_policy_to_policy() -> None:
    assert not torch.equal(Noise((50, 32))(None), Noise((50, 32))(None))


def test_noise_of_a_seed_is_torchs_cpu_generator(policy: Pi0Policy) -> None:
    expected = torch.randn(50, 32, generator=torch.Generator().manual_seed(42))
    assert torch.equal(policy.draw_noise(42), expected)


@pytest.mark.parametrize('seed', [0, -1, 2**63, 2**64 - 1, -(2**63)])
def test_any_64_bit_seed_is_taken(policy: Pi0Policy, observe: Observe, seed: int) -> None:
    answer(policy, observe(), seed=seed)


@pytest.mark.parametrize('seed', [2**64, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_refused(policy: Pi0Policy, observe: Observe, seed: int) -> None:
    assert refused(policy, observe(), seed=seed).field == 'seed'


# Batches and steps


def test_a_bad_request_fails_in_its_place_and_the_others_are_answered(
    policy: Pi0Policy, observe: Observe
) -> None:
    results = policy.infer(
        [ask(observe()), ask(observe(state=np.array([np.nan]))), ask(observe(seed=2))]
    )
    assert isinstance(results[1], InvalidObservation)
    assert results[1].__traceback__ is None
    np.testing.assert_array_equal(results[0].actions, answer(policy, observe()).actions)
    np.testing.assert_array_equal(results[2].actions, answer(policy, observe(seed=2)).actions)


def test_a_failure_that_is_not_the_clients_is_raised(policy: Pi0Policy, observe: Observe) -> None:
    broken = load(LoadRequest(policy.spec.model), 'pi0')
    broken.draw_noise = lambda seed: torch.zeros(3)
    with pytest.raises(RuntimeError):
        broken.infer([ask(observe())])


def test_steps_are_the_calls_else_the_policy_files_else_the_checkpoints(
    small: Path, policy: Pi0Policy, observe: Observe
) -> None:
    four = load(LoadRequest(str(small), options={'num_inference_steps': 4}), 'pi0')
    configured = answer(four, observe(), num_inference_steps=None)
    np.testing.assert_array_equal(
        configured.actions, answer(policy, observe(), num_inference_steps=4).actions
    )
    np.testing.assert_array_equal(
        answer(policy, observe(), num_inference_steps=None).actions,
        answer(policy, observe(), num_inference_steps=10).actions,
    )


@pytest.mark.parametrize('steps', [0, -1, 1001, 10**30])
def test_steps_out_of_range_are_refused(policy: Pi0Policy, observe: Observe, steps: int) -> None:
    error = refused(policy, observe(), num_inference_steps=steps)
    assert error.field == 'num_inference_steps'
    assert str(steps) in error.what


# What comes out


def test_a_chunk_is_float32_of_the_declared_shape_with_its_times(
    policy: Pi0Policy, observe: Observe
) -> None:
    chunk = answer(policy, observe())
    assert chunk.outputs.keys() == policy.spec.output_shapes.keys() == {'actions'}
    assert chunk.actions.shape == policy.spec.output_shapes['actions'] == (50, 32)
    assert chunk.actions.dtype == np.float32
    assert chunk.model_actions.shape == (50, 32)
    times = chunk.timing_ms
    assert times.keys() == {'preprocess', 'vision', 'prefix', 'denoise', 'model'}
    assert all(isinstance(value, float) and value >= 0.0 for value in times.values())
    parts = times['vision'] + times['prefix'] + times['denoise']
    assert times['model'] == pytest.approx(parts)


def test_the_spec_says_what_the_doors_need(policy: Pi0Policy) -> None:
    spec = policy.spec
    assert (spec.supports_rtc, spec.stateful, spec.max_batch, spec.max_in_flight) == (
        True,
        False,
        1,
        1,
    )
    assert len(spec.action_names) == spec.action_dim == 32
    assert spec.state.max_dim == 32


def test_closing_frees_the_weights(small: Path) -> None:
    closing = load(LoadRequest(str(small)), 'pi0')
    closing.close_session(SessionKey('test', 'x'))
    closing.close()
    assert not hasattr(closing, 'model')


# Profiles


def droid(small: Path, **changes: Any) -> Pi0Policy:
    profile = load_robot('droid').profile.model_copy(update=changes)
    return load(LoadRequest(str(small), profile=profile, options={}), 'pi0')


def droid_observation(observe: Observe) -> dict[str, Any]:
    observation = observe()
    return {
        'observation/exterior_image_1_left': observation['observation.images.base_0_rgb'],
        'observation/wrist_image_left': observation[WRISTS[0]],
        'observation/joint_position': observation['state'][:7],
        'observation/gripper_position': observation['state'][7:],
        'prompt': observation['prompt'],
    }


def test_a_robots_names_give_the_same_chunk_as_the_models_cropped(
    small: Path, policy: Pi0Policy, observe: Observe
) -> None:
    plain = answer(policy, observe(cameras=2))
    named = answer(droid(small), droid_observation(observe))
    assert named.actions.shape == (10, 8)
    np.testing.assert_array_equal(named.actions, plain.actions[:10, :8])
    np.testing.assert_array_equal(named.model_actions, plain.model_actions)


def test_bgr_and_chw_on_the_wire_give_the_same_chunk(small: Path, observe: Observe) -> None:
    observation = droid_observation(observe)
    expected = answer(droid(small), observation).actions
    bgr, chw = dict(observation), dict(observation)
    for key in ('observation/exterior_image_1_left', 'observation/wrist_image_left'):
        bgr[key] = np.ascontiguousarray(observation[key][..., ::-1])
        chw[key] = np.ascontiguousarray(observation[key].transpose(2, 0, 1))
    as_bgr = answer(droid(small, colour_order='BGR'), bgr).actions
    as_chw = answer(droid(small, layout='CHW'), chw).actions
    np.testing.assert_array_equal(as_bgr, expected)
    np.testing.assert_array_equal(as_chw, expected)
    assert np.abs(answer(droid(small), bgr).actions - expected).max() > 1e-3


@pytest.mark.parametrize('changes', [{}, {'layout': 'CHW'}])
def test_warm_up_speaks_the_robots_own_language(small: Path, changes: dict[str, Any]) -> None:
    droid(small, **changes).warm_up()


@pytest.mark.parametrize(
    ('profile', 'says'),
    [
        ({'crop_rows': 51}, 'crop_rows is 51, but a chunk of this checkpoint has only 50 rows'),
        ({'crop_columns': 33}, 'crop_columns is 33'),
        ({'action_names': ['a', 'b']}, '2 entries, but a reply has 32 columns'),
    ],
)
def test_a_profile_wider_than_the_chunk_refuses_with_both_numbers(
    small: Path, profile: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(LoadRequest(str(small), profile=Profile(**profile)), 'pi0')
    assert says in caught.value.problems[0]


# What is refused


def test_an_over_long_prompt_is_refused_by_the_profiles_key(
    policy: Pi0Policy, observe: Observe
) -> None:
    error = refused(policy, observe(prompt='zx' * 60))
    assert error.field == 'prompt'
    assert 'tokens' in error.what


def test_a_wide_state_is_refused(policy: Pi0Policy, observe: Observe) -> None:
    assert '40 dimensions' in refused(policy, observe(state=np.zeros(40))).what


def test_a_missing_base_camera_is_refused_and_missing_wrists_are_not(
    policy: Pi0Policy, observe: Observe
) -> None:
    answer(policy, observe(cameras=1))
    observation = observe()
    del observation['observation.images.base_0_rgb']
    assert 'base_0_rgb is missing' in refused(policy, observation).what


# Real-time chunking


def leftover(rows: int = 20, columns: int = 32) -> np.ndarray:
    return np.ones((rows, columns), np.float32)


def test_a_leftover_pulls_the_start_of_the_chunk(policy: Pi0Policy, observe: Observe) -> None:
    free = answer(policy, observe(), num_inference_steps=10).model_actions
    guided = answer(
        policy, observe(), num_inference_steps=10, rtc=RtcPrefix(leftover(), 4, 10)
    ).model_actions
    near, far = np.abs(guided - 1.0)[:4].mean(), np.abs(free - 1.0)[:4].mean()
    assert near < 0.5 * far


def test_an_empty_leftover_changes_nothing(policy: Pi0Policy, observe: Observe) -> None:
    free = answer(policy, observe())
    empty = answer(policy, observe(), rtc=RtcPrefix(leftover(0), 0))
    np.testing.assert_array_equal(empty.actions, free.actions)


@pytest.mark.parametrize(
    ('prefix', 'says'),
    [
        (RtcPrefix(leftover(20, 31), 0), '[20, 31]'),
        (RtcPrefix(leftover(51), 0), '[51, 32]'),
        (RtcPrefix(leftover()[0], 0), '[32]'),
        (RtcPrefix(leftover() * np.nan, 0), 'NaN'),
        (RtcPrefix(leftover(), -1), 'inference_delay is -1'),
        (RtcPrefix(leftover(), 0, 0), 'execution_horizon is 0'),
    ],
)
def test_a_prefix_that_fits_nothing_is_refused(
    policy: Pi0Policy, observe: Observe, prefix: RtcPrefix, says: str
) -> None:
    error = refused(policy, observe(), rtc=prefix)
    assert error.field.startswith('rtc')
    assert says in error.what


# Number formats


def test_bfloat16_on_a_cpu_runs_with_a_warning_and_stays_close(
    small: Path, policy: Pi0Policy, observe: Observe, caplog: pytest.LogCaptureFixture
) -> None:
    narrow = load(LoadRequest(str(small), options={'dtype': 'bfloat16'}), 'pi0')
    assert 'slower than float32' in caplog.text
    dtypes = {name: p.dtype for name, p in narrow.model.named_parameters()}
    assert dtypes['prefix.0.qkv.weight'] == dtypes['vision.layers.0.fc1.weight'] == torch.bfloat16
    for kept in ('prefix.0.norm1.weight', 'expert_norm.weight', 'action_out_proj.weight'):
        assert dtypes[kept] == torch.float32
    assert narrow.model.rope.dtype == torch.float32
    wide = answer(policy, observe(), num_inference_steps=10).actions
    chunk = answer(narrow, observe(), num_inference_steps=10)
    assert chunk.actions.dtype == np.float32
    # 8 bits of mantissa through the tiny network; actions reach 5.
    assert np.abs(chunk.actions - wide).max() < 0.1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')
@pytest.mark.parametrize(('dtype', 'atol'), [('float32', 1e-4), ('bfloat16', 0.1)])
def test_a_gpu_gives_the_cpus_chunk(
    small: Path, policy: Pi0Policy, observe: Observe, dtype: str, atol: float
) -> None:
    there = load(
        LoadRequest(
            str(small), device='cuda', options={'dtype': dtype, 'optional_cameras': WRISTS}
        ),
        'pi0',
    )
    there.warm_up()
    for cameras in (1, 2, 3):
        chunk = answer(there, observe(cameras=cameras))
        here = answer(policy, observe(cameras=cameras))
        np.testing.assert_allclose(chunk.actions, here.actions, rtol=0, atol=atol)
        np.testing.assert_array_equal(
            answer(there, observe(cameras=cameras)).actions, chunk.actions
        )
        assert all(value > 0.0 for value in chunk.timing_ms.values())


def test_a_request_is_not_changed_by_answering_it(policy: Pi0Policy, observe: Observe) -> None:
    observation = observe()
    request = ask(observation)
    before = dataclasses.replace(request, observation=dict(observation))
    policy.infer([request])
    assert request.observation.keys() == before.observation.keys()
