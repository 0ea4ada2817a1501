# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What keeps the process going: callbacks that fail, and the log on its way to ROS."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy')

from rclpy.logging import get_logger

from openpi_policy_ros.ros.logs import ROOT, bridge, unbridge
from openpi_policy_ros.ros.main import MOST_FAILURES, _spin

pytestmark = pytest.mark.ros


class Executor:
    """Does what the script says, once per spin."""

    def __init__(self, script: list[Exception | None], ok: bool = True) -> None:
        self.script = script
        self.context = SimpleNamespace(ok=lambda: ok)

    def spin_once(self, timeout_sec: float) -> None:
        step = self.script.pop(0)
        if step is not None:
            raise step


def spin(executor: Executor) -> None:
    _spin(executor, lambda: bool(executor.script))  # type: ignore[arg-type]


def test_a_callback_that_fails_does_not_end_the_others() -> None:
    failing = [RuntimeError('nonsense')] * (MOST_FAILURES - 1)
    executor = Executor([*failing, None, *failing, None])
    spin(executor)
    assert executor.script == []


def test_an_executor_that_only_fails_ends_the_process() -> None:
    executor = Executor([RuntimeError('broken')] * (MOST_FAILURES + 5))
    with pytest.raises(RuntimeError, match='broken'):
        spin(executor)
    assert len(executor.script) == 5


def test_a_context_that_is_gone_ends_the_process() -> None:
    with pytest.raises(RuntimeError, match='no context'):
        spin(Executor([RuntimeError('no context'), None], ok=False))


@pytest.fixture
def bridged() -> Iterator[Any]:
    handler = bridge(get_logger('openpi_policy_test'))
    level = ROOT.level
    yield handler
    ROOT.setLevel(level)
    unbridge(handler)


def test_every_level_and_traceback_reaches_the_ros_log(
    bridged: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    log = logging.getLogger('openpi_policy_ros.test')
    for level in ('info', 'warning', 'error', 'critical'):
        for i in range(2):
            getattr(log, level)('said %s %d', level, i)
    log.debug('not asked for')
    try:
        raise ValueError('the cause')
    except ValueError:
        log.exception('something failed')
    text = ''.join(capfd.readouterr())
    for said in ('[INFO]', '[WARN]', '[ERROR]', '[FATAL]', 'said critical 1', 'the cause'):
        assert said in text
    assert 'openpi_policy_test' in text
    assert 'not asked for' not in text
