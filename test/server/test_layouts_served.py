# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every kind of checkpoint through the WebSocket door, asked by openpi's own client."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from families import connected
from layout_cases import ATOL, CASES, SEED, direct, observe
from serving import serving

from openpi_policy_ros.wire import Dialect

# The stock client keeps its connection for as long as it lives, without a context manager.
pytestmark = pytest.mark.filterwarnings(r'ignore:connect\(\) must be used:DeprecationWarning')

NEAR = np.array([0.3, -0.5, 0.2, -1.4, 0.1, 0.9, -0.3])
FAR = NEAR + np.linspace(0.2, -0.4, 7)


@pytest.mark.parametrize('name', CASES)
def test_openpis_client_gets_the_policys_robot_actions_on_either_path(
    tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    policy = case.load(case.make(tmp_path / 'x'))
    observations = [
        observe(NEAR, 0.25),
        observe(FAR, 0.75),
        observe(NEAR, 0.25, prompt='open the lid'),
    ]
    expected = [direct(policy, observation) for observation in observations]
    with serving(policy) as one:
        for dialect in Dialect:
            with connected(one, dialect) as client:
                for observation, actions in zip(observations, expected, strict=True):
                    reply = client.infer({**observation, 'seed': SEED})
                    got = reply['actions'] if dialect is Dialect.STOCK else reply
                    assert got.dtype == np.float32
                    assert got.shape == (10, 8)
                    assert np.abs(got - actions).max() <= ATOL
    # State and instruction reach the actions; a state that actions are added to, with its weight.
    assert all(np.abs(other - expected[0]).max() > 1e-3 for other in expected[1:])
    moved = (expected[1] - expected[0]).mean(axis=0)[:7]
    assert (np.abs(moved - (FAR - NEAR)).max() < 0.05) == case.relative
