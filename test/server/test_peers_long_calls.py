# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An inference longer than a client's ping interval and timeout keeps the client.

The clients here are processes that ping every 0.2 s and give up after 2 s without a pong; the
first call takes 3 s. The stock client's own 20 s + 20 s against 45 s are in
test_peers_extended.py.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import EchoPolicy
from pinging_client import PING_INTERVAL, PING_TIMEOUT
from serving import Client, Served, serving

from openpi_policy_ros.policies.base import InferenceRequest, InferenceResult
from openpi_policy_ros.wire import Dialect

CALL = 3.0
SCRIPT = Path(__file__).parents[1] / 'pinging_client.py'


class Slow(EchoPolicy):
    """Takes ``CALL`` seconds for its first call."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Take long once, then answer."""
        if not self.batches:
            self.take_long()
        return super().infer(requests)

    def take_long(self) -> None:
        """Hold the worker without holding the interpreter, as a GPU call does."""
        time.sleep(CALL)


class Computing(Slow):
    """Computes all the while: matrix products in torch, sorting in NumPy, Python in between."""

    def take_long(self) -> None:
        """Compute."""
        matrix = torch.full((384, 384), 1.0 / 384)
        noise = np.random.default_rng(0).normal(size=200_000)
        end = time.monotonic() + CALL
        while time.monotonic() < end:
            for _ in range(5):
                matrix = torch.softmax(matrix @ matrix, dim=-1)
            np.sort(noise)
            sum(index * index for index in range(20_000))
        assert torch.isfinite(matrix).all()


def start_client(served: Served, dialect: Dialect, *values: float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), served.url(dialect), *map(str, values)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answers(client: subprocess.Popen[str]) -> list[float]:
    """Return what a client printed, once it is done."""
    try:
        output, errors = client.communicate(timeout=60)
    finally:
        client.kill()
    assert client.returncode == 0, errors
    return [float(line) for line in output.split()]


@pytest.mark.parametrize('policy', [Slow, Computing])
def test_clients_outlive_a_call_longer_than_their_patience(policy: type[Slow]) -> None:
    assert CALL > PING_INTERVAL + PING_TIMEOUT
    served_policy = policy()
    with serving(served_policy) as served:
        # The second one connects, is greeted and waits its turn while the first call runs.
        clients = [
            start_client(served, Dialect.OPENPI, 1.0, 2.0),
            start_client(served, Dialect.STOCK, 3.0, 4.0),
        ]
        assert [answers(client) for client in clients] == [[1.0, 2.0], [3.0, 4.0]]
    # No connection was silently replaced: each kept its session.
    sessions = {request.session for request in served_policy.requests}
    assert sorted(request.reset for request in served_policy.requests) == [False, False, True, True]
    assert len(sessions) == 2


def test_idle_time_is_not_counted_during_inference() -> None:
    with (
        serving(Slow(), idle_timeout=1.0) as served,
        Client(served, Dialect.OPENPI) as client,
    ):
        assert client.actions(value=4.0)[0, 0] == 4.0
        assert client.actions(value=5.0)[0, 0] == 5.0
