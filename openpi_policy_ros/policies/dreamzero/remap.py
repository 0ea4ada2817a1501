# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where each tensor of a published DreamZero checkpoint goes, and whether all of them are there.

A checkpoint names its tensors as Wan 2.1's own code does, below one prefix for each network. The
expected names are made from the networks themselves, so a full-size checkpoint is accounted for
by the code that accounts for a small one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig
from openpi_policy_ros.policies.dreamzero.networks import Networks
from openpi_policy_ros.policies.pi0.matching import FLOAT_BYTES
from openpi_policy_ros.policies.weight_files import Header

PREFIXES: Mapping[str, str] = {
    'dit': 'action_head.model.',
    'text': 'action_head.text_encoder.',
    'clip': 'action_head.image_encoder.model.',
    'vae': 'action_head.vae.model.',
}
"""Network → what its tensors' names begin with."""

_LISTED = 8
_LORA = re.compile(r'\.lora_|(?:^|\.)base_model\.model\.|\.base_layer\.')

_RESNET = (
    (r'\.norm1\.', '.residual.0.'),
    (r'\.conv1\.', '.residual.2.'),
    (r'\.norm2\.', '.residual.3.'),
    (r'\.conv2\.', '.residual.6.'),
    (r'\.conv_shortcut\.', '.shortcut.'),
)
# Only what lies in a residual block may be renamed so: the encoders have a conv1 of their own.
_VAE_OUTER = (
    (r'^quant_conv\.', 'conv1.'),
    (r'^post_quant_conv\.', 'conv2.'),
    (r'\.conv_in\.', '.conv1.'),
    (r'\.norm_out\.', '.head.0.'),
    (r'\.conv_out\.', '.head.2.'),
    (r'\.mid_block\.resnets\.0\.', '.middle.0.'),
    (r'\.mid_block\.attentions\.0\.', '.middle.1.'),
    (r'\.mid_block\.resnets\.1\.', '.middle.2.'),
    (r'\.down_blocks\.', '.downsamples.'),
)
_TEXT = (
    (r'^shared\.', 'token_embedding.'),
    (r'^encoder\.final_layer_norm\.', 'norm.'),
    (r'^encoder\.block\.', 'blocks.'),
    (r'\.layer\.0\.SelfAttention\.relative_attention_bias\.', '.pos_embedding.embedding.'),
    (r'\.layer\.0\.SelfAttention\.', '.attn.'),
    (r'\.layer\.0\.layer_norm\.', '.norm1.'),
    (r'\.layer\.1\.layer_norm\.', '.norm2.'),
    (r'\.layer\.1\.DenseReluDense\.wi_0\.', '.ffn.gate.0.'),
    (r'\.layer\.1\.DenseReluDense\.wi_1\.', '.ffn.fc1.'),
    (r'\.layer\.1\.DenseReluDense\.wo\.', '.ffn.fc2.'),
)
_CLIP = (
    (r'^vision_model\.', ''),
    (r'^embeddings\.class_embedding$', 'cls_embedding'),
    (r'^embeddings\.patch_embedding\.', 'patch_embedding.'),
    (r'^embeddings\.position_embedding\.weight$', 'pos_embedding'),
    (r'^pre_layrnorm\.', 'pre_norm.'),
    (r'^encoder\.layers\.', 'transformer.'),
    (r'\.self_attn\.[qkv]_proj\.', '.attn.to_qkv.'),
    (r'\.self_attn\.out_proj\.', '.attn.proj.'),
    (r'\.layer_norm([12])\.', r'.norm\1.'),
    (r'\.mlp\.fc1\.', '.mlp.0.'),
    (r'\.mlp\.fc2\.', '.mlp.2.'),
)


@dataclass(frozen=True)
class Part:
    """One parameter that a stored tensor fills, or fills in part.

    Attributes:
        network: dit, text, clip or vae.
        parameter: name in that network.
        start: first value of the stored tensor, flat, that goes there.

    """

    network: str
    parameter: str
    start: int = 0


@dataclass(frozen=True)
class Slot:
    """One tensor of a checkpoint.

    Attributes:
        shape: as stored.
        parts: what it fills; () = no inference reads it.

    """

    shape: tuple[int, ...]
    parts: tuple[Part, ...]


def slots(networks: Networks, config: DreamZeroConfig) -> dict[str, Slot]:
    """Return every tensor that a checkpoint of these networks holds, published name → slot."""
    found = {
        f'{PREFIXES["dit"]}{name}': Slot(tuple(parameter.shape), (Part('dit', name),))
        for name, parameter in networks.dit.named_parameters()
    }
    for name, parameter in networks.text.named_parameters():
        published = _renamed(name, _TEXT)
        found[f'{PREFIXES["text"]}{published}'] = Slot(
            tuple(parameter.shape), (Part('text', name),)
        )
    stride = config.vae.num_res_blocks + 2
    for name, parameter in networks.vae.named_parameters():
        found[f'{PREFIXES["vae"]}{_vae_name(name, stride)}'] = Slot(
            tuple(parameter.shape), (Part('vae', name),)
        )
    return {**found, **_clip_slots(networks.clip, config)}


def match(header: Header, expected: Mapping[str, Slot], source: str) -> None:
    """Check that a checkpoint holds exactly the expected tensors.

    Args:
        header: what its files hold.
        expected: what ``slots`` returned.
        source: the file, for messages.

    Raises:
        CheckpointError: an adapter (LoRA), or every tensor that is missing, unknown, wrongly
            shaped or of a type that is not a float.

    """
    adapters = sorted(name for name in header if _LORA.search(name))
    if adapters:
        raise _adapter(adapters, expected.keys() <= header.keys(), source)
    problems = []
    missing = sorted(expected.keys() - header.keys())
    if missing:
        problems.append(f'{len(missing)} missing: {_listing(missing)}')
    unexpected = sorted(header.keys() - expected.keys())
    if unexpected:
        problems.append(f'{len(unexpected)} unexpected: {_listing(unexpected)}')
    wrong = []
    for name in sorted(header.keys() & expected.keys()):
        info, shape = header[name], expected[name].shape
        if info.shape != shape:
            wrong.append(f'{name} is {list(info.shape)}, expected {list(shape)}')
        if info.dtype not in FLOAT_BYTES:
            wrong.append(f'{name} is {info.dtype}, expected one of {", ".join(FLOAT_BYTES)}')
    if wrong:
        problems.append(f'{len(wrong)} of wrong shape or type: {_listing(wrong)}')
    if problems:
        raise CheckpointError(
            '\n  - '.join([f'{source} does not fit a DreamZero of these sizes', *problems]),
            remedy='check that config.json belongs to these weights, or copy the checkpoint again',
        )


def _adapter(names: Sequence[str], whole: bool, source: str) -> CheckpointError:
    beside = ', beside whole weights' if whole else ', not a whole model'
    return CheckpointError(
        f'{source} holds a LoRA adapter{beside}: {_listing(names)}',
        expected='merged weights. An adapter is a difference from the one base it was trained '
        'on; added to another it gives a network that answers without an error, and wrongly, so '
        'no base is guessed',
        remedy='merge it into exactly the checkpoint it was trained on (W + alpha/r · B · A, '
        "with the training's own code) and save the whole model",
    )


def _clip_slots(clip: nn.Module, config: DreamZeroConfig) -> dict[str, Slot]:
    prefix, width = f'{PREFIXES["clip"]}visual.', config.clip.dim
    found: dict[str, Slot] = {}
    sizes = {name: tuple(parameter.shape) for name, parameter in clip.named_parameters()}
    for name, shape in sizes.items():
        published = _renamed(name, _CLIP)
        if '.attn.to_qkv.' in published:
            parts, start = [], 0
            for letter in 'qkv':
                part = re.sub(r'\.[qkv]_proj\.', f'.{letter}_proj.', name)
                parts.append(Part('clip', part, start))
                start += math.prod(shape)
            found[prefix + published] = Slot((3 * shape[0], *shape[1:]), tuple(parts))
            continue
        if published == 'cls_embedding':
            shape = (1, 1, *shape)
        elif published == 'pos_embedding':
            shape = (1, *shape)
        found[prefix + published] = Slot(shape, (Part('clip', name),))
    found |= {prefix + name: Slot(shape, ()) for name, shape in _unread(config)}
    found[f'{prefix}head'] = Slot((width, config.clip.embed_dim), ())
    found[f'{PREFIXES["clip"]}log_scale'] = Slot((), ())
    return found


def _unread(config: DreamZeroConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of what lies behind the last layer that is read."""
    width, hidden = config.clip.dim, 4 * config.clip.dim
    block = f'transformer.{config.clip.layers - 1}'
    for name in (f'{block}.norm1', f'{block}.norm2', 'post_norm'):
        yield f'{name}.weight', (width,)
        yield f'{name}.bias', (width,)
    for name, outputs, inputs in (
        ('attn.to_qkv', 3 * width, width),
        ('attn.proj', width, width),
        ('mlp.0', hidden, width),
        ('mlp.2', width, hidden),
    ):
        yield f'{block}.{name}.weight', (outputs, inputs)
        yield f'{block}.{name}.bias', (outputs,)


def _vae_name(name: str, stride: int) -> str:
    """Return the published name; a block of the decoder has ``stride`` modules, in one row."""
    up = re.match(r'decoder\.up_blocks\.(\d+)\.(resnets|upsamplers)\.(\d+)\.', name)
    if up:
        inside = stride - 1 if up[2] == 'upsamplers' else int(up[3])
        row = int(up[1]) * stride + inside
        name = f'decoder.upsamples.{row}.{name[up.end() :]}'
    if re.search(r'\.(?:resnets|upsamples|down_blocks)\.', name):
        name = _renamed(name, _RESNET)
    return _renamed(name, _VAE_OUTER)


def _renamed(name: str, rules: Sequence[tuple[str, str]]) -> str:
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name


def _listing(items: Sequence[str]) -> str:
    rest = len(items) - _LISTED
    return ', '.join(items[:_LISTED]) + (f', and {rest} more' if rest > 0 else '')
