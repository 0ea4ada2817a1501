# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A made π0 behind one server per robot file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from families import MODEL_SEED, Servers

from openpi_policy_ros.policies.registry import find


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a π0 with the base model's features: three cameras, state 32, actions [50, 32]."""
    directory = tmp_path_factory.mktemp('robots') / 'pi0'
    make = find('pi0').make_checkpoint
    assert make is not None
    make(directory, 'small', MODEL_SEED)
    return directory


@pytest.fixture(scope='module')
def servers(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    running = Servers(checkpoint, tmp_path_factory.mktemp('policy') / 'mine.yaml')
    yield running
    running.close()
