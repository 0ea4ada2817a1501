# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Flow matching from noise to actions, and its guidance by the chunk being executed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from openpi_policy_ros.policies.pi0.config import RtcSettings, Schedule


def times(steps: int) -> Tensor:
    """Return t before each of ``steps`` Euler steps, float32 [steps]: 1, 1 − 1/n, …, 1/n."""
    step = -1.0 / steps
    return torch.tensor([1.0 + k * step for k in range(steps)], dtype=torch.float32)


@dataclass(frozen=True)
class Guidance:
    """Real-time chunking: pull the new chunk towards what is left of the old one (pi0.md §6).

    Attributes:
        previous: leftover of the old chunk, zero-padded, float32 [chunk_size, max_action_dim].
        weights: how much each number is pulled, float32 [chunk_size, max_action_dim].
        max_weight: bound on the guidance.

    """

    previous: Tensor
    weights: Tensor
    max_weight: float

    def correct(self, velocity: Tensor, x: Tensor, time: float) -> Tensor:
        """Return the guided velocity at ``x`` and ``time``.

        LeRobot's Jacobian of the model is the identity, so no backward pass is needed.
        """
        error = (self.previous - (x - time * velocity)) * self.weights
        return velocity - guidance_weight(time, self.max_weight) * error


def guidance_weight(time: float, most: float) -> float:
    """Return ((1−τ)/τ)·((1−τ)²+τ²)/(1−τ)², at most ``most``, with τ = 1 − ``time``."""
    tau = 1.0 - time
    if tau <= 0.0 or tau >= 1.0:
        return most
    squared = (1.0 - tau) ** 2
    return min(most, (1.0 - tau) / tau * (squared + tau**2) / squared)


def make_guidance(
    leftover: Tensor,
    delay: int,
    horizon: int | None,
    settings: RtcSettings,
    shape: tuple[int, int],
    *,
    unknown: range = range(0),
) -> Guidance | None:
    """Return the guidance for a call, or None where nothing is left of the previous chunk.

    Args:
        leftover: not yet executed rows of the previous chunk, model space, float32 [T, D].
        delay: rows that will have been executed when the new chunk arrives.
        horizon: rows to guide; None = the configured number. Never more than T.
        settings: schedule and bound.
        shape: (chunk_size, max_action_dim).
        unknown: columns that are left free. All others are pulled, those beyond D towards 0.

    """
    rows, width = leftover.shape
    if rows == 0:
        return None
    horizon = min(settings.execution_horizon if horizon is None else horizon, rows)
    previous = leftover.new_zeros(shape)
    previous[:rows, :width] = leftover
    per_row = prefix_weights(settings.schedule, min(delay, horizon), horizon, shape[0])
    weights = leftover.new_zeros(shape)
    weights[:] = per_row[:, None].to(leftover.device)
    weights[:, unknown.start : unknown.stop] = 0.0
    return Guidance(previous, weights, settings.max_guidance_weight)


def prefix_weights(schedule: Schedule, delay: int, horizon: int, rows: int) -> Tensor:
    """Return the weight of each row, float32 [rows].

    1 in the first ``delay`` rows, which will have been executed; then falling to 0 at ``horizon``
    (LINEAR, EXP), or 1 up to it (ONES), or 0 at once (ZEROS).
    """
    weights = torch.zeros(rows)
    weights[: horizon if schedule == 'ONES' else delay] = 1.0
    if schedule in ('LINEAR', 'EXP'):
        weights[delay:horizon] = torch.linspace(1.0, 0.0, horizon - delay + 2)[1:-1]
    if schedule == 'EXP':
        weights = weights * torch.expm1(weights) / (math.e - 1.0)
    return weights


def denoise(
    velocity: Callable[[Tensor, int], Tensor],
    noise: Tensor,
    steps: int,
    guidance: Guidance | None = None,
) -> Tensor:
    """Integrate from noise (t = 1) to actions (t = 0) with ``steps`` Euler steps.

    Args:
        velocity: (x, step number) → flow at x, float32 like ``noise``.
        noise: x at t = 1, float32 [chunk_size, max_action_dim].
        steps: >= 1.
        guidance: real-time chunking, if any.

    Returns:
        actions in model space, float32 [chunk_size, max_action_dim].

    """
    x, step_size = noise, -1.0 / steps
    for step, time in enumerate(times(steps).tolist()):
        flow = velocity(x, step)
        if guidance is not None:
            flow = guidance.correct(flow, x, time)
        x = x + step_size * flow
    return x
