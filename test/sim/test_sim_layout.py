# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Resets: the same for a seed, spread as promised, and nothing inside anything."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.layout import place

RADIUS = {'cube': 0.022 * math.sqrt(2), 'bowl': 0.086, 'can': 0.028, 'box': 0.047}
FINGER = 0.02


@given(st.integers(0, 2**63 - 1))
def test_things_keep_room_for_a_finger_between_them(seed):
    poses = place(seed)
    assert poses.keys() == RADIUS.keys()
    for one, other in combinations(poses, 2):
        distance = np.hypot(*(poses[one][:2] - poses[other][:2]))
        assert distance > RADIUS[one] + RADIUS[other] + FINGER


@given(st.integers(0, 2**63 - 1))
def test_the_same_seed_gives_the_same_table(seed):
    first, second = place(seed), place(seed)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


def test_the_cube_is_uniform_in_20_by_30_cm_and_turned_by_45_degrees():
    poses = np.stack([place(seed)['cube'] for seed in range(2000)])
    yaws = 2 * np.arctan2(poses[:, 6], poses[:, 3])
    assert np.ptp(poses[:, 0]) > 0.20
    assert np.ptp(poses[:, 1]) > 0.30
    assert np.degrees(np.abs(yaws).max()) <= 45.0
    for values in (poses[:, 0], poses[:, 1], yaws):
        counts, _ = np.histogram(values, bins=10)
        # 200 each, standard deviation 13.
        assert counts.min() > 140
        assert counts.max() < 260


def test_the_bowl_moves_by_8_cm_either_way():
    spots = np.stack([place(seed)['bowl'][:2] for seed in range(500)])
    assert (np.ptp(spots, axis=0) > 0.15).all()
    assert (np.ptp(spots, axis=0) <= 0.16).all()


@pytest.mark.parametrize('seed', [-1, 1.5, '3', None, True])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(SimulationError, match='expected a whole number >= 0'):
        place(seed)
