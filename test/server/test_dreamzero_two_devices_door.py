# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""DreamZero on two devices, through the server: the numbers of one, until the second dies."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('diffusers')
pytest.importorskip('transformers')

from dreamzero_door import QUICK, load, play, session
from serving import FAILED, Client, Served, serving

from openpi_policy_ros.policies.dreamzero.guidance_devices import TwoDevices
from openpi_policy_ros.wire import Dialect


def readyz(served: Served) -> tuple[int, str]:
    """Return the status of ``/readyz``, and what it says."""
    url = f'http://127.0.0.1:{served.port}/readyz'
    try:
        with urllib.request.urlopen(url, timeout=10.0) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_two_devices_give_the_numbers_of_one_until_the_second_dies(
    tiny_dreamzero: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(load(tiny_dreamzero, tmp_path, **QUICK)) as served:
        expected = play(served, Dialect.OPENPI, 700, 2)
    policy = load(tiny_dreamzero, tmp_path, cfg_parallel_size=2, **QUICK)
    guidance = policy.model.guidance
    assert isinstance(guidance, TwoDevices)
    with serving(policy) as halves, Client(halves, Dialect.OPENPI) as client:
        got = [client.actions(**session(700, call)) for call in range(2)]
        np.testing.assert_allclose(got, expected, atol=2e-5, rtol=0)
        assert readyz(halves)[0] == 200
        os.kill(guidance.process, signal.SIGKILL)
        assert client.infer(**session(700, 2)) == client.error(FAILED)
        status, said = readyz(halves)
        assert status == 503
        assert 'restart' in said
        assert client.infer(**session(700, 3)) == client.error(FAILED)
    assert 'rank 1' in caplog.text
    assert 'SIGKILL' in caplog.text
