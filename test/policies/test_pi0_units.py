# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy between a robot's units and the network's: states, actions, text, warm-up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from policy_units import WRISTS, around, z_score

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation, InvalidOutput
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.policies.pi0.load import load
from openpi_policy_ros.policies.pi0.pipeline import Pipeline, PromptStyle
from openpi_policy_ros.policies.pi0.policy import Pi0Policy
from openpi_policy_ros.policies.registry import LoadRequest

Observe = Callable[..., dict[str, Any]]
STATE = 'observation.state'
# 3 numbers of state, 2 of action, the first a difference.
HALF = z_score([1.0, 2.0, 3.0], [2.0, 2.0, 2.0])
ACTIONS = z_score([10.0, 20.0], [2.0, 4.0])


@pytest.fixture(scope='module')
def network(small: Path) -> Pi0Policy:
    return load(LoadRequest(str(small)), 'pi0')


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch, network: Pi0Policy) -> Callable[..., Pi0Policy]:
    """Return a function that makes a policy whose network leaves the noise as it is."""
    monkeypatch.setattr(network.model, 'velocity', lambda x, row, position: torch.zeros_like(x))

    def make(pipeline: Pipeline, noise: float = 0.0, **options: Any) -> Pi0Policy:
        policy = around(network, pipeline, **options)
        columns = torch.arange(32.0) + noise
        policy.draw_noise = lambda seed: columns.expand(50, 32).clone()
        return policy

    return make


def ask(policy: Pi0Policy, observation: dict[str, Any], **changes: Any) -> Any:
    request = InferenceRequest(
        observation, SessionKey('test', 'x'), **{'num_inference_steps': 1, 'seed': 1, **changes}
    )
    (result,) = policy.infer([request])
    return result


def state_seen(policy: Pi0Policy, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Return a list that gains every state the network is given."""
    seen: list[np.ndarray] = []
    append_state = policy.model.append_state

    def spy(state: torch.Tensor, position: int) -> int:
        seen.append(state.numpy().copy())
        return append_state(state, position)

    monkeypatch.setattr(policy.model, 'append_state', spy)
    return seen


def tokens_seen(policy: Pi0Policy, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return a list that gains the tokens of every text the network is given."""
    seen: list[tuple[int, ...]] = []
    embed_prefix = policy.model.embed_prefix

    def spy(images: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(tokens.tolist()))
        return embed_prefix(images, tokens)

    monkeypatch.setattr(policy.model, 'embed_prefix', spy)
    return seen


# The state


def test_the_state_is_normalised_over_its_own_width_and_then_padded_with_zeros(
    network: Pi0Policy, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = around(network, Pipeline(action_dim=2, state=HALF))
    seen = state_seen(policy, monkeypatch)
    ask(policy, observe(state=np.array([2.0, 2.0, 9.0])))
    expected = np.zeros(32, np.float32)
    expected[:3] = [0.5, 0.0, 3.0]
    np.testing.assert_array_equal(seen[0], expected)


def test_without_statistics_a_narrow_state_is_padded_as_it_is(
    network: Pi0Policy, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = around(network, Pipeline(action_dim=2))
    seen = state_seen(policy, monkeypatch)
    ask(policy, observe(state=np.array([2.0, 7.0])))
    assert seen[0][:2].tolist() == [2.0, 7.0]
    assert not seen[0][2:].any()


@pytest.mark.parametrize('width', [1, 2, 4])
def test_another_width_than_the_statistics_is_refused(
    network: Pi0Policy, observe: Observe, width: int
) -> None:
    result = ask(around(network, Pipeline(action_dim=2, state=HALF)), observe(state=np.ones(width)))
    assert isinstance(result, InvalidObservation)
    assert f'{width} dimensions' in result.what
    assert '3, as many as the statistics' in result.expected


def test_a_policy_is_not_built_around_statistics_of_another_width(network: Pi0Policy) -> None:
    with pytest.raises(ValueError, match='3 numbers'):
        Pi0Policy(
            network.spec,
            network._config,
            network.model,
            network.prompts,
            network._map,
            Pipeline(action_dim=2, state=HALF),
        )


def test_a_state_that_no_float_can_hold_once_normalised_is_refused(
    network: Pi0Policy, observe: Observe
) -> None:
    narrow = z_score([0.0, 0.0], [1.0, 1e-8])
    policy = around(network, Pipeline(action_dim=2, state=narrow))
    result = ask(policy, observe(state=np.array([1.0, 1e35])))
    assert isinstance(result, InvalidObservation)
    assert result.field == 'state'
    assert 'number 1 of the state is 1e+35' in result.what
    assert isinstance(ask(policy, observe(state=np.array([1.0, 1.0]))), ActionChunk)


def test_a_chunk_keeps_the_raw_state_whatever_becomes_of_the_request(
    network: Pi0Policy, observe: Observe
) -> None:
    policy = around(network, Pipeline(action_dim=2, state=HALF))
    state = np.array([1.0, 2.0, 3.0], np.float32)
    chunk = ask(policy, observe(state=state))
    state[:] = 99.0
    assert chunk.state.dtype == np.float32
    assert chunk.state.tolist() == [1.0, 2.0, 3.0]


# The actions


def test_actions_leave_in_robot_units_and_cropped_and_model_space_stays_whole(
    still: Callable[..., Pi0Policy], observe: Observe
) -> None:
    pipeline = Pipeline(action_dim=2, state=HALF, actions=ACTIONS)
    chunk = ask(still(pipeline, rows=7), observe(state=np.zeros(3)))
    assert chunk.actions.shape == (7, 2)
    assert chunk.actions.dtype == np.float32
    # Columns are 0 and 1 in model space: 0 · 2 + 10, 1 · 4 + 20.
    assert chunk.actions.tolist() == [[10.0, 24.0]] * 7
    assert chunk.model_actions.shape == (50, 32)
    assert chunk.model_actions[0].tolist() == list(range(32))
    cropped = ask(still(pipeline, rows=7, columns=1), observe(state=np.zeros(3)))
    assert cropped.actions.tolist() == [[10.0]] * 7
    assert cropped.actions.flags.c_contiguous


def test_differences_are_added_to_the_raw_state(
    still: Callable[..., Pi0Policy], observe: Observe
) -> None:
    pipeline = Pipeline(action_dim=2, state=HALF, actions=ACTIONS, delta_mask=(True, False))
    chunk = ask(still(pipeline), observe(state=np.array([0.5, 70.0, 80.0])))
    assert chunk.actions[0].tolist() == [10.5, 24.0]


def test_differences_need_a_state_to_be_added_to(
    still: Callable[..., Pi0Policy], observe: Observe
) -> None:
    policy = still(Pipeline(action_dim=2, delta_mask=(False, True)))
    assert ask(policy, observe(state=np.array([5.0, 6.0]))).actions[0].tolist() == [0.0, 7.0]
    result = ask(policy, observe(state=np.array([5.0])))
    assert isinstance(result, InvalidObservation)
    assert '1 dimensions' in result.what
    assert 'differences from the first 2' in result.expected


def test_the_caller_may_change_a_reply_without_changing_the_chunk_in_model_space(
    still: Callable[..., Pi0Policy], observe: Observe
) -> None:
    chunk = ask(still(Pipeline(action_dim=32)), observe())
    chunk.actions[:] = -1.0
    assert chunk.model_actions[0].tolist() == list(range(32))


def test_actions_that_overflow_on_the_way_out_never_leave_the_engine(
    still: Callable[..., Pi0Policy], observe: Observe
) -> None:
    huge = z_score([0.0, 0.0], [1.0, 3e38])
    policy = still(Pipeline(action_dim=2, actions=huge), noise=1.0)
    policy.warm_up = lambda: None  # type: ignore[method-assign]
    engine = Engine(policy)
    engine.start()
    try:
        request = InferenceRequest(observe(), SessionKey('c', 'x'), num_inference_steps=1)
        error = engine.submit(request, Lane.REMOTE).exception(timeout=20.0)
    finally:
        engine.close()
    assert isinstance(error, InvalidOutput)
    assert 'not finite' in error.what


# The text


@pytest.mark.parametrize(
    ('style', 'text'),
    [
        (PromptStyle.NEWLINE, ' pick_up \n'),
        (PromptStyle.PLAIN, ' pick_up '),
        (PromptStyle.CLEANED, 'pick up\n'),
        (PromptStyle.STATE, 'Task: pick up, State: 192 0 -1;\nAction: '),
    ],
)
def test_the_network_reads_the_text_of_its_kind(
    network: Pi0Policy,
    observe: Observe,
    monkeypatch: pytest.MonkeyPatch,
    style: PromptStyle,
    text: str,
) -> None:
    policy = around(network, Pipeline(action_dim=2, state=HALF, prompt=style))
    seen = tokens_seen(policy, monkeypatch)
    # Normalised: 0.5, −1, −2.
    prompt = ' pick_up ' if style is not PromptStyle.NEWLINE else ' pick_up \n'
    ask(policy, observe(state=np.array([2.0, 0.0, -1.0]), prompt=prompt))
    tokenizer = policy.prompts._tokenizer
    assert seen[0][0] == 2
    assert tokenizer.decode(seen[0][1:], skip_special_tokens=False) == text


def test_without_a_state_token_the_network_is_given_none(
    network: Pi0Policy, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = Pipeline(action_dim=2, state=HALF, prompt=PromptStyle.STATE, state_token=False)
    policy = around(network, pipeline)
    seen = state_seen(policy, monkeypatch)
    assert isinstance(ask(policy, observe(state=np.zeros(3))), ActionChunk)
    assert seen == []


def test_text_and_state_that_do_not_fit_together_are_refused_not_cut(
    network: Pi0Policy, observe: Observe
) -> None:
    policy = around(network, Pipeline(action_dim=2, state=HALF, prompt=PromptStyle.STATE))
    policy.prompts._truncate = True
    try:
        result = ask(policy, observe(state=np.zeros(3), prompt='zx' * 30))
    finally:
        policy.prompts._truncate = False
    assert isinstance(result, InvalidObservation)
    assert result.field == 'prompt'
    assert 'instruction and state together have' in result.what


def test_a_robot_that_stands_still_has_its_text_encoded_once(
    network: Pi0Policy, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = around(network, Pipeline(action_dim=2, state=HALF, prompt=PromptStyle.STATE))
    encoded: list[str] = []
    encode = policy.prompts._encode
    monkeypatch.setattr(
        policy.prompts,
        '_encode',
        lambda prompt, field: encoded.append(prompt.parts[0]) or encode(prompt, field),
    )
    for state in ([7.0, 0.0, 0.0], [7.0, 0.0, 0.0], [7.0, 0.0, 0.001], [-7.0, 0.0, 0.0]):
        ask(policy, observe(state=np.array(state)))
    # The third state lies in the same bins.
    assert encoded == [
        'Task: pick up the red block, State: 255 0 -1;\nAction: ',
        'Task: pick up the red block, State: -1 0 -1;\nAction: ',
    ]


# Images


def test_a_pipeline_says_how_images_are_scaled(network: Pi0Policy, observe: Observe) -> None:
    plain, filtered, legacy = (
        ask(around(network, Pipeline(action_dim=2, **options)), large(observe)).actions
        for options in ({}, {'antialias': True}, {'legacy_padding': True})
    )
    assert np.abs(filtered - plain).max() > 1e-4
    assert np.abs(legacy - plain).max() > 1e-4


def large(observe: Observe) -> dict[str, Any]:
    pixels = np.random.default_rng(1).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    return observe(cameras=1, **{'observation.images.base_0_rgb': pixels})


# Warm-up

KEYS = [
    'cam -> observation.images.base_0_rgb',
    *(f'{name} -> {STATE}' for name in ('arm', 'hand')),
]


@pytest.mark.parametrize(
    ('pipeline', 'profile'),
    [
        (Pipeline(action_dim=2), {}),
        (Pipeline(action_dim=2, state=HALF), {}),
        (Pipeline(action_dim=2, state=HALF), {'key_map': KEYS}),
        (Pipeline(action_dim=2, state=HALF), {'key_map': KEYS, 'state_dims': [1, 2]}),
        (Pipeline(action_dim=2, delta_mask=(False, True)), {}),
        (Pipeline(action_dim=4, delta_mask=(False, False, False, True)), {'key_map': KEYS}),
        (Pipeline(action_dim=2, state=HALF, prompt=PromptStyle.STATE, state_token=False), {}),
        (Pipeline(action_dim=2, state=HALF, prompt=PromptStyle.CLEANED), {}),
    ],
)
def test_warm_up_sends_what_is_accepted(
    network: Pi0Policy, pipeline: Pipeline, profile: dict[str, Any]
) -> None:
    around(network, pipeline, profile=Profile(**profile)).warm_up()


def test_warm_up_starts_from_the_middle_of_the_training_data(
    network: Pi0Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = around(
        network,
        Pipeline(action_dim=2, state=HALF),
        profile=Profile(key_map=KEYS, state_dims=[2, 1]),
    )
    seen = state_seen(policy, monkeypatch)
    policy.warm_up()
    assert not seen[0].any()


def test_a_default_prompt_that_does_not_fit_is_found_at_the_start(small: Path) -> None:
    policy = load(LoadRequest(str(small), options={'default_prompt': 'zx' * 60}), 'pi0')
    with pytest.raises(InvalidObservation, match='tokens'):
        policy.warm_up()


# At the start


@pytest.mark.parametrize(
    ('dims', 'says'),
    [
        ([13, 2], r'makes 15 numbers of state.*takes 14: .*wider than the checkpoint'),
        ([12, 1], r'makes 13 numbers of state.*normalises 14: .*narrower than its statistics'),
    ],
)
def test_a_robot_file_of_another_width_than_the_statistics_refuses_the_start(
    golden: Path, dims: list[int], says: str
) -> None:
    fine_tune = str(golden.parent / 'pi0_tiny_ft_meanstd')
    profile = Profile(key_map=KEYS, state_dims=dims, optional_cameras=WRISTS)
    with pytest.raises(ConfigurationError, match=says):
        load(LoadRequest(fine_tune, profile=profile), 'pi0')
    fitting = profile.model_copy(update={'state_dims': [13, 1]})
    load(LoadRequest(fine_tune, profile=fitting), 'pi0').warm_up()
