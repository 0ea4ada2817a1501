# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The judge lets a good record pass, and names each thing that is wrong with a bad one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from judge import Judge, Judged, Record

from openpi_policy_ros.fake_robot.trajectory_controller import Trajectory

MS = 1_000_000
PERIOD = 20 * MS
ARM = Judged('arm', 'trajectory', ('a', 'b'), (-1.0, -1.0), (1.0, 1.0), (0.5, 1.0), (0.0, 0.0))
HAND = Judged('hand', 'array', ('c',), (0.0,), (1.2,), (1.0,), (0.2,))
ENABLED_AT, STOPPED_AT = 100 * MS, 1_000 * MS


def path(at: int) -> Trajectory:
    """Return what moves joint a by 0.4 rad/s: points every 50 ms, the first 30 ms from ``at``."""
    times = [at + 30 * MS + step * 50 * MS for step in range(6)]
    rows = tuple((0.4 * (time - ENABLED_AT) / 1e9, 0.0) for time in times)
    return Trajectory(('a', 'b'), tuple(time - at for time in times), rows)


def good() -> list[Record]:
    """Return a robot that is enabled, driven for a while, and stopped by ~/enable."""
    records = [
        Record('status', 0, value='READY'),
        Record('asked', ENABLED_AT, value=True),
        Record('answered', ENABLED_AT + MS, value=True),
        Record('status', ENABLED_AT + 2 * MS, value='ENABLED'),
        Record('asked', STOPPED_AT - 2 * MS, value=False),
        Record('status', STOPPED_AT, value='READY'),
        Record('answered', STOPPED_AT + MS, value=True),
    ]
    value = 0.2
    for at in range(ENABLED_AT + 10 * MS, STOPPED_AT - 10 * MS, PERIOD):
        records.append(Record('command', at, 'arm', path(at)))
        value += 0.9 * PERIOD / 1e9
        records.append(Record('command', at + MS, 'hand', (value,)))
    stop = STOPPED_AT + MS
    held = 0.4 * (stop + PERIOD - ENABLED_AT) / 1e9
    records.append(
        Record('command', stop, 'arm', Trajectory(('a', 'b'), (PERIOD,), ((held, 0.0),)))
    )
    records.append(Record('command', stop, 'hand', (value,)))
    return records


def rules(records: list[Record], lookahead: int = 300 * MS) -> set[tuple[str, str]]:
    """Return the (output, rule) of what is found."""
    found = Judge([ARM, HAND], PERIOD, lookahead).violations(records)
    return {(one.output, one.rule) for one in found}


def changed(output: str, change: Callable[[Record], Record], number: int = 10) -> list[Record]:
    """Return the good record with one command changed."""
    records = good()
    places = [i for i, one in enumerate(records) if (one.kind, one.name) == ('command', output)]
    records[places[number]] = change(records[places[number]])
    return records


def test_a_good_record_passes() -> None:
    assert rules(good()) == set()


def test_the_order_of_arrival_does_not_matter() -> None:
    assert rules(good()[::-1]) == set()


def _points(**change: object) -> Callable[[Record], Record]:
    return lambda one: replace(one, value=replace(one.value, **change))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ('change', 'rule'),
    [
        (_points(joints=('b', 'a')), 'joints'),
        (_points(joints=('a', 'x')), 'refused'),
        (_points(extras=('velocities',)), 'fields'),
        (_points(stamp_ns=500 * MS), 'stamp'),
        (_points(times_ns=(0, 50, 100, 150, 200, 250)), 'times'),
        (_points(times_ns=(MS, 3 * MS, 2 * MS, 4 * MS, 5 * MS, 6 * MS)), 'refused'),
        (_points(rows=((0.1, 0.0),)), 'refused'),
        (lambda one: replace(one, value=_row(one, 3, (math.nan, 0.0))), 'finite'),
        (lambda one: replace(one, value=_row(one, 3, (1.3, 0.0))), 'position'),
        (lambda one: replace(one, value=_row(one, 3, (0.35, 0.0))), 'velocity'),
        (lambda one: replace(one, value=_row(one, 0, (0.2, 0.0))), 'velocity'),
    ],
)
def test_a_bad_trajectory_is_told(change: Callable[[Record], Record], rule: str) -> None:
    assert ('arm', rule) in rules(changed('arm', change))


def _row(one: Record, number: int, row: tuple[float, ...]) -> Trajectory:
    assert isinstance(one.value, Trajectory)
    return replace(one.value, rows=(*one.value.rows[:number], row, *one.value.rows[number + 1 :]))


def test_a_trajectory_that_is_too_long_is_told() -> None:
    assert rules(good(), lookahead=270 * MS) == {('arm', 'length')}


@pytest.mark.parametrize(
    ('row', 'rule'),
    [
        ((math.nan,), 'finite'),
        ((math.inf,), 'finite'),
        ((-0.1,), 'position'),
        ((0.43,), 'velocity'),
        ((0.2, 0.2), 'joints'),
        ((), 'joints'),
    ],
)
def test_a_bad_row_is_told(row: tuple[float, ...], rule: str) -> None:
    assert ('hand', rule) in rules(changed('hand', lambda one: replace(one, value=row)))


def test_rows_that_come_too_often_are_told() -> None:
    records = good()
    value, at = 0.2, 120 * MS
    for _ in range(40):
        # No step is larger than a period's worth, but there are four in each period.
        at, value = at + PERIOD // 4, value + 0.9 * PERIOD / 1e9
        records.append(Record('command', at, 'hand', (value,)))
    assert ('hand', 'velocity') in rules(
        [one for one in records if one.name != 'hand' or one.time_ns < at + MS]
    )


def test_a_command_before_enabling_is_told() -> None:
    early = Record('command', ENABLED_AT - 50 * MS, 'hand', (0.2,))
    assert rules([early, *good()]) == {('hand', 'gate')}


def test_a_command_after_a_refusal_is_told() -> None:
    records = [
        Record('asked', ENABLED_AT, value=True),
        Record('answered', ENABLED_AT + MS, value=False),
        Record('command', ENABLED_AT + 500 * MS, 'hand', (0.2,)),
    ]
    assert rules(records) == {('hand', 'gate')}


def test_a_motion_after_the_stop_is_told() -> None:
    moved = Record('command', STOPPED_AT + 50 * MS, 'hand', (0.99,))
    assert ('hand', 'gate') in rules([*good(), moved])


def test_even_a_hold_long_after_the_stop_is_told() -> None:
    value = good()[-1].value
    again = Record('command', STOPPED_AT + 500 * MS, 'hand', value)
    assert rules([*good(), again]) == {('hand', 'gate')}


@pytest.mark.parametrize('state', ['HOLD', 'INIT', 'READY'])
def test_a_stop_without_a_hold_is_told(state: str) -> None:
    records = [
        replace(one, value=state) if (one.kind, one.value) == ('status', 'READY') else one
        for one in good()
    ]
    assert rules(records) == set()
    without = [one for one in records if one.kind != 'command' or one.time_ns < STOPPED_AT]
    assert rules(without) == {('arm', 'hold'), ('hand', 'hold')}


def test_an_array_may_hold_at_a_row_that_the_hold_has_overtaken() -> None:
    records = good()
    last = records[-1]
    assert isinstance(last.value, tuple)
    records[-1] = replace(last, value=(last.value[0] + 0.9 * PERIOD / 1e9,))
    assert rules(records) == set()
    # But not more than that, and not without the others.
    records[-1] = replace(last, value=(last.value[0] + 1.2 * PERIOD / 1e9,))
    assert ('hand', 'velocity') in rules(records)
    records[-1] = replace(last, value=(last.value[0] + 0.9 * PERIOD / 1e9,))
    del records[-2]
    assert rules(records) == {('arm', 'hold'), ('hand', 'hold')}


def test_what_it_says_before_it_moves_may_be_old() -> None:
    old = Record('status', ENABLED_AT + MS + 1, value='HOLD')
    assert rules([old, *good()]) == set()


def test_enabling_again_at_once_is_no_motion_after_the_stop() -> None:
    at = STOPPED_AT + 30 * MS
    records = [
        Record('asked', at, value=True),
        Record('answered', at + MS, value=True),
        Record('status', at + 2 * MS, value='ENABLED'),
        Record('command', at + 5 * MS, 'arm', path(at)),
    ]
    assert ('arm', 'gate') not in rules([*good(), *records])
    assert ('arm', 'hold') not in rules([*good(), *records])
    assert ('arm', 'gate') in rules([*good(), records[-1]])


def test_a_killed_node_owes_no_hold() -> None:
    records = [one for one in good() if one.time_ns < STOPPED_AT - 10 * MS]
    assert rules([*records, Record('killed', STOPPED_AT - 9 * MS)]) == set()
    late = Record('command', STOPPED_AT + 500 * MS, 'arm', path(STOPPED_AT))
    killed = Record('killed', STOPPED_AT - 9 * MS)
    assert ('arm', 'gate') in rules([*records, killed, late])


def test_waiting_is_no_stop() -> None:
    records = good()
    records.append(Record('status', 400 * MS, value='WAIT'))
    records.append(Record('status', 500 * MS, value='ENABLED'))
    assert rules(records) == set()


def test_an_output_that_nobody_owns_is_told() -> None:
    assert rules([*good(), Record('command', 500 * MS, 'leg', (0.0,))]) == {('leg', 'output')}
