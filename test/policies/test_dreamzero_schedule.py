# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Noise levels of DreamZero's sampler: the reference's grid, its shift, its decoupled end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.sampler import Sampling
from openpi_policy_ros.policies.dreamzero.schedule import decoupled, make_schedule

GOLDEN = Path(__file__).resolve().parents[1] / 'data' / 'dreamzero_tiny' / 'unipc_16.safetensors'


@pytest.fixture(scope='module')
def reference() -> dict[str, Tensor]:
    return load_file(GOLDEN)


def test_the_grid_is_the_references_bit_for_bit(reference: dict[str, Tensor]) -> None:
    schedule = make_schedule(16, 5.0)
    assert torch.equal(schedule.sigmas, reference['plain.sigmas'])
    assert schedule.timesteps == tuple(reference['plain.timesteps'].tolist())


def test_the_decoupled_grid_is_the_references_bit_for_bit(reference: dict[str, Tensor]) -> None:
    schedule = decoupled(make_schedule(16, 5.0), 0.8)
    assert torch.equal(schedule.sigmas, reference['final0.8.sigmas'])
    assert schedule.timesteps == tuple(reference['final0.8.timesteps'].tolist())


@given(st.integers(1, 200), st.floats(0.5, 12.0))
def test_levels_fall_from_below_one_to_zero_and_times_follow(steps: int, shift: float) -> None:
    schedule = make_schedule(steps, shift)
    assert schedule.steps == steps
    assert len(schedule.sigmas) == steps + 1
    assert bool((schedule.sigmas.diff() < 0.0).all())
    assert 0.99 < float(schedule.sigmas[0]) < 1.0
    assert float(schedule.sigmas[-1]) == 0.0
    assert list(schedule.timesteps) == [int(1000.0 * s) for s in schedule.sigmas[:-1].tolist()]
    assert max(schedule.timesteps) <= 999


@given(st.integers(1, 64), st.floats(0.0, 0.95))
def test_a_decoupled_schedule_begins_the_same_and_ends_at_its_level(
    steps: int, final: float
) -> None:
    plain = make_schedule(steps, 5.0)
    schedule = decoupled(plain, final)
    assert float(schedule.sigmas[0]) == pytest.approx(float(plain.sigmas[0]), abs=1e-6)
    assert float(schedule.sigmas[-1]) == pytest.approx(final, abs=1e-7)
    assert bool((schedule.sigmas.diff() < 0.0).all())


def test_decoupling_leaves_the_actions_their_own_levels() -> None:
    video, actions = Sampling(video_final_noise=0.8).schedules()
    assert torch.equal(actions.sigmas, make_schedule(16, 5.0).sigmas)
    assert float(video.sigmas[-1]) == pytest.approx(0.8)
    both = Sampling().schedules()
    assert both[0] is both[1]


@pytest.mark.parametrize('steps', [0, -1, 1001, 10**30])
def test_steps_out_of_range_are_refused(steps: int) -> None:
    with pytest.raises(ValueError, match='1 to 1000'):
        Sampling(step_cache='off').with_steps(steps)


def test_the_fixed_mask_takes_sixteen_steps_alone() -> None:
    assert Sampling().with_steps(16) == Sampling()
    with pytest.raises(ValueError, match='16, the steps of step_cache static8'):
        Sampling().with_steps(8)
    assert Sampling(step_cache='dynamic').with_steps(8).num_inference_steps == 8
