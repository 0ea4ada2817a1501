# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot's door hands to whatever drives the robot, and what it keeps from it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from door_bench import START, Bench, scalar
from fakes import EchoPolicy, FailingPolicy, SlowPolicy

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import ACTIONS, ActionChunk, RtcPrefix

MS = 1_000_000
PREFIX = RtcPrefix(np.zeros((4, 3), np.float32), 2)


class Recorder:
    """An actuation that writes down what it is told, in order."""

    def __init__(self, enabled: bool = False) -> None:
        self.enabled = enabled
        self.wanted = True
        self.refuses = ''
        self.enabling = (True, 'enabled')
        self.left, self.needed = 0, 0
        self.said: list[Any] = []
        self.asked: list[tuple[int, float]] = []
        self.running = 0

    def enable(self, on: bool) -> tuple[bool, str]:
        self.said.append(('enable', on))
        done, _ = self.enabling
        if done:
            self.enabled = on
        return self.enabling

    def expect(self, epoch: int) -> None:
        self.said.append(('expect', epoch))

    def reset(self, epoch: int) -> None:
        self.said.append(('reset', epoch))

    def needs_inference(self) -> bool:
        return self.wanted

    def inference_started(self) -> None:
        self.running += 1
        assert self.running == 1

    def inference_finished(self) -> None:
        self.running -= 1
        assert self.running == 0

    def on_chunk(self, chunk: ActionChunk, t_obs_ns: int, epoch: int) -> str:
        self.said.append(('chunk', float(chunk.actions[0, 0]), t_obs_ns, epoch))
        return self.refuses

    def on_failure(self, reason: str) -> None:
        self.said.append(('failure', reason))

    def rows_left(self) -> int:
        return self.left

    def rows_needed(self, latency_s: float) -> int:
        assert latency_s >= 0.0
        return self.needed

    def rtc_prefix(self, t_obs_ns: int, latency_s: float) -> RtcPrefix | None:
        self.asked.append((t_obs_ns, latency_s))
        return PREFIX

    def heard(self, *kinds: str) -> list[Any]:
        """Return what was said of these kinds, in order."""
        return [one for one in self.said if one[0] in kinds]


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(policy: EchoPolicy, actuation: Recorder, **options: Any) -> Bench:
        made.append(Bench(policy, actuation=actuation, **options))
        return made[-1]

    yield make
    for one in made:
        if isinstance(one.policy, SlowPolicy):
            one.policy.release(100)
        one.door.stop()
        one.engine.close()


def test_a_chunk_goes_to_the_robot_with_its_stamp_and_epoch_and_to_the_topics(bench: Any) -> None:
    robot = Recorder(enabled=True)
    door = bench(EchoPolicy(scalar()), robot)
    door.door.start()
    door.see(1.0)
    door.until(lambda: door.chunks)
    assert robot.said == [('chunk', 1.0, START, door.sensors.epoch)]
    assert door.chunks == [(1.0, START)]
    assert robot.running == 0


def test_a_chunk_that_the_robot_does_not_take_is_shown_and_told_once_in_a_while(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    robot = Recorder(enabled=True)
    robot.refuses = 'S14: the chunk came late'
    door = bench(EchoPolicy(scalar()), robot)
    door.door.start()
    for count in (1, 2, 3):
        door.see(float(count))
        door.until(lambda count=count: len(door.chunks) == count)
    door.settle()
    said = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert said.count('a chunk was not played: S14: the chunk came late') == 1


def test_there_is_an_inference_only_while_one_is_wanted(bench: Any) -> None:
    robot = Recorder(enabled=True)
    robot.wanted = False
    policy = EchoPolicy(scalar())
    door = bench(policy, robot)
    door.door.start()
    door.see(1.0)
    door.settle()
    assert policy.requests == []
    assert door.states == []
    # Noticed though nothing wakes the door.
    robot.wanted = True
    door.until(lambda: door.values == [1.0])


@pytest.mark.parametrize(
    ('step', 'said'),
    [
        (RuntimeError('no device'), 'inference failed: RuntimeError: no device'),
        (lambda requests: [InvalidObservation('prompt', 'is too long')], 'prompt: is too long'),
        (
            lambda requests: [ActionChunk({ACTIONS: np.full((2, 3), np.nan, np.float32)})],
            'InvalidOutput',
        ),
        (SystemExit(), 'EngineStopped'),
    ],
)
def test_a_failed_inference_is_over_and_counted_with_its_reason(
    bench: Any, step: Any, said: str
) -> None:
    robot = Recorder(enabled=True)
    door = bench(FailingPolicy(step, spec=scalar()), robot)
    door.door.start()
    door.see(1.0)
    door.until(lambda: robot.said)
    ((kind, reason),) = robot.said
    assert kind == 'failure'
    assert said in reason
    assert robot.running == 0
    assert door.chunks == []


def test_a_call_that_hangs_is_seen_to_have_begun_and_not_ended(bench: Any) -> None:
    robot, policy = Recorder(enabled=True), SlowPolicy(scalar())
    door = bench(policy, robot)
    door.door.start()
    door.see(1.0)
    policy.wait_started()
    assert robot.running == 1
    door.see(2.0)
    door.door.reset()
    door.settle_awake()
    assert robot.running == 1
    policy.release()
    door.until(lambda: robot.running == 0)


@pytest.mark.parametrize('act', ['reset', 'prompt', 'back', 'forward', 'enable'])
@pytest.mark.parametrize('fails', [False, True])
def test_what_was_asked_before_never_reaches_the_robot(bench: Any, act: str, fails: bool) -> None:
    robot, policy = Recorder(), SlowPolicy(scalar())
    if fails:
        answer = policy.answer
        policy.answer = lambda one: (
            InvalidObservation('value', 'is old')
            if one.observation['value'] == 1.0
            else answer(one)
        )
    door = bench(policy, robot)
    door.door.start()
    door.see(1.0)
    policy.wait_started()
    before = door.sensors.epoch
    {
        'reset': door.door.reset,
        'prompt': lambda: door.door.set_prompt('stop'),
        'back': lambda: door.pass_time(-1),
        'forward': lambda: door.pass_time(2 * 10**9),
        'enable': lambda: door.door.enable(True),
    }[act]()
    door.see(2.0)
    policy.release()
    policy.wait_started()
    policy.release()
    door.until(lambda: robot.heard('chunk'))
    kind = {'prompt': 'expect', 'enable': 'expect'}.get(act, 'reset')
    assert robot.heard('expect', 'reset') == [(kind, before + 1)]
    assert robot.said.index((kind, before + 1)) < len(robot.said) - 1
    ((_, value, _, epoch),) = robot.heard('chunk')
    assert (value, epoch) == (2.0, before + 1)
    assert robot.heard('failure') == []
    assert door.values == [2.0]


def test_after_enabling_only_messages_that_came_since_count(bench: Any) -> None:
    robot, policy = Recorder(), EchoPolicy(scalar())
    door = bench(policy, robot)
    door.see(1.0)
    assert door.door.enable(True) == (True, 'enabled')
    door.door.start()
    door.until(lambda: door.states)
    assert door.states[-1].reasons[0].kind == 'missing'
    assert policy.requests == []
    door.see(2.0)
    door.until(lambda: door.values == [2.0])
    assert [one.session.session_id for one in policy.requests] == ['0'], 'the same session'


@pytest.mark.parametrize('why', ['refused', 'already enabled', 'disabled'])
def test_an_enabling_that_changes_nothing_drops_nothing(bench: Any, why: str) -> None:
    robot, policy = Recorder(enabled=why == 'already enabled'), SlowPolicy(scalar())
    robot.enabling = (why != 'refused', why)
    door = bench(policy, robot)
    door.door.start()
    door.see(1.0)
    policy.wait_started()
    assert door.door.enable(why != 'disabled') == robot.enabling
    policy.release()
    door.until(lambda: door.values == [1.0])
    assert robot.heard('expect', 'reset') == []


def test_a_hold_that_comes_in_while_enabling_what_is_enabled_is_an_enabling_afresh(
    bench: Any,
) -> None:
    class HeldMeanwhile(Recorder):
        def enable(self, on: bool) -> tuple[bool, str]:
            # Looked at before, it was enabled; it was held since, and this opens it again.
            self.enabled = False
            return super().enable(on)

    robot, policy = HeldMeanwhile(enabled=True), SlowPolicy(scalar())
    door = bench(policy, robot)
    door.door.start()
    door.see(1.0)
    policy.wait_started()
    assert door.door.enable(True) == (True, 'enabled')
    policy.release()
    door.until(lambda: robot.running == 0)
    door.settle()
    assert robot.heard('chunk') == []


def test_enabled_again_in_mid_inference_the_robot_does_not_go_where_it_was_led_before(
    bench: Any,
) -> None:
    robot, policy = Recorder(enabled=True), SlowPolicy(scalar())
    door = bench(policy, robot)
    door.door.start()
    door.see(1.0)
    policy.wait_started()
    door.door.enable(False)
    door.door.enable(True)
    policy.release()
    door.until(lambda: robot.running == 0)
    door.settle()
    assert robot.heard('chunk') == []


def test_without_a_robot_to_drive_there_is_nothing_to_enable() -> None:
    door = Bench(EchoPolicy(scalar()))
    with pytest.raises(RuntimeError, match='nothing to enable'):
        door.door.enable(True)
    door.engine.close()


@pytest.mark.parametrize(
    ('supports', 'enabled', 'asked'),
    [(True, True, True), (False, True, False), (True, False, False)],
)
def test_the_running_chunk_goes_along_where_the_policy_continues_it(
    bench: Any, supports: bool, enabled: bool, asked: bool
) -> None:
    robot = Recorder(enabled=enabled)
    policy = EchoPolicy(scalar({'supports_rtc': supports}))
    door = bench(policy, robot)
    door.door.start()
    for count in (1, 2, 3):
        door.see(float(count), age_ns=50 * MS)
        door.until(lambda count=count: len(door.chunks) == count)
    # The first goes without: how long an answer takes is not known yet.
    expected = [None, PREFIX, PREFIX] if asked else [None] * 3
    assert [one.rtc for one in policy.requests] == expected
    assert [stamp for stamp, _ in robot.asked] == ([START - 50 * MS] * 2 if asked else [])
    # From the stamp of the observation, not from the trigger alone.
    assert all(latency >= 0.05 for _, latency in robot.asked)


def test_too_few_actions_left_for_the_next_inference_are_counted_and_told_once(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    robot = Recorder(enabled=True)
    door = bench(EchoPolicy(scalar()), robot)
    door.door.start()
    assert door.door.stats.latency is None

    def infer(left: int, needed: int) -> int:
        robot.left, robot.needed = left, needed
        before = len(door.chunks)
        door.see(1.0)
        door.until(lambda: len(door.chunks) > before)
        return door.door.stats.short_supply

    assert infer(3, 4) == 0, 'no latency known yet'
    assert door.door.stats.latency is not None
    assert infer(4, 4) == 0
    assert infer(3, 4) == 1
    assert infer(3, 4) == 2
    assert infer(0, 4) == 2, 'waits already, or open loop'
    assert infer(3, 4) == 3
    robot.enabled = False
    assert infer(3, 4) == 3
    said = [r.getMessage() for r in caplog.records if 'actions left' in r.getMessage()]
    assert len(said) == 1
    assert 'has 3 actions left and the next one takes 4' in said[0]


def test_no_deadlock_between_the_door_and_those_who_call_it(bench: Any) -> None:
    """The door calls the robot with its lock held; the robot never waits for the door."""
    robot = Recorder(enabled=True)
    door = bench(EchoPolicy(scalar()), robot)
    door.door.start()
    ending = threading.Event()

    def pester() -> None:
        while not ending.is_set():
            door.door.enable(False)
            door.door.enable(True)
            door.door.reset()
            door.sensors.streams()
            ending.wait(0.001)

    threads = [threading.Thread(target=pester) for _ in range(2)]
    for thread in threads:
        thread.start()
    for value in range(20):
        door.see(float(value))
        ending.wait(0.005)
    ending.set()
    for thread in threads:
        thread.join(5.0)
        assert not thread.is_alive()
    before = len(door.chunks)
    door.see(1.0)
    door.until(lambda: len(door.chunks) > before)


def test_a_memory_of_the_policy_starts_afresh_with_enabling_and_with_nothing_that_opens_no_gate(
    bench: Any,
) -> None:
    robot, policy = Recorder(), EchoPolicy(scalar())
    door = bench(policy, robot)
    door.door.start()

    def infer() -> bool:
        before = len(door.chunks)
        door.see(1.0)
        door.until(lambda: len(door.chunks) > before)
        return policy.requests[-1].reset

    assert [infer(), infer()] == [True, False]
    assert door.door.enable(True) == (True, 'enabled')
    assert [infer(), infer()] == [True, False]
    robot.enabling = (True, 'already enabled')
    door.door.enable(True)
    assert infer() is False
    assert len({one.session for one in policy.requests}) == 1
