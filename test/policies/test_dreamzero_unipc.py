# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""UniPC against the reference's trajectories, and against flows whose end is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.schedule import Schedule, decoupled, make_schedule
from openpi_policy_ros.policies.dreamzero.unipc import UniPC

GOLDEN = Path(__file__).resolve().parents[1] / 'data' / 'dreamzero_tiny' / 'unipc_16.safetensors'
PLAIN = make_schedule(16, 5.0)
SCHEDULES = {'plain': PLAIN, 'final0.8': decoupled(PLAIN, 0.8)}


@pytest.fixture(scope='module')
def reference() -> dict[str, Tensor]:
    return load_file(GOLDEN)


@pytest.mark.parametrize('name', SCHEDULES)
def test_every_step_is_the_references(reference: dict[str, Tensor], name: str) -> None:
    solver, samples = UniPC(SCHEDULES[name]), reference[f'{name}.samples']
    sample = samples[0]
    for step, flow in enumerate(reference[f'{name}.flow']):
        sample = solver.step(flow, sample)
        # Other processors may round a product and sum at once; here the difference is 0.
        torch.testing.assert_close(sample, samples[step + 1], rtol=0.0, atol=1e-6)


@given(st.integers(1, 40))
def test_a_straight_flow_ends_at_the_clean_sample_whatever_the_steps(steps: int) -> None:
    schedule = make_schedule(steps, 5.0)
    clean, noise = torch.tensor([[0.3, -1.2, 4.0]]), torch.tensor([[1.0, 0.1, -0.7]])
    level = float(schedule.sigmas[0])
    sample, solver = (1.0 - level) * clean + level * noise, UniPC(schedule)
    for _ in range(steps):
        sample = solver.step(noise - clean, sample)
    torch.testing.assert_close(sample, clean, rtol=0.0, atol=1e-5)


def solved(schedule: Schedule) -> float:
    """Return the error on x' = v for data N(0, 1/4), whose exact flow is known."""

    def spread(sigma: float) -> float:
        return (0.25 * (1.0 - sigma) ** 2 + sigma**2) ** 0.5

    sigmas = schedule.sigmas.double().tolist()
    sample, solver = torch.tensor([[1.0]], dtype=torch.float64), UniPC(schedule)
    for sigma in sigmas[:-1]:
        flow = sample * (sigma - 0.25 * (1.0 - sigma)) / spread(sigma) ** 2
        sample = solver.step(flow, sample)
    return abs(float(sample) - spread(sigmas[-1]) / spread(sigmas[0]))


def test_twice_the_steps_leave_a_fraction_of_the_error() -> None:
    errors = [solved(decoupled(make_schedule(steps, 1.0), 0.1)) for steps in (8, 16, 32)]
    assert errors[0] > 3.0 * errors[1] > 9.0 * errors[2] > 0.0


def test_samples_keep_the_dtype_of_the_noise() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(1, 6, 10, generator=generator)
    flows = torch.randn(16, 1, 6, 10, generator=generator)
    ends = {}
    for dtype in (torch.float32, torch.bfloat16):
        sample, solver = noise.to(dtype), UniPC(PLAIN)
        for flow in flows.to(dtype):
            sample = solver.step(flow, sample)
        assert sample.dtype is dtype
        ends[dtype] = sample.float()
    # bfloat16 has 8 bits: 16 rounded steps stay near the exact ones.
    assert float((ends[torch.bfloat16] - ends[torch.float32]).abs().max()) < 0.1


def test_more_steps_than_the_schedule_has_are_an_error() -> None:
    solver, sample = UniPC(make_schedule(1, 5.0)), torch.zeros(1, 2)
    solver.step(sample, sample)
    with pytest.raises(IndexError):
        solver.step(sample, sample)
