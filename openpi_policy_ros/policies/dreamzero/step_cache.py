# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which sampler steps ask the network, and which repeat what it said last.

The schedulers step either way. DreamZero's reference runs 8 of 16 steps by a fixed mask unless told
otherwise; its dynamic rule, vLLM-Omni's default, skips while the flow of the video hardly turns.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from openpi_policy_ros.policies.dreamzero.options import StepCacheName

STATIC8 = frozenset({0, 1, 2, 6, 10, 13, 14, 15})
"""Steps of the reference's fixed mask that run, of ``STATIC_STEPS``."""

SIM_THRESHOLDS = (0.95, 0.93)
SKIP_COUNTDOWNS = (4, 2)


class StepCache(abc.ABC):
    """Decides for one call; a new one for each call."""

    @abc.abstractmethod
    def runs(self, step: int) -> bool:
        """Return whether the network runs at ``step``; asked once for each step, in order."""

    def saw(self, video_flow: Tensor) -> None:
        """Take note of the video's flow, after guidance, of a step that ran: [B, ...]."""
        del video_flow


class EveryStep(StepCache):
    """No step is skipped."""

    def runs(self, step: int) -> bool:
        """Return True."""
        del step
        return True


class StaticMask(StepCache):
    """A fixed set of steps runs.

    Args:
        mask: numbers of the steps that run; the first one, 0, is among them.

    """

    def __init__(self, mask: frozenset[int]) -> None:
        self._mask = mask

    def runs(self, step: int) -> bool:
        """Return whether the step is in the mask."""
        return step in self._mask


class DynamicSkip(StepCache):
    """Skips steps while the last two flows of the video point the same way.

    Runs until there are two flows. Then their cosine, of each sample by itself and averaged over
    the batch, decides: above the first threshold exactly so many steps are skipped as the first
    countdown says, else above the second one as the second says, else the step runs. A run of
    skipped steps is followed by one step that runs whatever the cosine is.

    Args:
        thresholds: cosines, falling.
        countdowns: steps to skip above each threshold, >= 1.

    """

    def __init__(self, thresholds: Sequence[float], countdowns: Sequence[int]) -> None:
        self._rules = tuple(zip(thresholds, countdowns, strict=True))
        self._flows: list[Tensor] = []
        self._left = 0
        self._forced = False

    def runs(self, step: int) -> bool:
        """Return whether the network runs at ``step``."""
        del step
        if self._left:
            self._left -= 1
            return False
        if self._forced or len(self._flows) < 2:
            self._forced = False
            return True
        before, last = (flow.flatten(1).float() for flow in self._flows)
        # Waits for the device: what comes next depends on it.
        similarity = float(F.cosine_similarity(before, last).mean())
        for threshold, skipped in self._rules:
            if similarity > threshold:
                self._left, self._forced = skipped - 1, True
                return False
        return True

    def saw(self, video_flow: Tensor) -> None:
        """Keep the flow beside the one before it."""
        self._flows = [*self._flows[-1:], video_flow]


def make_step_cache(
    name: StepCacheName,
    thresholds: Sequence[float] = SIM_THRESHOLDS,
    countdowns: Sequence[int] = SKIP_COUNTDOWNS,
) -> StepCache:
    """Return the rule called ``name`` for one call."""
    if name == 'static8':
        return StaticMask(STATIC8)
    return DynamicSkip(thresholds, countdowns) if name == 'dynamic' else EveryStep()
