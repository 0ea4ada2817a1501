# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What holds for every test: how MuJoCo draws, and a log level that nobody leaves changed."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator

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
