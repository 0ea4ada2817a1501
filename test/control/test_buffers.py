# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Stamps are believed, refused or replaced, and the newest word of a stream counts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openpi_policy_ros.configuration.robot import Timing
from openpi_policy_ros.control.buffers import (
    ClockWatch,
    Latest,
    Reason,
    Refusal,
    check_stamp,
    skew_reason,
    stale_text,
)

MS = 1_000_000
NOW = 1_700_000_000_000 * MS


@settings(deadline=None)
@given(ahead=st.integers(-(10**12), 20 * MS))
def test_a_stamp_of_the_past_or_within_tolerance_is_believed(ahead: int) -> None:
    assert check_stamp(NOW + ahead, NOW, Timing()) == NOW + ahead


@settings(deadline=None)
@given(ahead=st.integers(20 * MS + 1, 10**15))
def test_a_stamp_further_in_the_future_means_clocks_are_not_synchronised(ahead: int) -> None:
    refusal = check_stamp(NOW + ahead, NOW, Timing())
    assert isinstance(refusal, Refusal)
    assert 'clocks not synchronised' in refusal.text
    assert refusal.detail == 'future'


def test_the_future_tolerance_is_the_robots() -> None:
    assert check_stamp(NOW + 90 * MS, NOW, Timing(future_tolerance=0.1)) == NOW + 90 * MS
    assert isinstance(check_stamp(NOW + 1, NOW, Timing(future_tolerance=0.0)), Refusal)


def test_an_unstamped_message_is_refused_unless_allowed_then_its_arrival_counts() -> None:
    refusal = check_stamp(0, NOW, Timing())
    assert isinstance(refusal, Refusal)
    assert 'timing.allow_unstamped: true' in refusal.text
    assert check_stamp(0, NOW, Timing(allow_unstamped=True)) == NOW


@pytest.mark.parametrize('stamp', [0, NOW])
def test_before_the_first_clock_message_nothing_is_believed(stamp: int) -> None:
    refusal = check_stamp(stamp, 0, Timing(allow_unstamped=True))
    assert isinstance(refusal, Refusal)
    assert '/clock' in refusal.text


def test_a_clock_far_away_is_told_from_a_late_message() -> None:
    buffer: Latest[str] = Latest('camera', 0.15)
    buffer.accept('x', 5, NOW, 0)
    assert buffer.sample is not None
    assert 'is use_sim_time set alike' in stale_text(buffer.sample, buffer.max_age_ns, NOW)
    buffer.accept('x', NOW - 200 * MS, NOW, 0)
    assert 'use_sim_time' not in stale_text(buffer.sample, buffer.max_age_ns, NOW)
    refusal = check_stamp(NOW, 5, Timing())
    assert isinstance(refusal, Refusal)
    assert 'is use_sim_time set alike' in refusal.text


@settings(deadline=None)
@given(age=st.integers(0, 10**10))
def test_a_sample_is_stale_beyond_its_max_age(age: int) -> None:
    buffer: Latest[str] = Latest('camera', 0.15)
    assert not buffer.is_stale(NOW)
    buffer.accept('x', NOW - age, NOW, 0)
    assert buffer.is_stale(NOW) == (age > 150 * MS)


def test_the_newest_word_of_a_stream_counts_good_or_bad() -> None:
    buffer: Latest[str] = Latest('camera', 0.15)
    buffer.accept('good', NOW, NOW, 0)
    buffer.refuse(Refusal('is broken', 'broken'))
    assert buffer.sample is None
    buffer.accept('good again', NOW, NOW, 0)
    assert buffer.refusal is None
    assert buffer.sample is not None
    assert buffer.sample.value == 'good again'


@settings(deadline=None)
@given(age=st.integers(-10 * MS, 10**9), passed=st.integers(0, 10**10), refused=st.booleans())
def test_the_age_of_a_stream_is_that_at_arrival_and_what_the_steady_clock_says_since(
    age: int, passed: int, refused: bool
) -> None:
    buffer: Latest[str] = Latest('camera', 0.15)
    assert buffer.age_ns(5) is None
    buffer.refuse(Refusal('is broken', 'broken'))
    assert buffer.age_ns(5) is None
    buffer.accept('x', NOW - age, NOW, 5)
    if refused:
        buffer.refuse(Refusal('is broken', 'broken'))
    assert buffer.age_ns(5 + passed) == max(age, 0) + passed
    buffer.clear()
    assert buffer.age_ns(5 + passed) == max(age, 0) + passed


def test_messages_that_cannot_be_read_make_no_stream_fresh() -> None:
    buffer: Latest[str] = Latest('camera', 0.15)
    buffer.accept('good', NOW, NOW, 1 * MS)
    good = buffer.sample
    assert good is not None
    buffer.could_read(good)
    for steady in (10 * MS, 20 * MS, 30 * MS):
        buffer.accept('broken', NOW, NOW, steady)
        broken = buffer.sample
        assert broken is not None
        buffer.could_not_read(broken, Refusal('is broken', 'broken'))
        assert buffer.sample is None
        assert buffer.age_ns(steady) == steady - 1 * MS
    buffer.accept('broken?', NOW, NOW, 40 * MS)
    assert buffer.age_ns(40 * MS) == 39 * MS, 'fresh before it was read'
    assert buffer.sample is not None
    buffer.could_read(buffer.sample)
    assert buffer.age_ns(40 * MS) == 0
    buffer.accept('good', NOW, NOW, 50 * MS)
    assert buffer.age_ns(50 * MS) == 0


def test_a_newer_message_survives_that_an_older_one_could_not_be_read() -> None:
    buffer: Latest[str] = Latest('camera', 0.15)
    buffer.accept('broken', NOW, NOW, 0)
    broken = buffer.sample
    assert broken is not None
    buffer.accept('newer', NOW, NOW, 1)
    buffer.could_not_read(broken, Refusal('is broken', 'broken'))
    assert buffer.sample is not None
    assert buffer.sample.value == 'newer'
    assert buffer.age_ns(2) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))))
def test_the_clock_watch_fires_once_for_each_jump(steps: list[tuple[int, int]]) -> None:
    watch = ClockWatch(forward=1e-4)
    steady, last = 0, None
    for now, passed in steps:
        steady += passed
        moved = 0 if last is None else now - last
        expected = 0
        if moved < 0:
            expected = moved
        elif last and moved - passed > 100_000:
            expected = moved - passed
        assert watch.jump_ns(now, steady) == expected
        assert watch.jump_ns(now, steady) == 0
        last = now


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**10), max_size=5))
def test_streams_too_far_apart_are_named_oldest_first(offsets: list[int]) -> None:
    stamps = [(f's{i}', f'part of s{i}', NOW + offset) for i, offset in enumerate(offsets)]
    reason = skew_reason(stamps, 0.1)
    spread = max(offsets) - min(offsets) if offsets else 0
    if spread <= 100 * MS:
        assert reason is None
    else:
        assert reason is not None
        oldest, newest = reason.streams
        assert offsets[int(oldest[1:])] == min(offsets)
        assert offsets[int(newest[1:])] == max(offsets)
        assert f'of {oldest} is {spread / 1e9:.3f} s older than part of {newest}' in reason.text


def test_a_reason_keeps_its_signature_while_only_ages_change() -> None:
    one = Reason('stale', ('wrist',), 'is 0.2 s old')
    assert one.signature == Reason('stale', ('wrist',), 'is 0.3 s old').signature
    assert one.signature != Reason('stale', ('base',), 'is 0.2 s old').signature
    assert one.signature != Reason('refused', ('wrist',), 'is 0.2 s old').signature


@pytest.mark.parametrize(
    ('said', 'again', 'same'),
    [
        ('holds 9215 bytes; expected 9216', 'holds 87 bytes; expected 120', True),
        ('value 2 is 1e+39', 'value 11 is -3.5', True),
        ("encoding 'mono8'", "encoding 'rgba8'", False),
    ],
)
def test_numbers_in_a_detail_do_not_make_another_reason(said: str, again: str, same: bool) -> None:
    one, other = (Reason('refused', ('wrist',), text, text).signature for text in (said, again))
    assert (one == other) is same
