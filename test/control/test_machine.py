# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every state meets every event: what follows, with which reason."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.control.machine import ACTIVE, Machine, State

INIT, READY, DRY_RUN, ENABLED, WAIT, HOLD = State

EVENTS: dict[str, Callable[[Machine], object]] = {
    'activate': lambda machine: machine.activate(),
    'deactivate': lambda machine: machine.deactivate(),
    'enable': lambda machine: machine.enable(True),
    'disable': lambda machine: machine.enable(False),
    'run': lambda machine: machine.run(),
    'wait': lambda machine: machine.wait('no chunk'),
    'hold': lambda machine: machine.hold('too fast'),
    'reset': lambda machine: machine.reset('was reset'),
}
FOLLOWING = {
    INIT: {'activate': READY},
    READY: {'deactivate': INIT, 'enable': ENABLED},
    DRY_RUN: {'deactivate': INIT},
    ENABLED: {'deactivate': INIT, 'disable': READY, 'wait': WAIT, 'hold': HOLD, 'reset': WAIT},
    WAIT: {'deactivate': INIT, 'disable': READY, 'run': ENABLED, 'hold': HOLD},
    HOLD: {'deactivate': INIT, 'disable': READY, 'enable': ENABLED},
}
"""What leads elsewhere; everything else changes nothing."""
REASONS = {WAIT: 'no image', HOLD: 'out of reach'}


def machine_in(state: State) -> Machine:
    machine = Machine(dry_run=state is DRY_RUN)
    if state is not INIT:
        machine.activate()
    if state in (ENABLED, WAIT, HOLD):
        machine.enable(True)
    if state is WAIT:
        machine.wait(REASONS[WAIT])
    if state is HOLD:
        machine.hold(REASONS[HOLD])
    assert machine.state is state
    return machine


@pytest.mark.parametrize('event', EVENTS)
@pytest.mark.parametrize('state', State)
def test_each_event_leads_from_each_state_where_the_table_says(state: State, event: str) -> None:
    machine = machine_in(state)
    EVENTS[event](machine)
    assert machine.state is FOLLOWING[state].get(event, state)


def test_a_dry_run_activates_to_dry_run() -> None:
    machine = Machine(dry_run=True)
    machine.activate()
    assert machine.state is DRY_RUN


@pytest.mark.parametrize(
    ('state', 'why'),
    [(INIT, 'not active'), (DRY_RUN, 'dry_run')],
)
def test_enabling_is_refused_with_the_reason_where_it_cannot_be(state: State, why: str) -> None:
    machine = machine_in(state)
    done, text = machine.enable(True)
    assert not done
    assert why in text
    assert machine.state is state


@pytest.mark.parametrize('state', [READY, HOLD])
def test_enabling_is_refused_while_something_would_hold_at_once(state: State) -> None:
    machine = machine_in(state)
    assert machine.enable(True, 'S12: the interlock is false') == (
        False,
        'refused: S12: the interlock is false',
    )
    assert machine.state is state
    assert machine.reason == REASONS.get(state, '')


def test_enabling_twice_changes_nothing_and_says_so() -> None:
    machine = machine_in(WAIT)
    assert machine.enable(True, 'something') == (True, 'already enabled (WAIT)')
    assert machine.state is WAIT
    assert machine.reason == REASONS[WAIT]


@pytest.mark.parametrize('state', State)
def test_disabling_never_fails(state: State) -> None:
    assert machine_in(state).enable(False)[0]


def test_hold_keeps_its_first_reason() -> None:
    machine = machine_in(HOLD)
    machine.hold('another')
    machine.wait('another')
    machine.reset('another')
    assert (machine.state, machine.reason) == (HOLD, REASONS[HOLD])


def test_a_wait_tells_its_newest_reason() -> None:
    machine = machine_in(WAIT)
    machine.wait('another')
    assert (machine.state, machine.reason) == (WAIT, 'another')


@given(st.lists(st.sampled_from(list(EVENTS))))
def test_hold_is_left_only_by_enabling_disabling_or_deactivating(names: list[str]) -> None:
    machine = machine_in(READY)
    for name in names:
        before = machine.state
        EVENTS[name](machine)
        if before is HOLD and machine.state is not HOLD:
            assert name in ('enable', 'disable', 'deactivate')
        assert bool(machine.reason) == (machine.state in (WAIT, HOLD))
        assert machine.active == (machine.state in ACTIVE)


@given(st.lists(st.sampled_from(list(EVENTS))))
def test_a_dry_run_never_becomes_active(names: list[str]) -> None:
    machine = machine_in(DRY_RUN)
    for name in names:
        EVENTS[name](machine)
        assert machine.state in (INIT, DRY_RUN)
