# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Of each camera as much is remembered as a policy looks back at, and no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.control.buffers import Sample
from openpi_policy_ros.control.history import History

DT = 1000
OFFSETS = (-23, -16, -8, 0)


def sample(stamp: int, value: str = '') -> Sample[str]:
    return Sample(value or str(stamp), stamp, stamp, 0)


def filled(stamps: list[int], offsets: tuple[int, ...] = OFFSETS) -> History[str]:
    history: History[str] = History(offsets, DT)
    for stamp in stamps:
        history.add(sample(stamp))
    return history


def stamps_of(samples: tuple[Sample[str], ...]) -> list[int]:
    return [one.stamp_ns for one in samples]


offsets_drawn = st.sets(st.integers(-30, -1), max_size=5).map(lambda some: (*sorted(some), 0))
gaps_drawn = st.lists(
    st.one_of(st.integers(1, DT), st.integers(1, 6 * DT), st.just(DT)), min_size=1, max_size=150
)


@given(offsets=offsets_drawn, gaps=gaps_drawn)
def test_a_frame_is_the_nearest_at_or_before_or_less_than_a_step_older(
    offsets: tuple[int, ...], gaps: list[int]
) -> None:
    stamps = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    history = filled(stamps, offsets)
    now = stamps[-1]
    for offset, found in zip(offsets, stamps_of(history.frames(now)), strict=True):
        wanted = now + offset * DT
        before = [stamp for stamp in stamps if stamp <= wanted + DT // 4]
        if before:
            assert found == before[-1] or wanted - DT < found < before[-1]
        else:
            assert found == stamps[0]


@given(offsets=offsets_drawn, stamps=st.lists(st.integers(0, 40 * DT), min_size=1, max_size=150))
def test_whatever_comes_it_is_bounded_in_order_and_ends_with_the_newest_word(
    offsets: tuple[int, ...], stamps: list[int]
) -> None:
    history: History[str] = History(offsets, DT)
    for i, stamp in enumerate(stamps):
        history.add(sample(stamp, f'message {i}'))
        kept = stamps_of(history.kept)
        assert kept == sorted(set(kept))
        assert all(later - one > DT for one, later in zip(kept, kept[2:], strict=False))
        assert len(kept) <= 1 - 2 * offsets[0]
        assert history.kept[-1].value == f'message {i}'
        assert history.frames(stamp)[-1] is history.kept[-1]


@pytest.mark.parametrize('per_step', [1, 2, 4, 8])
def test_a_camera_faster_than_the_actions_is_thinned_to_one_image_per_step(per_step: int) -> None:
    history = filled([i * DT // per_step for i in range(100 * per_step + 1)])
    assert stamps_of(history.kept)[-30:] == [(71 + i) * DT for i in range(30)]
    assert stamps_of(history.frames(100 * DT)) == [77 * DT, 84 * DT, 92 * DT, 100 * DT]


@pytest.mark.parametrize('phase', range(0, DT, 100))
def test_a_camera_at_the_action_rate_loses_no_image_whatever_its_phase_and_jitter(
    phase: int,
) -> None:
    stamps = [i * DT + phase + (-1) ** i * 90 for i in range(1, 48)]
    assert stamps_of(filled(stamps).kept) == stamps[-47:]


def test_a_start_gives_what_there_is() -> None:
    history: History[str] = History(OFFSETS, DT)
    assert history.frames(0) == history.kept == ()
    history.add(sample(5))
    assert stamps_of(history.frames(5)) == [5, 5, 5, 5]
    for i in range(1, 11):
        history.add(sample(5 + i * DT))
    assert stamps_of(history.frames(5 + 10 * DT)) == [5, 5, 5 + 2 * DT, 5 + 10 * DT]


def test_a_camera_that_paused_gives_the_last_image_before_the_pause() -> None:
    history = filled([0, DT, 500 * DT, 501 * DT])
    assert stamps_of(history.frames(501 * DT)) == [DT, DT, DT, 501 * DT]


def test_an_image_that_proved_unusable_is_forgotten_alone() -> None:
    history = filled([i * DT for i in range(40)])
    bad = history.frames(39 * DT)[1]
    assert bad.stamp_ns == 23 * DT
    history.discard(Sample(bad.value, bad.stamp_ns, bad.arrival_ns, bad.steady_ns))
    assert history.frames(39 * DT)[1] is bad
    history.discard(bad)
    assert stamps_of(history.frames(39 * DT)) == [16 * DT, 22 * DT, 31 * DT, 39 * DT]
    history.discard(bad)
    for i in range(40, 100):
        history.add(sample(i * DT))
    assert len(history.kept) == 47


def test_cleared_it_knows_nothing() -> None:
    history = filled([0, DT, 2 * DT])
    history.clear()
    assert history.kept == ()
    history.add(sample(9 * DT))
    assert stamps_of(history.frames(9 * DT)) == [9 * DT] * 4
