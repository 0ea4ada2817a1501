# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which kind of checkpoint a folder holds, told by its files, and what to do with other kinds.

Users bring whatever their training wrote. What is not read here is called by its name, with the
conversion to use, instead of failing over a file that such a folder never has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.checkpoint_files import read_json
from openpi_policy_ros.policies.checkpoint_view import CheckpointView
from openpi_policy_ros.policies.weight_files import Header

CONFIG, WEIGHTS = 'config.json', 'model.safetensors'
INDEX = f'{WEIGHTS}.index.json'

_MIGRATE = 'python -m lerobot.processor.migrate_policy_normalization --pretrained-path …'


@dataclass(frozen=True)
class Layout:
    """A kind of checkpoint.

    Attributes:
        name: short, for programs.
        title: what it is, for people.
        remedy: what to do instead; '' = it is read here.

    """

    name: str
    title: str
    remedy: str = ''

    def refusal(self, model: str) -> CheckpointError:
        """Return the error that names this layout."""
        return CheckpointError(
            f'{model} is {self.title}, which is not read here',
            expected=f"a checkpoint in LeRobot's layout ({CONFIG} with a type, {WEIGHTS}), that of "
            f"openpi's PyTorch models ({CONFIG} with an action_horizon, {WEIGHTS}, assets/) or "
            f"DreamZero's ({CONFIG} with model_type vla, {WEIGHTS}, experiment_cfg/)",
            remedy=self.remedy,
        )


LEROBOT = Layout('lerobot', 'a LeRobot checkpoint')
UNKNOWN = Layout('unknown', 'no known kind of checkpoint')
NO_CONFIG = Layout('no_config', f'a {WEIGHTS} of the π0 family without its {CONFIG}')
OPENPI_JAX = Layout(
    'openpi_jax',
    'an openpi checkpoint in JAX (Orbax) format',
    "convert it with openpi's own script (examples/convert_jax_model_to_pytorch.py "
    '--checkpoint_dir … --config_name … --output_path …) and copy its folder assets/ into what '
    'that writes: the result is read here',
)
OPENPI_PYTORCH = Layout('openpi_pytorch', 'an openpi checkpoint in PyTorch')
LEROBOT_BUFFERS = Layout(
    'lerobot_buffers',
    'an old LeRobot checkpoint, whose normalisation statistics lie among its weights '
    '(normalize_inputs.buffer_…)',
    f'migrate it with LeRobot: {_MIGRATE}',
)
PEFT = Layout(
    'peft',
    'a PEFT adapter (LoRA), not a whole checkpoint',
    'merge it into the base model it was trained on (PEFT merge_and_unload) and save that',
)
DREAMZERO = Layout('dreamzero', 'a DreamZero checkpoint')
DREAMZERO_BARE = Layout(
    'dreamzero',
    f'the weights of a DreamZero checkpoint without their {CONFIG}',
    f'copy {CONFIG} and experiment_cfg/ from where they were trained, or download the whole '
    'repository',
)
GROOT = Layout('groot', 'a GR00T checkpoint', 'serve it with its own server')
PICKLE = Layout(
    'pickle',
    'weights in a pickle (.bin, .pt, .pth or .ckpt)',
    'save them as safetensors in the layout of LeRobot or openpi; pickles are never opened: they '
    'can run code',
)

_FAST = (
    'π0-FAST, which writes actions as text tokens, is another model than π0: serve it with LeRobot'
)
_OTHER = 'it is another model than π0: serve it with LeRobot'
_OTHERS = (
    *('act', 'diffusion', 'groot', 'multi_task_dit', 'sac', 'smolvla', 'tdmpc', 'vqbet'),
    *('wall_x', 'xvla'),
)
TYPES: Mapping[str, str] = {
    'pi0_fast': _FAST,
    'pi0fast': _FAST,
    **dict.fromkeys(_OTHERS, _OTHER),
}
"""Values of ``type`` in LeRobot's config.json that nobody serves here → what to do."""

_ORBAX = re.compile(
    r'(?:params/|train_state/)?(?:_METADATA|_CHECKPOINT_METADATA|manifest\.ocdbt|_sharding)'
)
_BUFFERS = re.compile(r'(?:model\.)?(?:un)?normalize_\w+\.')
_ASSETS = re.compile(r'assets/(?P<id>.+)/norm_stats\.json')
_PICKLE = re.compile(r'[^/]+\.(?:bin|pt|pth|ckpt)')
_PI0_TENSOR = re.compile(r'(?:model\.)?paligemma_with_expert\.')
_DREAMZERO_TENSOR = 'action_head.'
_OF_TRAINING = ('metadata.pt', 'optimizer.pt')


def identify(view: CheckpointView) -> Layout:
    """Return the layout of a checkpoint.

    Reads config.json and, only where that and the names of the files leave it open, the header of
    the weights.
    """
    names = view.sizes.keys()
    # Beside whole weights these are leftovers of what the weights were made from.
    if not {WEIGHTS, INDEX} & names:
        if {'adapter_config.json', 'adapter_model.safetensors'} & names:
            return PEFT
        if any(_ORBAX.fullmatch(name) for name in names):
            return OPENPI_JAX
    config = read_json(view.located.directory / CONFIG) if CONFIG in names else {}
    if isinstance(config.get('type'), str):
        return LEROBOT_BUFFERS if has_buffers(_tensors(view)) else LEROBOT
    model_type = str(config.get('model_type', '')).lower()
    if model_type.startswith('gr00t'):
        return GROOT
    if model_type == 'vla':
        return DREAMZERO
    has_assets = any(_ASSETS.fullmatch(name) for name in names)
    if {'action_dim', 'action_horizon'} <= config.keys() or (has_assets and CONFIG in names):
        return OPENPI_PYTORCH
    tensors = _tensors(view)
    if any(name.startswith(_DREAMZERO_TENSOR) for name in tensors):
        return DREAMZERO if CONFIG in names else DREAMZERO_BARE
    if CONFIG not in names and any(_PI0_TENSOR.match(name) for name in tensors):
        trained = has_assets or any(name in names for name in _OF_TRAINING)
        return _openpi_without_config(view) if trained else NO_CONFIG
    return _elsewhere(names, config)


def openpi_type(view: CheckpointView) -> str:
    """Return the type of an openpi checkpoint, ``pi0`` or ``pi05``.

    Only its tensors tell: π0.5 has no projection of the state, and an MLP for the time alone.
    """
    names = {name.removeprefix('model.').partition('.')[0] for name in _tensors(view)}
    return 'pi05' if 'time_mlp_in' in names and 'state_proj' not in names else 'pi0'


def has_buffers(tensors: Iterable[str]) -> bool:
    """Return whether statistics of a normalisation lie among the weights."""
    return any(_BUFFERS.match(name) for name in tensors)


def asset_ids(names: Iterable[str]) -> list[str]:
    """Return the assets whose statistics an openpi checkpoint with these files carries, sorted."""
    return sorted(found['id'] for name in names if (found := _ASSETS.fullmatch(name)))


def known_layout(view: CheckpointView) -> Layout:
    """Return the layout of a checkpoint that is read here.

    What is no checkpoint at all passes: its reader says which file is missing.

    Raises:
        CheckpointError: a layout that is known, and not read here.

    """
    layout = identify(view)
    if layout.remedy:
        raise layout.refusal(view.model)
    return layout


def unserved(model: str, model_type: str, served: Collection[str]) -> CheckpointError:
    """Return the error for a LeRobot checkpoint of a type that no registered policy serves."""
    known = TYPES.get(model_type)
    return CheckpointError(
        f'{model}: {CONFIG} has type {model_type!r}, which no registered policy serves',
        expected=f'one of {", ".join(sorted(served))}',
        remedy=(f'{known}; ' if known else '')
        + 'name a policy file (policy:=…), or install the package that adds this policy',
    )


def _tensors(view: CheckpointView) -> Collection[str]:
    """Return the names of the tensors, () where they cannot be read: validation tells that."""
    if WEIGHTS not in view.sizes:
        # Names are all in the index; the headers of the shards need not be read for them.
        index = view.located.directory / INDEX
        weight_map = read_json(index).get('weight_map') if index.is_file() else None
        return weight_map.keys() if isinstance(weight_map, dict) else ()
    return _header(view).keys()


def _header(view: CheckpointView) -> Header:
    try:
        return view.header(WEIGHTS)
    except CheckpointError:
        return {}


def _openpi_without_config(view: CheckpointView) -> Layout:
    """Return what openpi's training in PyTorch saves, with the config.json that it lacks.

    It trains no other sizes there, and the rest shows in the weights, but for the number of steps
    of a chunk: that is in a pickle alone.
    """
    header = _header(view)
    projection = header.get('action_in_proj.weight')
    values = {
        'action_dim': projection.shape[-1] if projection is not None and projection.shape else '…',
        'action_horizon': '…',
        'paligemma_variant': 'gemma_2b',
        'action_expert_variant': 'gemma_300m',
        'precision': 'bfloat16' if any(t.dtype == 'BF16' for t in header.values()) else 'float32',
    }
    return Layout(
        'openpi_training',
        f'an openpi checkpoint as its training in PyTorch saves it, without a {CONFIG}',
        f'write one: {json.dumps(values, ensure_ascii=False)}, where action_horizon is the whole '
        'number that the model of its training config says (50 where that says nothing); it is in '
        'none of the files but metadata.pt, a pickle, and pickles are never opened',
    )


def _elsewhere(names: Collection[str], config: Mapping[str, Any]) -> Layout:
    """Return what a folder without a checkpoint of its own holds."""
    inner = sorted(
        name.removesuffix(f'/{CONFIG}')
        for name in names
        if name.endswith(f'/{CONFIG}') and f'{name.removesuffix(CONFIG)}{WEIGHTS}' in names
    )
    if inner and CONFIG not in names:
        listed = ', '.join(inner[-3:])
        return Layout('nested', 'a folder with a checkpoint further down', f'pass {listed} of it')
    if any(_ORBAX.fullmatch(name.split('/', 1)[-1]) for name in names):
        return Layout(
            'openpi_jax', 'a folder of openpi checkpoints in JAX (Orbax) format', OPENPI_JAX.remedy
        )
    if any(_PICKLE.fullmatch(name) for name in names):
        return PICKLE
    if config.get('architectures') or config.get('model_type'):
        kind = config.get('model_type') or config['architectures']
        return Layout(
            'transformers',
            f'a checkpoint of the transformers library ({kind}), not a policy',
            'pass a checkpoint that LeRobot or openpi saved',
        )
    return UNKNOWN
