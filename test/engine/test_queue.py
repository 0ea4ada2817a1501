# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What runs next: the queue alone, without threads."""

from __future__ import annotations

from fakes import request
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
)

from openpi_policy_ros.engine.queue import Batch, Closing, FairQueue, Job, Work, compatible
from openpi_policy_ros.engine.types import Lane
from openpi_policy_ros.policies.base import RtcPrefix, SessionKey

SOURCES = ('a', 'b', 'c', 'd', 'e')


def job(source: str, lane: Lane = Lane.REMOTE, ticket: object = None, **fields: object) -> Job:
    return Job(request(source, **fields), lane, ticket)


def taken(queue: FairQueue, max_batch: int = 1) -> list[object]:
    """Take and finish everything that waits; return tickets and closed keys in order."""
    order: list[object] = []
    while (work := queue.take(max_batch)) is not None:
        order += [work.key] if isinstance(work, Closing) else [one.ticket for one in work.jobs]
        queue.done(work)
    return order


def test_the_robot_goes_before_remote_clients():
    queue = FairQueue()
    queue.push(job('a', ticket=1))
    queue.push(job('b', ticket=2))
    queue.push(job('ros', Lane.ROBOT, ticket=3))
    assert taken(queue) == [3, 1, 2]


def test_clients_take_turns_however_much_one_of_them_has_waiting():
    queue = FairQueue()
    for ticket in (1, 2, 3):
        queue.push(job('greedy', ticket=ticket))
    queue.push(job('b', ticket=4))
    queue.push(job('c', ticket=5))
    assert taken(queue) == [1, 4, 5, 2, 3]


def test_of_the_robots_requests_only_the_newest_survives():
    queue = FairQueue()
    assert queue.push(job('ros', Lane.ROBOT, ticket=1)) == []
    assert [old.ticket for old in queue.push(job('ros', Lane.ROBOT, ticket=2))] == [1]
    assert [old.ticket for old in queue.push(job('ros', Lane.ROBOT, ticket=3))] == [2]
    assert taken(queue) == [3]


def test_a_request_that_runs_is_not_replaced():
    queue = FairQueue()
    queue.push(job('ros', Lane.ROBOT, ticket=1))
    work = queue.take()
    assert queue.push(job('ros', Lane.ROBOT, ticket=2)) == []
    assert queue.take() is None
    queue.done(work)
    assert taken(queue) == [2]


def test_a_replaced_request_hands_on_its_wish_to_start_afresh():
    queue = FairQueue()
    queue.push(job('ros', Lane.ROBOT, reset=True))
    queue.push(job('ros', Lane.ROBOT, reset=False))
    work = queue.take()
    assert isinstance(work, Batch)
    assert work.jobs[0].request.reset is True


def test_the_wish_to_start_afresh_is_not_handed_to_another_session():
    queue = FairQueue()
    queue.push(job('ros', Lane.ROBOT, session_id='old', reset=True))
    queue.push(job('ros', Lane.ROBOT, session_id='new', reset=False))
    work = queue.take()
    assert isinstance(work, Batch)
    assert work.jobs[0].request.reset is False


def test_remote_requests_are_never_replaced():
    queue = FairQueue()
    queue.push(job('a', ticket=1))
    assert queue.push(job('a', ticket=2)) == []
    assert taken(queue) == [1, 2]


def test_a_session_is_closed_after_what_came_before_and_ahead_of_what_comes_after():
    queue = FairQueue()
    key = SessionKey('a', 'default')
    queue.push(job('a', ticket=1))
    queue.push_closing(key)
    queue.push(job('a', ticket=2))
    assert taken(queue) == [1, key, 2]


def test_a_session_is_not_closed_while_its_connection_runs():
    queue = FairQueue()
    queue.push(job('a', ticket=1))
    work = queue.take()
    queue.push_closing(SessionKey('a', 'default'))
    assert queue.take() is None
    queue.done(work)
    assert taken(queue) == [SessionKey('a', 'default')]


def test_closing_a_session_frees_memory_before_the_next_request_takes_some():
    queue = FairQueue()
    queue.push(job('ros', Lane.ROBOT, ticket=1))
    queue.push_closing(SessionKey('gone', 'default'))
    assert taken(queue) == [SessionKey('gone', 'default'), 1]


def test_a_batch_holds_compatible_requests_of_different_connections():
    queue = FairQueue()
    queue.push(job('a', ticket='a1'))
    queue.push(job('a', ticket='a2'))
    queue.push(job('b', ticket='b', num_inference_steps=3))
    queue.push(job('c', ticket='c'))
    queue.push(job('d', ticket='d'))
    first = queue.take(max_batch=8)
    assert isinstance(first, Batch)
    assert [one.ticket for one in first.jobs] == ['a1', 'c', 'd']
    queue.done(first)
    # b was passed over, so it leads now.
    assert taken(queue, max_batch=8) == ['b', 'a2']


def test_a_batch_is_no_larger_than_the_policy_takes():
    queue = FairQueue()
    for source in SOURCES:
        queue.push(job(source, ticket=source))
    work = queue.take(max_batch=2)
    assert isinstance(work, Batch)
    assert [one.ticket for one in work.jobs] == ['a', 'b']


def test_the_robot_does_not_wait_for_remote_requests_in_its_batch():
    queue = FairQueue()
    queue.push(job('a', ticket=1))
    queue.push(job('ros', Lane.ROBOT, ticket=2))
    work = queue.take(max_batch=8)
    assert isinstance(work, Batch)
    assert [one.ticket for one in work.jobs] == [2]


def test_requests_with_and_without_a_chunk_being_executed_do_not_mix():
    import numpy as np

    prefix = RtcPrefix(np.zeros((3, 4), np.float32), inference_delay=1)
    assert not compatible(request(), request(rtc=prefix))
    assert compatible(request(rtc=prefix), request(rtc=prefix))
    assert not compatible(request(num_inference_steps=5), request(num_inference_steps=10))
    assert compatible(request(seed=1), request(seed=2))


def test_a_discarded_request_is_gone_and_unblocks_the_closing_behind_it():
    queue = FairQueue()
    queue.push(job('a', ticket=1))
    queue.push_closing(SessionKey('a', 'default'))
    ticket = object()
    queue.push(job('b', ticket=ticket))
    assert queue.discard(ticket) is True
    assert queue.discard(ticket) is False
    assert queue.discard(1) is True
    assert taken(queue) == [SessionKey('a', 'default')]


def test_draining_returns_the_requests_and_empties_the_queue():
    queue = FairQueue()
    queue.push(job('a', ticket=1))
    queue.push_closing(SessionKey('a', 'default'))
    queue.push(job('b', ticket=2))
    assert [one.ticket for one in queue.drain()] == [1, 2]
    assert len(queue) == 0
    assert queue.take() is None


class QueueMachine(RuleBasedStateMachine):
    """Drives the queue at random beside a plain list per source."""

    running = Bundle('running')

    def __init__(self) -> None:
        super().__init__()
        self.queue = FairQueue()
        self.waiting: dict[str, list[Job | SessionKey]] = {source: [] for source in SOURCES}
        self.busy: set[str] = set()
        self.passed_over = dict.fromkeys(SOURCES, 0)
        self.steps = 0

    @rule(
        source=st.sampled_from(SOURCES),
        lane=st.sampled_from(Lane),
        steps=st.sampled_from([None, 5]),
    )
    def push(self, source: str, lane: Lane, steps: int | None) -> None:
        self.steps += 1
        new = job(source, lane, ticket=self.steps, num_inference_steps=steps)
        replaced = self.queue.push(new)
        mine = self.waiting[source]
        expected = [
            old
            for old in mine
            if lane is Lane.ROBOT and isinstance(old, Job) and old.lane is Lane.ROBOT
        ]
        assert replaced == expected
        self.waiting[source] = [item for item in mine if item not in replaced] + [new]

    @rule(source=st.sampled_from(SOURCES))
    def close(self, source: str) -> None:
        self.steps += 1
        key = SessionKey(source, str(self.steps))
        self.queue.push_closing(key)
        self.waiting[source].append(key)

    @rule(data=st.data())
    @precondition(lambda self: any(isinstance(i, Job) for w in self.waiting.values() for i in w))
    def discard(self, data: st.DataObject) -> None:
        jobs = [i for items in self.waiting.values() for i in items if isinstance(i, Job)]
        victim = data.draw(st.sampled_from(jobs))
        assert self.queue.discard(victim.ticket)
        self.waiting[victim.source].remove(victim)

    @rule(target=running, max_batch=st.integers(1, 4))
    def take(self, max_batch: int) -> Work | None:
        heads = {
            source: items[0]
            for source, items in self.waiting.items()
            if items and source not in self.busy
        }
        work = self.queue.take(max_batch)
        if work is None:
            assert heads == {}
            return None
        if isinstance(work, Closing):
            assert heads[work.key.connection] == work.key
            self._started(work.key.connection)
            return work
        assert not any(isinstance(head, SessionKey) for head in heads.values())
        jobs = [head for head in heads.values() if isinstance(head, Job)]
        lane = min(one.lane for one in jobs)
        assert 1 <= len(work.jobs) <= max_batch
        assert len({one.source for one in work.jobs}) == len(work.jobs)
        for one in work.jobs:
            assert one.lane is lane
            assert heads[one.source] is one
            assert compatible(work.jobs[0].request, one.request)
        for one in jobs:
            if one.lane is lane and one not in work.jobs:
                self.passed_over[one.source] += 1
                # Everybody else may go first once, nobody twice.
                assert self.passed_over[one.source] < len(SOURCES)
        for one in work.jobs:
            self._started(one.source)
        return work

    def _started(self, source: str) -> None:
        del self.waiting[source][0]
        self.busy.add(source)
        self.passed_over[source] = 0

    @rule(work=consumes(running))
    def finish(self, work: Work | None) -> None:
        if work is not None:
            self.queue.done(work)
            sources = [j.source for j in work.jobs] if isinstance(work, Batch) else [work.source]
            self.busy -= set(sources)

    @invariant()
    def counts_agree(self) -> None:
        items = [item for waiting in self.waiting.values() for item in waiting]
        assert len(self.queue) == len(items)
        assert self.queue.waiting_jobs == sum(isinstance(item, Job) for item in items)


QueueMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, database=None
)
TestQueueMachine = QueueMachine.TestCase
