# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A thread goes first where that is permitted, and says why not elsewhere."""

from __future__ import annotations

import os
import threading

import pytest

from openpi_policy_ros.ros import realtime


def in_a_thread() -> tuple[str, int]:
    told: list[tuple[str, int]] = []
    thread = threading.Thread(target=lambda: told.append((realtime.go_first(), _policy())))
    thread.start()
    thread.join(5.0)
    return told[0]


def _policy() -> int:
    return os.sched_getscheduler(0)


def test_the_calling_thread_alone_goes_first_or_says_why_not() -> None:
    before = _policy()
    why_not, policy = in_a_thread()
    assert (policy == os.SCHED_FIFO) == (why_not == '')
    assert not why_not or 'rtprio' in why_not
    assert _policy() == before


def test_a_system_that_refuses_or_knows_nothing_of_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, 'Operation not permitted')

    monkeypatch.setattr(os, 'sched_setscheduler', refuse)
    assert realtime.go_first().startswith('not permitted (Operation not permitted)')
    monkeypatch.delattr(os, 'sched_setscheduler')
    assert 'SCHED_FIFO' in realtime.go_first()
