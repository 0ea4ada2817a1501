# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From noise to a video block and the actions beside it: two schedulers, one network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from torch import Tensor

from openpi_policy_ros.policies.dreamzero.guidance import Flow
from openpi_policy_ros.policies.dreamzero.options import MAX_STEPS, STATIC_STEPS, StepCacheName
from openpi_policy_ros.policies.dreamzero.schedule import Schedule, decoupled, make_schedule
from openpi_policy_ros.policies.dreamzero.step_cache import (
    SIM_THRESHOLDS,
    SKIP_COUNTDOWNS,
    StepCache,
    make_step_cache,
)
from openpi_policy_ros.policies.dreamzero.unipc import UniPC

Denoise = Callable[[Tensor, Tensor, int, int], Flow]
"""(video, actions, time of the video, time of the actions) → flow at both."""


@dataclass(frozen=True)
class Sampling:
    """How a call goes from noise to actions.

    Attributes:
        num_inference_steps: steps of both schedulers, 1 to ``MAX_STEPS``.
        sigma_shift: of the noise levels, see ``make_schedule``.
        step_cache: which steps ask the network; ``static8`` is for 16 steps alone.
        sim_thresholds: of ``dynamic``.
        skip_countdowns: of ``dynamic``.
        video_final_noise: noise level the video ends at; None = 0, as the actions.

    """

    num_inference_steps: int = STATIC_STEPS
    sigma_shift: float = 5.0
    step_cache: StepCacheName = 'static8'
    sim_thresholds: tuple[float, ...] = SIM_THRESHOLDS
    skip_countdowns: tuple[int, ...] = SKIP_COUNTDOWNS
    video_final_noise: float | None = None

    def with_steps(self, steps: int) -> Sampling:
        """Return the same with another number of steps.

        Raises:
            ValueError: out of range, or not what the fixed mask is for; says what is expected.

        """
        if not 1 <= steps <= MAX_STEPS:
            raise ValueError(f'1 to {MAX_STEPS}')
        if self.step_cache == 'static8' and steps != STATIC_STEPS:
            raise ValueError(f'{STATIC_STEPS}, the steps of step_cache static8')
        return replace(self, num_inference_steps=steps)

    def schedules(self) -> tuple[Schedule, Schedule]:
        """Return the noise levels of video and actions."""
        return _schedules(self.num_inference_steps, self.sigma_shift, self.video_final_noise)

    def new_cache(self) -> StepCache:
        """Return what decides which steps of one call run."""
        return make_step_cache(self.step_cache, self.sim_thresholds, self.skip_countdowns)


@dataclass(frozen=True)
class Sample:
    """The end of a run.

    Attributes:
        video: latents [1, 16, F, h, w].
        action: normalised actions [1, H, A].
        evaluations: steps at which the network ran.

    """

    video: Tensor
    action: Tensor
    evaluations: int


def sample(denoise: Denoise, video: Tensor, action: Tensor, sampling: Sampling) -> Sample:
    """Integrate from noise to a video block and its actions.

    A step that is skipped repeats the last flow; both schedulers step all the same.

    Args:
        denoise: the network, with its guidance.
        video: noise [1, 16, F, h, w].
        action: noise [1, H, A], same dtype.
        sampling: how.

    """
    schedules = sampling.schedules()
    video_solver, action_solver = (UniPC(schedule) for schedule in schedules)
    times = zip(*(schedule.timesteps for schedule in schedules), strict=True)
    cache, flow, evaluations = sampling.new_cache(), None, 0
    for step, (video_time, action_time) in enumerate(times):
        # Asked at every step: it counts them.
        if cache.runs(step) or flow is None:
            flow = denoise(video, action, video_time, action_time)
            cache.saw(flow.video)
            evaluations += 1
        video = video_solver.step(flow.video, video)
        action = action_solver.step(flow.action, action)
    return Sample(video, action, evaluations)


@lru_cache(maxsize=8)
def _schedules(steps: int, shift: float, final: float | None) -> tuple[Schedule, Schedule]:
    actions = make_schedule(steps, shift)
    return actions if final is None else decoupled(actions, final), actions
