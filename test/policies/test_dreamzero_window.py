# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a session stands in its window: restarts, prefills, blocks, over many calls."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.policies.dreamzero.window import (
    Restart,
    Turn,
    condition_frames,
    history_offsets,
    plan_turn,
)

DROID = {'block': 2, 'most': 9}
TINY = {'block': 2, 'most': 5}


@dataclass
class Track:
    """Plays calls on one window."""

    block: int
    most: int
    start: int = 0
    first: bool = True
    failed: bool = False

    def call(self, *, prompt_changed: bool = False) -> Turn:
        turn = plan_turn(
            self.start,
            first=self.first,
            prompt_changed=prompt_changed,
            failed=self.failed,
            block=self.block,
            most=self.most,
        )
        self.start, self.first, self.failed = turn.next_start, False, False
        return turn


def test_twelve_calls_of_the_published_checkpoint_are_three_windows_of_four() -> None:
    track = Track(**DROID)
    turns = [track.call() for _ in range(12)]
    window = [
        Turn(Restart.FULL, 0, 1, 1, 3),
        Turn(None, 1, 2, 3, 5),
        Turn(None, 3, 2, 5, 7),
        Turn(None, 5, 2, 7, 9),
    ]
    assert turns[1:] == (window * 3)[1:]
    assert turns[0] == Turn(Restart.FIRST, 0, 1, 1, 3)


def test_the_tiny_checkpoint_starts_a_window_every_other_call() -> None:
    track = Track(**TINY)
    turns = [track.call() for _ in range(12)]
    assert [turn.next_start for turn in turns] == [3, 5] * 6
    assert [turn.restart for turn in turns[2:]] == [Restart.FULL, None] * 5


def test_another_prompt_starts_a_window_wherever_it_comes() -> None:
    for calls in range(1, 12):
        track = Track(**DROID)
        for _ in range(calls):
            track.call()
        assert track.call(prompt_changed=True) == Turn(Restart.PROMPT, 0, 1, 1, 3)
        assert track.call() == Turn(None, 1, 2, 3, 5)


def test_a_reset_counts_before_anything_else() -> None:
    turn = plan_turn(7, first=True, prompt_changed=True, failed=True, **DROID)
    assert turn == Turn(Restart.FIRST, 0, 1, 1, 3)


def test_a_failed_call_starts_the_next_window() -> None:
    track = Track(**DROID)
    track.call()
    track.failed = True
    assert track.call() == Turn(Restart.FAILED, 0, 1, 1, 3)
    assert track.call().restart is None


@given(
    st.integers(1, 4),
    st.integers(1, 8),
    st.lists(st.sampled_from(['go', 'prompt', 'fail', 'reset']), max_size=40),
)
def test_what_is_written_follows_what_was_written_and_always_fits(
    block: int, chunks: int, events: list[str]
) -> None:
    most = chunks * block + 1
    track, written = Track(block, most), 0
    for event in events:
        track.first |= event == 'reset'
        track.failed |= event == 'fail'
        turn = track.call(prompt_changed=event == 'prompt')
        if turn.restart is not None:
            written = 0
        assert turn.prefill_start == written
        written += turn.prefill_frames
        assert turn.denoise_start == written
        assert written + block <= most
        assert written <= most - block


def test_the_conditioning_goes_with_its_frames_and_past_its_end_with_the_last_ones() -> None:
    track = Track(**DROID)
    slices = [condition_frames(track.call(), 9, 2) for _ in range(4)]
    assert slices == [
        (slice(0, 1), slice(1, 3)),
        (slice(1, 3), slice(3, 5)),
        (slice(3, 5), slice(5, 7)),
        (slice(5, 7), slice(7, 9)),
    ]
    turn = plan_turn(7, first=False, prompt_changed=False, **DROID)
    assert condition_frames(turn, 5, 2) == (slice(3, 5), slice(3, 5))


@pytest.mark.parametrize(
    ('horizon', 'offsets'),
    [
        (24, (-23, -16, -8, 0)),
        (48, (-47, -32, -16, 0)),
        (6, (-5, -4, -2, 0)),
        (4, (-3, -2, -1, 0)),
        (3, (-2, -1, 0)),
        (1, (0,)),
    ],
)
def test_the_images_of_a_call_divide_its_chunk(horizon: int, offsets: tuple[int, ...]) -> None:
    assert history_offsets(horizon) == offsets


@given(st.integers(1, 1000))
def test_offsets_rise_and_end_with_the_newest(horizon: int) -> None:
    offsets = history_offsets(horizon)
    assert list(offsets) == sorted(set(offsets))
    assert offsets[-1] == 0
    assert offsets[0] == 1 - horizon
