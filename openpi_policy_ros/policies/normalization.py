# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From a robot's units to a model's and back, column by column.

Two families write the same idea down differently: LeRobot replaces a range of exactly 0 and adds
its eps to a standard deviation on the way in only; openpi adds 1e-6 to both, both ways. Nothing is
clipped: a value outside the range of the training data stays outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.policies.base import FloatArray

Array: TypeAlias = npt.NDArray[Any]

IDENTITY_MODE = 'IDENTITY'
STATISTICS: Mapping[str, tuple[str, str]] = {
    'MEAN_STD': ('mean', 'std'),
    'MIN_MAX': ('min', 'max'),
    'QUANTILES': ('q01', 'q99'),
    'QUANTILE10': ('q10', 'q90'),
}
"""Mode → the two statistics it needs: (mean, std), or (low, high) of a range."""
MODES = (IDENTITY_MODE, *STATISTICS)

LEROBOT_EPS = 1e-8
"""That of a LeRobot step which does not say its own."""
OPENPI_EPS = 1e-6


def _nothing() -> Array:
    return np.empty(0, np.float32)


@dataclass(frozen=True, eq=False)
class Normalizer:
    """One feature's normalisation.

    ``z_score``: (x − origin) / span, inverse x · inverse_span + origin. ``range``:
    2 (x − origin) / span − 1, inverse (x + 1) / 2 · inverse_span + origin. Computed in the dtype of
    the arrays, as the family that trained the checkpoint does.

    Attributes:
        kind: how.
        origin: [D]; empty for ``identity``.
        span: [D], divisor on the way in.
        inverse_span: [D], factor on the way out.

    """

    kind: Literal['identity', 'z_score', 'range'] = 'identity'
    origin: Array = field(default_factory=_nothing)
    span: Array = field(default_factory=_nothing)
    inverse_span: Array = field(default_factory=_nothing)

    @property
    def width(self) -> int | None:
        """Return D, the number of columns it needs; None = any, nothing is changed."""
        return None if self.kind == 'identity' else self.origin.size

    def normalize(self, values: Array) -> Array:
        """Return ``values`` [..., D] in the model's units."""
        if self.kind == 'identity':
            return values
        shifted = values.astype(self.origin.dtype, copy=False) - self.origin
        if self.kind == 'z_score':
            return shifted / self.span
        return 2.0 * shifted / self.span - 1.0

    def unnormalize(self, values: Array) -> FloatArray:
        """Return ``values`` [..., D] in the robot's units, float32."""
        if self.kind == 'identity':
            return values.astype(np.float32, copy=False)
        values = values.astype(self.origin.dtype, copy=False)
        if self.kind == 'range':
            values = (values + 1.0) / 2.0
        return (values * self.inverse_span + self.origin).astype(np.float32, copy=False)


IDENTITY = Normalizer()


def lerobot_normalizer(mode: str, statistics: Mapping[str, Array], eps: float) -> Normalizer:
    """Return LeRobot's normalisation, computed in float32 (pi0.md §4).

    Args:
        mode: one of ``MODES``.
        statistics: name → [D]; holds the two of ``STATISTICS[mode]``.
        eps: the processor step's own.

    """
    if mode == IDENTITY_MODE:
        return IDENTITY
    first, second = (np.asarray(statistics[name], np.float32) for name in STATISTICS[mode])
    if mode == 'MEAN_STD':
        return Normalizer('z_score', first, second + np.float32(eps), second)
    span = second - first
    span = np.where(span == 0.0, np.float32(eps), span)
    return Normalizer('range', first, span, span)


def openpi_normalizer(mode: str, statistics: Mapping[str, Array]) -> Normalizer:
    """Return openpi's normalisation, ``MEAN_STD`` or ``QUANTILES``, computed in float64."""
    first, second = (np.asarray(statistics[name], np.float64) for name in STATISTICS[mode])
    if mode == 'MEAN_STD':
        span = second + OPENPI_EPS
        return Normalizer('z_score', first, span, span)
    span = second - first + OPENPI_EPS
    return Normalizer('range', first, span, span)
