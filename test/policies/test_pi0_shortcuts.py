# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the served model leaves out or fuses changes nothing: it agrees with the plain algorithm.

Three different images and permuted cameras on purpose: fast paths elsewhere shipped one image's
features for all three, and rotated the wrong pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from openpi_policy_ros.bench.naive_pi0 import NaivePi0
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.load import load
from openpi_policy_ros.policies.pi0.policy import Pi0Policy
from openpi_policy_ros.policies.pi0.preprocess import preprocess_image
from openpi_policy_ros.policies.registry import LoadRequest

Observe = Callable[..., dict[str, Any]]
CPU = torch.device('cpu')
STEPS = 3
LONGEST = 'a' + ' a' * 45
"""48 tokens, BOS and newline counted."""
CAMERAS = (
    'observation.images.base_0_rgb',
    'observation.images.left_wrist_0_rgb',
    'observation.images.right_wrist_0_rgb',
)


@pytest.fixture(scope='module')
def policy(small: Path) -> Pi0Policy:
    return load(LoadRequest(str(small), options={'optional_cameras': list(CAMERAS)}))


@pytest.fixture(scope='module')
def naive(small: Path) -> NaivePi0:
    return NaivePi0(small, read_config(small), CPU, torch.float32)


def served(policy: Pi0Policy, observation: dict[str, Any]) -> np.ndarray:
    request = InferenceRequest(
        observation, SessionKey('test', 'x'), seed=3, num_inference_steps=STEPS
    )
    (chunk,) = policy.infer([request])
    return chunk.model_actions


def plain(naive: NaivePi0, policy: Pi0Policy, observation: dict[str, Any]) -> np.ndarray:
    images = {
        name: preprocess_image(name, observation[name], (224, 224), CPU)
        for name in CAMERAS
        if name in observation
    }
    state = torch.zeros(32)
    state[: observation['state'].size] = torch.from_numpy(observation['state'])
    noise = torch.randn(50, 32, generator=torch.Generator().manual_seed(3))
    tokens = policy.prompts.encode(observation['prompt'])
    return naive.chunk(images, tokens, state, noise, STEPS).numpy()


@pytest.mark.parametrize(
    'present',
    [chosen for count in (1, 2, 3) for chosen in itertools.combinations(range(3), count)],
)
def test_any_set_of_cameras_equals_masking_the_others(
    policy: Pi0Policy, naive: NaivePi0, observe: Observe, present: tuple[int, ...]
) -> None:
    observation = observe()
    for index, name in enumerate(CAMERAS):
        if index not in present:
            del observation[name]
    np.testing.assert_allclose(
        served(policy, observation), plain(naive, policy, observation), rtol=0, atol=2e-5
    )


@pytest.mark.parametrize('order', list(itertools.permutations(range(3)))[1:])
def test_permuted_cameras_give_the_plain_algorithms_other_chunk(
    policy: Pi0Policy, naive: NaivePi0, observe: Observe, order: tuple[int, ...]
) -> None:
    straight = observe()
    permuted = {
        **straight,
        **{name: straight[CAMERAS[source]] for name, source in zip(CAMERAS, order, strict=True)},
    }
    result = served(policy, permuted)
    np.testing.assert_allclose(result, plain(naive, policy, permuted), rtol=0, atol=2e-5)
    assert np.abs(result - served(policy, straight)).max() > 1e-3


@pytest.mark.parametrize('prompt', ['x', 'put the cup on the plate', LONGEST])
def test_text_of_any_length_equals_padding_it(
    policy: Pi0Policy, naive: NaivePi0, observe: Observe, prompt: str
) -> None:
    observation = observe(prompt=prompt)
    np.testing.assert_allclose(
        served(policy, observation), plain(naive, policy, observation), rtol=0, atol=2e-5
    )


def test_what_an_earlier_call_left_in_the_cache_is_never_seen(
    policy: Pi0Policy, observe: Observe
) -> None:
    short = observe(cameras=1, prompt='x')
    before = served(policy, short)
    served(policy, observe(seed=1, prompt=LONGEST))
    np.testing.assert_array_equal(served(policy, short), before)


def test_weights_no_inference_reads_are_not_kept(policy: Pi0Policy, small: Path) -> None:
    config = read_config(small)
    width, vocabulary = config.language.width, config.vocab_size
    heads = vocabulary * (width + config.expert.width)
    queries = config.language.num_heads * config.language.head_dim
    last_layer = 2 * queries * width + 3 * config.language.mlp_dim * width + width
    stored = sum(tensor.numel() for tensor in load_file(small / 'model.safetensors').values())
    kept = sum(parameter.numel() for parameter in policy.model.parameters())
    assert kept == stored - heads - last_layer - width
