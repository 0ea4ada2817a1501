# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""DreamZero's transformer against the reference's numbers: every forward of a four-call session."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig, parse_config
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.kv import (
    CrossKV,
    KVWindow,
    cross_bytes,
    token_bytes,
    window_bytes,
)
from openpi_policy_ros.policies.dreamzero.layers import RMSNorm
from openpi_policy_ros.policies.dreamzero.rope import register_angles, rotate, video_angles

DATA = Path(__file__).parents[1] / 'data' / 'dreamzero_tiny'
PREFIX = 'action_head.model.'
ATOL = 1e-5
CPU = torch.device('cpu')


@pytest.fixture(scope='module')
def config() -> DreamZeroConfig:
    return parse_config(json.loads((DATA / 'config.json').read_text()), 'config.json')


@pytest.fixture(scope='module')
def dit(config: DreamZeroConfig) -> CausalWan:
    weights = load_file(DATA / 'model.safetensors')
    network = CausalWan(config.dit)
    mine = {k.removeprefix(PREFIX): v for k, v in weights.items() if k.startswith(PREFIX)}
    network.load_state_dict(mine, strict=True)
    return network.eval().requires_grad_(False)


@pytest.fixture(scope='module')
def trace() -> dict[str, Tensor]:
    return load_file(DATA / 'e2e_steps8_static.safetensors')


@pytest.fixture(scope='module')
def log() -> list[dict[str, Any]]:
    entries = json.loads((DATA / 'e2e_steps8_static.log.json').read_text())
    assert {entry['kind'] for entry in entries} == {'prefill', 'denoise'}
    return entries


def full_size() -> DreamZeroConfig:
    published = json.loads((DATA / 'config.json').read_text())
    head = published['action_head_cfg']['config']
    dit = head['diffusion_model_cfg']
    dit.update(
        dim=5120, ffn_dim=13824, freq_dim=256, num_heads=40, num_layers=40, max_chunk_size=4,
        frame_seqlen=880, num_action_per_block=24,
    )  # fmt: skip
    for name in ('text_dim', 'text_len', 'action_dim', 'max_state_dim', 'hidden_size'):
        del dit[name]
    for name in ('text_encoder_cfg', 'image_encoder_cfg', 'vae_cfg'):
        head[name] = {'_target_': head[name]['_target_']}
    head.update(action_dim=32, max_action_dim=32, max_state_dim=64, action_horizon=24)
    published.update(action_horizon=24, action_dim=32)
    return parse_config(published, 'config.json')


def windows(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]], branches: list[int]
) -> Iterator[tuple[str, dict[str, Any], CrossKV, KVWindow]]:
    """Yield each forward's name and entry, with the window it runs on; rows are ``branches``."""
    window = KVWindow(dit.config, len(branches), CPU, torch.float32)
    prompts = torch.cat([trace['prompt_emb'], trace['prompt_emb_neg']])
    cross = None
    for entry in log:
        if entry['kind'] == 'prefill' and entry['start_frame'] == 0:
            window.clear()
            cross = dit.cross(prompts[branches], trace[f'call{entry["call"]}.clip'])
        assert cross is not None
        yield f'fwd{entry["idx"]:03d}', entry, cross, window


def denoise(
    dit: CausalWan,
    trace: dict[str, Tensor],
    name: str,
    entry: dict[str, Any],
    cross: CrossKV,
    window: KVWindow,
) -> tuple[Tensor, Tensor]:
    inputs = (trace[f'{name}.{key}'] for key in ('x', 'y', 'action', 'state'))
    times = entry['t_video'][0], entry['t_action']
    return dit.denoise(*inputs, *times, entry['start_frame'], cross, window)


@pytest.mark.parametrize('branches', [[0], [1], [0, 1]], ids=['cond', 'uncond', 'both'])
def test_every_forward_gives_the_reference_numbers(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]], branches: list[int]
) -> None:
    count = 0
    for name, entry, cross, window in windows(dit, trace, log, branches):
        action = None
        if entry['kind'] == 'prefill':
            video = dit.prefill(
                trace[f'{name}.x'], trace[f'{name}.y'], entry['start_frame'], cross, window, True
            )
            assert video is not None
            assert window.frames * dit.config.frame_seqlen == entry['kv_len']
            for row, branch in enumerate(branches):
                for layer in range(dit.config.num_layers):
                    kept = torch.stack(window.read(layer))[:, row : row + 1]
                    expected = trace[f'{name}.branch{branch}.kv_layer{layer}']
                    # The cached frames alone; the reference's shape holds exactly them.
                    torch.testing.assert_close(kept, expected, atol=ATOL, rtol=0)
        else:
            video, action = denoise(dit, trace, name, entry, cross, window)
        for row, branch in enumerate(branches):
            expected = trace[f'{name}.branch{branch}.video_pred']
            torch.testing.assert_close(video[row : row + 1], expected, atol=ATOL, rtol=0)
            if action is not None:
                expected = trace[f'{name}.branch{branch}.action_pred']
                torch.testing.assert_close(action[row : row + 1], expected, atol=ATOL, rtol=0)
        count += 1
    assert count == len(log) == 36


def test_prefill_without_the_video_writes_the_same(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]]
) -> None:
    kept = []
    for want_video in (True, False):
        for name, entry, cross, window in windows(dit, trace, log[:10], [0, 1]):
            if entry['kind'] == 'prefill':
                inputs = trace[f'{name}.x'], trace[f'{name}.y'], entry['start_frame']
                video = dit.prefill(*inputs, cross, window, want_video)
                assert (video is None) is not want_video
        kept.append(window.kv.clone())
    assert torch.equal(*kept)


def test_denoising_leaves_the_window_and_its_memory_as_they_are(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]]
) -> None:
    for name, entry, cross, window in windows(dit, trace, log[:18], [0, 1]):
        place = window.kv.data_ptr()
        if entry['kind'] == 'prefill':
            dit.prefill(trace[f'{name}.x'], trace[f'{name}.y'], entry['start_frame'], cross, window)
        else:
            before, frames = window.kv.clone(), window.frames
            denoise(dit, trace, name, entry, cross, window)
            assert torch.equal(window.kv, before)
            assert window.frames == frames
        assert window.kv.data_ptr() == place
    assert window.frames == dit.config.cached_frames == 3


def test_two_windows_share_nothing(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]]
) -> None:
    """A session beside gives bit for bit what it gives alone."""
    alone = list(windows_run(dit, trace, log[:18]))
    left, right = windows_run(dit, trace, log[:18]), windows_run(dit, trace, log[:18], swap=True)
    beside = []
    for mine, _ in zip(left, right, strict=True):
        beside.append(mine)
    for one, other in zip(alone, beside, strict=True):
        assert torch.equal(one, other)


def windows_run(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]], *, swap: bool = False
) -> Iterator[Tensor]:
    for name, entry, cross, window in windows(dit, trace, log, [1, 0] if swap else [0, 1]):
        if entry['kind'] == 'prefill':
            dit.prefill(trace[f'{name}.x'], trace[f'{name}.y'], entry['start_frame'], cross, window)
            yield window.kv.clone()
        else:
            yield denoise(dit, trace, name, entry, cross, window)[0]


def test_different_times_reach_their_own_tokens(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]]
) -> None:
    """Two equal times given as two groups are one time; two different ones are not."""
    run = windows(dit, trace, log[:2], [0])
    name, entry, cross, window = next(run)
    dit.prefill(trace[f'{name}.x'], trace[f'{name}.y'], 0, cross, window)
    name, entry, cross, window = next(run)
    same = denoise(dit, trace, name, entry, cross, window)
    other = denoise(dit, trace, name, {**entry, 't_action': 500}, cross, window)
    assert not torch.allclose(same[1], other[1], atol=1e-3)
    # The same rows of time under another number: the path of two groups, the numbers of one.
    dit._times[1000] = dit._times[999]
    try:
        grouped = denoise(dit, trace, name, {**entry, 't_action': 1000}, cross, window)
    finally:
        del dit._times[1000]
    torch.testing.assert_close(grouped, same, atol=1e-6, rtol=0)


@pytest.mark.parametrize('branch', [0, 1])
def test_actions_and_video_at_different_times_give_independent_numbers(
    dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]], branch: int
) -> None:
    """Of a transformer written apart from this one: video at 999, actions and state at 500."""
    expected = load_file(DATA / 'decoupled_fwd001.safetensors')
    run = windows(dit, trace, log[:2], [branch])
    name, entry, cross, window = next(run)
    dit.prefill(trace[f'{name}.x'], trace[f'{name}.y'], 0, cross, window)
    name, entry, cross, window = next(run)
    found = denoise(dit, trace, name, {**entry, 't_action': 500}, cross, window)
    for one, what in zip(found, ('video', 'action'), strict=True):
        wanted = expected[f'branch{branch}.{what}_pred']
        torch.testing.assert_close(one, wanted, atol=ATOL, rtol=0)


def test_loading_other_weights_forgets_what_was_computed_from_the_old_ones(
    config: DreamZeroConfig, dit: CausalWan
) -> None:
    network = CausalWan(config.dit).requires_grad_(False)
    before = network._time(500).blocks
    network.load_state_dict(dit.state_dict())
    assert not torch.allclose(network._time(500).blocks, before)
    assert torch.equal(network._time(500).blocks, dit._time(500).blocks)
    assert network.to(torch.float64)._time(500).blocks.dtype == torch.float64


def test_a_window_takes_the_bytes_that_are_computed(config: DreamZeroConfig) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        window = KVWindow(config.dit, 2, CPU, dtype)
        assert window.nbytes == window_bytes(config.dit, 2, dtype.itemsize)
        assert window.nbytes == window.kv.untyped_storage().nbytes()
        cross = CrossKV(config.dit, 2, CPU, dtype)
        assert cross.nbytes == cross_bytes(config.dit, 2, dtype.itemsize)


def test_the_published_size_takes_five_gigabytes_a_branch() -> None:
    sizes = full_size().dit
    assert sizes.local_attn_size == 9
    assert sizes.cached_frames == 7
    assert token_bytes(sizes, 2) == 819_200
    assert window_bytes(sizes, 1, 2) == 7 * 880 * 819_200 == 5_046_272_000
    assert cross_bytes(sizes, 2, 2) == (2 * 512 + 257) * 819_200
    with torch.device('meta'):
        assert KVWindow(sizes, 2, torch.device('meta'), torch.bfloat16).nbytes == 10_092_544_000


def test_the_published_size_has_the_published_parameters(dit: CausalWan) -> None:
    with torch.device('meta'):
        network = CausalWan(full_size().dit)
    names = {name: tuple(p.shape) for name, p in network.named_parameters()}
    assert len(names) == 1317
    assert not list(network.buffers())
    tiny = {name for name, _ in dit.named_parameters()}
    assert {name for name in names if not name.startswith('blocks.')} == {
        name for name in tiny if not name.startswith('blocks.')
    }
    assert names['blocks.39.cross_attn.k_img.weight'] == (5120, 5120)
    assert names['patch_embedding.weight'] == (5120, 36, 1, 2, 2)
    assert names['action_encoder.W2.W'] == (1, 10240, 5120)
    assert names['state_encoder.layer1.W'] == (1, 64, 1024)
    assert names['img_emb.proj.1.weight'] == (1280, 1280)
    assert 16.3e9 < sum(p.numel() for p in network.parameters()) < 16.7e9


def test_every_norm_of_a_block_takes_the_networks_epsilon(config: DreamZeroConfig) -> None:
    for block in CausalWan(dataclasses.replace(config.dit, eps=0.25)).blocks:
        norms = [one for one in block.modules() if isinstance(one, (RMSNorm, torch.nn.LayerNorm))]
        assert [one.eps for one in norms] == [0.25] * 6


def test_the_norm_of_keys_is_computed_in_float32() -> None:
    norm = RMSNorm(8, 1e-6).to(torch.bfloat16)
    x = torch.linspace(-300, 300, 8).to(torch.bfloat16)
    expected = (x.float() * torch.rsqrt(x.float().pow(2).mean() + 1e-6)).to(torch.bfloat16)
    assert torch.equal(norm(x), expected)


def test_positions_are_those_of_the_window(config: DreamZeroConfig) -> None:
    sizes = dataclasses.replace(config.dit, dim=128, num_heads=1)
    angles = video_angles(sizes, 5, 2, 3, 4)
    assert angles.shape == (24, 64)
    assert angles.dtype == torch.float64
    # Token of frame 6, row 2, column 3: the first number of each axis turns by the position.
    assert angles[-1, [0, 22, 43]].tolist() == [6.0, 2.0, 3.0]
    registers = register_angles(sizes, 5)
    assert registers[:, 0].tolist() == [12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 2.0]


def test_rotation_keeps_lengths_and_depends_on_differences_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 12, generator=generator)
    sizes = dataclasses.replace(full_size().dit, dim=12, num_heads=1)

    def at(x: Tensor, frame: int) -> Tensor:
        angles = video_angles(sizes, frame, 1, 1, 1)
        table = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
        return rotate(x, table[:, None])

    torch.testing.assert_close(at(q, 7).norm(), q.norm())
    torch.testing.assert_close((at(q, 7) * at(k, 5)).sum(), (at(q, 2) * at(k, 0)).sum())


def test_bfloat16_stays_near_float32(
    config: DreamZeroConfig, dit: CausalWan, trace: dict[str, Tensor], log: list[dict[str, Any]]
) -> None:
    half = CausalWan(config.dit)
    half.load_state_dict(dit.state_dict())
    half = half.to(torch.bfloat16).requires_grad_(False)
    window = KVWindow(config.dit, 1, CPU, torch.bfloat16)
    cross = half.cross(trace['prompt_emb'], trace['call1.clip'])
    half.prefill(trace['fwd000.x'], trace['fwd000.y'], 0, cross, window)
    video, action = denoise(half, trace, 'fwd001', log[1], cross, window)
    assert video.dtype == action.dtype == torch.bfloat16
    for mine, expected in (
        (video, trace['fwd001.branch0.video_pred']),
        (action, trace['fwd001.branch0.action_pred']),
    ):
        error = (mine.float() - expected).pow(2).mean().sqrt() / expected.pow(2).mean().sqrt()
        assert error < 0.03


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'x': (1, 16, 2, 4, 6)}, 'frame_seqlen'),
        ({'x': (1, 16, 1, 4, 8)}, 'a block has 2'),
        ({'x': (1, 15, 2, 4, 8)}, r'x is \[1, 15, 2, 4, 8\], expected \[1, 16, 2, 4, 8\]'),
        ({'y': (1, 16, 2, 4, 8)}, r'y is .*expected \[1, 20, 2, 4, 8\]'),
        ({'action': (1, 5, 10)}, r'action is .*expected \[1, 6, 10\]'),
        ({'state': (1, 1, 10)}, r'state is .*expected \[1, 1, 12\]'),
        ({'t_video': 1001}, r'time 1001, expected 0\.\.1000'),
        ({'start_frame': 3}, 'start_frame is 3, the window holds 1'),
        ({'start_frame': 0}, 'after the first frame'),
    ],
)
def test_a_wrong_input_is_named(
    dit: CausalWan, trace: dict[str, Tensor], change: dict[str, Any], message: str
) -> None:
    window = KVWindow(dit.config, 1, CPU, torch.float32)
    cross = dit.cross(trace['prompt_emb'], trace['call1.clip'])
    dit.prefill(trace['fwd000.x'], trace['fwd000.y'], 0, cross, window)
    inputs: dict[str, Any] = {
        'x': (1, 16, 2, 4, 8), 'y': (1, 20, 2, 4, 8), 'action': (1, 6, 10), 'state': (1, 1, 12),
        't_video': 999, 't_action': 999, 'start_frame': 1,
    }  # fmt: skip
    made = {
        key: torch.zeros(value) if isinstance(value, tuple) else value
        for key, value in {**inputs, **change}.items()
    }
    with pytest.raises(ValueError, match=message):
        dit.denoise(**made, cross=cross, window=window)


def test_frames_that_do_not_fit_the_window_are_refused(
    dit: CausalWan, trace: dict[str, Tensor]
) -> None:
    window = KVWindow(dit.config, 1, CPU, torch.float32)
    cross = dit.cross(trace['prompt_emb'], trace['call1.clip'])
    frame = trace['fwd000.x'], trace['fwd000.y']
    for start in range(window.max_frames):
        dit.prefill(*frame, start, cross, window)
    with pytest.raises(ValueError, match='frames 3 to 3 do not fit the window, which keeps 3'):
        dit.prefill(*frame, 3, cross, window)
    window.clear()
    with pytest.raises(ValueError, match='start_frame is 1, the window holds 0'):
        dit.prefill(*frame, 1, cross, window)


@pytest.mark.parametrize(
    ('text', 'clip', 'message'),
    [
        ((1, 15, 24), (1, 257, 32), r'text is \[1, 15, 24\], expected \[1, 16, 24\]'),
        ((1, 16, 24), (2, 257, 32), r'clip is \[2, 257, 32\], expected \[1, 257, 32\]'),
    ],
)
def test_a_wrong_context_is_named(
    dit: CausalWan, text: tuple[int, ...], clip: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        dit.cross(torch.zeros(text), torch.zeros(clip))
