# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot's door logs over time, driven by hand with a clock of its own."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.machine import OPENED
from openpi_policy_ros.control.observation import Assembler
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.ros.actuator import Actuator
from openpi_policy_ros.ros.door import RobotDoor
from openpi_policy_ros.ros.door_log import HUSH, REPEAT, DoorState

NOW = 10**18


class QuickEngine:
    """Answers every request at once."""

    spec = SimpleNamespace(supports_rtc=False)

    def submit(self, request: Any, lane: Any) -> Future[ActionChunk]:
        """Return a future that is done."""
        future: Future[ActionChunk] = Future()
        future.set_result(ActionChunk(np.zeros((1, 1), np.float32)))
        return future

    def close_session(self, key: Any) -> None:
        """Forget nothing: there is nothing to forget."""


class Bench:
    """A door to one joint, and its clock."""

    def __init__(self, actuation: Any = None) -> None:
        self.seconds = 100.0
        self.states: list[DoorState] = []
        robot = validate(RobotConfig, {'joints': {'names': ['a'], 'keys': ['value']}}, 'test')
        self.sensors = Assembler(robot, lambda: NOW)
        self.sensors.set_prompt('go')
        self._door = RobotDoor(
            self.sensors,
            QuickEngine(),  # type: ignore[arg-type]
            'ros:/robot',
            seed=lambda: None,
            publish=lambda chunk, t_obs_ns: None,
            report=self.states.append,
            clock=lambda: self.seconds,
            actuation=actuation,
        )

    def cycle(self, seconds: float = 0.0) -> None:
        """Let time pass, and the door look twice: to trigger and to collect."""
        self.seconds += seconds
        self._door.cycle()
        self._door.cycle()

    def enable(self) -> None:
        """Open the gate to the robot."""
        assert self._door.enable(True) == (True, OPENED)

    def see(self, position: float) -> None:
        """Send a message of the joint."""
        stamp = SimpleNamespace(sec=NOW // 10**9, nanosec=0)
        header = SimpleNamespace(stamp=stamp)
        self.sensors.add_joints(SimpleNamespace(header=header, name=['a'], position=[position]))


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    """Return the beginnings of what was logged so far."""
    caplog.set_level(logging.INFO, 'openpi_policy_ros')
    return lambda: [r.getMessage().partition(':')[0] for r in caplog.records]


def test_a_reason_that_came_back_early_and_stays_is_logged_in_the_end(said: Any) -> None:
    """The last line of the log is never that chunks flow while they do not."""
    bench = Bench()
    bench.cycle()
    bench.see(1.0)
    bench.cycle()
    bench.sensors.restart()
    bench.cycle(REPEAT / 2)
    assert said() == ['no inference', 'chunks flow']
    for _ in range(10):
        bench.cycle(REPEAT / 2)
    assert said() == ['no inference', 'chunks flow', 'no inference']


def test_a_reason_that_comes_and_goes_is_logged_once_in_a_while(said: Any) -> None:
    bench = Bench()
    for _ in range(25):
        bench.sensors.restart()
        bench.cycle(REPEAT / 20)
        bench.see(1.0)
        bench.cycle(REPEAT / 20)
    assert said() == ['no inference', 'chunks flow'] * 3


def test_that_messages_were_forgotten_at_enabling_is_no_news_unless_none_follow(said: Any) -> None:
    robot = Mock(spec=Actuator, enabled=False)
    robot.enable.return_value = (True, OPENED)
    robot.on_chunk.return_value = ''
    bench = Bench(robot)
    bench.see(1.0)
    bench.cycle()
    assert (bench.states, said()) == ([DoorState()], ['chunks flow'])
    bench.enable()
    for _ in range(3):
        bench.cycle(HUSH / 4)
    assert (bench.states, said()) == ([DoorState()], ['chunks flow'])
    bench.cycle(HUSH / 2)
    assert [reason.kind for reason in bench.states[-1].reasons] == ['missing']
    assert said() == ['chunks flow', 'no inference']
    bench.see(2.0)
    bench.cycle()
    assert bench.states[-1] == DoorState()
