# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Clients of DreamZero, RoboArena's and vLLM-Omni's, against a policy that remembers frames."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from dreaming_policy import CAMERAS, GRIPPER, HANDSHAKE, HORIZON, JOINTS, WIDTH, DreamingPolicy
from serving import FAILED, Client, Served, actions_of, eventually, serving
from websockets.exceptions import ConnectionClosed

from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.wire import Dialect

both = pytest.mark.parametrize('dialect', list(Dialect))


def frames(seed: int, *shape: int) -> dict[str, np.ndarray]:
    """Return noise for each camera, uint8 [*shape, 18, 32, 3]."""
    random = np.random.default_rng(seed)
    return {key: random.integers(0, 256, (*shape, 18, 32, 3), np.uint8) for key in CAMERAS}


def observation(seed: int, *shape: int) -> dict[str, Any]:
    """Return what a client sends in one call, but for the control keys."""
    return {
        **frames(seed, *shape),
        JOINTS: np.linspace(-1, 1, 7) + seed / 100,
        GRIPPER: np.array([0.5]),
        'observation/cartesian_position': np.zeros(6),
        'prompt': 'put the cup on the plate',
    }


def test_roboarenas_client_sends_one_frame_a_call_and_hears_text_after_a_reset() -> None:
    policy = DreamingPolicy()
    with serving(policy) as served, Client(served, Dialect.STOCK) as client:
        assert client.handshake == HANDSHAKE
        for call in range(3):
            reply = client.infer(endpoint='infer', session_id='episode 1', **observation(call))
            assert reply['actions'].shape == (HORIZON, WIDTH)
            assert reply['actions'].dtype == np.float32
        assert client.reset() == 'reset successful'
        client.infer(endpoint='infer', session_id='episode 1', **observation(3))
        client.infer(endpoint='infer', session_id='episode 2', **observation(4))
    assert [(key.session_id, reset) for key, reset, _ in policy.seen] == [
        ('episode 1', True),
        ('episode 1', False),
        ('episode 1', False),
        ('episode 1', True),
        ('episode 2', True),
    ]
    assert all(len(marks[0]) == 1 for _, _, marks in policy.seen)
    eventually(lambda: not policy.live, 'what was remembered is freed')


@both
def test_vllm_omnis_client_sends_stacks_after_the_first_call(dialect: Dialect) -> None:
    policy = DreamingPolicy()
    with serving(policy) as served, Client(served, dialect) as client:
        for call, count in enumerate((1, 4, 4)):
            chunk = client.actions(endpoint='infer', session_id='s', **observation(call, count))
            assert (chunk.shape, chunk.dtype) == ((HORIZON, WIDTH), np.float32)
        told = client.reset()
        assert told == (
            'reset successful' if dialect is Dialect.STOCK else {'status': 'reset successful'}
        )
    assert [reset for _, reset, _ in policy.seen] == [True, False, False]
    for call, (_, _, marks) in enumerate(policy.seen):
        sent = observation(call, (1, 4, 4)[call])
        assert marks == [sent[key][:, 0, 0, 0].tolist() for key in CAMERAS]


def play(served: Served, dialect: Dialect, seeds: list[int]) -> list[np.ndarray]:
    """Return the chunks of one session of its own."""
    with Client(served, dialect) as client:
        return [
            client.actions(session_id='same', **observation(seed, 1 if call == 0 else 4))
            for call, seed in enumerate(seeds)
        ]


@both
def test_interleaved_sessions_equal_separate_ones_bit_for_bit(dialect: Dialect) -> None:
    seeds = ([10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33])
    with serving(DreamingPolicy()) as served:
        apart = [play(served, dialect, own) for own in seeds]
        clients = [Client(served, dialect) for _ in seeds]
        mixed: list[list[np.ndarray]] = [[] for _ in seeds]
        try:
            for call in range(4):
                # All ask before any is answered.
                for client, own in zip(clients, seeds, strict=True):
                    client.send(session_id='same', **observation(own[call], 1 if call == 0 else 4))
                for client, chunks in zip(clients, mixed, strict=True):
                    chunks.append(actions_of(client.answer()))
        finally:
            for client in clients:
                client.close()
    for alone, among_others in zip(apart, mixed, strict=True):
        np.testing.assert_array_equal(alone, among_others)


@both
def test_a_session_that_does_not_fit_is_sent_away_and_those_that_live_go_on(
    dialect: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    policy = DreamingPolicy(sessions=2)
    caplog.set_level(logging.WARNING)
    with serving(policy) as served:
        expected = play(served, dialect, [1, 2, 3])
        eventually(lambda: not policy.live, 'it is freed')
        first, second = Client(served, dialect), Client(served, dialect)
        got = [first.actions(session_id='same', **observation(1, 1))]
        second.actions(session_id='same', **observation(9, 1))
        got.append(first.actions(session_id='same', **observation(2, 4)))
        with Client(served, dialect) as third:
            assert third.infer(session_id='same', **observation(8, 1)) == third.error(FAILED)
            with pytest.raises(ConnectionClosed) as closed:
                third.receive()
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (
            1013,
            'no memory for another session',
        )
        got.append(first.actions(session_id='same', **observation(3, 4)))
        np.testing.assert_array_equal(got, expected)
        # As soon as one leaves, there is room.
        second.close()
        eventually(lambda: len(policy.live) == 1, 'the second is freed')
        with Client(served, dialect) as fourth:
            fourth.actions(session_id='same', **observation(7, 1))
            first.actions(session_id='same', **observation(4, 4))
        first.close()
    told = 'no capacity: 2 sessions of 10.1 GB each are alive, 3.0 GB are free; let a client'
    assert caplog.text.count(told) == 1
    assert 'Traceback' not in caplog.text


@both
def test_two_hundred_sessions_leave_nothing_behind(dialect: Dialect) -> None:
    policy = DreamingPolicy(sessions=1)
    sent = observation(1, 1)
    with serving(policy) as served:
        with Client(served, dialect) as client:
            for number in range(100):
                client.actions(session_id=f'episode {number}', **sent)
                assert len(policy.live) == 1
        for _ in range(100):
            eventually(lambda: not policy.live, 'the last client is gone')
            with Client(served, dialect) as client:
                client.actions(**sent)
    assert policy.live == {}


@both
def test_what_was_imagined_stays_here(dialect: Dialect) -> None:
    policy = DreamingPolicy(dreams=1)
    heard: list[Any] = []

    class Ear:
        def inferred(self, request: Any, lane: Any, outcome: Any) -> None:
            heard.append(outcome)

        def session_closed(self, key: Any) -> None:
            pass

    with serving(policy) as served, Client(served, dialect) as client:
        served.engine.add_tap(Ear())
        reply = client.infer(**observation(1))
    (chunk,) = heard
    assert isinstance(chunk, ActionChunk)
    assert chunk.imagined is not None
    assert chunk.imagined_fps == 5.0
    if dialect is Dialect.STOCK:
        assert reply.keys() == {'actions', 'server_timing', 'policy_timing'}
    else:
        assert isinstance(reply, np.ndarray)
