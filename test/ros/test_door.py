# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's door: one inference at a time, newest observation next, nothing stale gets out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from door_bench import ROBOT, START, WAIT, Bench, scalar, with_scalars
from fakes import EchoPolicy, FailingPolicy, SlowPolicy, StatefulPolicy, make_spec

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.observation import Assembler
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import InvalidObservation, NoCapacity
from openpi_policy_ros.policies.base import ACTIONS, ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.ros.door import RobotDoor
from openpi_policy_ros.ros.door_log import DoorState


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(policy: EchoPolicy, **options: Any) -> Bench:
        made.append(Bench(policy, **options))
        return made[-1]

    yield make
    for one in made:
        if isinstance(one.policy, SlowPolicy):
            one.policy.release(100)
        one.door.stop()
        one.engine.close()


def test_each_new_observation_becomes_one_chunk_stamped_with_it(bench: Any) -> None:
    robot = bench(EchoPolicy(scalar()))
    robot.door.start()
    robot.see(1.0)
    robot.until(lambda: robot.values == [1.0])
    robot.now += 20_000_000
    robot.see(2.0)
    robot.until(lambda: len(robot.chunks) == 2)
    robot.settle()
    assert robot.chunks == [(1.0, START), (2.0, START + 20_000_000)]
    assert robot.states[-1] == DoorState()


def test_nothing_new_means_no_inference(bench: Any) -> None:
    robot = bench(EchoPolicy(scalar()))
    robot.door.start()
    robot.see(1.0)
    robot.until(lambda: robot.chunks)
    for _ in range(5):
        robot.door.wake()
        robot.settle()
    assert robot.values == [1.0]


def test_one_inference_at_a_time_and_the_newest_observation_goes_next(bench: Any) -> None:
    policy = SlowPolicy(scalar())
    robot = bench(policy)
    robot.door.start()
    robot.see(1.0)
    policy.wait_started()
    for value in (2.0, 3.0, 4.0):
        robot.see(value)
    time.sleep(0.05)
    assert len(policy.requests) == 1
    policy.release()
    policy.wait_started()
    policy.release()
    robot.until(lambda: len(robot.chunks) == 2)
    assert robot.values == [1.0, 4.0]
    assert not policy.overlapped


def test_the_robot_goes_before_remote_clients(bench: Any) -> None:
    policy = SlowPolicy(scalar())
    robot = bench(policy)
    remote = [
        robot.engine.submit(
            InferenceRequest({'value': 100.0 + i}, SessionKey(f'c{i}', 's')), Lane.REMOTE
        )
        for i in range(3)
    ]
    policy.wait_started()
    robot.door.start()
    robot.see(1.0)
    robot.until(lambda: robot.door._in_flight is not None)
    policy.release(4)
    for future in remote:
        future.result(timeout=WAIT)
    robot.until(lambda: robot.chunks)
    assert policy.values == [100.0, 1.0, 101.0, 102.0]


def test_why_there_is_no_inference_is_reported_and_the_next_good_message_served(
    bench: Any,
) -> None:
    robot = bench(EchoPolicy(scalar()))
    robot.door.start()
    robot.until(lambda: robot.states)
    assert robot.states[-1].reasons[0].kind == 'missing'
    robot.see(1.0)
    robot.until(lambda: robot.chunks)
    robot.now += 200_000_000
    robot.until(lambda: robot.states[-1].reasons)
    assert robot.states[-1].text == 'joint_states: a is 0.200 s old (allowed 0.100 s)'
    assert not robot.states[-1].failing
    robot.see(2.0)
    robot.until(lambda: robot.values == [1.0, 2.0])
    assert robot.states[-1] == DoorState()


def test_what_was_missing_is_told_no_more_while_the_policy_thinks(bench: Any) -> None:
    policy = SlowPolicy(scalar())
    robot = bench(policy)
    robot.door.start()
    robot.until(lambda: robot.states)
    assert robot.states[-1].reasons[0].kind == 'missing'
    robot.see(1.0)
    policy.wait_started()
    robot.settle_awake()
    assert robot.states[-1] == DoorState()
    assert robot.values == []


def test_a_reason_is_logged_once_and_that_it_went(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, 'openpi_policy_ros')
    robot = bench(EchoPolicy(scalar()))
    robot.door.start()
    for round_ in range(3):
        robot.now += 10**9
        robot.until(lambda: robot.states and robot.states[-1].reasons)
        for _ in range(5):
            robot.now += 1_000_000
            robot.door.wake()
            time.sleep(0.005)
        robot.see(float(round_))
        robot.until(lambda: robot.states[-1] == DoorState())
    said = [r.getMessage() for r in caplog.records if r.name.endswith('door')]
    assert [text.partition(':')[0] for text in said] == [
        'no inference',  # missing
        'chunks flow',
        'no inference',  # stale, and not again when it comes back within seconds
        'chunks flow',
    ]


def test_a_clock_that_jumps_back_in_mid_inference_drops_the_chunk_though_nothing_comes(
    bench: Any,
) -> None:
    policy = SlowPolicy(scalar())
    robot = bench(policy)
    robot.door.start()
    robot.see(1.0)
    policy.wait_started()
    robot.now -= 10**9
    policy.release()
    robot.until(lambda: policy.closed_sessions)
    robot.settle()
    assert robot.values == []


@pytest.mark.parametrize('act', ['reset', 'prompt', 'clock'])
def test_a_result_from_before_is_thrown_away(bench: Any, act: str) -> None:
    policy = SlowPolicy(scalar())
    robot = bench(policy)
    robot.door.start()
    robot.see(1.0)
    policy.wait_started()
    if act == 'reset':
        robot.door.reset()
    elif act == 'prompt':
        assert robot.door.set_prompt('stop')
    else:
        robot.now -= 10**9
    robot.see(2.0)
    policy.release()
    policy.wait_started()
    policy.release()
    robot.until(lambda: robot.chunks)
    robot.settle()
    assert robot.values == [2.0]
    sessions = [one.session.session_id for one in policy.requests]
    assert sessions == (['0', '0'] if act == 'prompt' else ['0', '1'])
    freed = [key.session_id for key in policy.closed_sessions]
    assert freed == ([] if act == 'prompt' else ['0'])


def test_a_reset_clears_the_buffers_frees_the_session_and_begins_another(bench: Any) -> None:
    policy = StatefulPolicy(make_spec(2, 3, stateful=True))
    robot = bench(policy)
    robot.door.start()
    for value in (5.0, 6.0):
        count = len(robot.chunks)
        robot.see(value)
        robot.until(lambda count=count: len(robot.chunks) > count)
    assert robot.door.reset() == SessionKey('ros:/robot', '1')
    robot.until(lambda: robot.states[-1].reasons)
    assert robot.states[-1].reasons[0].kind == 'missing'
    robot.see(7.0)
    robot.until(lambda: len(robot.chunks) == 3)
    assert robot.values == [1.0, 2.0, 1.0]
    assert policy.flags == [('0', True), ('0', False), ('1', True)]
    assert list(policy.live) == [SessionKey('ros:/robot', '1')]


def test_a_clock_that_jumps_back_frees_the_session_though_nothing_comes(bench: Any) -> None:
    policy = EchoPolicy(scalar())
    robot = bench(policy)
    robot.door.start()
    robot.see(1.0)
    robot.until(lambda: robot.chunks)
    robot.now -= 10**9
    robot.until(lambda: policy.closed_sessions == [SessionKey('ros:/robot', '0')])


def test_a_failed_first_call_is_repeated_as_the_first(bench: Any) -> None:
    policy = FailingPolicy(RuntimeError('boom'), spec=scalar())
    robot = bench(policy)
    robot.door.start()
    robot.see(1.0)
    robot.until(lambda: robot.states and robot.states[-1].failing)
    robot.see(2.0)
    robot.until(lambda: robot.chunks)
    robot.see(3.0)
    robot.until(lambda: len(robot.chunks) == 2)
    assert [one.reset for one in policy.requests] == [True, True, False]


@pytest.mark.parametrize(
    ('step', 'kind', 'said'),
    [
        (RuntimeError('no device'), 'inference', 'inference failed: RuntimeError: no device'),
        (
            lambda requests: [InvalidObservation('prompt', 'is too long')],
            'observation',
            'the policy refuses the observation: prompt: is too long',
        ),
        (
            lambda requests: [ActionChunk({ACTIONS: np.full((2, 3), np.nan, np.float32)})],
            'inference',
            'inference failed: InvalidOutput',
        ),
    ],
)
def test_a_failure_is_reported_and_the_next_observation_is_served(
    bench: Any, step: Any, kind: str, said: str
) -> None:
    robot = bench(FailingPolicy(step, spec=scalar()))
    robot.door.start()
    robot.see(1.0)
    robot.until(lambda: robot.states and robot.states[-1].failing)
    (reason,) = robot.states[-1].reasons
    assert reason.kind == kind
    assert said in reason.text
    robot.see(2.0)
    robot.until(lambda: robot.values == [2.0])
    assert robot.states[-1] == DoorState()


def test_a_call_that_takes_too_long_is_reported_while_it_runs(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    policy = SlowPolicy(scalar())
    robot = bench(policy, inference_timeout=0.05)
    robot.door.start()
    robot.until(lambda: robot.states)
    robot.see(1.0)
    robot.until(lambda: robot.states[-1].failing)
    assert robot.chunks == []
    assert robot.states[-1].text == (
        'no answer from the policy yet: a call has been running for more than 0.05 s'
    )
    policy.release()
    robot.until(lambda: robot.states[-1] == DoorState())
    assert robot.values == [1.0]
    said = [r.getMessage() for r in caplog.records if r.name.endswith('door')]
    assert not [text for text in said if 'no answer' in text], 'told twice in one log'


def test_why_the_last_call_failed_is_not_covered_by_the_next_being_late(bench: Any) -> None:
    entered, gate = threading.Event(), threading.Event()

    def late(requests: Any) -> Any:
        entered.set()
        assert gate.wait(WAIT)
        return [policy.answer(one) for one in requests]

    policy = FailingPolicy(RuntimeError('far away'), late, spec=scalar())
    robot = bench(policy, inference_timeout=0.05)
    robot.door.start()
    robot.see(1.0)
    robot.until(lambda: robot.states and robot.states[-1].failing)
    robot.see(2.0)
    assert entered.wait(WAIT)
    robot.until(lambda: not robot.engine.health().ready)
    for _ in range(3):
        robot.door.wake()
        time.sleep(0.005)
    assert 'far away' in robot.states[-1].text
    gate.set()
    robot.until(lambda: robot.states[-1] == DoorState())


def test_a_stopped_engine_is_reported(bench: Any) -> None:
    robot = bench(EchoPolicy(scalar()))
    robot.door.start()
    robot.engine.close()
    robot.see(1.0)
    robot.until(lambda: robot.states[-1].failing)
    assert 'EngineStopped' in robot.states[-1].text


def test_a_publisher_that_fails_is_told_and_does_not_end_the_door(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    robot = bench(EchoPolicy(scalar()))
    robot.broken = True
    robot.door.start()
    robot.see(1.0)
    robot.until(lambda: robot.states and robot.states[-1].failing)
    assert 'the publisher is gone' in robot.states[-1].text
    assert 'the robot door stumbled' in caplog.text
    robot.broken = False
    robot.see(2.0)
    robot.until(lambda: robot.values == [2.0])


def test_the_seed_of_the_moment_goes_along(bench: Any) -> None:
    policy = EchoPolicy(scalar())
    robot = bench(policy)
    robot.door.start()
    for count, seed in enumerate((None, 7, 0), start=1):
        robot.seed = seed
        robot.see(1.0)
        robot.until(lambda count=count: len(robot.chunks) == count)
    assert [one.seed for one in policy.requests] == [None, 7, 0]


def test_no_chunk_follows_a_stop_and_a_new_start_is_a_new_session(bench: Any) -> None:
    policy = SlowPolicy(scalar())
    robot = bench(policy)
    robot.door.start()
    robot.see(1.0)
    policy.wait_started()
    robot.door.stop()
    policy.release()
    robot.until(lambda: policy.closed_sessions)
    assert robot.chunks == []
    robot.door.start()
    robot.see(2.0)
    policy.wait_started()
    policy.release()
    robot.until(lambda: robot.chunks)
    assert robot.values == [2.0]
    assert [one.session.session_id for one in policy.requests] == ['0', '1']
    assert policy.closed_sessions == [SessionKey('ros:/robot', '0')]


def test_a_policy_that_goes_on_failing_is_asked_less_and_less_often(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drive the cycle by hand, with a clock of its own."""
    refusals = [NoCapacity('no room', expected='some', remedy='wait') for _ in range(9)]
    robot = bench(FailingPolicy(*refusals, spec=scalar()))
    clock, asked = [100.0], []
    monkeypatch.setattr(robot.door, '_clock', lambda: clock[0])
    while len(asked) < 12:
        clock[0] += 0.01
        robot.see(1.0)
        robot.door.cycle()
        if (call := robot.door._in_flight) is not None:
            asked.append(clock[0])
            robot.until(call.future.done)
            robot.door.cycle()
    gaps = np.diff(asked)
    expected = [0.01, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0, 0.01, 0.01]
    np.testing.assert_allclose(gaps, expected, atol=0.011)
    assert robot.values == [1.0] * 3


def test_the_rate_limits_inferences_and_the_newest_observation_is_not_lost() -> None:
    """Drive the cycle by hand, with a clock of its own."""
    policy = with_scalars(EchoPolicy(scalar()))
    engine = Engine(policy)
    engine.start()
    now, chunks, clock = START, [], [100.0]
    sensors = Assembler(validate(RobotConfig, ROBOT, 'test'), lambda: now)
    sensors.set_prompt('go')
    door = RobotDoor(
        sensors,
        engine,
        'ros:/robot',
        seed=lambda: None,
        publish=lambda chunk, _: chunks.append(float(chunk.actions[0, 0])),
        report=lambda state: None,
        rate=4.0,
        clock=lambda: clock[0],
    )

    def see(value: float) -> None:
        stamp = SimpleNamespace(sec=START // 10**9, nanosec=0)
        sensors.add_joints(
            SimpleNamespace(header=SimpleNamespace(stamp=stamp), name=['a'], position=[value])
        )

    def cycle() -> float:
        wait = door.cycle()
        if door._in_flight is not None:
            door._in_flight.future.result(timeout=WAIT)
            wait = door.cycle()
        return wait

    try:
        see(1.0)
        cycle()
        see(2.0)
        clock[0] = 100.2
        assert cycle() == pytest.approx(0.05)
        see(3.0)
        assert policy.values == [1.0]
        clock[0] = 100.25
        cycle()
        assert chunks == [1.0, 3.0]
        # Another rate counts from the last inference on, whichever way it changed.
        see(4.0)
        door.set_rate(10.0)
        clock[0] = 100.3
        assert cycle() == pytest.approx(0.05)
        clock[0] = 100.35
        cycle()
        see(5.0)
        door.set_rate(0.1)
        clock[0] = 110.3
        assert cycle() == pytest.approx(0.05)
        assert chunks == [1.0, 3.0, 4.0]
        door.set_rate(0.0)
        cycle()
        assert chunks == [1.0, 3.0, 4.0, 5.0]
    finally:
        engine.close()


def test_the_door_sleeps_between_looks(bench: Any) -> None:
    """No busy loop: an idle door looks at its sensors about ten times a second."""
    robot = bench(EchoPolicy(scalar()))
    looks = threading.Semaphore(0)
    snapshot = robot.sensors.snapshot

    def counted(begun: int | None) -> Any:
        looks.release()
        return snapshot(begun)

    robot.sensors.snapshot = counted
    robot.door.start()
    time.sleep(0.5)
    robot.door.stop()
    count = 0
    while looks.acquire(blocking=False):
        count += 1
    assert 1 <= count <= 12
