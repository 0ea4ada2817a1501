# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every layout, mode and family from the disk to robot units, against formulas written out here.

The network of a made checkpoint hangs on family and seed alone. So one that normalises nothing
tells what the network answers to numbers that this file has normalised, and what this file makes of
that answer is what every other checkpoint has to say. Nothing here calls our own normalisation.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from openpi_client.image_tools import resize_with_pad
from safetensors.numpy import load_file

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, Policy, SessionKey
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0.config import Family
from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint
from openpi_policy_ros.policies.registry import CheckpointOptions

PHOTOS = Path(__file__).resolve().parents[1] / 'data' / 'photos'
ATOL = 2e-5
STEPS = 2
SEED = 17
RAW = np.array([0.31, -0.72, 0.18, -1.1, 0.64, 0.05, -0.4, 0.9])
"""A state in the robot's units, float64 [8]."""
ABSOLUTE = 7
"""The column that relative checkpoints leave alone: the gripper's."""
MODES = ('identity', 'mean_std', 'min_max', 'quantiles', 'quantile10')

Statistics = Mapping[str, np.ndarray]


def normalized(mode: str, x: np.ndarray, s: Statistics) -> np.ndarray:
    """Return a state in the model's units; ``openpi_…`` are openpi's, the others LeRobot's."""
    match mode:
        case 'identity':
            return x
        case 'mean_std':
            return (x - s['mean']) / (s['std'] + 1e-8)
        case 'min_max':
            return 2.0 * (x - s['min']) / (s['max'] - s['min']) - 1.0
        case 'quantiles':
            return 2.0 * (x - s['q01']) / (s['q99'] - s['q01']) - 1.0
        case 'quantile10':
            return 2.0 * (x - s['q10']) / (s['q90'] - s['q10']) - 1.0
        case 'openpi_mean_std':
            return (x - s['mean']) / (s['std'] + 1e-6)
        case 'openpi_quantiles':
            return (x - s['q01']) / (s['q99'] - s['q01'] + 1e-6) * 2.0 - 1.0
    raise AssertionError(mode)


def robot_units(mode: str, y: np.ndarray, s: Statistics) -> np.ndarray:
    """Return actions in the robot's units."""
    match mode:
        case 'identity':
            return y
        case 'mean_std':
            return y * s['std'] + s['mean']
        case 'min_max':
            return (y + 1.0) / 2.0 * (s['max'] - s['min']) + s['min']
        case 'quantiles':
            return (y + 1.0) / 2.0 * (s['q99'] - s['q01']) + s['q01']
        case 'quantile10':
            return (y + 1.0) / 2.0 * (s['q90'] - s['q10']) + s['q10']
        case 'openpi_mean_std':
            return y * (s['std'] + 1e-6) + s['mean']
        case 'openpi_quantiles':
            return (y + 1.0) / 2.0 * (s['q99'] - s['q01'] + 1e-6) + s['q01']
    raise AssertionError(mode)


def lerobot_statistics(checkpoint: Path) -> tuple[Statistics, Statistics]:
    """Return (state, action) as the files of a LeRobot checkpoint hold them, float64."""
    files = sorted(checkpoint.glob('policy_*normalizer_processor.safetensors'))
    if not files:
        return {}, {}
    stored = [load_file(path) for path in files]
    assert stored[0].keys() == stored[1].keys()
    state, action = (
        {
            name.removeprefix(f'{feature}.'): values.astype(np.float64)
            for name, values in stored[0].items()
            if name.startswith(f'{feature}.')
        }
        for feature in ('observation.state', 'action')
    )
    return state, action


def openpi_statistics(checkpoint: Path) -> tuple[Statistics, Statistics]:
    """Return (state, action) of an openpi checkpoint."""
    (path,) = checkpoint.glob('assets/*/norm_stats.json')
    read = json.loads(path.read_text())['norm_stats']
    state, action = (
        {name: np.array(values) for name, values in read[feature].items()}
        for feature in ('state', 'actions')
    )
    return state, action


def observation(state: np.ndarray, **changes: Any) -> dict[str, Any]:
    """Return an observation whose images need no scaling, so that every layout sees the same."""
    pixels = np.random.default_rng(4).integers(0, 256, (3, 224, 224, 3), dtype=np.uint8)
    return {
        'observation.images.base_0_rgb': pixels[0],
        'observation.images.left_wrist_0_rgb': pixels[1],
        'observation.images.right_wrist_0_rgb': pixels[2],
        'state': state.astype(np.float32),
        'prompt': 'pick up the red block',
        **changes,
    }


def ask(policy: Policy, seen: dict[str, Any]) -> ActionChunk:
    (answer,) = policy.infer(
        [InferenceRequest(seen, SessionKey('t', 't'), seed=SEED, num_inference_steps=STEPS)]
    )
    assert isinstance(answer, ActionChunk), answer
    return answer


def made(directory: Path, family: Family, **options: Any) -> Path:
    make_checkpoint(directory, 'small', 0, CheckpointOptions(**options), family=family)
    return directory


@pytest.fixture(scope='module')
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Policy]:
    """Return family → a policy that changes no number on either side of its network."""
    return {
        family: load_policy(
            str(
                made(
                    tmp_path_factory.mktemp(family) / 'x',
                    family,
                    normalization='identity',
                    state_dim=8,
                    action_dim=8,
                )
            )
        )
        for family in ('pi0', 'pi05')
    }


def check(
    policy: Policy,
    network: Policy,
    mode: str,
    statistics: tuple[Statistics, Statistics],
    delta_mask: tuple[bool, ...] = (False,) * 8,
) -> np.ndarray:
    """Assert what the policy makes of ``RAW``; return its actions, float32 [50, 8]."""
    state, action = statistics
    inner = ask(network, observation(normalized(mode, RAW, state))).model_actions
    assert inner is not None
    answer = ask(policy, observation(RAW))
    assert answer.model_actions is not None
    assert np.abs(answer.model_actions - inner).max() <= ATOL
    expected = robot_units(mode, inner[:, :8].astype(np.float64), action)
    expected = expected + np.where(delta_mask, RAW, 0.0)
    assert answer.actions.dtype == np.float32
    assert answer.actions.shape == (50, 8)
    assert np.abs(answer.actions - expected).max() <= ATOL
    return answer.actions


def test_no_two_of_these_formulas_could_be_taken_for_one_another(
    tmp_path: Path, networks: dict[str, Policy]
) -> None:
    checkpoint = made(tmp_path / 'x', 'pi0', normalization='mean_std')
    state, action = lerobot_statistics(checkpoint)
    inner = ask(networks['pi0'], observation(RAW)).model_actions
    assert inner is not None
    for one, other in itertools.combinations(MODES, 2):
        seen, answered = (
            [function(mode, x, s) for mode in (one, other)]
            for function, x, s in ((normalized, RAW, state), (robot_units, inner[:, :8], action))
        )
        assert np.abs(seen[0] - seen[1]).max() > 0.1, (one, other)
        assert np.abs(answered[0] - answered[1]).max(axis=0).min() > 1e-2, (one, other)
    # The statistics of the state in place of the actions', or of one column further.
    right = robot_units('mean_std', inner[:, :8], action)
    shifted = {name: np.roll(values, 1) for name, values in action.items()}
    for wrong in (state, shifted):
        difference = np.abs(right - robot_units('mean_std', inner[:, :8], wrong))
        assert difference.max(axis=0).min() > 1e-2


LEROBOT = [
    *(
        (family, layout, mode, 1)
        for family in ('pi0', 'pi05')
        for layout in ('lerobot', 'lerobot-0.4')
        for mode in MODES
    ),
    ('pi0', 'lerobot-0.4', 'quantile10', 2),
    ('pi05', 'lerobot', 'quantiles', 3),
]


@pytest.mark.parametrize(('family', 'layout', 'mode', 'shards'), LEROBOT)
def test_lerobot_in_robot_units(
    tmp_path: Path,
    networks: dict[str, Policy],
    family: Family,
    layout: str,
    mode: str,
    shards: int,
) -> None:
    checkpoint = made(
        tmp_path / 'x',
        family,
        layout=layout,
        normalization=mode,
        shards=shards,
        state_dim=8,
        action_dim=8,
    )
    policy = load_policy(str(checkpoint))
    assert policy.spec.name == family
    check(policy, networks[family], mode, lerobot_statistics(checkpoint))


@pytest.mark.parametrize('mode', MODES)
@pytest.mark.parametrize('family', ['pi0', 'pi05'])
def test_lerobot_with_differences_from_the_state(
    tmp_path: Path, networks: dict[str, Policy], family: Family, mode: str
) -> None:
    checkpoint = made(
        tmp_path / 'x', family, normalization=mode, relative=True, state_dim=8, action_dim=8
    )
    mask = tuple(column != ABSOLUTE for column in range(8))
    policy = load_policy(str(checkpoint))
    check(policy, networks[family], mode, lerobot_statistics(checkpoint), mask)
    assert policy.spec.action_names == (*(f'joint_{number}' for number in range(1, 8)), 'gripper')


@pytest.mark.parametrize(('family', 'mode'), [('pi0', 'mean_std'), ('pi05', 'quantiles')])
@pytest.mark.parametrize(
    'delta_mask', [(False,), (True,) * 7, (True, False, True, False, True, False, True, True)]
)
def test_openpi_with_the_delta_mask_of_the_robot_file(
    tmp_path: Path,
    networks: dict[str, Policy],
    family: Family,
    mode: str,
    delta_mask: tuple[bool, ...],
) -> None:
    checkpoint = made(tmp_path / 'x', family, layout='openpi')
    profile = Profile(action_space='joint_position', delta_mask=list(delta_mask))
    policy = load_policy(str(checkpoint), profile=profile)
    assert policy.spec.name == family
    # Columns after the last entry are absolute.
    mask = (*delta_mask, *(False,) * (8 - len(delta_mask)))
    statistics = openpi_statistics(checkpoint)
    check(policy, networks[family], f'openpi_{mode}', statistics, mask)


def test_openpi_cleans_its_prompt_and_lerobot_does_not(
    tmp_path: Path, networks: dict[str, Policy]
) -> None:
    profile = Profile(action_space='joint_velocity')
    openpi = load_policy(str(made(tmp_path / 'o', 'pi0', layout='openpi')), profile=profile)
    dirty = ' pick_up the\nred_block '
    for policy, same in ((openpi, True), (networks['pi0'], False)):
        plain, odd = (
            ask(policy, observation(RAW, prompt=text)).model_actions
            for text in ('pick up the red block', dirty)
        )
        assert plain is not None
        assert odd is not None
        assert (np.abs(plain - odd).max() <= ATOL) == same


def test_openpi_scales_photos_as_openpis_own_library_does(
    tmp_path: Path, networks: dict[str, Policy]
) -> None:
    checkpoint = made(tmp_path / 'x', 'pi0', layout='openpi')
    policy = load_policy(str(checkpoint), profile=Profile(action_space='joint_velocity'))
    photos = {
        key: np.ascontiguousarray(cv2.imread(str(PHOTOS / name), cv2.IMREAD_COLOR)[..., ::-1])
        for key, name in zip(
            (key for key in observation(RAW) if 'images' in key),
            ('chelsea.png', 'coffee.png', 'chelsea.png'),
            strict=True,
        )
    }
    scaled = {key: resize_with_pad(photo, 224, 224) for key, photo in photos.items()}
    seen = normalized('openpi_mean_std', RAW, openpi_statistics(checkpoint)[0])
    ours = ask(policy, observation(RAW, **photos)).model_actions
    theirs, lerobots = (
        ask(networks['pi0'], observation(seen, **images)).model_actions
        for images in (scaled, photos)
    )
    assert ours is not None
    # Theirs differs by one level of 255 in some pixels: they round twice.
    assert np.abs(ours - theirs).max() < 1e-3
    assert np.abs(ours - lerobots).max() > 1e-2


@pytest.mark.parametrize(
    ('family', 'layout'), [('pi0', 'lerobot'), ('pi0', 'openpi'), ('pi05', 'lerobot-0.4')]
)
def test_weights_in_bfloat16_are_served_in_float32_where_the_policy_file_says_so(
    tmp_path: Path, family: Family, layout: str
) -> None:
    profile = Profile(action_space='joint_velocity')
    policy_file = tmp_path / 'mine.yaml'
    policy_file.write_text(f'policy: {family}\ndtype: float32\n')
    exact, rounded = (
        load_policy(
            str(made(tmp_path / dtype, family, layout=layout, dtype=dtype)),
            policy=str(policy_file),
            profile=profile,
        )
        for dtype in ('float32', 'bfloat16')
    )
    one, other = (ask(policy, observation(RAW)).actions for policy in (exact, rounded))
    difference = np.abs(one - other).max()
    # Weights of eight bits: close to those they were rounded from, and not the same.
    assert 1e-4 < difference < 0.5
