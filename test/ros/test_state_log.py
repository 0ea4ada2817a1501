# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The log has every state of the robot once, and a wait only where it lasts."""

from __future__ import annotations

import logging

import pytest

from openpi_policy_ros.control.controller import PAUSE, Counters, Tick
from openpi_policy_ros.control.machine import State

pytest.importorskip('rclpy')

from openpi_policy_ros.ros.state_log import StateLog

ASKED = '~/hold was called'


class Bench:
    """Shows ticks to a log, 20 ms apart."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        self.now = 50.0
        self.log = StateLog(logging.getLogger('test.state_log'), ASKED, lambda: self.now)
        self._caplog = caplog

    def see(self, state: State, reason: str = '', seconds: float = 0.1) -> list[str]:
        """Show a state for so long; return what was logged meanwhile."""
        self._caplog.clear()
        for _ in range(round(seconds / 0.02)):
            self.log.see(Tick(state, reason, (), Counters()))
            self.now += 0.02
        return [f'{one.levelname} {one.getMessage()}' for one in self._caplog.records]


def test_every_state_is_told_once_when_it_is_entered(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(caplog)
    assert bench.see(State.READY) == ['INFO robot: READY']
    assert bench.see(State.READY) == []
    # The first chunk comes soon.
    assert bench.see(State.WAIT, 'waiting for the first chunk after enabling', 0.3) == []
    assert bench.see(State.ENABLED) == ['INFO robot: ENABLED']
    assert bench.see(State.HOLD, ASKED) == [f'WARNING robot: HOLD: {ASKED}']
    assert bench.see(State.ENABLED) == ['INFO robot: ENABLED']
    assert bench.see(State.HOLD, 'S2: gone') == ['ERROR robot: HOLD: S2: gone']
    assert bench.see(State.READY) == ['INFO robot: READY']
    bench.log.begin()
    assert bench.see(State.DRY_RUN) == ['INFO robot: DRY_RUN']


def test_a_wait_is_told_where_it_lasts_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(caplog)
    bench.see(State.ENABLED)
    assert bench.see(State.WAIT, 'S1: old', 0.9) == []
    assert bench.see(State.WAIT, 'S3: apart', 0.9) == ['WARNING robot: WAIT: S3: apart']
    assert bench.see(State.ENABLED) == ['INFO robot: ENABLED']


def test_waits_that_come_and_go_are_told_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(caplog)
    bench.see(State.ENABLED)
    said = []
    for _ in range(8):
        said += bench.see(State.WAIT, 'S1: old', 2.0) + bench.see(State.ENABLED)
    assert said == 2 * ['WARNING robot: WAIT: S1: old', 'INFO robot: ENABLED']


def test_pauses_of_open_loop_are_not_told_at_all(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(caplog)
    bench.see(State.ENABLED)
    for _ in range(5):
        assert bench.see(State.WAIT, PAUSE, 3.0) == []
        assert bench.see(State.ENABLED) == []
