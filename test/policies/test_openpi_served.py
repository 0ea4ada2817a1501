# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that openpi converted to PyTorch, served: the network's own chunk in robot units.

The reference is the same network in LeRobot's files, with openpi's arithmetic worked around it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hub_standin import serve_hub
from openpi_client.image_tools import resize_with_pad
from openpi_files import (
    ABSOLUTE,
    ACTIONS,
    DELTA,
    RAW_STATE,
    STATE,
    WIDTH,
    chunk,
    observation,
    put,
    statistics,
)
from policy_checkpoints import rewrite_json
from safetensors.torch import load_file, save_file

from openpi_policy_ros.configuration.robot import Profile, load_robot
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation
from openpi_policy_ros.policies.inspection import inspect_model
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0.config import Family


@pytest.fixture(params=['pi0', 'pi05'])
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


@pytest.fixture
def checkpoint(converted: dict[Family, Path], family: Family, tmp_path: Path) -> Path:
    """Return one of either family that a test may change."""
    return Path(shutil.copytree(converted[family], tmp_path / 'checkpoint'))


@pytest.fixture
def pi0(converted: dict[Family, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted['pi0'], tmp_path / 'pi0'))


@pytest.fixture
def pi05(converted: dict[Family, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(converted['pi05'], tmp_path / 'pi05'))


@pytest.fixture
def policy_file(tmp_path: Path) -> Callable[..., str]:
    def write(policy: str, **options: Any) -> str:
        path = tmp_path / 'mine.yaml'
        path.write_text(json.dumps({'policy': policy, **options}))
        return str(path)

    return write


def test_a_chunk_is_the_networks_with_openpis_arithmetic_around_it(
    bare: dict[Family, Path], converted: dict[Family, Path], family: Family
) -> None:
    profile = Profile(delta_mask=DELTA, optional_cameras=['observation.images.right_wrist_0_rgb'])
    policy = load_policy(str(converted[family]), profile=profile)
    assert policy.spec.name == family
    assert (policy.spec.horizon, policy.spec.action_dim) == (50, WIDTH)
    policy.warm_up()
    ours = chunk(policy, observation(RAW_STATE, ' pick_up\nthe red block '))

    # The network itself: what it is to see made by hand.
    network = load_policy(
        str(bare[family]),
        profile=Profile(optional_cameras=['observation.images.right_wrist_0_rgb']),
    )
    values = {name: np.array(numbers) for name, numbers in STATE.items()}
    normal = {
        'pi0': (RAW_STATE - values['mean']) / (values['std'] + 1e-6),
        'pi05': (RAW_STATE - values['q01']) / (values['q99'] - values['q01'] + 1e-6) * 2 - 1,
    }[family]
    seen = observation(normal.astype(np.float32), 'pick up the red block')
    for name in list(seen)[:2]:
        seen[name] = resize_with_pad(seen[name], 224, 224)
    theirs = chunk(network, seen)[:, :WIDTH].astype(np.float64)
    values = {name: np.array(numbers) for name, numbers in ACTIONS.items()}
    robot = {
        'pi0': theirs * (values['std'] + 1e-6) + values['mean'],
        'pi05': (theirs + 1) / 2 * (values['q99'] - values['q01'] + 1e-6) + values['q01'],
    }[family]
    robot[:, [0, 1, 3]] += RAW_STATE[[0, 1, 3]]
    # One level in some pixels between PIL and torch, seen through a random network.
    np.testing.assert_allclose(ours, robot, rtol=0, atol=2e-2)
    # Each part of the arithmetic matters more than that.
    assert np.abs(ours - theirs).max() > 0.5


def test_a_chunk_of_an_image_that_needs_no_scaling_is_the_same_to_rounding(
    bare: dict[Family, Path], converted: dict[Family, Path], family: Family
) -> None:
    optional = ['observation.images.right_wrist_0_rgb']
    policy = load_policy(
        str(converted[family]), profile=Profile(delta_mask=[False], optional_cameras=optional)
    )
    ours = chunk(policy, observation(RAW_STATE, 'go', (224, 224)))
    network = load_policy(str(bare[family]), profile=Profile(optional_cameras=optional))
    low, high = ('mean', 'std') if family == 'pi0' else ('q01', 'q99')
    first, second = np.array(STATE[low]), np.array(STATE[high])
    normal = (RAW_STATE - first) / ((second if family == 'pi0' else second - first) + 1e-6)
    normal = normal if family == 'pi0' else 2 * normal - 1
    theirs = chunk(network, observation(normal.astype(np.float32), 'go', (224, 224)))[:, :WIDTH]
    first, second = np.array(ACTIONS[low]), np.array(ACTIONS[high])
    robot = (
        theirs * (second + 1e-6) + first
        if family == 'pi0'
        else (theirs + 1) / 2 * (second - first + 1e-6) + first
    )
    np.testing.assert_allclose(ours, robot, rtol=0, atol=1e-5)


def test_pi05_without_the_state_in_its_text_does_not_see_it(
    pi05: Path, policy_file: Callable[..., str]
) -> None:
    blind = load_policy(
        str(pi05), policy=policy_file('pi05', discrete_state_input=False), profile=ABSOLUTE
    )
    seeing = load_policy(str(pi05), policy=policy_file('pi05'), profile=ABSOLUTE)
    third = {'observation.images.right_wrist_0_rgb': np.zeros((224, 224, 3), np.uint8)}
    one = {**observation(RAW_STATE, 'go'), **third}
    other = {**observation(RAW_STATE + 0.5, 'go'), **third}
    np.testing.assert_array_equal(chunk(blind, one), chunk(blind, other))
    assert np.abs(chunk(seeing, one) - chunk(seeing, other)).max() > 1e-3


@pytest.mark.parametrize('width', [7, 9])
def test_a_state_of_another_width_than_the_statistics_is_refused(
    converted: dict[Family, Path], family: Family, width: int
) -> None:
    policy = load_policy(
        str(converted[family]),
        profile=Profile(
            delta_mask=[False],
            optional_cameras=[
                'observation.images.left_wrist_0_rgb',
                'observation.images.right_wrist_0_rgb',
            ],
        ),
    )
    with pytest.raises(InvalidObservation, match=rf'{width}.*expected.*8'):
        chunk(policy, observation(np.zeros(width, np.float32), 'go'))


# With the shipped robot files.


@pytest.mark.parametrize(('family', 'horizon'), [('pi0', 10), ('pi05', 15)])
def test_droids_checkpoints_answer_its_client_with_ten_by_eight(
    checkpoint: Path, family: Family, horizon: int
) -> None:
    rewrite_json(checkpoint / 'config.json', action_horizon=horizon)
    for robot, space in (('droid', 'joint_velocity'), ('droid_jointpos_delta', 'joint_position')):
        spec = load_policy(str(checkpoint), policy=family, profile=load_robot(robot).profile).spec
        assert (spec.horizon, spec.action_dim) == (10, 8)
        assert spec.handshake is not None
        assert (spec.handshake['action_horizon'], spec.handshake['action_dim']) == (10, 8)
        assert spec.handshake['action_space'] == space


def test_droid_jointpos_is_refused_because_it_does_not_say(checkpoint: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"delta_mask is not set.*'joint_position'"):
        load_policy(str(checkpoint), profile=load_robot('droid_jointpos').profile)


def test_a_crop_beyond_the_chunk_is_refused_with_both_numbers(checkpoint: Path) -> None:
    rewrite_json(checkpoint / 'config.json', action_horizon=9)
    with pytest.raises(ConfigurationError, match=r'crop_rows is 10, but .* only 9 rows'):
        load_policy(str(checkpoint), profile=load_robot('droid').profile)
    with pytest.raises(ConfigurationError, match=r'crop_columns is 9, but .* only 8 columns'):
        load_policy(str(checkpoint), profile=Profile(delta_mask=[False], crop_columns=9))


def test_more_text_is_taken_where_the_policy_file_says_that_it_was_trained(
    pi0: Path, policy_file: Callable[..., str]
) -> None:
    text = 'word ' * 80
    images = {
        f'observation.images.{name}': np.zeros((224, 224, 3), np.uint8)
        for name in ('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb')
    }
    seen = {**images, 'state': RAW_STATE, 'prompt': text}
    short = load_policy(str(pi0), policy=policy_file('pi0'), profile=ABSOLUTE)
    with pytest.raises(InvalidObservation, match='48'):
        chunk(short, seen)
    options = {'tokenizer_max_length': 1000}
    long = load_policy(str(pi0), policy=policy_file('pi0', **options), profile=ABSOLUTE)
    assert chunk(long, seen).shape == (50, 8)


# On the hub.


def test_of_a_hub_repository_no_weight_is_fetched_before_it_is_known_to_be_served(
    checkpoint: Path, family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move(checkpoint / 'assets' / 'droid', checkpoint / 'assets' / 'someone' / 'droid')
    constants = 'huggingface_hub.constants'
    monkeypatch.setattr(f'{constants}.HF_HUB_CACHE', str(tmp_path / 'hub'))
    monkeypatch.setattr(f'{constants}.HF_HUB_OFFLINE', False)
    with serve_hub('someone/openpi', checkpoint) as hub:
        monkeypatch.setattr(f'{constants}.ENDPOINT', hub.url)
        monkeypatch.setattr(
            f'{constants}.HUGGINGFACE_CO_URL_TEMPLATE',
            hub.url + '/{repo_id}/resolve/{revision}/{filename}',
        )
        with pytest.raises(ConfigurationError, match='delta_mask is not set'):
            load_policy('someone/openpi')
        asked = hub.fetched('model.safetensors')
        assert asked
        assert all(part.startswith('bytes=0-') for part in asked)
        policy = load_policy('someone/openpi', profile=ABSOLUTE)
        assert hub.fetched('model.safetensors').count('') == 1
    assert (policy.spec.name, policy.spec.action_dim) == (family, WIDTH)


# Seen by inspecting.


def test_inspecting_tells_the_layout_the_family_and_the_statistics(
    converted: dict[Family, Path], family: Family, tmp_path: Path
) -> None:
    seen = inspect_model(str(converted[family]), robot='droid_jointpos_delta')
    assert seen.layout.name == 'openpi_pytorch'
    assert seen.errors == ()
    assert seen.served
    told = inspect_model(str(converted[family]))
    assert not told.served
    (error,) = told.errors
    assert 'profile.delta_mask is not set' in str(error)


def test_everything_that_is_wrong_is_told_at_once(pi0: Path) -> None:
    put(pi0, statistics(state__std=[-1.0] * 8))
    weights = load_file(pi0 / 'model.safetensors')
    del weights['action_in_proj.bias']
    save_file(weights, pi0 / 'model.safetensors')
    text = '\n'.join(map(str, inspect_model(str(pi0)).errors))
    for part in ('action_in_proj.bias', 'negative', 'profile.delta_mask is not set'):
        assert part in text
