# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How much noise is left before each sampler step, and the time the network is told.

The grid of DreamZero's reference (Wan 2.1's UniPC scheduler): noise levels σ evenly spaced from
0.999, moved towards 1 by the shift s as s·σ / (1 + (s − 1)·σ), and 0 at the end. Libraries that
take the same shift build a slightly different grid, whose error in the samples is 1e-2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

_FIRST = float(np.float32(0.999))
"""σ of the first step before the shift, in the precision in which the reference holds it."""


@dataclass(frozen=True)
class Schedule:
    """Noise levels of one run of the sampler.

    Attributes:
        sigmas: σ before each step and after the last one, float32 [steps + 1] on the CPU, falling.
        timesteps: what the network is told before each step, 0 to 999: 1000·σ cut to whole numbers.

    """

    sigmas: Tensor
    timesteps: tuple[int, ...]

    @property
    def steps(self) -> int:
        """Return the number of steps."""
        return len(self.timesteps)


def make_schedule(steps: int, shift: float) -> Schedule:
    """Return the grid for ``steps`` >= 1 steps with a shift > 0."""
    even = np.linspace(_FIRST, 0.0, steps + 1)
    return _schedule(torch.from_numpy(shift * even / (1.0 + (shift - 1.0) * even)).float())


def decoupled(schedule: Schedule, final: float) -> Schedule:
    """Return the schedule squeezed so that it ends at ``final`` instead of 0.

    The reference's decoupled inference noise: the video keeps at least this noise level while the
    actions are denoised to the end.
    """
    most = float(schedule.sigmas[0])
    return _schedule(schedule.sigmas * (most - final) / most + final)


def _schedule(sigmas: Tensor) -> Schedule:
    return Schedule(sigmas, tuple((1000.0 * sigmas[:-1].double()).long().tolist()))
