# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: MuJoCo's backend, the log level, a second try in real time."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from openpi_policy_ros_sim.backend import choose_backend

# MuJoCo reads the choice once, when it is imported.
if importlib.util.find_spec('mujoco') is not None:
    choose_backend()


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """Give the level back that a command run within a test sets for the whole process."""
    logger = logging.getLogger('openpi_policy_ros')
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.fixture(scope='session')
def tiny_dreamzero(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a DreamZero checkpoint of 5 MB with random weights: 6 actions, views of 20x36."""
    for library in ('diffusers', 'transformers'):
        pytest.importorskip(library)
    from openpi_policy_ros.policies.dreamzero.make_checkpoint import make_checkpoint

    folder = tmp_path_factory.mktemp('dreamzero') / 'tiny'
    make_checkpoint(folder, 'tiny', 0)
    return folder


REAL_TIME = ('bench', 'demo', 'fake_robot', 'ros')
"""Folders whose tests let processes talk over DDS and timers, on whatever machine they get."""

NEVER_AGAIN = 'test_random_faults.py'
"""A limit that was broken once is broken, however busy the machine was."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Try a failed test in real time once more: a stalled machine fails such tests, too.

    The summary tells every such rerun. What is computed and not awaited has one try.
    """
    if not config.pluginmanager.hasplugin('rerunfailures'):
        return
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.name != NEVER_AGAIN:
            folder = item.path.relative_to(here).parts[0]
            if folder in REAL_TIME:
                item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=1))
