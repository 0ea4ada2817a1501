# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Log lines: named, of one line, bounded in number."""

from __future__ import annotations

import logging
import re

import pytest
from fakes import FailingPolicy
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import FAILED, INVALID, eventually

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.server.log import (
    MAX_LINE,
    BoundedLog,
    LogBudget,
    WebsocketsLogger,
    one_line,
)
from openpi_policy_ros.wire import Dialect

LOGGER = 'openpi_policy_ros.server'
both = pytest.mark.parametrize('dialect', list(Dialect))


def messages(caplog: pytest.LogCaptureFixture, part: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if part in record.getMessage()]


def test_a_budget_grants_a_burst_then_a_steady_rate_and_counts_the_rest():
    now = [0.0]
    budget = LogBudget(burst=2, per_second=0.5, clock=lambda: now[0])
    assert [budget.spend() for _ in range(5)] == [0, 0, None, None, None]
    now[0] = 2.0
    assert [budget.spend(), budget.spend()] == [3, None]
    now[0] = 1000.0
    assert [budget.spend() for _ in range(3)] == [1, 0, None]


@given(st.lists(st.integers(0, 10), max_size=50), st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_a_budget_never_grants_more_than_burst_plus_rate_and_loses_no_count(pauses, burst):
    now = [0.0]
    budget = LogBudget(burst=burst, per_second=1.0, clock=lambda: now[0])
    granted, refused, told = 0, 0, 0
    for pause in pauses:
        now[0] += pause
        answer = budget.spend()
        granted += answer is not None
        refused += answer is None
        told += answer or 0
    assert granted <= burst + now[0]
    assert told <= refused
    now[0] += burst
    assert told + (budget.spend() or 0) == refused


@given(st.text(max_size=3000))
@settings(max_examples=100, deadline=None)
def test_client_text_stays_on_one_bounded_line(text):
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert len(line) <= 6 * MAX_LINE
    if len(text) <= MAX_LINE and text.isprintable():
        assert line == text


def test_a_line_must_fit_its_own_budget_and_the_servers(caplog):
    shared = BoundedLog(LogBudget(burst=3, per_second=0.0))
    mine = BoundedLog(LogBudget(burst=2, per_second=0.0), parent=shared)
    yours = BoundedLog(LogBudget(burst=2, per_second=0.0), parent=shared)
    with caplog.at_level(logging.INFO, LOGGER):
        for _ in range(5):
            mine.write(logging.INFO, 'mine')
            yours.write(logging.INFO, 'yours')
    assert [record.getMessage() for record in caplog.records] == ['mine', 'yours', 'mine']


def test_a_line_refused_by_the_server_stays_counted_by_the_connection(caplog):
    now = [0.0]
    shared = BoundedLog(LogBudget(burst=1, per_second=1.0, clock=lambda: now[0]))
    mine = BoundedLog(LogBudget(burst=5, per_second=0.0, clock=lambda: now[0]), parent=shared)
    with caplog.at_level(logging.INFO, LOGGER):
        for _ in range(3):
            mine.write(logging.INFO, 'line')
        now[0] = 1.0
        mine.write(logging.INFO, 'line')
    assert [record.getMessage() for record in caplog.records] == [
        'line',
        'line (2 lines before this one left out)',
    ]


@both
def test_a_failure_is_logged_with_request_id_cause_and_remedy_and_the_client_hears_nothing(
    loopback, caplog, dialect
):
    refusal = InvalidObservation(
        'observation/state', 'holds 33 values', expected='at most 32', remedy='send fewer joints'
    )
    secret = ValueError('/home/robot/secret.py exploded')
    policy = FailingPolicy(lambda _: [refusal], secret)
    served = loopback(policy)
    with caplog.at_level(logging.INFO, LOGGER), served.client(dialect) as client:
        assert client.infer() == client.error(FAILED)
        assert client.infer() == client.error(FAILED)
        assert client.actions(value=2.0)[0, 0] == 2.0
    (first,) = messages(caplog, 'req=c1-1:')
    assert 'session=c1/default' in first
    assert 'observation/state: holds 33 values; expected at most 32; send fewer joints' in first
    (second,) = messages(caplog, 'req=c1-2:')
    assert 'secret.py exploded' in second
    assert 'Traceback' in caplog.text
    assert not messages(caplog, 'req=c1-3')
    assert served.server.stats().failures == 2


@both
def test_a_client_of_garbage_cannot_flood_the_log(loopback, caplog, dialect):
    served = loopback()
    with caplog.at_level(logging.INFO, LOGGER):
        with served.client(dialect) as client:
            for _ in range(300):
                assert client.ask(b'\xc1') == client.error(INVALID)
        eventually(lambda: messages(caplog, 'closed'), 'the closing line')
    assert 1 <= len(messages(caplog, 'req=c1-')) <= 12
    assert messages(caplog, 'after 300 requests, 300 of them failed')
    assert served.server.stats().invalid_payloads == 300


def test_many_connections_of_garbage_cannot_flood_the_log_either(loopback, caplog):
    served = loopback()
    with caplog.at_level(logging.INFO, LOGGER):
        for _ in range(150):
            with served.client() as client:
                client.ask(b'\xc1')
        eventually(lambda: served.server.stats().clients == 0, 'all gone')
    # Three lines each would be 450; the server's budget is a burst of 200 and 5 per second.
    assert len(caplog.records) < 400


def test_a_client_cannot_write_lines_of_its_own_into_the_log(loopback, caplog):
    forged = 'x\nERROR forged line'
    policy = FailingPolicy(lambda _: [InvalidObservation(forged, 'is an unknown camera')])
    with caplog.at_level(logging.INFO, LOGGER), loopback(policy).client() as client:
        client.infer(**{forged: 1.0})
        client.infer(endpoint=forged)
        client.infer(session_id=forged, seed='\r\nforged')
    lines = messages(caplog, 'forged')
    assert len(lines) == 3
    assert not any(re.search(r'[\r\n]', line) for line in lines)


def test_what_websockets_calls_an_error_is_one_bounded_warning(caplog):
    logger = WebsocketsLogger(BoundedLog(LogBudget(burst=1, per_second=0.0)))
    with caplog.at_level(logging.INFO):
        logger.info('connection open')
        for _ in range(3):
            try:
                raise EOFError('line without CRLF')
            except EOFError:
                logger.error('opening handshake failed', exc_info=True)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert 'opening handshake failed' in record.getMessage()
    assert 'line without CRLF' in record.getMessage()
