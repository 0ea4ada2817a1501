# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The reference outputs, through the code path that serves: these numbers decide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from openpi_policy_ros.policies.base import (
    ActionChunk,
    InferenceRequest,
    RtcPrefix,
    SessionKey,
)
from openpi_policy_ros.policies.pi0 import sampler
from openpi_policy_ros.policies.pi0.config import Family
from openpi_policy_ros.policies.pi0.load import load
from openpi_policy_ros.policies.pi0.policy import Pi0Policy
from openpi_policy_ros.policies.registry import LoadRequest

CASES = (
    'missing_middle_cam',
    'non_square',
    'rtc_exp_a',
    'rtc_linear_a',
    'short_state_7',
    'steps_4',
    'three_cams',
)
FINE_TUNED = (('pi0_tiny_ft_meanstd', 'pi0'), ('pi05_tiny', 'pi05'))
ATOL = 2e-5
OPTIONAL = ['observation.images.left_wrist_0_rgb', 'observation.images.right_wrist_0_rgb']


fine_tuned = pytest.mark.parametrize(('name', 'family'), FINE_TUNED)


def read_case(golden: Path, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with np.load(golden / 'cases' / f'{name}.npz') as arrays:
        values = {key: arrays[key] for key in arrays.files}
    return values, json.loads((golden / 'cases' / f'{name}.json').read_text())


def serve_case(
    golden: Path, arrays: dict[str, np.ndarray], case: dict[str, Any]
) -> tuple[Pi0Policy, InferenceRequest]:
    """Return a policy that sees the case's tokens and noise, and the request of the case."""
    options: dict[str, Any] = {'optional_cameras': OPTIONAL}
    prefix = None
    if 'rtc' in case:
        rtc = case['rtc']
        keys = ('schedule', 'max_guidance_weight', 'execution_horizon')
        options['rtc'] = {key: rtc[key] for key in keys}
        prefix = RtcPrefix(
            arrays['prev_chunk_left_over'], rtc['inference_delay'], rtc['call_execution_horizon']
        )
    policy = load(LoadRequest(str(golden), options=options), 'pi0')
    tokens = tuple(arrays['tokens'][arrays['token_mask']].tolist())
    # The reference's tokens are random ids that no text encodes to.
    policy.prompts.encode = lambda prompt, field: tokens  # type: ignore[method-assign]
    policy.draw_noise = lambda seed: torch.from_numpy(arrays['noise'])
    observation: dict[str, Any] = {
        key.removeprefix('image/'): value
        for key, value in arrays.items()
        if key.startswith('image/')
    }
    observation |= {'observation.state': arrays['state'], 'prompt': 'not used'}
    request = InferenceRequest(
        observation,
        SessionKey('test', 'golden'),
        num_inference_steps=case['num_steps'],
        rtc=prefix,
    )
    return policy, request


@pytest.mark.parametrize('name', CASES)
def test_reference_outputs_are_reproduced(golden: Path, name: str) -> None:
    arrays, case = read_case(golden, name)
    policy, request = serve_case(golden, arrays, case)
    (chunk,) = policy.infer([request])
    assert chunk.actions.dtype == np.float32
    np.testing.assert_allclose(chunk.actions, arrays['actions'], rtol=0, atol=ATOL)
    np.testing.assert_allclose(chunk.model_actions, arrays['actions_full'], rtol=0, atol=ATOL)


def test_every_case_in_the_folder_is_tested(golden: Path) -> None:
    assert sorted(path.stem for path in (golden / 'cases').glob('*.npz')) == sorted(CASES)


@pytest.mark.parametrize('name', ['rtc_linear_a', 'rtc_exp_a'])
def test_guidance_weights_are_the_references(golden: Path, name: str) -> None:
    arrays, case = read_case(golden, name)
    rtc = case['rtc']
    weights = sampler.prefix_weights(
        rtc['schedule'], rtc['inference_delay'], rtc['execution_horizon'], 50
    )
    np.testing.assert_allclose(weights.numpy(), arrays['prefix_weights'], rtol=0, atol=1e-6)


def test_without_its_guidance_a_guided_case_comes_out_different(golden: Path) -> None:
    arrays, case = read_case(golden, 'rtc_linear_a')
    policy, request = serve_case(golden, arrays, case)
    (chunk,) = policy.infer([InferenceRequest(request.observation, request.session)])
    assert np.abs(chunk.actions - arrays['actions']).max() > 100 * ATOL


def serve_fine_tune(
    data: Path, name: str, family: Family
) -> tuple[Pi0Policy, InferenceRequest, dict[str, np.ndarray]]:
    """Return a fine-tune as its own files have it, and the request of its case: text and state."""
    arrays, case = read_case(data / name, 'end_to_end')
    policy = load(LoadRequest(str(data / name)), family)
    policy.draw_noise = lambda seed: torch.from_numpy(arrays['noise'])
    observation: dict[str, Any] = {
        key.removeprefix('image/'): value
        for key, value in arrays.items()
        if key.startswith('image/')
    }
    observation |= {'observation.state': arrays['state'], 'prompt': case['task']}
    session = SessionKey('test', 'golden')
    steps = case['num_steps']
    return policy, InferenceRequest(observation, session, num_inference_steps=steps), arrays


@fine_tuned
def test_a_fine_tune_is_reproduced_from_text_and_state_to_robot_units(
    golden: Path, name: str, family: Family
) -> None:
    policy, request, arrays = serve_fine_tune(golden.parent, name, family)
    (chunk,) = policy.infer([request])
    assert isinstance(chunk, ActionChunk), chunk
    assert chunk.model_actions is not None
    width = arrays['actions'].shape[1]
    for ours, theirs in (
        (chunk.model_actions, arrays['actions_full']),
        (chunk.model_actions[:, :width], arrays['actions']),
        (chunk.actions, arrays['robot_actions']),
    ):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=ATOL)
    assert chunk.state is not None
    np.testing.assert_array_equal(chunk.state, arrays['state'])


@fine_tuned
def test_a_fine_tunes_state_and_text_are_the_references(
    golden: Path, name: str, family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, request, arrays = serve_fine_tune(golden.parent, name, family)
    seen: dict[str, Any] = {}
    append_state, embed_prefix = policy.model.append_state, policy.model.embed_prefix
    monkeypatch.setattr(
        policy.model,
        'append_state',
        lambda state, position: seen.update(state=state) or append_state(state, position),
    )
    monkeypatch.setattr(
        policy.model,
        'embed_prefix',
        lambda images, tokens: seen.update(tokens=tokens) or embed_prefix(images, tokens),
    )
    policy.infer([request])
    expected = arrays['tokens'][arrays['token_mask']]
    np.testing.assert_array_equal(seen['tokens'].numpy(), expected)
    norm_state = arrays['norm_state']
    if family == 'pi05':
        # Its state is in the text that was compared.
        assert 'state' not in seen
    else:
        np.testing.assert_allclose(seen['state'].numpy()[: norm_state.size], norm_state, rtol=1e-6)
        assert not seen['state'].numpy()[norm_state.size :].any()
