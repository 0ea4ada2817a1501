# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the weights of a checkpoint into a network, every tensor accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.layout import EMBEDDING, PALIGEMMA_HEAD, Slot, tensors
from openpi_policy_ros.policies.pi0.matching import FLOAT_BYTES, match_tensors
from openpi_policy_ros.policies.pi0.model import PiModel, make_model
from openpi_policy_ros.policies.progress import Progress
from openpi_policy_ros.policies.weight_digest import WeightDigest
from openpi_policy_ros.policies.weight_files import Weights, open_weights

_BLOCK = 32 << 20
"""Bytes of a file that are copied at once: no table is ever held a second time for its cast.

The digest is over these blocks: with another size every digest is another one.
"""


def load_weights(
    directory: Path,
    config: Pi0Config,
    device: torch.device,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[PiModel, str]:
    """Return the network with the weights in ``directory``, and their digest.

    Each tensor is mapped, and cast while it is copied, block by block, to its place on the device;
    the unused ones (both vocabulary heads, the end of the last prefix layer) are never read. A
    load that takes long says how far it is.

    Args:
        directory: of the checkpoint, in LeRobot's or openpi's layout, sharded or not.
        config: what the weights have to fit.
        device: where they go.
        clock: seconds, monotonic.

    Returns:
        the network, and 12 hexadecimal digits that tell two sets of weights apart: SHA-256 over
        name, type, shape and stored bytes of every tensor that is served. How the tensors are
        named and spread over files does not count.

    Raises:
        CheckpointError: no weights, a damaged file, or every tensor that is missing, unknown,
            wrongly shaped or of a type that is not a float.

    """
    with open_weights(directory, WEIGHTS) as weights:
        sources = match_tensors(weights.header, config, weights.source)
        model = make_model(config, device, getattr(torch, config.dtype))
        kept = {
            name: (slot, _stored(name, sources))
            for name, slot in sorted(tensors(config).items())
            if slot.parameter
        }
        return model, _fill(model, weights, kept, clock)


def _stored(name: str, sources: Mapping[str, str]) -> str:
    if name == EMBEDDING and name not in sources:
        return sources[PALIGEMMA_HEAD]
    return sources[name]


@torch.no_grad()
def _fill(
    model: PiModel,
    weights: Weights,
    kept: Mapping[str, tuple[Slot, str]],
    clock: Callable[[], float],
) -> str:
    parameters = dict(model.named_parameters())
    filled: dict[str, int] = dict.fromkeys(parameters, 0)
    infos = [weights.header[stored] for _, stored in kept.values()]
    total = sum(info.values * FLOAT_BYTES[info.dtype] for info in infos)
    progress = Progress(weights.source, total, clock)
    with WeightDigest() as digest:
        for name, (slot, stored) in kept.items():
            tensor = weights.tensor(stored)
            parameter = parameters[slot.parameter]
            rows = parameter[slot.row : slot.row + tensor.shape[0]]
            label = f'{name} {tensor.dtype} {list(tensor.shape)}'
            for source, target in _blocks(tensor, rows):
                digest.add(label, source.view(torch.uint8).numpy())
                # On the device: the bytes that travel are those stored.
                values = source.to(model.device)
                # In float32 first: 1 + w in a narrow type would lose what w says.
                target.copy_(values.float() + 1.0 if slot.plus_one else values)
                progress.advance(source.nbytes)
            filled[slot.parameter] += rows.numel()
        result = digest.hexdigest()
    short = [name for name, count in filled.items() if count != parameters[name].numel()]
    if short:
        raise AssertionError(f'layout.py leaves parameters of the model unfilled: {short}')
    return result[:12]


def _blocks(tensor: Tensor, rows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Return pairs of flat parts: of a stored tensor, and of where it goes."""
    values = max(1, _BLOCK // tensor.element_size())
    return zip(tensor.view(-1).split(values), rows.view(-1).split(values), strict=True)
