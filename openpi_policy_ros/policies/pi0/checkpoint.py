# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the weights of a π0 checkpoint, every tensor accounted for.

A tensor that is missing, unknown or of another shape refuses: a network that is random in one
layer still answers, and moves a robot.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.layout import EMBEDDING, EXPERT_HEAD, PALIGEMMA_HEAD, tensors
from openpi_policy_ros.policies.pi0.model import Pi0Model

WEIGHTS = 'model.safetensors'
HUB_PATTERNS = (
    'config.json',
    'arch_overrides.json',
    WEIGHTS,
    'policy_preprocessor*',
    'policy_postprocessor*',
    'tokenizer.json',
    'tokenizer/tokenizer.json',
)
"""The only files ever fetched of a hub repository."""

_DTYPES = ('F32', 'BF16', 'F16')
_LISTED = 8
_INSERT_MODEL = re.compile(
    r'^(paligemma_with_expert\.paligemma\.)(vision_tower|multi_modal_projector|language_model)\.'
)


def canonical(name: str) -> str:
    """Return the name a tensor has in ``layout.tensors``, whatever version of LeRobot wrote it."""
    name = name.removeprefix('model.')
    name = re.sub(r'^time_mlp_', 'action_time_mlp_', name)
    name = _INSERT_MODEL.sub(r'\1model.\2.', name)
    return re.sub(r'\.vision_tower\.(?!vision_model\.)', '.vision_tower.vision_model.', name)


def load_weights(directory: Path, config: Pi0Config, device: torch.device) -> tuple[Pi0Model, str]:
    """Return the model with the weights in ``directory``, and their digest.

    Each tensor is mapped, converted and copied straight to its place on the device; the unused
    ones (both vocabulary heads, the end of the last prefix layer) are never read.

    Returns:
        the model, and 12 hexadecimal digits that tell two sets of weights apart: SHA-256 over
        name, type, shape and stored bytes of every tensor that is served.

    Raises:
        CheckpointError: no weights, a damaged file, or every tensor that is missing, unknown,
            wrongly shaped or of a type that is not a float.

    """
    path = directory / WEIGHTS
    _require_file(path)
    with _opened(path) as file:
        sources = _match(file, config, path)
        model = Pi0Model(config, device, getattr(torch, config.dtype))
        digest = _fill(model, file, sources, config)
    return model, digest


def _require_file(path: Path) -> None:
    if path.is_file():
        return
    directory = path.parent
    if (directory / f'{path.name}.index.json').is_file():
        raise CheckpointError(
            f'{directory}: its weights are sharded ({path.name}.index.json), which is not '
            'supported yet',
            expected=f'one file {path.name}',
            remedy='save the checkpoint again with a shard size above its own',
        )
    there = ', '.join(sorted(item.name for item in directory.iterdir())[:20]) or 'nothing'
    raise CheckpointError(
        f'{directory} holds no weights',
        expected=f'a file {path.name} (there is: {there})',
        remedy='copy or download the whole checkpoint; random weights are never served',
    )


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file; a damaged one refuses."""
    try:
        with safe_open(str(path), framework='pt', device='cpu') as file:
            yield file
    except (SafetensorError, OSError) as error:
        with path.open('rb') as raw:
            pointer = raw.read(64).startswith(b'version https://git-lfs')
        raise CheckpointError(
            f'{path} ({path.stat().st_size} bytes) cannot be read: {error}',
            expected='a complete safetensors file',
            remedy='it is only a Git LFS pointer: run `git lfs pull`'
            if pointer
            else 'it is truncated, damaged or of another format: copy or download it again',
        ) from None


def _match(file: Any, config: Pi0Config, path: Path) -> dict[str, str]:
    """Return canonical name → name in the file, every tensor accounted for."""
    slots = tensors(config)
    sources: dict[str, str] = {}
    problems: list[str] = []
    for stored in sorted(file.keys()):
        name = canonical(stored)
        if name in sources:
            problems.append(f'{stored}: the same tensor as {sources[name]}')
        sources[name] = stored
    # The published checkpoint stores the one table of embeddings as the language model's head.
    optional = {EXPERT_HEAD, EMBEDDING if PALIGEMMA_HEAD in sources else PALIGEMMA_HEAD}
    missing = sorted(slots.keys() - sources.keys() - optional)
    unexpected = sorted(sources[name] for name in sources.keys() - slots.keys())
    if missing:
        problems.append(f'{len(missing)} missing: {_listing(missing)}')
    if unexpected:
        problems.append(f'{len(unexpected)} unexpected: {_listing(unexpected)}')
    wrong = []
    for name in sorted(sources.keys() & slots.keys()):
        view = file.get_slice(sources[name])
        shape, dtype = tuple(view.get_shape()), view.get_dtype()
        if shape != slots[name].shape:
            wrong.append(f'{sources[name]} is {list(shape)}, expected {list(slots[name].shape)}')
        if dtype not in _DTYPES:
            wrong.append(f'{sources[name]} is {dtype}, expected one of {", ".join(_DTYPES)}')
    if wrong:
        problems.append(f'{len(wrong)} of wrong shape or type: {_listing(wrong)}')
    if problems:
        raise CheckpointError(
            '\n  - '.join([f'{path} does not fit a π0 of these sizes', *problems]),
            remedy='check that config.json (and arch_overrides.json) belong to these weights, or '
            'copy the checkpoint again',
        )
    return sources


def _listing(items: list[str]) -> str:
    rest = len(items) - _LISTED
    return ', '.join(items[:_LISTED]) + (f', and {rest} more' if rest > 0 else '')


@torch.no_grad()
def _fill(model: Pi0Model, file: Any, sources: Mapping[str, str], config: Pi0Config) -> str:
    parameters = dict(model.named_parameters())
    digest = hashlib.sha256()
    filled: dict[str, int] = dict.fromkeys(parameters, 0)
    for name, slot in sorted(tensors(config).items()):
        if not slot.parameter:
            continue
        stored = sources.get(name, sources.get(PALIGEMMA_HEAD) if name == EMBEDDING else None)
        assert stored is not None, name
        tensor: Tensor = file.get_tensor(stored)
        digest.update(f'{name} {tensor.dtype} {list(tensor.shape)}'.encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
        parameter = parameters[slot.parameter]
        rows = parameter[slot.row : slot.row + tensor.shape[0]]
        # In float32 first: 1 + w in a narrow type would lose what w says.
        values = tensor.float() + 1.0 if slot.plus_one else tensor
        rows.copy_(values.reshape(rows.shape))
        filled[slot.parameter] += rows.numel()
    short = [name for name, count in filled.items() if count != parameters[name].numel()]
    if short:
        raise AssertionError(f'layout.py leaves parameters of the model unfilled: {short}')
    return digest.hexdigest()[:12]
