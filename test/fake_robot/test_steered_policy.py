# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The scenarios' policy is as good, or as bad, as its prompt says."""

from __future__ import annotations

import numpy as np
import pytest
from arm import FASTEST, HIGHEST, HOME, JOINTS, LOWEST, MARGIN, SPEED_SCALE
from steered_policy import DT, HORIZON, WIDTH, chunk_rows, parse

MEASURED = np.array([HOME[joint] for joint in JOINTS]) + 0.1
SPEEDS = np.array([FASTEST[joint] for joint in JOINTS[:-1]]) * SPEED_SCALE


def rows(prompt: str, now: float = 1.0, count: int = 1) -> np.ndarray:
    """Return the chunk of a prompt."""
    behaviour, numbers = parse(prompt)
    return chunk_rows(behaviour, numbers, MEASURED, now, count, np.random.default_rng(0))


def fastest(chunk: np.ndarray) -> np.ndarray:
    """Return the largest speed of each joint but the gripper, from the measured joints on."""
    return np.abs(np.diff(np.vstack([MEASURED, chunk])[:, :-1], axis=0)).max(axis=0) / DT


def test_a_prompt_is_a_behaviour_and_numbers() -> None:
    assert parse('sine gripper=0.9 slow=0.3') == ('sine', {'gripper': 0.9, 'slow': 0.3})


@pytest.mark.parametrize('now', np.linspace(0.0, 6.0, 13))
@pytest.mark.parametrize('prompt', ['sine', 'still', 'chatter', 'sine gripper=0.9'])
def test_good_behaviours_keep_every_limit(prompt: str, now: float) -> None:
    chunk = rows(prompt, now)
    assert chunk.shape == (HORIZON, WIDTH)
    assert (fastest(chunk) < SPEEDS).all()
    low, high = (np.array([of[joint] for joint in JOINTS[:-1]]) for of in (LOWEST, HIGHEST))
    assert (chunk[:, :-1] > low + MARGIN).all()
    assert (chunk[:, :-1] < high - MARGIN).all()


def test_a_jump_is_one_radian_off() -> None:
    assert np.abs(rows('jump')[:, :-1] - MEASURED[:-1]).min() == pytest.approx(1.0)


def test_fast_is_beyond_every_speed_and_within_the_positions() -> None:
    assert (fastest(rows('fast')) > 2 * SPEEDS).all()
    assert np.abs(rows('fast')[0, :-1] - MEASURED[:-1]).max() < 0.1


def test_steps_change_sides() -> None:
    assert rows('step', count=1)[0, 0] - rows('step', count=2)[0, 0] == pytest.approx(0.3)


def test_chatter_crosses_the_threshold_with_every_action() -> None:
    assert (np.diff(rows('chatter')[:, -1] > 0.5)).all()


def test_beyond_leaves_the_limits() -> None:
    chunk = MEASURED
    for count in range(10):
        chunk = chunk_rows('beyond', {}, chunk, 0.0, count, np.random.default_rng(0))[-1]
    assert chunk[0] > HIGHEST['shoulder'] - MARGIN


@pytest.mark.parametrize('prompt', ['nan', 'inf'])
def test_some_number_is_not_finite(prompt: str) -> None:
    assert np.count_nonzero(~np.isfinite(rows(prompt))) == 1


def test_narrow_lacks_a_column() -> None:
    assert rows('narrow').shape == (HORIZON, WIDTH - 1)
