# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The weights of a checkpoint: one safetensors file, or an index and the shards it names.

A header tells names, types and shapes in some hundred kilobytes, whatever the file weighs. Tensors
are mapped: nothing is read before it is used.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from safetensors import SafetensorError, safe_open

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.checkpoint_files import read_json

_SHARD = re.compile(r'\w[\w.+-]*\.safetensors')
_LISTED = 4
_WHOLE = 'copy or download the whole checkpoint again'


@dataclass(frozen=True)
class TensorInfo:
    """One stored tensor.

    Attributes:
        dtype: as safetensors names it, e.g. ``F32``, ``BF16``.
        shape: as stored.

    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def values(self) -> int:
        """Return the number of values."""
        return math.prod(self.shape)


Header: TypeAlias = Mapping[str, TensorInfo]
"""Name of each tensor in a file, or in all shards → what it is."""


@dataclass(frozen=True)
class Weights:
    """Open weights.

    Attributes:
        source: the file, or the index of the shards, for messages.
        header: what all of it holds.

    """

    source: str
    header: Header
    _files: Mapping[str, Any]
    """Name of each tensor → open file that holds it."""

    def tensor(self, name: str) -> Any:
        """Return a torch tensor that lies in the mapped file: its pages are read when used."""
        return self._files[name].get_tensor(name)


@contextmanager
def open_weights(directory: Path, name: str) -> Iterator[Weights]:
    """Open the weights of a checkpoint, mapped and not read.

    Args:
        directory: of the checkpoint.
        name: of the file. Where it does not exist, ``NAME.index.json`` says where its tensors are.

    Raises:
        CheckpointError: no weights, a shard missing, a damaged file, or an index that contradicts
            its shards.

    """
    path, index = directory / name, index_of(directory / name)
    with ExitStack() as stack:
        if path.exists() or not index.exists():
            file = stack.enter_context(_mapped(path, 'pt'))
            header = _header_of(file)
            yield Weights(str(path), header, dict.fromkeys(header, file))
        else:
            weight_map = read_index(index, os.listdir(directory))
            shards = {
                shard: stack.enter_context(_mapped(directory / shard, 'pt'))
                for shard in sorted(set(weight_map.values()))
            }
            header = merge_headers(
                str(index), weight_map, {shard: _header_of(file) for shard, file in shards.items()}
            )
            files = {tensor: shards[shard] for tensor, shard in weight_map.items()}
            yield Weights(str(index), header, files)


def read_header(path: Path) -> Header:
    """Return what one safetensors file holds.

    Raises:
        CheckpointError: no such file, damaged, or of another format.

    """
    with _mapped(path, 'np') as file:
        return _header_of(file)


def index_of(path: Path) -> Path:
    """Return where the index of the shards lies that take the place of the file ``path``."""
    return path.with_name(f'{path.name}.index.json')


def read_index(path: Path, present: Collection[str] | None = None) -> dict[str, str]:
    """Return tensor → name of the shard that holds it, from a ``….safetensors.index.json``.

    Args:
        path: of the index.
        present: names of the files beside it; a shard that is not among them refuses. None = do
            not ask: whoever opens a shard sees.

    Raises:
        CheckpointError: unreadable, without tensors, a name that is no plain file name (an index
            never leads out of its folder), or a shard that is not there.

    """
    weight_map = read_json(path).get('weight_map')
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(
            f'{path}: weight_map is {"missing" if weight_map is None else repr(weight_map)[:80]}',
            expected='an object: name of each tensor → file that holds it',
            remedy=_WHOLE,
        )
    odd = {
        repr(shard)
        for shard in weight_map.values()
        if not isinstance(shard, str) or not _SHARD.fullmatch(shard)
    }
    if odd:
        raise CheckpointError(
            f'{path} names {_listing(sorted(odd))} as shards',
            expected='plain names of .safetensors files beside it',
            remedy=_WHOLE,
        )
    shards = set(weight_map.values())
    gone = sorted(shards - set(present)) if present is not None else []
    if gone:
        raise CheckpointError(
            f'{path} names {len(shards)} shards, {len(gone)} of which are missing: '
            f'{_listing(gone)}',
            expected='every shard beside its index',
            remedy='copy or download the missing shards',
        )
    return weight_map


def merge_headers(
    source: str, weight_map: Mapping[str, str], headers: Mapping[str, Header]
) -> Header:
    """Return what all shards hold together.

    Args:
        source: the index, for messages.
        weight_map: what ``read_index`` returned.
        headers: shard → what it really holds, for every shard of ``weight_map``.

    Raises:
        CheckpointError: index and shards contradict one another; every tensor of which.

    """
    problems = []
    homes: dict[str, list[str]] = {}
    for shard, header in sorted(headers.items()):
        for tensor in header:
            homes.setdefault(tensor, []).append(shard)
    for tensor, shards in homes.items():
        if len(shards) > 1:
            problems.append(f'{tensor} is in {" and in ".join(shards)}')
    for shard, header in sorted(headers.items()):
        named = {tensor for tensor, home in weight_map.items() if home == shard}
        if absent := sorted(named - header.keys()):
            problems.append(f'{shard} does not hold {_listing(absent)}, which the index says')
        extra = sorted(tensor for tensor in header if tensor not in weight_map)
        if extra:
            problems.append(f'{shard} holds {_listing(extra)}, which the index does not name')
    if problems:
        raise CheckpointError(
            '\n  - '.join(
                [f'{source} contradicts its shards', *problems[:_LISTED], *_rest(problems)]
            ),
            expected='shards and index of one and the same save',
            remedy=_WHOLE,
        )
    return {tensor: headers[shard][tensor] for tensor, shard in weight_map.items()}


@contextmanager
def _mapped(path: Path, framework: str) -> Iterator[Any]:
    """Open a safetensors file; ``pt`` to read tensors, ``np`` for the header alone."""
    try:
        file = safe_open(str(path), framework=framework)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f'{path} ({_size(path)} bytes) cannot be read: {error}',
            expected='a complete safetensors file',
            remedy='it is only a Git LFS pointer: run `git lfs pull`'
            if _is_pointer(path)
            else 'it is truncated, damaged or of another format: copy or download it again',
        ) from None
    with file:
        yield file


def _header_of(file: Any) -> Header:
    header = {}
    for name in file.keys():  # noqa: SIM118 - not a mapping
        view = file.get_slice(name)
        header[name] = TensorInfo(view.get_dtype(), tuple(view.get_shape()))
    return header


def _listing(items: list[str]) -> str:
    return ', '.join([*items[:_LISTED], *_rest(items)])


def _rest(items: list[str]) -> list[str]:
    return [f'and {len(items) - _LISTED} more'] if len(items) > _LISTED else []


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_pointer(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open('rb') as raw:
        return raw.read(64).startswith(b'version https://git-lfs')
