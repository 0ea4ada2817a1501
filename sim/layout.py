# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the things stand at the start of an episode, by seed."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.scene import DISTRACTORS, FOOTPRINT, REST_HEIGHT
from openpi_policy_ros_sim.state import Vector

CUBE_X: Final = (0.36, 0.58)
CUBE_Y: Final = (-0.12, 0.20)
"""The cube is uniform in these 22 × 32 cm."""
CUBE_YAW: Final = math.radians(45)
BOWL: Final = (0.47, -0.27)
BOWL_SPREAD: Final = 0.08
DISTRACTOR_X: Final = (0.34, 0.72)
DISTRACTOR_Y: Final = (-0.42, 0.42)
GAP: Final = 0.05
"""Between any two footprints: a finger fits in."""
_TRIES = 10_000


def place(seed: int) -> dict[str, Vector]:
    """Return the pose of every thing, float64 [7] each.

    The cube is drawn first, so that it is uniform whatever the others do; they are drawn again
    until they keep ``GAP`` from what stands already.

    Args:
        seed: a whole number >= 0; equal seeds give equal poses.

    Raises:
        SimulationError: the seed is none.

    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise SimulationError(f'seed {seed!r}', expected='a whole number >= 0')
    random = np.random.default_rng(int(seed))
    spots = {'cube': random.uniform((CUBE_X[0], CUBE_Y[0]), (CUBE_X[1], CUBE_Y[1]))}
    yaws = {'cube': random.uniform(-CUBE_YAW, CUBE_YAW)}
    middle = np.asarray(BOWL)
    areas = {'bowl': (middle - BOWL_SPREAD, middle + BOWL_SPREAD)}
    for name in DISTRACTORS:
        areas[name] = (
            np.array([DISTRACTOR_X[0], DISTRACTOR_Y[0]]),
            np.array([DISTRACTOR_X[1], DISTRACTOR_Y[1]]),
        )
    for name, (low, high) in areas.items():
        spots[name] = _free_spot(name, low, high, spots, random)
        yaws[name] = random.uniform(-math.pi, math.pi)
    return {name: _pose(name, spot, yaws[name]) for name, spot in spots.items()}


def _free_spot(
    name: str, low: Vector, high: Vector, taken: dict[str, Vector], random: np.random.Generator
) -> Vector:
    for _ in range(_TRIES):
        spot: Vector = random.uniform(low, high)
        if all(
            np.hypot(*(spot - other)) >= FOOTPRINT[name] + FOOTPRINT[there] + GAP
            for there, other in taken.items()
        ):
            return spot
    raise SimulationError(f'no free spot for the {name}', expected='room on the table')


def _pose(name: str, spot: Vector, yaw: float) -> Vector:
    half = yaw / 2
    return np.array([*spot, REST_HEIGHT[name], math.cos(half), 0.0, 0.0, math.sin(half)])
