# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read the weights of a DreamZero checkpoint into its networks, every tensor accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.encoders import Encoders
from openpi_policy_ros.policies.dreamzero.networks import Networks, allocate, build
from openpi_policy_ros.policies.dreamzero.remap import Slot, match, slots
from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.pi0.matching import FLOAT_BYTES
from openpi_policy_ros.policies.progress import Progress
from openpi_policy_ros.policies.weight_digest import WeightDigest
from openpi_policy_ros.policies.weight_files import Header, Weights, open_weights

_BLOCK = 32 << 20
"""Bytes of a file that are copied at once; with another size every digest is another one."""

_CPU = torch.device('cpu')


def load_weights(
    directory: Path,
    config: DreamZeroConfig,
    device: torch.device,
    dtype: torch.dtype,
    *,
    offload_text: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[CausalWan, Encoders, str]:
    """Return the networks with the weights in ``directory``, and the digest of these.

    Each tensor is mapped, and cast while it is copied, block by block, to its place on the device;
    what no inference uses (the end of CLIP) is never read. Everything but one file, or an index and
    its shards, is ignored: a TensorRT folder may lie beside them. A load that takes long says how
    far it is.

    Args:
        directory: of the checkpoint.
        config: what the weights have to fit.
        device: where the networks go.
        dtype: of every parameter, whatever the stored type.
        offload_text: leave the text encoder on the CPU, see ``Encoders``.
        clock: seconds, monotonic.

    Returns:
        the diffusion transformer, what is around it, and 12 hexadecimal digits that tell two sets
        of weights apart: SHA-256 over name, type, shape and stored bytes of every tensor that is
        served. How they are spread over files does not count.

    Raises:
        CheckpointError: no weights, a damaged file, an adapter, or every tensor that is missing,
            unknown, wrongly shaped or of a type that is not a float.
        ConfigurationError: transformers or diffusers are not installed.

    """
    networks = build(config)
    expected = slots(networks, config)
    with open_weights(directory, WEIGHTS) as weights:
        match(weights.header, expected, weights.source)
        for name in ('dit', 'text', 'clip', 'vae'):
            place = _CPU if name == 'text' and offload_text else device
            allocate(networks[name], place, dtype)
        digest = _fill(networks, weights, expected, clock)
    encoders = Encoders(
        networks.text, networks.clip, networks.vae, config, offload_text=offload_text
    )
    return networks.dit, encoders, digest


def check_header(header: Header, config: DreamZeroConfig, source: str) -> None:
    """Refuse what ``load_weights`` would refuse of a checkpoint with this header.

    Args:
        header: what its files hold; no weight is read.
        config: what the weights have to fit.
        source: the file, for messages.

    Raises:
        CheckpointError: as ``load_weights``.
        ConfigurationError: transformers or diffusers are not installed.

    """
    match(header, slots(build(config), config), source)


@torch.no_grad()
def _fill(
    networks: Networks,
    weights: Weights,
    expected: Mapping[str, Slot],
    clock: Callable[[], float],
) -> str:
    served = {name: slot for name, slot in sorted(expected.items()) if slot.parts}
    parameters: dict[tuple[str, str], nn.Parameter] = {
        (network, name): parameter
        for network in ('dit', 'text', 'clip', 'vae')
        for name, parameter in networks[network].named_parameters()
    }
    unfilled = set(parameters)
    infos = [weights.header[name] for name in served]
    total = sum(info.values * FLOAT_BYTES[info.dtype] for info in infos)
    progress = Progress(weights.source, total, clock)
    with WeightDigest() as digest:
        for name, slot in served.items():
            tensor = weights.tensor(name)
            label = f'{name} {tensor.dtype} {list(tensor.shape)}'
            for part in slot.parts:
                key = (part.network, part.parameter)
                parameter = parameters[key]
                stored = tensor.view(-1)[part.start : part.start + parameter.numel()]
                for source, target in _blocks(stored, parameter):
                    digest.add(label, source.view(torch.uint8).numpy())
                    # On the device: the bytes that travel are those stored.
                    target.copy_(source.to(parameter.device))
                    progress.advance(source.nbytes)
                unfilled.discard(key)
        result = digest.hexdigest()
    if unfilled:
        raise AssertionError(f'remap.py leaves parameters unfilled: {sorted(unfilled)}')
    return result[:12]


def _blocks(stored: Tensor, parameter: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Return pairs of flat parts: of stored values, and of where they go."""
    values = max(1, _BLOCK // stored.element_size())
    return zip(stored.split(values), parameter.view(-1).split(values), strict=True)
