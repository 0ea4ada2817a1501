# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is left of a chunk, from robot units or from another state, against numbers by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from policy_units import around, z_score

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import (
    ActionChunk,
    InferenceRequest,
    RtcPrefix,
    SessionKey,
)
from openpi_policy_ros.policies.pi0.config import RtcSettings
from openpi_policy_ros.policies.pi0.load import load
from openpi_policy_ros.policies.pi0.pipeline import Pipeline
from openpi_policy_ros.policies.pi0.policy import Pi0Policy
from openpi_policy_ros.policies.pi0.rtc import make_guidance
from openpi_policy_ros.policies.pi0.sampler import Guidance
from openpi_policy_ros.policies.registry import LoadRequest

Observe = Callable[..., dict[str, Any]]
ABSOLUTE = Pipeline(action_dim=2, actions=z_score([1.0, 2.0], [2.0, 4.0]))
# The first action is a difference from the first number of the state.
RELATIVE = replace(ABSOLUTE, delta_mask=(True, False))
HERE, THERE = np.array([1.0, 9.0], np.float32), np.array([3.0, 0.0], np.float32)


@pytest.fixture(scope='module')
def network(small: Path) -> Pi0Policy:
    return load(LoadRequest(str(small)), 'pi0')


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.fixture
def guide(network: Pi0Policy) -> Callable[..., Guidance | None]:
    """Return ``make_guidance`` for chunks of 3 rows and 4 columns, 2 of which mean something."""
    config = replace(
        network._config,
        chunk_size=3,
        action_dim=2,
        max_action_dim=4,
        rtc=RtcSettings('ONES', 10.0, 2),
    )

    def make(
        pipeline: Pipeline, prefix: RtcPrefix, shape: tuple[int, int] = (2, 2)
    ) -> Guidance | None:
        spec = replace(network.spec, horizon=shape[0], action_dim=shape[1])
        return make_guidance(prefix, HERE, pipeline, config, spec, torch.device('cpu'))

    return make


def test_robot_units_are_normalised_and_padding_is_pulled_to_zero(
    guide: Any,
) -> None:
    guidance = guide(ABSOLUTE, RtcPrefix(rows([5, 6], [1, 2]), 0, robot_units=True))
    # (5 − 1) / 2, (6 − 2) / 4.
    np.testing.assert_array_equal(guidance.previous, [[2, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(guidance.weights, [[1] * 4, [1] * 4, [0] * 4])


def test_robot_units_become_differences_from_the_new_state(guide: Any) -> None:
    guidance = guide(RELATIVE, RtcPrefix(rows([5, 6]), 0, robot_units=True))
    # 5 − 1 is 4, and (4 − 1) / 2.
    np.testing.assert_array_equal(guidance.previous[0], [1.5, 1, 0, 0])


def test_columns_a_robot_does_not_get_are_not_pulled(guide: Any) -> None:
    guidance = guide(RELATIVE, RtcPrefix(rows([5]), 0, robot_units=True), (2, 1))
    np.testing.assert_array_equal(guidance.previous[0], [1.5, 0, 0, 0])
    # The one that the robot file cuts off is unknown; what the model pads is 0.
    np.testing.assert_array_equal(guidance.weights[0], [1, 0, 1, 1])


@pytest.mark.parametrize('columns', [2, 4])
def test_model_space_stays_as_it_is_and_is_padded_as_the_reference_does(
    guide: Any, columns: int
) -> None:
    leftover = rows([5, 6, 7, 8])[:, :columns]
    guidance = guide(ABSOLUTE, RtcPrefix(leftover, 0))
    np.testing.assert_array_equal(
        guidance.previous[0], [5, 6, 7, 8][:columns] + [0] * (4 - columns)
    )
    np.testing.assert_array_equal(guidance.weights[0], [1, 1, 1, 1])


def test_differences_in_model_space_are_anchored_to_the_new_state(guide: Any) -> None:
    guidance = guide(RELATIVE, RtcPrefix(rows([0.5, 1, 7, 8]), 0, state=THERE))
    # 0.5 · 2 + 1 is 2, from 3 makes 5; from 1 that is 4, and (4 − 1) / 2.
    np.testing.assert_array_equal(guidance.previous[0], [1.5, 1, 7, 8])


@pytest.mark.parametrize(
    ('state', 'says'),
    [
        (None, 'is missing'),
        (np.zeros(0, np.float32), 'shape [0]'),
        (np.zeros((1, 2), np.float32), 'shape [1, 2]'),
        (np.array([np.nan], np.float32), 'NaN'),
        (np.array([1, 2]), 'dtype int64'),
    ],
)
def test_differences_in_model_space_need_the_state_they_are_from(
    guide: Any, state: Any, says: str
) -> None:
    with pytest.raises(InvalidObservation) as caught:
        guide(RELATIVE, RtcPrefix(rows([0, 0, 0, 0]), 0, state=state))
    assert caught.value.field == 'rtc.state'
    assert says in caught.value.what
    assert 'ActionChunk.state' in caught.value.remedy
    # Nobody needs it where actions are absolute, or come in robot units.
    assert guide(ABSOLUTE, RtcPrefix(rows([0, 0, 0, 0]), 0, state=state)) is not None
    assert guide(RELATIVE, RtcPrefix(rows([0, 0]), 0, state=state, robot_units=True)) is not None


@pytest.mark.parametrize(
    ('prefix', 'found', 'expected'),
    [
        (RtcPrefix(np.zeros((1, 3), np.float32), 0), '[1, 3]', '[T, 2 or 4] with T at most 3'),
        (RtcPrefix(np.zeros((4, 4), np.float32), 0), '[4, 4]', 'T at most 3'),
        (
            RtcPrefix(np.zeros((1, 4), np.float32), 0, robot_units=True),
            '[1, 4]',
            '[T, 2] with T at most 2',
        ),
        (RtcPrefix(np.zeros((3, 2), np.float32), 0, robot_units=True), '[3, 2]', 'T at most 2'),
        (RtcPrefix(np.zeros((1, 2), np.int32), 0, robot_units=True), 'int32', 'float'),
        (RtcPrefix(rows([np.inf, 0]), 0, robot_units=True), 'infinity', 'finite'),
    ],
)
def test_a_leftover_of_the_wrong_form_is_refused_with_both_sizes(
    guide: Any, prefix: RtcPrefix, found: str, expected: str
) -> None:
    with pytest.raises(InvalidObservation) as caught:
        guide(ABSOLUTE, prefix)
    assert caught.value.field == 'rtc.leftover'
    assert found in caught.value.what
    assert expected in caught.value.expected


def test_a_leftover_that_overflows_on_the_way_in_is_refused(guide: Any) -> None:
    narrow = replace(ABSOLUTE, actions=z_score([0.0, 0.0], [1e-8, 1.0]))
    with pytest.raises(InvalidObservation, match='beyond the statistics'):
        guide(narrow, RtcPrefix(rows([1e35, 0]), 0, robot_units=True))


# Through the policy

WIDE = 32
DIFFERENCES = Pipeline(
    action_dim=WIDE,
    state=z_score([0.1] * WIDE, [1.5] * WIDE),
    actions=z_score([0.2] * WIDE, [0.5] * WIDE),
    delta_mask=(True, False) * (WIDE // 2),
)


def ask(policy: Pi0Policy, observation: dict[str, Any], **changes: Any) -> ActionChunk:
    request = InferenceRequest(observation, SessionKey('test', 'x'), seed=1, **changes)
    (result,) = policy.infer([request])
    assert isinstance(result, ActionChunk), result
    return result


def test_both_forms_of_a_leftover_mean_the_same(network: Pi0Policy, observe: Observe) -> None:
    policy = around(network, DIFFERENCES)
    rng = np.random.default_rng(3)
    first, second = (observe(state=rng.standard_normal(WIDE)) for _ in range(2))
    chunk = ask(policy, first)
    assert chunk.model_actions is not None
    in_robot_units, in_model_space, not_anchored = (
        ask(policy, second, rtc=prefix).actions
        for prefix in (
            RtcPrefix(chunk.actions[5:], 3, robot_units=True),
            RtcPrefix(chunk.model_actions[5:], 3, state=chunk.state),
            RtcPrefix(chunk.model_actions[5:], 3, state=second['state'].astype(np.float32)),
        )
    )
    np.testing.assert_allclose(in_robot_units, in_model_space, rtol=0, atol=2e-5)
    assert np.abs(not_anchored - in_model_space).max() > 0.01
    # The rows that will have been executed are those the robot has.
    free = ask(policy, second).actions
    near, far = (np.abs(a[:3] - chunk.actions[5:8]).mean() for a in (in_robot_units, free))
    assert near < 0.5 * far


def test_both_forms_mean_the_same_where_the_model_pads_its_actions(
    golden: Path, observe: Observe
) -> None:
    # 7 columns of 32 mean something; the others are trained to be 0.
    policy = load(LoadRequest(str(golden.parent / 'pi05_tiny')), 'pi05')
    assert policy.spec.action_dim == 7
    first, second = (observe(state=np.full(14, value)) for value in (0.1, 0.2))
    chunk = ask(policy, first)
    assert chunk.model_actions is not None
    in_robot_units, in_model_space = (
        ask(policy, second, rtc=prefix).actions
        for prefix in (
            RtcPrefix(chunk.actions[5:], 3, robot_units=True),
            RtcPrefix(chunk.model_actions[5:, :7], 3),
        )
    )
    np.testing.assert_allclose(in_robot_units, in_model_space, rtol=0, atol=2e-5)


def test_a_cropped_reply_guides_the_columns_it_has(network: Pi0Policy, observe: Observe) -> None:
    policy = around(network, DIFFERENCES, rows=20, columns=7)
    observation = observe(state=np.zeros(WIDE))
    chunk = ask(policy, observation)
    assert chunk.actions.shape == (20, 7)
    rest = chunk.actions[8:] + 1.0
    guided = ask(policy, observation, rtc=RtcPrefix(rest, 4, robot_units=True))
    near, far = (np.abs(a.actions[:4] - rest[:4]).mean() for a in (guided, chunk))
    assert near < 0.5 * far


def test_the_other_family_is_guided_too(golden: Path, observe: Observe) -> None:
    policy = load(LoadRequest(str(golden.parent / 'pi05_tiny')), 'pi05')
    rng = np.random.default_rng(3)
    first, second = (observe(state=rng.standard_normal(14)) for _ in range(2))
    rest = ask(policy, first).actions[5:]
    guided, free = (
        ask(policy, second, rtc=prefix).actions
        for prefix in (RtcPrefix(rest, 3, robot_units=True), None)
    )
    near, far = (np.abs(actions[:3] - rest[:3]).mean() for actions in (guided, free))
    assert near < 0.5 * far


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')
def test_a_gpu_guides_as_the_cpu_does(network: Pi0Policy, small: Path, observe: Observe) -> None:
    there = load(LoadRequest(str(small), device='cuda'), 'pi0')
    observation = observe(state=np.zeros(WIDE))
    rest = ask(around(network, DIFFERENCES), observation).actions[5:] + 0.5
    here, over_there = (
        ask(around(policy, DIFFERENCES), observation, rtc=RtcPrefix(rest, 3, robot_units=True))
        for policy in (network, there)
    )
    np.testing.assert_allclose(here.actions, over_there.actions, rtol=0, atol=1e-4)
