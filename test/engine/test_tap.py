# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whoever listens to the engine hears everything in order, and cannot disturb it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fakes import EchoPolicy, make_spec, request

from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.engine.tap import Taps
from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey


class Listener:
    """Keeps what it heard."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def inferred(self, request: InferenceRequest, lane: Lane, outcome: Any) -> None:
        self.heard.append((request, lane, outcome))

    def session_closed(self, key: SessionKey) -> None:
        self.heard.append(key)


class Broken:
    """Fails at everything."""

    def inferred(self, *_: Any) -> None:
        raise RuntimeError('no ears')

    def session_closed(self, _: SessionKey) -> None:
        raise RuntimeError('no ears')


class Refusing(EchoPolicy):
    """Refuses one value and chokes on another."""

    def answer(self, one: InferenceRequest) -> Any:
        value = one.observation['value']
        if value == 1.0:
            return InvalidObservation('value', 'is 1')
        if value == 2.0:
            raise OSError('the device is gone')
        return super().answer(one)


def test_a_tap_hears_requests_outcomes_and_endings_in_their_order() -> None:
    engine, tap = Engine(Refusing(make_spec())), Listener()
    engine.add_tap(tap)
    engine.start()
    requests = [request(value=float(value)) for value in range(4)]
    lanes = [Lane.REMOTE, Lane.ROBOT, Lane.REMOTE, Lane.ROBOT]
    futures = []
    for one, lane in zip(requests, lanes, strict=True):
        futures.append(engine.submit(one, lane))
        futures[-1].exception(timeout=10)
    engine.close_session(requests[0].session)
    engine.close(drain_timeout=10)

    assert [heard[0] for heard in tap.heard[:4]] == requests
    assert [heard[1] for heard in tap.heard[:4]] == lanes
    assert tap.heard[4:] == [requests[0].session]
    outcomes = [heard[2] for heard in tap.heard[:4]]
    # The very chunk that the caller got, with the engine's own stages in it.
    assert outcomes[0] is futures[0].result()
    assert {'queue', 'infer'} <= set(outcomes[0].timing_ms)
    assert [type(outcome) for outcome in outcomes] == [
        ActionChunk,
        InvalidObservation,
        OSError,
        ActionChunk,
    ]


def test_what_a_tap_raises_reaches_nobody_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine(EchoPolicy())
    engine.add_tap(Broken())
    engine.start()
    with caplog.at_level(logging.ERROR, logger='openpi_policy_ros.engine'):
        for value in range(3):
            chunk = engine.submit(request(value=float(value)), Lane.REMOTE).result(timeout=10)
            assert chunk.actions[0, 0] == value
        engine.close_session(request().session)
        engine.close(drain_timeout=10)
    told = [record for record in caplog.records if record.name == 'openpi_policy_ros.engine']
    assert [record.getMessage() for record in told] == ['Broken failed to note an inference']
    assert told[0].exc_info is not None


def test_a_broken_tap_is_told_again_after_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    taps = Taps(clock=lambda: now[0])
    taps.add(Broken())
    with caplog.at_level(logging.ERROR, logger='openpi_policy_ros.engine'):
        for now[0] in (0.0, 59.0, 60.0, 61.0):
            taps.session_closed(SessionKey('c', 's'))
    assert len(caplog.records) == 2


def test_one_that_breaks_keeps_nothing_from_the_others() -> None:
    engine, first, last = Engine(EchoPolicy()), Listener(), Listener()
    for tap in (first, Broken(), last):
        engine.add_tap(tap)
    engine.start()
    engine.submit(request(), Lane.REMOTE).result(timeout=10)
    engine.remove_tap(first)
    engine.remove_tap(Listener())
    engine.close_session(request().session)
    engine.close(drain_timeout=10)
    assert (len(first.heard), len(last.heard)) == (1, 2)


def test_nobody_is_heard_after_the_tap_is_taken_away() -> None:
    engine, tap = Engine(EchoPolicy()), Listener()
    engine.add_tap(tap)
    engine.start()
    engine.submit(request(), Lane.REMOTE).result(timeout=10)
    engine.remove_tap(tap)
    engine.submit(request(), Lane.REMOTE).result(timeout=10)
    engine.close(drain_timeout=10)
    assert len(tap.heard) == 1
