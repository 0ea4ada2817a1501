# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which sampler steps ask the network: the fixed mask, the dynamic rule, all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.guidance import Flow
from openpi_policy_ros.policies.dreamzero.sampler import Sampling, sample
from openpi_policy_ros.policies.dreamzero.step_cache import DynamicSkip, make_step_cache


def turned(degrees: float) -> Tensor:
    """Return a flow [1, 2, 1] that points so many degrees away from the first axis."""
    angle = math.radians(degrees)
    return torch.tensor([[[math.cos(angle)], [math.sin(angle)]]])


def ran(turns: Sequence[float], steps: int = 16) -> list[int]:
    """Return the steps that run if each flow is turned so far from the one before it."""
    cache, heading, steps_run = DynamicSkip((0.95, 0.93), (4, 2)), 0.0, []
    for step in range(steps):
        if cache.runs(step):
            heading += turns[len(steps_run)]
            steps_run.append(step)
            cache.saw(turned(heading))
    return steps_run


SAME, NEAR, FAR = 0.0, math.degrees(math.acos(0.94)), 90.0


def test_the_fixed_mask_runs_eight_of_sixteen() -> None:
    cache = make_step_cache('static8')
    assert [step for step in range(16) if cache.runs(step)] == [0, 1, 2, 6, 10, 13, 14, 15]


def test_off_runs_every_step() -> None:
    cache = make_step_cache('off')
    assert all(cache.runs(step) for step in range(16))


def test_dynamic_runs_every_step_while_the_flow_turns() -> None:
    assert ran([FAR] * 16) == list(range(16))


def test_dynamic_skips_four_above_the_first_threshold_then_runs_one_whatever_it_says() -> None:
    assert ran([SAME] * 16) == [0, 1, 6, 11]


def test_dynamic_skips_two_between_the_thresholds() -> None:
    assert ran([NEAR] * 16) == [0, 1, 4, 7, 10, 13]


def test_dynamic_decides_anew_after_each_forced_step() -> None:
    turns = [FAR, SAME, FAR, NEAR, FAR, FAR, FAR, FAR]
    # Four skipped after step 1; the forced step 6 turns away, so 7 runs; two skipped after it.
    assert ran(turns, 13) == [0, 1, 6, 7, 10, 11, 12]


def test_a_cosine_at_the_threshold_is_not_above_it() -> None:
    cache = DynamicSkip((1.0, 0.93), (4, 2))
    flow = torch.tensor([[1.0, 0.0]])
    for step in range(2):
        assert cache.runs(step)
        cache.saw(flow)
    # Exactly 1, so that the second rule holds: two are skipped.
    assert [step for step in range(2, 6) if cache.runs(step)] == [4]


def test_the_cosine_is_of_each_sample_and_averaged() -> None:
    # One sample stays, one turns about: the mean is 0, though all numbers together are not.
    first = torch.stack([torch.full((4,), 100.0), torch.ones(4)])
    second = torch.stack([torch.full((4,), 100.0), -torch.ones(4)])
    cache = DynamicSkip((0.95, 0.93), (4, 2))
    cache.runs(0)
    cache.saw(first)
    cache.runs(1)
    cache.saw(second)
    assert cache.runs(2)


@given(st.lists(st.sampled_from([SAME, NEAR, FAR]), min_size=40, max_size=40))
def test_dynamic_never_skips_more_than_four_in_a_row(turns: list[float]) -> None:
    steps = ran(turns, 40)
    assert steps[:2] == [0, 1]
    assert all(later - sooner in (1, 3, 5) for sooner, later in pairwise(steps))


@pytest.mark.parametrize(('name', 'evaluations'), [('off', 16), ('static8', 8), ('dynamic', 4)])
def test_a_skipped_step_repeats_the_last_flow_and_the_schedulers_step(
    name: str, evaluations: int
) -> None:
    asked: list[tuple[int, int]] = []
    noise_video, noise_action = torch.randn(1, 16, 2, 4, 8), torch.randn(1, 6, 10)
    flow = Flow(noise_video - 0.5, noise_action + 0.25)

    def denoise(video: Tensor, action: Tensor, video_time: int, action_time: int) -> Flow:
        asked.append((video_time, action_time))
        return flow

    end = sample(denoise, noise_video, noise_action, Sampling(step_cache=name))
    assert end.evaluations == len(asked) == evaluations
    assert asked[:2] == [(999, 999), (986, 986)]
    # A constant flow is straight, so that no skip changes where it leads.
    level = float(Sampling().schedules()[0].sigmas[0])
    torch.testing.assert_close(end.video, noise_video - level * flow.video, rtol=0.0, atol=1e-5)
    torch.testing.assert_close(end.action, noise_action - level * flow.action, rtol=0.0, atol=1e-5)


def test_the_flow_of_the_video_decides_and_not_that_of_the_actions() -> None:
    evaluations = {}
    for turning in ('video', 'action'):
        sign = 1.0

        def denoise(video: Tensor, action: Tensor, *_: int, turning: str = turning) -> Flow:
            nonlocal sign
            sign = -sign
            turned, still = (torch.ones_like(one) for one in (video, action))
            if turning == 'action':
                return Flow(turned, sign * still)
            return Flow(sign * turned, still)

        noise = torch.randn(1, 16, 2, 4, 8), torch.randn(1, 6, 10)
        evaluations[turning] = sample(denoise, *noise, Sampling(step_cache='dynamic')).evaluations
    assert evaluations == {'video': 16, 'action': 4}
