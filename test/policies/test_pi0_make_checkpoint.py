# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A made checkpoint is complete, the same for a seed, and a stand-in for the real thing."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0 import PLUGIN
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.make_checkpoint import (
    SIZES,
    make_checkpoint,
    parameter_count,
)


def test_equal_seeds_give_equal_files_and_others_do_not(small: Path, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / 'again', 'small', 0)
    make_checkpoint(tmp_path / 'other', 'small', 1)
    for path in sorted(p for p in small.rglob('*') if p.is_file()):
        name = path.relative_to(small)
        assert (tmp_path / 'again' / name).read_bytes() == path.read_bytes(), name
        same = (tmp_path / 'other' / name).read_bytes() == path.read_bytes()
        assert same == (name.name != 'model.safetensors'), name


def test_it_loads_by_itself_and_warms_up(small: Path) -> None:
    policy = load_policy(str(small))
    policy.warm_up()
    assert policy.spec.name == 'pi0'
    assert policy.spec.output_shapes == {'actions': (50, 32)}


def test_small_has_the_sizes_of_the_reference_checkpoint(small: Path, golden: Path) -> None:
    for name in ('arch_overrides.json',):
        ours, theirs = (json.loads((d / name).read_text()) for d in (small, golden))
        assert ours == theirs
    made, reference = read_config(small), read_config(golden)
    assert made == reference
    assert made == SIZES['small']


def test_what_is_written_reads_back_as_it_was_meant(tmp_path: Path, monkeypatch: Any) -> None:
    # The weights of the larger size are not needed to read its configuration.
    monkeypatch.setattr(
        'openpi_policy_ros.policies.pi0.make_checkpoint.random_weights', lambda config, seed: {}
    )
    make_checkpoint(tmp_path / 'medium', 'medium', 0)
    assert read_config(tmp_path / 'medium') == SIZES['medium']


def test_medium_is_about_200_megabytes_in_float32() -> None:
    assert 190e6 < 4 * parameter_count(SIZES['medium']) < 215e6


def test_the_plugin_offers_every_size_the_default_first() -> None:
    assert PLUGIN.checkpoint_sizes == ('small', 'medium')
    assert set(PLUGIN.checkpoint_sizes) == set(SIZES)
    assert PLUGIN.make_checkpoint is not None


def test_the_config_looks_like_lerobots(small: Path, golden: Path) -> None:
    ours, theirs = (json.loads((d / 'config.json').read_text()) for d in (small, golden))
    assert ours.keys() <= theirs.keys()
    assert {key: theirs[key] for key in ours} == ours


def test_the_files_can_be_read_by_others(small: Path) -> None:
    modes = {stat.S_IMODE(path.stat().st_mode) for path in small.iterdir() if path.is_file()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    'change',
    [
        {'observation.images.base_0_rgb': np.zeros((60, 80, 3), np.uint8)},
        {'observation.images.left_wrist_0_rgb': np.zeros((60, 80, 3), np.uint8)},
        {'observation.images.right_wrist_0_rgb': np.zeros((60, 80, 3), np.uint8)},
        {'state': np.ones(8, np.float32)},
        {'prompt': 'put the cup down'},
    ],
)
def test_every_input_moves_the_chunk(
    small: Path, observe: Callable[..., dict[str, Any]], change: dict[str, Any]
) -> None:
    policy = load_policy(str(small))
    chunks = policy.infer(
        [
            InferenceRequest(observation, SessionKey('test', 'x'), seed=1, num_inference_steps=2)
            for observation in (observe(), observe(**change))
        ]
    )
    assert np.abs(chunks[0].actions - chunks[1].actions).max() > 1e-3


@pytest.mark.parametrize(
    ('size', 'seed', 'says'),
    [('huge', 0, "size is 'huge'"), ('small', -1, 'seed is -1'), ('small', 2**64, 'seed is')],
)
def test_a_wrong_argument_refuses(tmp_path: Path, size: str, seed: int, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        make_checkpoint(tmp_path / 'x', size, seed)
    assert not (tmp_path / 'x').exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / 'mine.txt').write_text('keep')
    with pytest.raises(ConfigurationError, match='is not empty'):
        make_checkpoint(tmp_path, 'small', 0)
    assert [path.name for path in tmp_path.iterdir()] == ['mine.txt']


def test_a_place_that_cannot_be_written_refuses(tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    with pytest.raises(ConfigurationError, match='cannot be written'):
        make_checkpoint(tmp_path / 'file' / 'x', 'small', 0)
