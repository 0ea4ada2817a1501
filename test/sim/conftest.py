# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One simulated setup for all tests of a file; each resets it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope='module')
def environment() -> Iterator:
    pytest.importorskip('mujoco')
    from openpi_policy_ros_sim.environment import Environment

    with Environment() as made:
        yield made


@pytest.fixture(scope='module')
def drawing(environment):
    """Return the setup on a machine that can draw; elsewhere skip."""
    from openpi_policy_ros_sim.errors import RenderingUnavailable

    try:
        environment.render('wrist', 8, 8)
    except RenderingUnavailable as error:
        pytest.skip(str(error))
    return environment


@pytest.fixture(scope='session')
def kinematics():
    pytest.importorskip('mujoco')
    from openpi_policy_ros_sim.kinematics import Kinematics

    return Kinematics()
