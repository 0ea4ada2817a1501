# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the joints were is known for the last seconds, from any number of publishers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.control.measured import BACK_NS, SPAN_NS, STEP_NS, MeasuredJoints

S = 1_000_000_000
START = 1_700_000_000 * S


def test_a_moment_is_told_by_the_last_message_before_it() -> None:
    joints = MeasuredJoints()
    for step in range(100):
        joints.add(['a'], [float(step)], START + step * STEP_NS)
    assert joints.at(START + 30 * STEP_NS) == {'a': 30.0}
    assert joints.at(START + 31 * STEP_NS - 1) == {'a': 30.0}
    assert joints.at(START + 10 * S) == {'a': 99.0}
    assert joints.at(START - S) == {'a': 0.0}, 'the oldest that is known'


@given(st.lists(st.tuples(st.integers(0, 400), st.floats(-3, 3)), min_size=1, max_size=40))
def test_what_is_told_is_no_older_than_a_step_before_the_moment(
    sent: list[tuple[int, float]],
) -> None:
    sent = sorted(sent)
    joints = MeasuredJoints()
    for millisecond, position in sent:
        joints.add(['a'], [position], START + millisecond * 1_000_000)
    for millisecond, _ in sent:
        told = joints.at(START + millisecond * 1_000_000)['a']
        assert any(
            position == told and millisecond - 10 < then <= millisecond for then, position in sent
        )


def test_each_of_several_publishers_tells_its_own_joints() -> None:
    joints = MeasuredJoints()
    joints.add(['a', 'b'], [1.0, 2.0], START)
    joints.add(['c'], [3.0], START + STEP_NS)
    joints.add(['b', 'a'], [4.0, 5.0], START + 2 * STEP_NS)
    assert joints.at(START) == {'a': 1.0, 'b': 2.0, 'c': 3.0}, 'c where it was first heard of'
    assert joints.at(START + STEP_NS) == {'a': 1.0, 'b': 2.0, 'c': 3.0}
    assert joints.at(START + 2 * STEP_NS) == {'a': 5.0, 'b': 4.0, 'c': 3.0}
    joints.add(['d'], [6.0], START + 2 * STEP_NS + 1)
    assert joints.at(START + STEP_NS)['d'] == 6.0, 'though no step has passed since'


def test_time_that_begins_anew_forgets_what_was_and_a_message_out_of_order_does_not() -> None:
    joints = MeasuredJoints()
    joints.add(['a', 'b'], [1.0, 1.0], START)
    joints.add(['a'], [2.0], START - STEP_NS)
    assert joints.at(START + S) == {'a': 1.0, 'b': 1.0}
    joints.add(['a'], [3.0], START - BACK_NS - 1)
    assert joints.at(START) == {'a': 3.0}


def test_memory_is_bounded_and_broken_messages_are_left_out() -> None:
    joints = MeasuredJoints()
    joints.add(['a', 'b'], [1.0], START)
    assert joints.at(START) == {}
    for step in range(3 * SPAN_NS // STEP_NS):
        joints.add(['a'], [float(step)], START + step * STEP_NS)
    assert joints.at(START) == {'a': 2.0 * SPAN_NS / STEP_NS}, 'ten seconds back'
