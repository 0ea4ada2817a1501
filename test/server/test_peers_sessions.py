# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Sessions over real sockets: reset flags, independence, what is freed, what is left."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from fakes import EchoPolicy, FailingPolicy, SlowPolicy, StatefulPolicy, make_spec
from serving import FAILED, Client, Served, eventually, serving
from websockets.asyncio.server import ServerConnection

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import InferenceRequest, InferenceResult
from openpi_policy_ros.wire import Dialect, Session

both = pytest.mark.parametrize('dialect', list(Dialect))


@pytest.fixture
def policy() -> StatefulPolicy:
    return StatefulPolicy()


@pytest.fixture
def served(policy: StatefulPolicy) -> Iterator[Served]:
    with serving(policy) as running:
        yield running


def ids(keys: Sequence[Any]) -> list[str]:
    return [key.session_id for key in keys]


@both
@pytest.mark.parametrize(
    ('steps', 'flags', 'freed'),
    [
        (['a', 'a'], [True, False], ['a']),
        (['a', 'reset', 'a'], [True, True], ['a', 'a']),
        (['a', 'b', 'a'], [True, True, True], ['a', 'b', 'a']),
        (['a', None, '', b'a', np.array(['a'])], [True, False, False, False, False], ['a']),
        ([None, 'default', 'reset', None], [True, False, True], ['default', 'default']),
    ],
    ids=['a,a', 'a,reset,a', 'a,b,a', 'omitted and spelt otherwise', 'default'],
)
def test_reset_flags_and_freed_sessions(
    policy: StatefulPolicy,
    served: Served,
    dialect: Dialect,
    steps: list[Any],
    flags: list[bool],
    freed: list[str],
) -> None:
    with Client(served, dialect) as client:
        for step in steps:
            if isinstance(step, str) and step == 'reset':
                client.reset()
            else:
                client.actions(**({} if step is None else {'session_id': step}))
    eventually(lambda: not policy.live, 'the last session is freed')
    assert [reset for _, reset in policy.flags] == flags
    assert ids(policy.closed_sessions) == freed
    assert policy.most_live == 1


@both
def test_two_sockets_that_say_the_same_id_are_two_sessions(
    policy: StatefulPolicy, served: Served, dialect: Dialect
) -> None:
    with Client(served, dialect) as first, Client(served, dialect) as second:
        for calls in (1, 2, 3):
            assert first.actions(session_id='default')[0, 0] == calls
            assert second.actions()[0, 0] == calls
        assert len(policy.live) == 2
        first.close()
        eventually(lambda: len(policy.live) == 1, 'the closed connection is freed')
        assert second.actions()[0, 0] == 4
        second.reset()
        assert second.actions()[0, 0] == 1
    assert len({key.connection for key in policy.closed_sessions}) == 2


@both
def test_a_failing_first_call_is_retried_with_reset(dialect: Dialect) -> None:
    refusal = InvalidObservation('state', 'holds NaN', expected='finite numbers')
    failing = FailingPolicy(RuntimeError('boom'), lambda requests: [refusal] * len(requests))
    with serving(failing) as served, Client(served, dialect) as client:
        for _ in range(2):
            assert client.infer(session_id='a') == client.error(FAILED)
        client.actions(session_id='a')
        client.actions(session_id='a')
    assert [request.reset for request in failing.requests] == [True, True, True, False]
    assert ids(failing.closed_sessions) == ['a']


@both
def test_an_output_that_is_refused_does_not_count_as_a_first_call(dialect: Dialect) -> None:
    def poisoned(requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        chunks = [EchoPolicy().answer(request) for request in requests]
        for chunk in chunks:
            chunk.actions[3, 1] = np.nan
        return chunks

    failing = FailingPolicy(poisoned)
    with serving(failing) as served, Client(served, dialect) as client:
        assert client.infer() == client.error(FAILED)
        client.actions()
        client.actions()
    assert [request.reset for request in failing.requests] == [True, True, False]


@both
def test_frames_sent_ahead_are_answered_in_order(served: Served, dialect: Dialect) -> None:
    with Client(served, dialect) as client:
        client.send()
        client.send(endpoint='reset')
        client.send()
        client.send()
        client.send(endpoint='dance')
        client.send()
        answers = [client.answer() for _ in range(6)]
    kinds = [a['actions'] if isinstance(a, dict) and 'actions' in a else a for a in answers]
    assert [k[0, 0] for k in kinds if isinstance(k, np.ndarray)] == [1, 1, 2, 3]
    assert not isinstance(kinds[1], np.ndarray)
    assert not isinstance(kinds[4], np.ndarray)


@both
def test_a_client_connects_and_waits_its_turn_during_anothers_inference(dialect: Dialect) -> None:
    slow = SlowPolicy()
    with serving(slow) as served, Client(served, dialect) as first:
        first.send(value=1.0)
        slow.wait_started()
        # Handshake and reset need no worker, so they are answered while it is busy.
        with Client(served, Dialect.STOCK) as second, Client(served, Dialect.OPENPI) as third:
            assert second.reset() == 'reset successful'
            assert third.reset() == {'status': 'reset successful'}
            second.send(value=2.0)
            slow.release(2)
            assert first.answer() is not None
            assert second.answer()['actions'][0, 0] == 2.0
    assert not slow.overlapped


@both
@pytest.mark.parametrize('leave', [Client.close, Client.vanish], ids=['closes', 'vanishes'])
def test_a_client_that_leaves_during_inference_is_freed_and_the_next_is_served(
    dialect: Dialect, leave: Any
) -> None:
    slow = SlowPolicy()
    with serving(slow) as served:
        leaver = Client(served, dialect)
        leaver.send(session_id='gone')
        slow.wait_started()
        leaving = threading.Thread(target=leave, args=(leaver,))
        leaving.start()
        eventually(lambda: served.server.stats().clients == 0, 'the server noticed')
        leaving.join(20)
        assert not leaving.is_alive()
        slow.release(2)
        eventually(lambda: ids(slow.closed_sessions) == ['gone'], 'its session is freed')
        with Client(served, dialect) as client:
            assert client.actions(value=7.0)[0, 0] == 7.0
    assert [request.session.session_id for request in slow.requests] == ['gone', 'default']
    assert served.engine.health().reason == 'stopped'


def test_a_request_whose_client_left_before_its_turn_is_not_computed() -> None:
    slow = SlowPolicy()
    with serving(slow) as served, Client(served, Dialect.OPENPI) as first:
        first.send(value=1.0)
        slow.wait_started()
        leaver = Client(served, Dialect.OPENPI)
        leaver.send(value=2.0, session_id='gone')
        eventually(lambda: served.server.stats().requests == 2, 'the second frame arrived')
        leaver.close()
        eventually(lambda: served.server.stats().clients == 1, 'the server noticed')
        slow.release(2)
        first.answer()
        first.actions(value=3.0)
    assert slow.values == [1.0, 3.0]


class Forgetful(StatefulPolicy):
    """Keeps state per session, but no record of calls, so that only a leak grows."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer and forget."""
        results = super().infer(requests)
        self.batches.clear()
        self.flags.clear()
        return results

    def close_session(self, key: Any) -> None:
        """Free and forget."""
        super().close_session(key)
        self.closed_sessions.clear()


def test_two_hundred_sessions_leave_nothing_behind() -> None:
    policy = Forgetful(make_spec(10, 8, stateful=True))
    image = np.zeros((256, 256, 3), np.uint8)

    def rollouts(served: Served, count: int) -> None:
        for index in range(count):
            with Client(served, list(Dialect)[index % 2]) as client:
                client.actions(image=image, session_id=f'episode {index}')
                assert client.actions(image=image)[0, 0] == 2
                if index % 3 == 0:
                    client.infer(endpoint='dance')
                if index % 5 == 0:
                    client.reset()
                    client.actions(image=image)
        eventually(lambda: not policy.live, 'every session is freed')
        eventually(lambda: served.server.stats().clients == 0, 'every connection is closed')

    def alive() -> int:
        kinds = (Session, ServerConnection, InferenceRequest)
        gc.collect()
        return sum(type(thing) in kinds for thing in gc.get_objects())

    with serving(policy) as served:
        rollouts(served, 20)
        tracemalloc.start()
        try:
            before, objects_before = tracemalloc.get_traced_memory()[0], alive()
            rollouts(served, 200)
            objects = alive()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert served.server.stats().connections == 220
    # One frame kept per session would be 40 MB.
    assert grown < 1_000_000
    assert objects <= objects_before + 2
    assert policy.most_live <= 4
