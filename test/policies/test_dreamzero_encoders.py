# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The networks around DreamZero's transformer compute what the reference computes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from dreamzero_tiny import CPU, DREAMZERO_TINY, Reference, read_reference
from torch import Tensor, nn

from openpi_policy_ros.policies.dreamzero.checkpoint import load_weights
from openpi_policy_ros.policies.dreamzero.encoders import Encoders
from openpi_policy_ros.policies.dreamzero.networks import build

pytest.importorskip('diffusers')
pytest.importorskip('transformers')

ATOL = 1e-5
NUM_FRAMES = 17


@pytest.fixture(scope='module')
def reference() -> Reference:
    return read_reference()


@pytest.fixture(scope='module')
def encoders(reference: Reference) -> Encoders:
    return reference.encoders


def video(reference: Reference, call: int) -> Tensor:
    """Return what a call showed, [1, 3, T, H, W] in [−1, 1]."""
    tiled = reference.inputs[f'call{call}.tiled_u8']
    return ((tiled.float() / 255 - 0.5) / 0.5).permute(3, 0, 1, 2)[None]


def close(ours: Tensor, theirs: Tensor, atol: float = ATOL) -> None:
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0.0)


# Text


@pytest.mark.parametrize('prompt', ['text', 'text_neg'])
def test_a_prompt_gives_the_references_features(
    reference: Reference, encoders: Encoders, prompt: str
) -> None:
    ids, mask = reference.inputs[prompt], reference.inputs[f'{prompt}_mask']
    features = encoders.text(ids, mask)
    close(features, reference.trace[prompt.replace('text', 'prompt_emb')])
    real = int(mask.sum())
    assert 0 < real < ids.shape[1]
    assert torch.count_nonzero(features[:, real:]) == 0
    assert torch.all(features[:, :real].abs().amax(-1) > 0)


def test_prompts_of_one_batch_do_not_see_each_other(
    reference: Reference, encoders: Encoders
) -> None:
    names = ('text', 'text_neg')
    ids = torch.cat([reference.inputs[name] for name in names])
    mask = torch.cat([reference.inputs[f'{name}_mask'] for name in names])
    both = encoders.text(ids, mask)
    for row in range(2):
        close(both[row : row + 1], encoders.text(ids[row : row + 1], mask[row : row + 1]), 2e-6)


@pytest.mark.parametrize('token', [-1, 64])
def test_a_token_that_the_table_does_not_have_is_refused(encoders: Encoders, token: int) -> None:
    ids = torch.tensor([[3, token, 1]])
    with pytest.raises(ValueError, match='0 to 63: the tokenizer is of another model'):
        encoders.text(ids, torch.ones_like(ids))


# Picture and conditioning


@pytest.mark.parametrize('call', [1, 3])
def test_a_window_starts_at_what_the_reference_keeps_of_its_newest_frame(
    reference: Reference, encoders: Encoders, call: int
) -> None:
    kept = encoders.condition(video(reference, call)[:, :, -1], NUM_FRAMES)
    close(kept.clip, reference.trace[f'call{call}.clip'])
    close(kept.y, reference.trace[f'call{call}.ys'])
    close(kept.y[:, 4:], reference.trace[f'call{call}.vae_encode.17f'])
    close(kept.first, reference.trace[f'call{call}.img_latent'])


def test_the_mask_marks_the_first_latent_alone(reference: Reference, encoders: Encoders) -> None:
    y, _ = encoders.first_frame(video(reference, 1)[:, :, -1], NUM_FRAMES)
    assert torch.all(y[:, :4, 0] == 1.0)
    assert torch.count_nonzero(y[:, :4, 1:]) == 0


# Video


@pytest.mark.parametrize('call', [1, 3])
def test_a_frame_alone_has_the_latent_that_it_has_before_others(
    reference: Reference, encoders: Encoders, call: int
) -> None:
    frame = video(reference, call)[:, :, -1:]
    close(encoders.encode(frame), reference.trace[f'call{call}.vae_encode.17f'][:, :, :1])


@pytest.mark.parametrize('call', [2, 4])
def test_four_frames_become_the_two_latents_that_the_reference_observes(
    reference: Reference, encoders: Encoders, call: int
) -> None:
    expected = reference.trace[f'call{call}.vae_encode.9f']
    frames = video(reference, call)
    close(encoders.observe(frames, 2), expected[:, :, -2:])
    doubled = frames.repeat_interleave(2, dim=2)
    close(encoders.observe(doubled, 2), expected[:, :, -2:])
    whole = torch.cat([doubled[:, :, :1], doubled], dim=2)
    close(encoders.observe(whole, 2), expected[:, :, -2:])
    close(encoders.encode(whole), expected)


def test_frames_that_differ_give_latents_that_differ(
    reference: Reference, encoders: Encoders
) -> None:
    frames = video(reference, 2)
    base = encoders.observe(frames, 2)
    for index in range(4):
        other = frames.clone()
        other[:, :, index] = other[:, :, index].flip(-1)
        assert (encoders.observe(other, 2) - base).abs().max() > 1e-3, index


@pytest.mark.parametrize('count', [1, 2, 3, 5, 6, 7, 10, 12, 16])
def test_frames_that_make_no_block_are_refused(encoders: Encoders, count: int) -> None:
    with pytest.raises(ValueError, match=f'^{count} frames make no block of 2 latents'):
        encoders.observe(torch.zeros(1, 3, count, 32, 64), 2)


@pytest.mark.parametrize('count', [0, 2, 4, 8])
def test_a_video_that_ends_within_a_group_is_refused(encoders: Encoders, count: int) -> None:
    with pytest.raises(ValueError, match=f'^{count} frames; expected 1, and then groups of 4'):
        encoders.encode(torch.zeros(1, 3, count, 32, 64))


def test_latents_decode_to_the_references_video(reference: Reference, encoders: Encoders) -> None:
    decoded = encoders.decode(reference.trace['call1.video_pred'])
    close(decoded, reference.trace['decoded_call1'], 2e-5)
    assert decoded.abs().max() <= 1.0


# Types and places


def test_everything_is_in_the_models_type(reference: Reference) -> None:
    _, encoders, _ = load_weights(DREAMZERO_TINY, reference.config, CPU, torch.bfloat16)
    assert (encoders.device, encoders.dtype) == (CPU, torch.bfloat16)
    inputs, trace = reference.inputs, reference.trace
    kept = encoders.condition(video(reference, 1)[:, :, -1], NUM_FRAMES)
    results = {
        'prompt_emb': encoders.text(inputs['text'], inputs['text_mask']),
        'call1.clip': kept.clip,
        'call1.ys': kept.y,
        'decoded_call1': encoders.decode(trace['call1.video_pred']),
    }
    for name, result in results.items():
        assert result.dtype == torch.bfloat16, name
        error = (result.float() - trace[name]).abs().mean() / trace[name].abs().mean()
        assert error < 0.05, (name, error)


class Table(nn.Module):
    """A text encoder that does nothing but look up, and notes where it did."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(64, 24)
        self.seen: list[torch.device] = []

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        assert attention_mask.device == input_ids.device
        self.seen.append(self.rows.weight.device)
        return SimpleNamespace(last_hidden_state=self.rows(input_ids))


def test_an_offloaded_text_encoder_is_on_the_device_only_while_it_encodes(
    reference: Reference, encoders: Encoders
) -> None:
    # The meta device takes data as a GPU does, and computes shapes alone.
    meta = torch.device('meta')
    table = Table()
    weight = table.rows.weight
    offloading = Encoders(
        table, encoders._clip, build(reference.config).vae, reference.config, offload_text=True
    )
    assert offloading.device == meta
    for _ in range(2):
        features = offloading.text(reference.inputs['text'], reference.inputs['text_mask'])
        assert features.device == meta
        assert features.shape == reference.trace['prompt_emb'].shape
        assert table.rows.weight is weight
        assert weight.device == CPU
    assert table.seen == [meta, meta]


def test_an_offloaded_text_encoder_computes_the_same(reference: Reference) -> None:
    _, encoders, _ = load_weights(
        DREAMZERO_TINY, reference.config, CPU, torch.float32, offload_text=True
    )
    features = encoders.text(reference.inputs['text'], reference.inputs['text_mask'])
    close(features, reference.trace['prompt_emb'])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')
def test_an_offloaded_text_encoder_leaves_no_memory_taken_on_the_gpu(reference: Reference) -> None:
    cuda = torch.device('cuda', 0)
    sizes = []
    for offload in (True, False):
        _, encoders, _ = load_weights(
            DREAMZERO_TINY, reference.config, cuda, torch.float32, offload_text=offload
        )
        before = torch.cuda.memory_allocated()
        features = encoders.text(reference.inputs['text'], reference.inputs['text_mask'])
        assert torch.cuda.memory_allocated() - before <= features.nbytes + (1 << 16)
        close(features.cpu(), reference.trace['prompt_emb'], 1e-4)
        sizes.append(before)
        del encoders, features
    assert sizes[0] < sizes[1]
