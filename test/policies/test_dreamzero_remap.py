# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every tensor of a published checkpoint has its place, at every size."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from typing import Any

import pytest
from dreamzero_tiny import DREAMZERO_TINY
from safetensors.torch import load_file

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig, parse_config
from openpi_policy_ros.policies.dreamzero.networks import Networks, build
from openpi_policy_ros.policies.dreamzero.remap import PREFIXES, Slot, match, slots
from openpi_policy_ros.policies.weight_files import TensorInfo, read_header

pytest.importorskip('diffusers')
pytest.importorskip('transformers')

FULL_DIT = {
    'frame_seqlen': 880,
    'text_len': 512,
    'in_dim': 36,
    'out_dim': 16,
    'dim': 5120,
    'ffn_dim': 13824,
    'freq_dim': 256,
    'text_dim': 4096,
    'num_heads': 40,
    'num_layers': 40,
    'max_chunk_size': 4,
    'num_action_per_block': 24,
    'action_dim': 32,
    'max_state_dim': 64,
    'hidden_size': 1024,
}


def tiny_json() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((DREAMZERO_TINY / 'config.json').read_text())
    return values


def full_config() -> DreamZeroConfig:
    """Return the sizes of the published 14B checkpoint, whose encoders are the defaults."""
    values = copy.deepcopy(tiny_json())
    head = values['action_head_cfg']['config']
    values |= {'action_horizon': 24, 'action_dim': 32}
    head |= {
        'num_frames': 33,
        'action_horizon': 24,
        'action_dim': 32,
        'max_action_dim': 32,
        'max_state_dim': 64,
    }
    head['diffusion_model_cfg'] |= FULL_DIT
    for name in ('text_encoder_cfg', 'image_encoder_cfg', 'vae_cfg'):
        head[name] = {'_target_': head[name]['_target_']}
    return parse_config(values, 'config.json')


@pytest.fixture(scope='module')
def tiny() -> tuple[DreamZeroConfig, Networks, dict[str, Slot]]:
    config = parse_config(tiny_json(), 'config.json')
    networks = build(config)
    return config, networks, slots(networks, config)


@pytest.fixture(scope='module')
def full() -> dict[str, Slot]:
    config = full_config()
    return slots(build(config), config)


def test_the_tiny_checkpoint_holds_exactly_what_is_expected(
    tiny: tuple[DreamZeroConfig, Networks, dict[str, Slot]],
) -> None:
    stored = {
        name: tuple(tensor.shape)
        for name, tensor in load_file(DREAMZERO_TINY / 'model.safetensors').items()
    }
    assert {name: slot.shape for name, slot in tiny[2].items()} == stored
    assert len(stored) == 362


def test_the_published_checkpoint_has_2146_tensors(full: dict[str, Slot]) -> None:
    counts = Counter(
        next(network for network, prefix in PREFIXES.items() if name.startswith(prefix))
        for name in full
    )
    assert counts == {'dit': 1317, 'text': 242, 'clip': 393, 'vae': 194}
    assert len(full) == 2146


def test_the_published_checkpoint_has_the_parameters_it_is_said_to_have(
    full: dict[str, Slot],
) -> None:
    values = Counter[str]()
    for name, slot in full.items():
        network = next(n for n, prefix in PREFIXES.items() if name.startswith(prefix))
        values[network] += math.prod(slot.shape)
    digits = {'dit': 1, 'text': 1, 'clip': 2, 'vae': 2}
    billions = {network: round(values[network] / 1e9, digits[network]) for network in digits}
    assert billions == {'dit': 16.5, 'text': 5.7, 'clip': 0.63, 'vae': 0.13}


@pytest.mark.parametrize(
    ('name', 'shape'),
    [
        ('action_head.model.blocks.39.self_attn.norm_q.weight', (5120,)),
        ('action_head.model.blocks.0.ffn.0.weight', (13824, 5120)),
        ('action_head.model.action_encoder.W2.W', (1, 10240, 5120)),
        ('action_head.model.state_encoder.layer1.W', (1, 64, 1024)),
        ('action_head.model.img_emb.proj.1.weight', (1280, 1280)),
        ('action_head.text_encoder.token_embedding.weight', (256384, 4096)),
        ('action_head.text_encoder.blocks.23.pos_embedding.embedding.weight', (32, 64)),
        ('action_head.text_encoder.blocks.23.ffn.gate.0.weight', (10240, 4096)),
        ('action_head.image_encoder.model.visual.transformer.31.attn.to_qkv.weight', (3840, 1280)),
        ('action_head.image_encoder.model.visual.pos_embedding', (1, 257, 1280)),
        ('action_head.image_encoder.model.visual.head', (1280, 1024)),
        ('action_head.image_encoder.model.log_scale', ()),
        ('action_head.vae.model.decoder.upsamples.7.time_conv.weight', (768, 384, 3, 1, 1)),
        ('action_head.vae.model.decoder.upsamples.14.residual.6.weight', (96, 96, 3, 3, 3)),
        ('action_head.vae.model.encoder.downsamples.9.residual.2.weight', (384, 384, 3, 3, 3)),
        ('action_head.vae.model.encoder.middle.1.to_qkv.weight', (1152, 384, 1, 1)),
        ('action_head.vae.model.conv1.weight', (32, 32, 1, 1, 1)),
    ],
)
def test_full_size_tensors_have_their_published_names_and_shapes(
    full: dict[str, Slot], name: str, shape: tuple[int, ...]
) -> None:
    assert full[name].shape == shape


def test_every_parameter_is_filled_by_exactly_one_tensor(
    tiny: tuple[DreamZeroConfig, Networks, dict[str, Slot]],
) -> None:
    _, networks, expected = tiny
    filled = Counter(
        (part.network, part.parameter) for slot in expected.values() for part in slot.parts
    )
    parameters = {
        (network, name): parameter.numel()
        for network in PREFIXES
        for name, parameter in networks[network].named_parameters()
    }
    assert filled == dict.fromkeys(parameters, 1)
    for name, slot in expected.items():
        ends = [part.start + parameters[part.network, part.parameter] for part in slot.parts]
        assert [part.start for part in slot.parts] == [0, *ends][: len(slot.parts)], name
        assert not slot.parts or ends[-1] == math.prod(slot.shape), name


def test_only_the_end_of_clip_is_never_read(
    tiny: tuple[DreamZeroConfig, Networks, dict[str, Slot]],
) -> None:
    unread = {name for name, slot in tiny[2].items() if not slot.parts}
    prefix = 'action_head.image_encoder.model.'
    ends = tuple(
        f'{prefix}{end}'
        for end in ('visual.transformer.2.', 'visual.post_norm.', 'visual.head', 'log_scale')
    )
    assert unread == {name for name in tiny[2] if name.startswith(ends)}
    assert len(unread) == 12 + 2 + 2


# Refusals by the header alone


def header() -> dict[str, TensorInfo]:
    return dict(read_header(DREAMZERO_TINY / 'model.safetensors'))


def refusal(expected: dict[str, Slot], stored: dict[str, TensorInfo]) -> str:
    with pytest.raises(CheckpointError) as caught:
        match(stored, expected, 'model.safetensors')
    assert caught.value.remedy
    return str(caught.value)


def test_everything_that_does_not_fit_is_told_at_once(
    tiny: tuple[DreamZeroConfig, Networks, dict[str, Slot]],
) -> None:
    stored = header()
    match(stored, tiny[2], 'model.safetensors')
    del stored['action_head.vae.model.conv2.bias']
    del stored['action_head.text_encoder.norm.weight']
    stored['action_head.model.extra.weight'] = TensorInfo('F32', (1,))
    stored['action_head.model.head.head.bias'] = TensorInfo('F32', (65,))
    stored['action_head.model.head.head.weight'] = TensorInfo('I64', (64, 48))
    text = refusal(tiny[2], stored)
    assert (
        '2 missing: action_head.text_encoder.norm.weight, action_head.vae.model.conv2.bias' in text
    )
    assert '1 unexpected: action_head.model.extra.weight' in text
    assert '2 of wrong shape or type' in text
    assert 'action_head.model.head.head.bias is [65], expected [64]' in text
    assert 'action_head.model.head.head.weight is I64, expected one of F32, BF16, F16' in text


def test_a_transposed_weight_is_refused(
    tiny: tuple[DreamZeroConfig, Networks, dict[str, Slot]],
) -> None:
    stored, name = header(), 'action_head.model.action_encoder.W1.W'
    stored[name] = TensorInfo('F32', (1, 48, 10))
    assert f'{name} is [1, 48, 10], expected [1, 10, 48]' in refusal(tiny[2], stored)


def test_an_unread_tensor_is_accounted_for_too(
    tiny: tuple[DreamZeroConfig, Networks, dict[str, Slot]],
) -> None:
    stored = header()
    del stored['action_head.image_encoder.model.visual.post_norm.weight']
    assert 'visual.post_norm.weight' in refusal(tiny[2], stored)


@pytest.mark.parametrize('suffix', ['.weight', '.default.weight'])
def test_an_adapter_is_refused_by_name_with_the_reason(
    tiny: tuple[DreamZeroConfig, Networks, dict[str, Slot]], suffix: str
) -> None:
    base = 'action_head.model.base_model.model.blocks.0.self_attn.q'
    stored = {
        f'{base}.lora_A{suffix}': TensorInfo('F32', (4, 48)),
        f'{base}.lora_B{suffix}': TensorInfo('F32', (48, 4)),
        'action_head.model.action_encoder.W1.W': TensorInfo('F32', (1, 10, 48)),
    }
    text = refusal(tiny[2], stored)
    assert f'holds a LoRA adapter, not a whole model: {base}.lora_A{suffix}' in text
    assert 'the one base it was trained on' in text
    assert 'no base is guessed' in text
    assert 'merge it into exactly the checkpoint it was trained on' in text
    assert 'missing' not in text


def test_an_adapter_beside_its_base_is_refused_too(
    tiny: tuple[DreamZeroConfig, Networks, dict[str, Slot]],
) -> None:
    stored = header()
    stored['action_head.model.blocks.0.ffn.2.lora_A.default.weight'] = TensorInfo('F32', (4, 96))
    assert 'holds a LoRA adapter, beside whole weights' in refusal(tiny[2], stored)
