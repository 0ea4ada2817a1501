# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How a node leaves a robot that it drives: signals, a kill, a dead worker; and jumping clocks."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

pytest.importorskip('rclpy')

from arm import MAX_LOOKAHEAD, OWNED
from judge import NANOSECONDS
from scene import QUIET, Scene, scene

from openpi_policy_ros.fake_robot.trajectory_controller import Trajectory

pytestmark = pytest.mark.ros


def _moved(act: Scene, by: float = 0.03) -> None:
    before = act.robot.positions()
    act.robot.wait_until(
        'the robot moves', lambda: abs(act.robot.positions()['shoulder'] - before['shoulder']) > by
    )


def test_a_kill_leaves_the_motion_of_one_lookahead_and_the_next_node_disarmed(
    tmp_path: Path,
) -> None:
    with scene(tmp_path) as act:
        act.start()
        act.drive()
        _moved(act)
        act.kill()
        last = max(one.time_ns for one in act.robot.commands('arm'))
        residue = act.robot.motion_ends_ns() - last
        assert 0 < residue <= MAX_LOOKAHEAD * NANOSECONDS
        time.sleep(MAX_LOOKAHEAD + 0.05)
        stood = act.robot.positions()
        act.check()
        # The next node finds everything as the last one did, and moves nothing.
        act.robot.begin()
        act.start({'default_prompt': 'sine'})
        act.robot.wait_for('READY')
        time.sleep(0.5)
        assert [one for one in act.robot.records() if one.kind == 'command'] == []
        assert act.robot.positions() == stood
        # Until it is enabled. Its end is an orderly one.
        act.drive()
        _moved(act)
        act.node.signal(signal.SIGINT)
        act.node.signal(signal.SIGINT)
        assert act.node.join() == 0
        time.sleep(QUIET)
        stood = act.robot.positions()
        act.check()
        # It left only when the robot had its last words.
        act.robot.wait_until('the last status', lambda: act.robot.states()[-1] == 'INIT')
        for output, joints in OWNED.items():
            last_said = act.robot.commands(output)[-1].value
            row = last_said.rows[-1] if isinstance(last_said, Trajectory) else last_said
            assert [stood[joint] for joint in joints] == list(row)
        assert 'Traceback' not in act.node.text()


def test_the_worker_dies_and_then_the_node_is_stopped(tmp_path: Path) -> None:
    with scene(tmp_path) as act:
        act.start()
        act.drive()
        _moved(act)
        act.robot.prompt('die')
        act.hold('S16')
        act.check()
        done, text = act.robot.enable()
        assert not done
        assert 'S16' in text
        act.node.signal(signal.SIGTERM)
        assert act.node.join() == 0
        time.sleep(QUIET)
        act.check()


def test_the_clock_jumps(tmp_path: Path) -> None:
    with scene(tmp_path, simulated=0.0) as act:
        act.start()
        for by in (-5.0, 3.0, -0.2):
            act.robot.begin()
            act.drive()
            _moved(act)
            act.robot.jump(by)
            act.hold('S13')
            stood = act.robot.positions()
            time.sleep(0.2)
            assert act.robot.positions() == stood
            act.check()
        # It goes on in the new time.
        act.drive()
        _moved(act)
        act.robot.enable(False)
        act.robot.wait_for('READY')
        time.sleep(QUIET)
        act.check()
