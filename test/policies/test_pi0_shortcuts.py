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
from pi05_tiny import CPU, PI05_TINY, chunk, images_of, read_case, tokens_of
from safetensors.torch import load_file
from torch import Tensor

from openpi_policy_ros.bench.naive_pi0 import NaivePi0
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.policies.pi0.checkpoint import load_weights
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.load import load
from openpi_policy_ros.policies.pi0.model import PiModel
from openpi_policy_ros.policies.pi0.policy import Pi0Policy
from openpi_policy_ros.policies.pi0.preprocess import preprocess_image
from openpi_policy_ros.policies.pi0.prompt import Prompt
from openpi_policy_ros.policies.registry import LoadRequest

Observe = Callable[..., dict[str, Any]]
STEPS = 3
ATOL = 2e-5
LONGEST = 'a' + ' a' * 45
"""48 tokens, BOS and newline counted."""
CAMERAS = (
    'observation.images.base_0_rgb',
    'observation.images.left_wrist_0_rgb',
    'observation.images.right_wrist_0_rgb',
)


@pytest.fixture(scope='module')
def policy(small: Path) -> Pi0Policy:
    return load(LoadRequest(str(small), options={'optional_cameras': list(CAMERAS)}), 'pi0')


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
    tokens = policy.prompts.encode(Prompt((f'{observation["prompt"]}\n',)))
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
        served(policy, observation), plain(naive, policy, observation), rtol=0, atol=ATOL
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
    np.testing.assert_allclose(result, plain(naive, policy, permuted), rtol=0, atol=ATOL)
    assert np.abs(result - served(policy, straight)).max() > 1e-3


@pytest.mark.parametrize('prompt', ['x', 'put the cup on the plate', LONGEST])
def test_text_of_any_length_equals_padding_it(
    policy: Pi0Policy, naive: NaivePi0, observe: Observe, prompt: str
) -> None:
    observation = observe(prompt=prompt)
    np.testing.assert_allclose(
        served(policy, observation), plain(naive, policy, observation), rtol=0, atol=ATOL
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


# π0.5: the network alone, fed as the reference was


@pytest.fixture(scope='module')
def newer() -> PiModel:
    return load_weights(PI05_TINY, read_config(PI05_TINY), CPU)[0]


@pytest.fixture(scope='module')
def naive_newer() -> NaivePi0:
    return NaivePi0(PI05_TINY, read_config(PI05_TINY), CPU, torch.float32)


@pytest.fixture(scope='module')
def case() -> dict[str, np.ndarray]:
    return read_case()


def agreed(
    model: PiModel,
    naive: NaivePi0,
    images: dict[str, Tensor],
    case: dict[str, np.ndarray],
    tokens: list[int],
    steps: int = STEPS,
) -> np.ndarray:
    """Return the served network's chunk, once it is the plain algorithm's."""
    noise = torch.from_numpy(case['noise'])
    ours = chunk(model, list(images.values()), tokens, noise, steps)
    # The state is in the text: whatever is passed for it must not matter.
    theirs = naive.chunk(images, tokens, torch.full((32,), float('nan')), noise, steps)
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=0, atol=ATOL)
    return ours


def test_the_plain_algorithm_is_the_reference_for_pi05_too(
    naive_newer: NaivePi0, case: dict[str, np.ndarray]
) -> None:
    images, noise = images_of(case, naive_newer.config), torch.from_numpy(case['noise'])
    actions = naive_newer.chunk(images, tokens_of(case), torch.zeros(32), noise, 10)
    np.testing.assert_allclose(actions.numpy(), case['actions_full'], rtol=0, atol=ATOL)


@pytest.mark.parametrize(
    'present',
    [chosen for count in (1, 2, 3) for chosen in itertools.combinations(range(3), count)],
)
def test_pi05_with_any_set_of_cameras_equals_masking_the_others(
    newer: PiModel, naive_newer: NaivePi0, case: dict[str, np.ndarray], present: tuple[int, ...]
) -> None:
    images = images_of(case, newer.config)
    some = {name: image for index, (name, image) in enumerate(images.items()) if index in present}
    agreed(newer, naive_newer, some, case, tokens_of(case))


@pytest.mark.parametrize('order', list(itertools.permutations(range(3)))[1:])
def test_pi05_with_permuted_cameras_gives_the_plain_algorithms_other_chunk(
    newer: PiModel, naive_newer: NaivePi0, case: dict[str, np.ndarray], order: tuple[int, ...]
) -> None:
    straight, tokens = images_of(case, newer.config), tokens_of(case)
    values = list(straight.values())
    permuted = {name: values[source] for name, source in zip(straight, order, strict=True)}
    result = agreed(newer, naive_newer, permuted, case, tokens)
    unpermuted = chunk(newer, values, tokens, torch.from_numpy(case['noise']), STEPS)
    assert np.abs(result - unpermuted).max() > 1e-3


@pytest.mark.parametrize('steps', [1, 2, 7, 10])
def test_pi05_with_any_number_of_steps_is_the_plain_algorithm(
    newer: PiModel, naive_newer: NaivePi0, case: dict[str, np.ndarray], steps: int
) -> None:
    agreed(newer, naive_newer, images_of(case, newer.config), case, tokens_of(case), steps)


@pytest.mark.parametrize('length', [1, 37, 200])
def test_pi05_with_text_of_any_length_equals_padding_it(
    newer: PiModel, naive_newer: NaivePi0, case: dict[str, np.ndarray], length: int
) -> None:
    tokens = torch.randint(0, 109, (length,), generator=torch.Generator().manual_seed(5)).tolist()
    agreed(newer, naive_newer, images_of(case, newer.config), case, tokens)


def test_what_an_earlier_call_of_pi05_left_in_the_cache_is_never_seen(
    newer: PiModel, case: dict[str, np.ndarray]
) -> None:
    image, noise = images_of(case, newer.config)[CAMERAS[0]], torch.from_numpy(case['noise'])
    before = chunk(newer, [image], [2], noise, STEPS)
    chunk(newer, [image] * 3, tokens_of(case), noise, STEPS)
    np.testing.assert_array_equal(chunk(newer, [image], [2], noise, STEPS), before)
