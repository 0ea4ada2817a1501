# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands that run in the tests' own process leave no log level behind."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Give the package's log its level back."""
    log = logging.getLogger('openpi_policy_ros')
    before = log.level
    yield
    log.setLevel(before)
