# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Statistics such as a robot's recordings have, for checkpoints made here.

They are those of drawn recordings, so that they belong together: each dimension has its own
middle, spread and lean, and no two statistics of it are equal. A normalisation that is swapped,
shifted by a column or left out cannot come out right by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Statistics: TypeAlias = Mapping[str, npt.NDArray[np.float64]]

_ROWS = 2000
_QUANTILES = {'q01': 0.01, 'q10': 0.10, 'q50': 0.50, 'q90': 0.90, 'q99': 0.99}


def joint_statistics(width: int, seed: int, feature: str, spread: float = 0.5) -> Statistics:
    """Return name → float64 [width], and ``count`` [1], of drawn joint positions in radians.

    Args:
        width: number of joints; the last is a gripper that runs from 0 to 1.
        seed: equal seed, feature and width give equal statistics.
        feature: which of the recordings, so that state and action differ.
        spread: about the standard deviation; small for differences from a state.

    """
    generator = np.random.default_rng([seed, *feature.encode()])
    middle = 2.0 * spread * generator.uniform(-1.0, 1.0, width)
    width_of = spread * generator.uniform(0.4, 1.6, width)
    lean = generator.uniform(0.05, 0.15, width)
    normal = generator.standard_normal((_ROWS, width))
    rows = middle + width_of * (normal + lean * (normal * normal - 1.0))
    if width > 1:
        mostly_open = generator.uniform(-0.8, 0.8)
        rows[:, -1] = 1.0 / (1.0 + np.exp(-1.5 * normal[:, -1] - mostly_open))
    return _statistics(rows)


def image_statistics(seed: int, feature: str) -> Statistics:
    """Return name → float64 [3, 1, 1], and ``count`` [1], of pixels between 0 and 1."""
    generator = np.random.default_rng([seed, *feature.encode()])
    pixels = generator.beta(2.0, [2.0, 3.0, 4.0], (_ROWS, 3))
    return {
        name: values if name == 'count' else values.reshape(3, 1, 1)
        for name, values in _statistics(pixels).items()
    }


def _statistics(rows: npt.NDArray[np.float64]) -> Statistics:
    return {
        'min': rows.min(axis=0),
        'max': rows.max(axis=0),
        'mean': rows.mean(axis=0),
        'std': rows.std(axis=0),
        'count': np.array([float(len(rows))]),
        **{name: np.quantile(rows, level, axis=0) for name, level in _QUANTILES.items()},
    }
