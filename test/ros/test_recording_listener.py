# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What of the robot's side is handed to a recorder, under which names, and how often."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('rosbags')

from rig import ARM_TRAJECTORY, JOINTS, make_robot

from openpi_policy_ros.control.commands import TrajectoryCommand
from openpi_policy_ros.control.controller import Counters, Tick
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.ros.recording import RecordingListener

pytestmark = pytest.mark.ros


class StandInRecorder:
    """Makes every message at once and keeps it."""

    setting = SimpleNamespace(node='/openpi_policy')

    def __init__(self) -> None:
        self.noted: list[tuple[str, Any, int]] = []
        self.latched: list[tuple[str, str]] = []

    def note(self, topic: str, make: Callable[[], Any], time_ns: int) -> None:
        self.noted.append((topic, make(), time_ns))

    def note_latched(self, topic: str, make: Callable[[], Any], time_ns: int) -> None:
        self.latched.append((topic, make().data))


def listener(recorder: StandInRecorder, output: dict[str, Any]) -> RecordingListener:
    return RecordingListener(
        recorder,  # type: ignore[arg-type]
        SimpleNamespace(add_tap=lambda tap: None),  # type: ignore[arg-type]
        clock=lambda: 7,
        resolve=lambda topic: f'/left/{topic}',
        robot=make_robot({'arm': output}),
    )


def test_a_command_is_recorded_under_the_names_that_were_sent() -> None:
    recorder = StandInRecorder()
    renamed = {**ARM_TRAJECTORY, 'controller_names': ['joint_a', 'joint_b']}
    command = TrajectoryCommand('arm', tuple(JOINTS[:2]), (20_000_000,), ((0.25, -1.0),))
    for output in (renamed, ARM_TRAJECTORY):
        listener(recorder, output).on_command(command, 9)
    assert [(topic, time_ns) for topic, _, time_ns in recorder.noted] == [
        ('/left/arm/joint_trajectory', 9)
    ] * 2
    sent, plain = (message for _, message, _ in recorder.noted)
    assert list(sent.joint_names) == ['joint_a', 'joint_b']
    assert list(plain.joint_names) == JOINTS[:2]
    assert list(sent.points[0].positions) == [0.25, -1.0]


def test_a_state_is_recorded_when_it_or_the_kind_of_its_reason_changes() -> None:
    recorder = StandInRecorder()
    ear = listener(recorder, ARM_TRAJECTORY)
    for state, reason in (
        (State.ENABLED, ''),
        (State.WAIT, "S1: camera 'wrist' is 0.21 s old"),
        (State.WAIT, "S1: camera 'wrist' is 0.23 s old"),
        (State.WAIT, "S1: camera 'wrist' is 1.07 s old"),
        (State.WAIT, 'S15: no actions are left'),
        (State.HOLD, "S1: camera 'wrist' is 2.01 s old"),
        (State.HOLD, "S1: camera 'wrist' is 2.01 s old"),
        (State.ENABLED, ''),
    ):
        ear.on_tick(Tick(state, reason, (), Counters()))
    assert recorder.latched == [
        ('/openpi_policy/controller_state', text)
        for text in (
            'ENABLED',
            "WAIT: S1: camera 'wrist' is 0.21 s old",
            'WAIT: S15: no actions are left',
            "HOLD: S1: camera 'wrist' is 2.01 s old",
            'ENABLED',
        )
    ]
