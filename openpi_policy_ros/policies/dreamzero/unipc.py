# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""UniPC for rectified flow: two flows are enough for a step of second order, and its correction.

"UniPC: A Unified Predictor-Corrector Framework" (Zhao et al. 2023), B₂(h), order 2, predicting the
clean sample x₀ = x − σ·v, with signal 1 − σ and λ = log((1 − σ) / σ). The last step is of first
order. All factors depend on the noise levels alone and are computed once, in float32.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.schedule import Schedule

ORDER = 2


@dataclass(frozen=True)
class _Update:
    """From the noise level of one step to that of the next: keep·x − pull·(x₀ + slopes).

    All are float32 scalars on the CPU, which torch multiplies with tensors of any device and dtype
    without changing either.

    Attributes:
        keep: σ' / σ.
        pull: (1 − σ')·(e^−h − 1), h the step in λ.
        older: divides the difference from the x₀ before; None = of first order.
        weights: the corrector's, of that difference and of the newest x₀'s.

    """

    keep: Tensor
    pull: Tensor
    older: Tensor | None
    weights: tuple[Tensor, Tensor]


class UniPC:
    """One run over a schedule; a new one for each call.

    Args:
        schedule: noise levels.

    """

    def __init__(self, schedule: Schedule) -> None:
        self._sigmas = schedule.sigmas
        self._updates = _updates(schedule.sigmas)
        self._step = 0
        self._last: Tensor | None = None
        self._clean: list[Tensor] = []

    def step(self, flow: Tensor, sample: Tensor) -> Tensor:
        """Return the sample at the next noise level.

        Args:
            flow: what the network (or a repetition of it) said at ``sample``.
            sample: what the previous step returned, at first the noise; same shape and dtype.

        Raises:
            IndexError: more steps than the schedule has.

        """
        clean = sample - self._sigmas[self._step] * flow
        if self._last is not None:
            sample = self._correct(self._updates[self._step - 1], self._last, clean)
        self._clean = [*self._clean[-1:], clean]
        self._last = sample
        update = self._updates[self._step]
        self._step += 1
        moved = update.keep * sample - update.pull * clean
        if update.older is not None:
            moved = moved - update.pull * (0.5 * ((self._clean[0] - clean) / update.older))
        return moved.to(sample.dtype)

    def _correct(self, update: _Update, last: Tensor, clean: Tensor) -> Tensor:
        """Return the sample that the step which led here would have made, had it known ``clean``.

        Called before ``clean`` joins the history, whose newest is where that step began.
        """
        before = self._clean[-1]
        first, second = (weight.to(last.dtype) for weight in update.weights)
        slope = second * (clean - before)
        if update.older is not None:
            slope = first * ((self._clean[0] - before) / update.older) + slope
        moved = update.keep * last - update.pull * before
        return (moved - update.pull * slope).to(last.dtype)


def _updates(sigmas: Tensor) -> list[_Update]:
    """Return the factors of each step, computed in float32 as the reference does."""
    alphas = 1.0 - sigmas
    lambdas = torch.log(alphas) - torch.log(sigmas)
    steps = len(sigmas) - 1
    half, one = torch.tensor(0.5), torch.ones(())
    updates = []
    for step in range(steps):
        h = lambdas[step + 1] - lambdas[step]
        phi = torch.expm1(-h)
        older, weights = None, (half, half)
        if min(ORDER, steps - step, step + 1) == ORDER:
            older = (lambdas[step - 1] - lambdas[step]) / h
            # B₂'s conditions of second order on the two slopes.
            second = phi / -h - 1.0
            third = second / -h - 0.5
            system = torch.stack([torch.ones(2), torch.stack([older, one])])
            solved = torch.linalg.solve(system, torch.stack([second, third * 2.0]) / phi)
            weights = (solved[0], solved[1])
        updates.append(
            _Update(sigmas[step + 1] / sigmas[step], alphas[step + 1] * phi, older, weights)
        )
    return updates
