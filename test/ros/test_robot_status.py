# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What ``~/status`` says: WAIT and HOLD belong to an enabled robot, the others are READY."""

from __future__ import annotations

import pytest

pytest.importorskip('rclpy')

from diagnostic_msgs.msg import DiagnosticStatus

from openpi_policy_ros.control.buffers import Reason
from openpi_policy_ros.control.controller import PAUSE, Counters, Tick
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.ros.door import DoorState, DoorStats
from openpi_policy_ros.ros.publishers import Status
from openpi_policy_ros.ros.robot_status import robot_status

pytestmark = pytest.mark.ros

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
FLOWING = DoorState()
STALE = DoorState((Reason('stale', ('camera',), 'camera is 0.3 s old'),))
FAILED = DoorState((Reason('inference', (), 'inference failed'),))


def tick(state: State, reason: str = '', **counters: int) -> Tick:
    return Tick(state, reason, (), Counters(**counters))


def status(door: DoorState, one: Tick | None, dry_run: bool = False) -> Status:
    return robot_status(door, one, dry_run=dry_run, facts={'model': 'm'})


@pytest.mark.parametrize('one', [None, tick(State.READY)], ids=['no outputs', 'not enabled'])
@pytest.mark.parametrize(
    ('door', 'reason', 'level'),
    [(FLOWING, '', OK), (STALE, STALE.text, WARN), (FAILED, FAILED.text, ERROR)],
    ids=['flowing', 'stale', 'failed'],
)
def test_a_robot_that_is_not_enabled_is_ready_and_says_why_no_chunk_comes(
    one: Tick | None, door: DoorState, reason: str, level: bytes
) -> None:
    said = status(door, one)
    assert (said.state, said.reason, said.level) == ('READY', reason, level)
    assert status(door, one, dry_run=True).state == 'DRY_RUN'


@pytest.mark.parametrize(
    ('state', 'door', 'reason', 'level'),
    [
        (State.ENABLED, FLOWING, '', OK),
        (State.ENABLED, STALE, 'camera is 0.3 s old', WARN),
        (State.WAIT, FLOWING, 'why', WARN),
        (State.WAIT, STALE, 'why; camera is 0.3 s old', WARN),
        (State.WAIT, FAILED, 'why; inference failed', ERROR),
        (State.HOLD, FLOWING, 'why', ERROR),
    ],
)
def test_an_enabled_robot_tells_its_own_state_first(
    state: State, door: DoorState, reason: str, level: bytes
) -> None:
    said = status(door, tick(state, '' if state is State.ENABLED else 'why'))
    assert (said.state, said.reason, said.level) == (state.value, reason, level)


FRONT = ("camera 'front'",)
OLD = "camera 'front' is 0.499 s old (allowed 0.150 s)"
SKEW = "camera 'front' is 0.112 s older than joint 'a' (allowed 0.100 s); raise the slower rate"
S2 = "S2: camera 'front' is 0.518 s old (safety.stale_hold 0.500 s); look after its driver"
JOINTS_OLD = Reason('stale', ('a', 'b'), 'joint_states: a, b is 0.2 s old')


@pytest.mark.parametrize(
    ('told', 'reasons', 'said'),
    [
        (S2, [Reason('stale', FRONT, OLD)], S2),
        (f'S3: {SKEW}', [Reason('skew', (*FRONT, 'joint_states'), SKEW)], f'S3: {SKEW}'),
        (
            f'S15: waited 2 s: S3: {SKEW}',
            [Reason('skew', (*FRONT, 'joint_states'), SKEW.replace('0.112', '0.131'))],
            f'S15: waited 2 s: S3: {SKEW}',
        ),
        # Which of the joints it was, no gate tells.
        (
            'S1: joint_states is 0.3 s old',
            [JOINTS_OLD],
            'S1: joint_states is 0.3 s old; too old: a, b',
        ),
        (
            'S11: 3 failed, the last one: no device',
            [Reason('inference', (), 'no device')],
            'S11: 3 failed, the last one: no device',
        ),
        # What a gate cannot know, or did not look at, is told.
        (
            S2,
            [Reason('stale', FRONT, f'{OLD}; nobody publishes', 'nobody publishes')],
            f'{S2}; nobody publishes',
        ),
        (S2, [JOINTS_OLD], f'{S2}; {JOINTS_OLD.text}'),
        ('', [Reason('stale', FRONT, OLD)], OLD),
    ],
)
def test_a_gate_and_the_door_do_not_say_the_same_twice(
    told: str, reasons: list[Reason], said: str
) -> None:
    one = status(DoorState(tuple(reasons)), tick(State.HOLD, told))
    assert (one.reason, one.level) == (said, ERROR)


def test_ages_and_counters_are_numbers_that_need_not_be_told_at_once() -> None:
    first = status(FLOWING, tick(State.WAIT, 'S1: camera is 0.21 s old', clamped=1))
    second = status(FLOWING, tick(State.WAIT, 'S1: camera is 0.34 s old', clamped=2))
    other = status(FLOWING, tick(State.WAIT, 'S3: camera and joints', clamped=2))
    assert first.signature == second.signature != other.signature
    assert (first.facts, first.numbers['clamped']) == (second.facts, '1')
    assert second.numbers['clamped'] == '2'


def test_the_pause_between_two_chunks_of_open_loop_is_nothing_to_warn_of() -> None:
    assert status(FLOWING, tick(State.WAIT, PAUSE)).level == OK
    assert status(STALE, tick(State.WAIT, PAUSE)).level == WARN


def test_how_fast_chunks_come_is_among_the_numbers() -> None:
    def numbers(stats: DoorStats | None) -> dict[str, str]:
        said = robot_status(
            FLOWING,
            tick(State.ENABLED, chunks=7),
            dry_run=False,
            facts={'chunks': 'c'},
            supply=stats,
        )
        return {**said.facts, **said.numbers}

    said = numbers(DoorStats(0.1234, 5))
    assert (said['latency_p95_ms'], said['short_supply']) == ('123.4', '5')
    assert (said['chunks'], said['chunks_taken']) == ('c', '7')
    assert numbers(DoorStats(None, 0))['latency_p95_ms'] == ''
    assert 'short_supply' not in numbers(None)
