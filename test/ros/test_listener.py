# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whoever listens to the robot's side hears everything, and can break nothing."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rclpy')

from sensor_msgs.msg import JointState

from openpi_policy_ros.control.commands import ArrayCommand
from openpi_policy_ros.control.controller import Counters, Tick
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.ros.listener import REPEAT, Listeners, RobotListener
from openpi_policy_ros.ros.publishers import Status
from openpi_policy_ros.ros.teardown import Teardown

CHUNK = ActionChunk({'actions': np.zeros((1, 1), np.float32)})
COMMAND = ArrayCommand('arm', (0.0,))
JOINTS = JointState(name=['a'])
TICK = Tick(State.READY, '', (), Counters())
STATUS = Status('READY')


class Ear(RobotListener):
    """Keeps what it hears."""

    def __init__(self, order: list[str] | None = None, name: str = '') -> None:
        self.heard: list[tuple[Any, ...]] = []
        self._order = [] if order is None else order
        self._name = name

    def on_chunk(self, *said: Any) -> None:
        self.heard.append(('chunk', *said))

    def on_command(self, *said: Any) -> None:
        self.heard.append(('command', *said))

    def on_joints(self, *said: Any) -> None:
        self.heard.append(('joints', *said))

    def on_tick(self, *said: Any) -> None:
        self.heard.append(('tick', *said))

    def on_status(self, *said: Any) -> None:
        self.heard.append(('status', *said))

    def close(self) -> None:
        self._order.append(self._name)


class Broken(RobotListener):
    """Raises at everything."""

    @property
    def facts(self) -> dict[str, str]:
        raise RuntimeError('no facts')

    def on_chunk(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        raise RuntimeError('a full disk')

    on_command = on_joints = on_chunk  # type: ignore[assignment]

    def on_tick(self, tick: Tick) -> None:
        raise RuntimeError('a full disk')

    on_status = on_tick  # type: ignore[assignment]

    def close(self) -> None:
        raise RuntimeError('cannot close')


class Told(RobotListener):
    """Has something to tell."""

    @property
    def facts(self) -> dict[str, str]:
        return {'recording': '/tmp/session'}


def say_everything(listeners: RobotListener) -> None:
    listeners.on_chunk(CHUNK, 1)
    listeners.on_command(COMMAND, 2)
    listeners.on_joints(JOINTS, 3)
    listeners.on_tick(TICK)
    listeners.on_status(STATUS)


EVERYTHING = [
    ('chunk', CHUNK, 1),
    ('command', COMMAND, 2),
    ('joints', JOINTS, 3),
    ('tick', TICK),
    ('status', STATUS),
]


def test_a_listener_that_overrides_nothing_does_nothing() -> None:
    plain = RobotListener()
    say_everything(plain)
    plain.close()
    assert plain.facts == {}


def test_everything_reaches_everybody_also_past_one_that_raises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [100.0]
    listeners = Listeners(lambda: now[0])
    ears = [Ear(), Ear()]
    for one in (ears[0], Broken(), Told(), ears[1]):
        listeners.add(one)
    say_everything(listeners)
    assert [ear.heard for ear in ears] == [EVERYTHING, EVERYTHING]
    assert listeners.facts == {'recording': '/tmp/session'}
    # Once in a while, with its name and why.
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.message == 'Broken failed; the robot goes on without it'
    assert 'a full disk' in caplog.text
    now[0] += REPEAT - 0.1
    say_everything(listeners)
    assert len(caplog.records) == 1
    now[0] += 0.1
    say_everything(listeners)
    assert len(caplog.records) == 2


def test_they_are_closed_last_first_and_hear_nothing_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listeners = Listeners()
    order: list[str] = []
    first, last = Ear(order, 'first'), Ear(order, 'last')
    for one in (first, Broken(), last):
        listeners.add(one)
    listeners.close()
    assert order == ['last', 'first']
    assert 'cannot close' in caplog.text
    say_everything(listeners)
    assert first.heard == last.heard == []
    listeners.close()
    assert order == ['last', 'first']


def test_what_was_built_last_goes_first_whatever_of_it_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    order: list[str] = []

    def fail() -> None:
        order.append('second')
        raise RuntimeError('stuck')

    built = Teardown()
    built.add('the first', lambda: order.append('first'))
    built.add('the second', fail)
    built.add('the third', lambda: order.append('third'))
    built.run()
    assert order == ['third', 'second', 'first']
    assert [record.message for record in caplog.records] == ['the second could not be taken down']
    built.run()
    assert len(order) == 3
