# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shared by the policy tests: a checkpoint to serve, and observations that fit it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from openpi_files import convert, make_bare

from openpi_policy_ros.policies.pi0.config import Family
from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint

DATA = Path(__file__).resolve().parents[1] / 'data'


@pytest.fixture(scope='session', autouse=True)
def _one_thread() -> Iterator[None]:
    """Keep two busy cores from turning milliseconds into seconds."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope='session')
def golden() -> Path:
    """Return the reference checkpoint with its cases."""
    return DATA / 'pi0_tiny'


@pytest.fixture(scope='session')
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small checkpoint made by this package. Tests must not change it."""
    directory = tmp_path_factory.mktemp('checkpoints') / 'small'
    make_checkpoint(directory, 'small', 0)
    return directory


@pytest.fixture
def copy(small: Path, tmp_path: Path) -> Path:
    """Return a copy of the small checkpoint that a test may damage."""
    directory = tmp_path / 'checkpoint'
    shutil.copytree(small, directory)
    return directory


@pytest.fixture
def observe() -> Callable[..., dict[str, Any]]:
    """Return a function that makes a valid observation in the model's own names."""

    def make(seed: int = 0, cameras: int = 3, **changes: Any) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        names = ('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb')
        pixels = rng.integers(0, 256, (3, 60, 80, 3), dtype=np.uint8)
        observation: dict[str, Any] = {
            f'observation.images.{name}': pixels[index]
            for index, name in enumerate(names[:cameras])
        }
        observation['state'] = rng.standard_normal(8).astype(np.float32)
        observation['prompt'] = 'pick up the red block'
        return {**observation, **changes}

    return make


@pytest.fixture(scope='session')
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[Family, Path]:
    """Return a LeRobot checkpoint of each family that normalises nothing. Tests only read them."""
    folder = tmp_path_factory.mktemp('bare')
    return {family: make_bare(folder / family, family) for family in get_args(Family)}


@pytest.fixture(scope='session')
def converted(
    bare: dict[Family, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[Family, Path]:
    """Return the same networks as openpi converts them. Tests only read them."""
    folder = tmp_path_factory.mktemp('openpi')
    return {family: convert(source, folder / family) for family, source in bare.items()}
