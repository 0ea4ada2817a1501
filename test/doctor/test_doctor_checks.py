# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every check is asked, and what the kernel says of its clock is what is judged."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.doctor import children, clock, examination
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Outcome

TIMEX = '@Illlli'
"""Of ``struct timex`` in <sys/timex.h>: modes, offset, freq, maxerror, esterror, status."""


def test_memory_disk_gpu_and_address_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children, 'ask', lambda *_: {'problem': 'no libtorch.so'})
    asked = Asked(policy='rehearsal', server=ServerConfig(port=0))
    # The others ask processes and the network, and wait for them.
    slow = {'packages', 'ROS', 'rmw', 'discovery', 'DDS round trip', 'clock', 'scheduling'}
    checks = [one for one in examination.CHECKS if one[0] not in slow]
    found = {one.check: one for one in examination.examine(asked, checks, limit=60.0)}
    assert found['model'].outcome is Outcome.OK
    assert 'GB free' in found['memory'].found
    assert found['disk for the hub cache'].outcome is Outcome.OK
    assert 'no libtorch.so' in found['GPU'].found
    assert 'can be listened on' in found['server address'].found


def kernel(answer: int, status: int = 0, max_error: int = 0) -> Any:
    """Return a stand-in for the C library, whose adjtimex(2) says this."""

    def adjtimex(reference: Any) -> int:
        said = struct.pack(TIMEX, 0, 0, 0, max_error, 16_000_000, status)
        ctypes.memmove(ctypes.addressof(reference._obj), said, len(said))
        return answer

    return SimpleNamespace(adjtimex=adjtimex)


@pytest.mark.parametrize(
    ('library', 'outcome', 'said'),
    [
        (kernel(5, 0x2041, 16_000_000), Outcome.WARN, 'no time server keeps the clock'),
        (kernel(0, 0x2001, 12_000), Outcome.OK, 'at most 0.012 s from it'),
        (kernel(-1), Outcome.SKIPPED, 'the kernel does not tell'),
        (SimpleNamespace(), Outcome.SKIPPED, 'this system does not tell'),
    ],
)
def test_the_kernels_own_account_of_its_clock_is_judged(
    library: Any, outcome: Outcome, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, 'CDLL', lambda *_, **__: library)
    found = clock.examine(Asked())[0]
    assert (found.check, found.outcome) == ('clock', outcome)
    assert said in found.found
