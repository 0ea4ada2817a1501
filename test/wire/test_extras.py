# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is opt-in on the wire: details of errors, bare replies on the stock path, aliases."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import EchoPolicy, request

from openpi_policy_ros.configuration.paths import FIXED_PATHS
from openpi_policy_ros.wire import Dialect, Session, dialect_for_path, unpackb

FAILED, INVALID = 'Internal inference error', 'Invalid request payload'


def session(dialect: Dialect, **options: bool) -> Session:
    return Session(dialect, 'c1', {}, **options)


def test_without_the_option_nothing_that_is_told_leaves():
    quiet = session(Dialect.OPENPI)
    assert unpackb(quiet.failed('c1-1', 'state: wrong')) == {'type': 'error', 'message': FAILED}
    assert unpackb(quiet.invalid('c1-1', 'no map')) == {'type': 'error', 'message': INVALID}


def test_with_it_errors_carry_what_there_is_to_tell():
    open_ = session(Dialect.OPENPI, error_detail=True)
    assert unpackb(open_.failed('c1-1', 'state: wrong')) == {
        'type': 'error',
        'message': FAILED,
        'request_id': 'c1-1',
        'detail': 'state: wrong',
    }
    assert unpackb(open_.invalid('c1-2')) == {
        'type': 'error',
        'message': INVALID,
        'request_id': 'c1-2',
    }


@pytest.mark.parametrize('error_detail', [False, True])
def test_the_text_errors_of_the_stock_path_stay_generic(error_detail):
    stock = session(Dialect.STOCK, error_detail=error_detail)
    assert stock.failed('c1-1', 'state: wrong') == FAILED
    assert stock.invalid('c1-1', 'no map') == INVALID


def test_a_bare_reply_is_the_one_of_the_openpi_path():
    (chunk,) = EchoPolicy().infer([request(value=3.0)])
    bare = Dialect.STOCK.reply(chunk, {'infer_ms': 1.0}, bare=True)
    assert bare == Dialect.OPENPI.reply(chunk, {})
    array = unpackb(bare)
    assert isinstance(array, np.ndarray)
    assert (array.shape, array.dtype, array[0, 0]) == ((50, 32), np.float32, 3.0)


def test_a_session_with_bare_replies_counts_its_first_call_all_the_same():
    bare = session(Dialect.STOCK, bare_replies=True)
    command = bare.decode(b'\x80')
    for reset in (True, False):
        one, _ = bare.begin(command)
        assert one.reset is reset
        (chunk,) = EchoPolicy().infer([one])
        assert isinstance(unpackb(bare.succeeded(one, chunk, {})), np.ndarray)


def test_an_alias_leads_to_its_dialect_and_never_away_from_a_fixed_path():
    aliases = {'/a': Dialect.OPENPI, '/b/c': Dialect.STOCK, '/': Dialect.OPENPI}
    for path, dialect in {
        '/a': Dialect.OPENPI,
        '/a?x=/b/c': Dialect.OPENPI,
        '/b/c': Dialect.STOCK,
        '/': Dialect.STOCK,
        '/a/': None,
        '/A': None,
        '/b': None,
    }.items():
        assert dialect_for_path(path, aliases) is dialect, path
    assert dialect_for_path('/a') is None


def test_the_paths_that_no_alias_may_take_are_those_that_are_served():
    assert {dialect.value for dialect in Dialect} | {'/healthz', '/readyz'} == set(FIXED_PATHS)
