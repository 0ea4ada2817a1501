# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The stock client with its own ping interval against a call of 45 s. Takes two minutes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np
import pytest
from fakes import EchoPolicy
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from serving import serving

from openpi_policy_ros.policies.base import InferenceRequest, InferenceResult
from openpi_policy_ros.wire import Dialect

pytestmark = [
    pytest.mark.skipif(
        os.environ.get('OPENPI_EXTENDED') != '1',
        reason='takes two minutes; scripts/test-extended.sh runs it (OPENPI_EXTENDED=1)',
    ),
    pytest.mark.filterwarnings(r'ignore:connect\(\) must be used:DeprecationWarning'),
]

CALL = 45.0
"""Longer than the 20 s between two of the client's pings plus the 20 s it waits for a pong."""


class Sleeper(EchoPolicy):
    """Takes 45 s for its first call."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Sleep once, then answer."""
        if not self.batches:
            time.sleep(CALL)
        return super().infer(requests)


@pytest.mark.timeout(180)
@pytest.mark.parametrize('dialect', list(Dialect))
def test_stock_client_outlives_a_call_of_45_seconds(dialect: Dialect) -> None:
    # The idle timeout of the OpenPI path, 30 s, is shorter than the call too.
    with serving(Sleeper()) as served:
        client = WebsocketClientPolicy(host=served.url(dialect), port=None)
        for value in (1.0, 2.0):
            answer = client.infer({'value': value})
            actions = answer['actions'] if dialect is Dialect.STOCK else answer
            assert isinstance(actions, np.ndarray)
            assert actions[0, 0] == value
        client._ws.close()
