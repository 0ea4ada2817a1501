# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which of two neighbouring images a policy sees is not left to microseconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.control.buffers import Sample
from openpi_policy_ros.control.history import History

DT = 66_666_667
"""A step of 15 Hz, ns."""
OFFSETS = (-23, -16, -8, 0)


def seen(stamps: list[int]) -> list[int]:
    """Return which of the images, counted from the newest, are seen."""
    history: History[int] = History(OFFSETS, DT)
    for number, stamp in enumerate(stamps):
        history.add(Sample(number, stamp, stamp, 0))
    last = len(stamps) - 1
    return [one.value - last for one in history.frames(stamps[-1])]


@given(
    jitter=st.lists(st.integers(-DT // 8 + 1, DT // 8 - 1), min_size=60, max_size=60),
    phase=st.integers(0, DT),
)
def test_a_camera_at_the_action_rate_shows_the_same_frames_whatever_its_jitter(
    jitter: list[int], phase: int
) -> None:
    stamps = [i * DT + phase + off for i, off in enumerate(jitter)]
    assert seen(stamps) == list(OFFSETS)


@pytest.mark.parametrize('micros', [-900, -40, -1, 0, 1, 40, 900])
@pytest.mark.parametrize('last', range(46, 52))
def test_one_late_image_moves_no_other(last: int, micros: int) -> None:
    stamps = [i * DT for i in range(last + 1)]
    stamps[-1] += micros * 1000
    assert seen(stamps) == list(OFFSETS)


@given(jitter=st.lists(st.integers(-1_900_000, 1_900_000), min_size=121, max_size=121))
def test_a_camera_at_twice_the_rate_keeps_every_second_image(jitter: list[int]) -> None:
    stamps = [i * DT // 2 + off for i, off in enumerate(jitter)]
    assert seen(stamps) == [2 * offset for offset in OFFSETS]


def test_an_image_more_than_the_tolerance_late_is_not_seen_early() -> None:
    late = DT // 3
    stamps = [i * DT + (late if i == 52 else 0) for i in range(61)]
    assert seen(stamps) == [-23, -16, -9, 0]
