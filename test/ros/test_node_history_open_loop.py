# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that looks back and thinks for longer than a second drives the robot chunk by chunk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from dreaming_policy import DRIFT, HORIZON
from dreaming_robot import ARM, HOME, Robot, dreaming_robot

pytestmark = pytest.mark.ros

PAUSE = 'WAIT: the chunk has been played (open_loop); waiting for the next'
CALL = re.compile(r'call (\d+) of \S+, reset (True|False): (\S+) (\S+) (\S+)')
THINKS = 1.2


def calls(robot: Robot) -> list[tuple[int, bool, tuple[str, ...]]]:
    """Return (number in its session, reset, shapes of the three images) of each call so far."""
    found = CALL.findall(robot.process.text())
    return [(int(number), reset == 'True', tuple(shapes)) for number, reset, *shapes in found]


def test_waiting_between_chunks_is_a_normal_state_and_the_session_goes_on(tmp_path: Path) -> None:
    with dreaming_robot(tmp_path, f'thinks={THINKS}') as robot:
        # It thinks without driving, too.
        robot.peer.wait_until('a second call', lambda: len(calls(robot)) >= 2)
        robot.wait_for('READY')
        before = len(calls(robot))
        robot.enable()
        robot.peer.wait_until('two pauses', lambda: robot.said().count(PAUSE) >= 2)
        robot.wait_for('ENABLED')
        said = robot.said()
        robot.enable(False)
        robot.wait_for('READY')
        driven = calls(robot)[before:]
        counters = robot.peer.status()
        commands = robot.peer.heard(ARM)
    # One that ran when the robot was enabled comes first; it counts for nothing.
    begun = next(index for index, (_, reset, _) in enumerate(driven) if reset)
    first, *later = driven[begun : begun + 3]
    assert first == (1, True, ('1x12x16x3',) * 3)
    assert later == [(n, False, ('4x12x16x3',) * 3) for n in (2, 3)]
    states = [text.partition(':')[0] for text in said[said.index(PAUSE) - 1 :]]
    assert states[:5] == ['ENABLED', 'WAIT', 'ENABLED', 'WAIT', 'ENABLED']
    assert 'HOLD' not in ' '.join(said)
    assert counters['starved'] == '0'
    # Up, then down: the drift of a chunk, all of it.
    reached = max(point.positions[0] for message in commands for point in message.points)
    assert HOME[0] + 0.9 * DRIFT < reached <= HOME[0] + DRIFT + 1e-3
    assert HORIZON == 24


def test_a_policy_that_thinks_longer_than_may_be_waited_ends_in_hold(tmp_path: Path) -> None:
    with dreaming_robot(tmp_path, f'thinks={THINKS}', {'safety': {'max_wait': 0.8}}) as robot:
        robot.wait_for('READY')
        robot.enable()
        robot.peer.wait_until('HOLD', lambda: 'S15: waited' in robot.peer.status_text())
