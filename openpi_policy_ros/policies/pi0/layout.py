# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every tensor of a checkpoint of the π0 family: its name, its shape, and its place in our model.

One table per family serves three uses: strict loading, writing a checkpoint, and the proof that the
table itself is complete (it is compared with the names and shapes of the published checkpoint).
"""

from __future__ import annotations

from dataclasses import dataclass

from openpi_policy_ros.policies.pi0.config import GemmaSize, Pi0Config

PALIGEMMA = 'paligemma_with_expert.paligemma.model'
PALIGEMMA_HEAD = 'paligemma_with_expert.paligemma.lm_head.weight'
EXPERT = 'paligemma_with_expert.gemma_expert.model'
EXPERT_HEAD = 'paligemma_with_expert.gemma_expert.lm_head.weight'
EMBEDDING = f'{PALIGEMMA}.language_model.embed_tokens.weight'


@dataclass(frozen=True)
class Slot:
    """Where one tensor of the checkpoint goes.

    Attributes:
        shape: as stored.
        parameter: name of our parameter; '' = the tensor belongs to a complete checkpoint, but no
            inference ever reads it.
        row: first row it fills, where several tensors are fused into one parameter.
        plus_one: our parameter holds 1 + w (Gemma's RMSNorm stores w).

    """

    shape: tuple[int, ...]
    parameter: str = ''
    row: int = 0
    plus_one: bool = False


def tensors(config: Pi0Config) -> dict[str, Slot]:
    """Return canonical name (no leading ``model.``) → slot, for a checkpoint of these sizes.

    The names are those of LeRobot and, but for its missing ``model.``, of openpi's PyTorch files.
    """
    slots: dict[str, Slot] = {}
    _vision(config, slots)
    width = config.language.width
    slots[EMBEDDING] = Slot((config.vocab_size, width), 'embedding')
    last = config.language.depth - 1
    for layer in range(config.language.depth):
        name = f'{PALIGEMMA}.language_model.layers.{layer}'
        _gemma_layer(config.language, name, f'prefix.{layer}', slots, kv_only=layer == last)
    # The prefix serves by its keys and values alone, so its last output is never normed.
    slots[f'{PALIGEMMA}.language_model.norm.weight'] = Slot((width,))
    slots[PALIGEMMA_HEAD] = Slot((config.vocab_size, width))

    for layer in range(config.expert.depth):
        _gemma_layer(config.expert, f'{EXPERT}.layers.{layer}', f'expert.{layer}', slots)
    width = config.expert.width
    slots[f'{EXPERT}.norm.weight'] = Slot((width,), 'expert_norm.weight', plus_one=True)
    slots[EXPERT_HEAD] = Slot((config.vocab_size, width))

    _linear('action_in_proj', config.max_action_dim, width, slots)
    _linear('action_out_proj', width, config.max_action_dim, slots)
    if config.family == 'pi05':
        _adapt_norms(config.expert, slots)
        _linear('time_mlp_in', width, width, slots)
        _linear('time_mlp_out', width, width, slots)
    else:
        _linear('state_proj', config.max_state_dim, width, slots)
        _linear('action_time_mlp_in', 2 * width, width, slots)
        _linear('action_time_mlp_out', width, width, slots)
    return slots


def _adapt_norms(size: GemmaSize, slots: dict[str, Slot]) -> None:
    """Replace the fixed norms of the action expert by π0.5's, which the time makes."""
    rows = 3 * size.width
    norms = [
        f'{EXPERT}.layers.{layer}.{name}'
        for layer in range(size.depth)
        for name in ('input_layernorm', 'post_attention_layernorm')
    ]
    for index, name in enumerate([*norms, f'{EXPERT}.norm']):
        del slots[f'{name}.weight']
        for kind, shape in (('weight', (rows, size.width)), ('bias', (rows,))):
            slots[f'{name}.dense.{kind}'] = Slot(shape, f'modulation.{kind}', index * rows)


def _linear(name: str, inputs: int, outputs: int, slots: dict[str, Slot]) -> None:
    slots[f'{name}.weight'] = Slot((outputs, inputs), f'{name}.weight')
    slots[f'{name}.bias'] = Slot((outputs,), f'{name}.bias')


def _vision(config: Pi0Config, slots: dict[str, Slot]) -> None:
    size = config.vision
    width, mlp, patch = size.width, size.mlp_dim, size.patch_size
    tower = f'{PALIGEMMA}.vision_tower.vision_model'
    embeddings = f'{tower}.embeddings'
    slots[f'{embeddings}.patch_embedding.weight'] = Slot(
        (width, 3, patch, patch), 'vision.patch_embedding.weight'
    )
    slots[f'{embeddings}.patch_embedding.bias'] = Slot((width,), 'vision.patch_embedding.bias')
    slots[f'{embeddings}.position_embedding.weight'] = Slot(
        (config.patches, width), 'vision.position_embedding'
    )
    for layer in range(size.depth):
        theirs, ours = f'{tower}.encoder.layers.{layer}', f'vision.layers.{layer}'
        shapes = {
            'layer_norm1': ('norm1', (width,), 0),
            'self_attn.q_proj': ('qkv', (width, width), 0),
            'self_attn.k_proj': ('qkv', (width, width), width),
            'self_attn.v_proj': ('qkv', (width, width), 2 * width),
            'self_attn.out_proj': ('out', (width, width), 0),
            'layer_norm2': ('norm2', (width,), 0),
            'mlp.fc1': ('fc1', (mlp, width), 0),
            'mlp.fc2': ('fc2', (width, mlp), 0),
        }
        for name, (target, shape, row) in shapes.items():
            slots[f'{theirs}.{name}.weight'] = Slot(shape, f'{ours}.{target}.weight', row)
            slots[f'{theirs}.{name}.bias'] = Slot(shape[:1], f'{ours}.{target}.bias', row)
    for kind in ('weight', 'bias'):
        slots[f'{tower}.post_layernorm.{kind}'] = Slot((width,), f'vision.post_norm.{kind}')
    projector = f'{PALIGEMMA}.multi_modal_projector.linear'
    slots[f'{projector}.weight'] = Slot((config.language.width, width), 'projector.weight')
    slots[f'{projector}.bias'] = Slot((config.language.width,), 'projector.bias')


def _gemma_layer(
    size: GemmaSize, theirs: str, ours: str, slots: dict[str, Slot], kv_only: bool = False
) -> None:
    width, mlp = size.width, size.mlp_dim
    queries, keys = size.num_heads * size.head_dim, size.num_kv_heads * size.head_dim
    # Without queries the fused projection holds keys and values alone.
    first = 0 if kv_only else queries
    # kv_only: what comes after the keys and values belongs to the checkpoint, but is never read.
    rest = '' if kv_only else ours

    def later(parameter: str, shape: tuple[int, ...], row: int = 0) -> Slot:
        plus_one = parameter.startswith('norm')
        return Slot(shape, f'{rest}.{parameter}', row, plus_one) if rest else Slot(shape)

    slots[f'{theirs}.input_layernorm.weight'] = Slot(
        (width,), f'{ours}.norm1.weight', plus_one=True
    )
    slots[f'{theirs}.self_attn.q_proj.weight'] = later('qkv.weight', (queries, width))
    slots[f'{theirs}.self_attn.k_proj.weight'] = Slot((keys, width), f'{ours}.qkv.weight', first)
    slots[f'{theirs}.self_attn.v_proj.weight'] = Slot(
        (keys, width), f'{ours}.qkv.weight', first + keys
    )
    slots[f'{theirs}.self_attn.o_proj.weight'] = later('out.weight', (width, queries))
    slots[f'{theirs}.post_attention_layernorm.weight'] = later('norm2.weight', (width,))
    slots[f'{theirs}.mlp.gate_proj.weight'] = later('gate_up.weight', (mlp, width))
    slots[f'{theirs}.mlp.up_proj.weight'] = later('gate_up.weight', (mlp, width), mlp)
    slots[f'{theirs}.mlp.down_proj.weight'] = later('down.weight', (width, mlp))
