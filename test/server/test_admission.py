# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Who is let in, decided without a socket."""

from __future__ import annotations

import asyncio

import pytest
from fakes import make_spec

from openpi_policy_ros.server.admission import Admission
from openpi_policy_ros.server.http import full, not_found, reply_to
from openpi_policy_ros.wire import Dialect

SPEC = make_spec()
ALIASES = {'/a': Dialect.OPENPI}


def test_places_are_taken_until_the_client_is_gone():
    async def play() -> None:
        admission = Admission(2)
        leave = [asyncio.Event() for _ in range(3)]
        assert admission.admit(leave[0].wait)
        assert admission.admit(leave[1].wait)
        assert not admission.admit(leave[2].wait)
        leave[0].set()
        await asyncio.sleep(0.01)
        assert len(admission) == 1
        assert admission.admit(leave[2].wait)
        assert not admission.admit(leave[2].wait)

    asyncio.run(play())


def test_a_limit_of_zero_is_none():
    async def play() -> None:
        admission = Admission(0)
        assert all(admission.admit(asyncio.Event().wait) for _ in range(100))

    asyncio.run(play())


@pytest.mark.parametrize('draining', [False, True])
@pytest.mark.parametrize('path', ['/', '/a', '/readyz', '/nothing'])
def test_the_key_is_looked_at_before_anything_else_is_told(path, draining):
    reply = reply_to(path, SPEC, None, draining, aliases=ALIASES, key_problem='no key')
    assert (reply.status, reply.body, reply.refusal) == (401, 'No key.\n', 'no key')
    assert 'WWW-Authenticate' in reply.headers


def test_health_is_told_to_everybody():
    assert reply_to('/healthz', SPEC, 'dead', True, key_problem='no key').status == 200


def test_an_alias_is_let_through_and_told_where_paths_are_told():
    assert reply_to('/a?x=1', SPEC, None, False, aliases=ALIASES) is None
    assert reply_to('/a', SPEC, None, False).status == 404
    assert '/a ' in not_found(ALIASES)
    assert '/a ' not in not_found({})


def test_whoever_may_come_again_is_told_when():
    for refusal in (full(3), reply_to('/', SPEC, None, draining=True)):
        assert refusal.status == 503
        assert refusal.headers == {'Retry-After': '5'}
