# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Guidance: one batch, two passes and the reference agree; sessions have their own memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.config import parse_config
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.guidance import (
    Flow,
    Guidance,
    OneBatch,
    TwoPasses,
    guided,
)

DATA = Path(__file__).parents[1] / 'data' / 'dreamzero_tiny'
PREFIX = 'action_head.model.'
SCALE = 5.0
KINDS = [OneBatch, TwoPasses]


@pytest.fixture(scope='module')
def dit() -> CausalWan:
    config = parse_config(json.loads((DATA / 'config.json').read_text()), 'config.json')
    weights = load_file(DATA / 'model.safetensors')
    network = CausalWan(config.dit)
    network.load_state_dict(
        {k.removeprefix(PREFIX): v for k, v in weights.items() if k.startswith(PREFIX)}
    )
    return network.eval().requires_grad_(False)


@pytest.fixture(scope='module')
def trace() -> dict[str, Tensor]:
    return load_file(DATA / 'e2e_steps8_static.safetensors')


@pytest.fixture(scope='module')
def log() -> list[dict[str, Any]]:
    return json.loads((DATA / 'e2e_steps8_static.log.json').read_text())


def step(
    guidance: Guidance, handle: int, trace: dict[str, Tensor], entry: dict[str, Any]
) -> Flow | None:
    """Make one forward of the trace; the flow of a denoising one."""
    name, start = f'fwd{entry["idx"]:03d}', entry['start_frame']
    x, y = trace[f'{name}.x'], trace[f'{name}.y']
    if entry['kind'] == 'prefill':
        if start == 0:
            clip = trace[f'call{entry["call"]}.clip']
            guidance.begin(handle, trace['prompt_emb'], trace['prompt_emb_neg'], clip)
        guidance.prefill(handle, x, y, start)
        return None
    action, state = trace[f'{name}.action'], trace[f'{name}.state']
    times = entry['t_video'][0], entry['t_action']
    return guidance.denoise(handle, x, y, action, state, *times, start)


@pytest.mark.parametrize('kind', KINDS)
def test_a_session_has_the_reference_flows(
    kind: type[OneBatch] | type[TwoPasses],
    dit: CausalWan,
    trace: dict[str, Tensor],
    log: list[dict[str, Any]],
) -> None:
    guidance = kind(dit, SCALE)
    handle = guidance.open()
    for entry in log:
        flow = step(guidance, handle, trace, entry)
        if flow is None:
            continue
        name = f'fwd{entry["idx"]:03d}'
        branches = [trace[f'{name}.branch{branch}.video_pred'] for branch in (0, 1)]
        # Rounding of the branches' difference is scaled with it.
        expected = guided(*branches, SCALE)
        torch.testing.assert_close(flow.video, expected, atol=2 * SCALE * 1e-5, rtol=0)
        expected = trace[f'{name}.branch0.action_pred']
        torch.testing.assert_close(flow.action, expected, atol=1e-5, rtol=0)
    guidance.shutdown()


def test_one_batch_is_two_passes(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]]
) -> None:
    one, two = OneBatch(dit, SCALE), TwoPasses(dit, SCALE)
    handles = one.open(), two.open()
    for entry in log:
        mine = step(one, handles[0], trace, entry)
        other = step(two, handles[1], trace, entry)
        if mine is not None:
            torch.testing.assert_close(mine, other, atol=2 * SCALE * 2e-6, rtol=0)


def test_the_scale_leads_from_the_negative_branch_to_the_other_and_beyond() -> None:
    conditional, unconditional = torch.tensor([3.0]), torch.tensor([1.0])
    assert guided(conditional, unconditional, 0.0) == 1.0
    assert guided(conditional, unconditional, 1.0) == 3.0
    assert guided(conditional, unconditional, 5.0) == 11.0


def test_a_scale_of_one_is_the_conditional_branch(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]]
) -> None:
    guidance = OneBatch(dit, 1.0)
    handle = guidance.open()
    step(guidance, handle, trace, log[0])
    flow = step(guidance, handle, trace, log[1])
    assert flow is not None
    expected = trace['fwd001.branch0.video_pred']
    torch.testing.assert_close(flow.video, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize('kind', KINDS)
def test_interleaved_sessions_are_separate_ones_bit_for_bit(
    kind: type[OneBatch] | type[TwoPasses],
    dit: CausalWan,
    trace: dict[str, Tensor],
    log: list[dict[str, Any]],
) -> None:
    guidance = kind(dit, SCALE)
    swapped = {
        **trace,
        'prompt_emb': trace['prompt_emb_neg'],
        'prompt_emb_neg': trace['prompt_emb'],
    }

    def separate(inputs: dict[str, Tensor]) -> list[Flow | None]:
        handle = guidance.open()
        flows = [step(guidance, handle, inputs, entry) for entry in log[:20]]
        guidance.close(handle)
        return flows

    alone = [separate(trace), separate(swapped)]
    left, right = guidance.open(), guidance.open()
    for entry, mine, other in zip(log[:20], *alone, strict=True):
        for handle, inputs, expected in ((left, trace, mine), (right, swapped, other)):
            flow = step(guidance, handle, inputs, entry)
            if flow is None:
                assert expected is None
                continue
            assert expected is not None
            assert torch.equal(flow.video, expected.video)
            assert torch.equal(flow.action, expected.action)
            assert not torch.equal(alone[0][1].video, alone[1][1].video)


@pytest.mark.parametrize('kind', KINDS)
def test_a_session_takes_what_is_computed_and_keeps_its_place(
    kind: type[OneBatch] | type[TwoPasses],
    dit: CausalWan,
    trace: dict[str, Tensor],
    log: list[dict[str, Any]],
) -> None:
    guidance = kind(dit, SCALE)
    handle = guidance.open()

    def held() -> dict[int, int]:
        parts = guidance._sessions[handle].parts
        tensors = [t for p in parts for t in (p.window.kv, p.cross.text, p.cross.image)]
        return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}

    before = held()
    assert sum(before.values()) == guidance.bytes_per_session
    for entry in log:
        step(guidance, handle, trace, entry)
    assert held() == before


@pytest.mark.parametrize('kind', KINDS)
def test_a_closed_session_is_gone(
    kind: type[OneBatch] | type[TwoPasses], dit: CausalWan, trace: dict[str, Tensor]
) -> None:
    guidance = kind(dit, SCALE)
    first = guidance.open()
    guidance.close(first)
    assert guidance.open() != first
    assert len(guidance._sessions) == 1
    with pytest.raises(ValueError, match=f'no session {first}: it was closed'):
        guidance.begin(first, trace['prompt_emb'], trace['prompt_emb_neg'], trace['call1.clip'])
    with pytest.raises(ValueError, match='no session'):
        guidance.close(first)
    guidance.shutdown()
    assert not guidance._sessions
