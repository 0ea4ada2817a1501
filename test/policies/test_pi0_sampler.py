# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The Euler steps and the guidance, against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.policies.pi0 import sampler
from openpi_policy_ros.policies.pi0.config import RtcSettings


def test_times_run_from_one_down_to_one_step() -> None:
    np.testing.assert_allclose(sampler.times(4).numpy(), [1.0, 0.75, 0.5, 0.25])
    assert sampler.times(10).dtype == torch.float32


def test_a_constant_flow_is_integrated_exactly() -> None:
    noise = torch.full((2, 3), 5.0)
    result = sampler.denoise(lambda x, step: torch.full_like(x, 2.0), noise, 8)
    np.testing.assert_allclose(result.numpy(), 3.0, rtol=0, atol=1e-6)
    assert (noise == 5.0).all()


def test_each_step_sees_its_own_number_and_the_x_before_it() -> None:
    seen: list[tuple[int, float]] = []

    def flow(x: torch.Tensor, step: int) -> torch.Tensor:
        seen.append((step, float(x[0, 0])))
        return x

    sampler.denoise(flow, torch.ones(1, 1), 2)
    # x − x/2 per step.
    assert seen == [(0, 1.0), (1, 0.5)]


@pytest.mark.parametrize(
    ('schedule', 'expected'),
    [
        # d = 2, H = 5 of 7 rows, n = 3: linspace(1, 0, 5)[1:-1] = 0.75, 0.5, 0.25.
        ('LINEAR', [1, 1, 0.75, 0.5, 0.25, 0, 0]),
        # w·(e^w − 1)/(e − 1): 0.75·1.117000/1.718282, 0.5·0.648721/…, 0.25·0.284025/….
        ('EXP', [1, 1, 0.4875508, 0.1887703, 0.0413240, 0, 0]),
        ('ONES', [1, 1, 1, 1, 1, 0, 0]),
        ('ZEROS', [1, 1, 0, 0, 0, 0, 0]),
    ],
)
def test_prefix_weights_per_schedule(schedule: str, expected: list[float]) -> None:
    weights = sampler.prefix_weights(schedule, 2, 5, 7)  # type: ignore[arg-type]
    np.testing.assert_allclose(weights.numpy(), expected, rtol=0, atol=1e-6)


def test_a_delay_as_long_as_the_horizon_leaves_no_slope() -> None:
    weights = sampler.prefix_weights('LINEAR', 3, 3, 5)
    np.testing.assert_array_equal(weights.numpy(), [1, 1, 1, 0, 0])


@pytest.mark.parametrize(
    ('time', 'expected'),
    [
        # τ = 0: the formula is infinite.
        (1.0, 10.0),
        # τ = 0.1: 9 · 0.82 / 0.81 = 9.111…
        (0.9, 9.1111111),
        # τ = 0.5: 1 · 0.5 / 0.25 = 2.
        (0.5, 2.0),
        # τ = 0.9: (1/9) · 0.82 / 0.01 = 9.111…
        (0.1, 9.1111111),
        # τ = 0.95: 0.0526316 · 0.905 / 0.0025 = 19.05 > 10.
        (0.05, 10.0),
    ],
)
def test_guidance_weight_is_bounded(time: float, expected: float) -> None:
    assert sampler.guidance_weight(time, 10.0) == pytest.approx(expected, abs=1e-6)


def test_correction_pulls_by_the_formula() -> None:
    guidance = sampler.Guidance(torch.tensor([[3.0]]), torch.tensor([[0.5]]), 10.0)
    # t = 0.5: x1 = 1 − 0.5·4 = −1; err = (3 + 1)·0.5 = 2; g = 2; v = 4 − 4 = 0.
    corrected = guidance.correct(torch.tensor([[4.0]]), torch.tensor([[1.0]]), 0.5)
    assert corrected.item() == pytest.approx(0.0)


def test_leftover_is_padded_and_the_horizon_never_exceeds_it() -> None:
    leftover = torch.ones(4, 2)
    guidance = sampler.make_guidance(leftover, 9, 30, RtcSettings(), (6, 3))
    assert guidance is not None
    expected = np.zeros((6, 3))
    expected[:4, :2] = 1.0
    np.testing.assert_array_equal(guidance.previous.numpy(), expected)
    # H = min(30, 4), d = min(9, H).
    np.testing.assert_array_equal(guidance.weights[:, 0].numpy(), [1, 1, 1, 1, 0, 0])


def test_columns_that_are_not_known_are_not_pulled() -> None:
    guidance = sampler.make_guidance(
        torch.ones(2, 2), 1, 2, RtcSettings('ZEROS'), (3, 4), unknown=range(2, 4)
    )
    everywhere = sampler.make_guidance(torch.ones(2, 2), 1, 2, RtcSettings('ZEROS'), (3, 4))
    assert guidance is not None
    assert everywhere is not None
    np.testing.assert_array_equal(
        guidance.weights.numpy(), [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(everywhere.weights[0].numpy(), [1, 1, 1, 1])
    velocity, x = torch.full((3, 4), 4.0), torch.ones(3, 4)
    # As in the correction above, t = 0.5: x1 = −1, err = 2, g = 2, v = 0 where it is pulled.
    corrected = guidance.correct(velocity, x, 0.5).numpy()
    np.testing.assert_allclose(corrected, [[0, 0, 4, 4], [4, 4, 4, 4], [4, 4, 4, 4]])


def test_the_calls_horizon_goes_before_the_configured_one() -> None:
    settings = RtcSettings('ONES', 10.0, 2)
    called = sampler.make_guidance(torch.ones(8, 1), 0, 5, settings, (8, 1))
    configured = sampler.make_guidance(torch.ones(8, 1), 0, None, settings, (8, 1))
    assert called is not None
    assert configured is not None
    assert called.weights.sum() == 5
    assert configured.weights.sum() == 2


def test_nothing_left_of_the_previous_chunk_means_no_guidance() -> None:
    assert sampler.make_guidance(torch.ones(0, 3), 0, None, RtcSettings(), (6, 3)) is None


@given(
    schedule=st.sampled_from(['LINEAR', 'EXP', 'ONES', 'ZEROS']),
    horizon=st.integers(1, 50),
    delay=st.integers(0, 50),
)
def test_weights_fall_from_one_to_zero(schedule: str, horizon: int, delay: int) -> None:
    weights = sampler.prefix_weights(schedule, min(delay, horizon), horizon, 50)  # type: ignore[arg-type]
    values = weights.numpy()
    assert (np.diff(values) <= 1e-7).all()
    assert (values[: min(delay, horizon)] == 1.0).all()
    assert (values[horizon:] == 0.0).all()
    assert math.isclose(values.max(initial=0.0), values[0])
