# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names, types and shapes of a safetensors file, from its header: no weight is read for them.

A header is some hundred kilobytes, whatever the file weighs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from safetensors import SafetensorError, safe_open

from openpi_policy_ros.errors import CheckpointError


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
"""Name of each tensor in a file → what it is."""


@contextmanager
def opened(path: Path, framework: str) -> Iterator[Any]:
    """Open a safetensors file, mapped and not read.

    Args:
        path: the file.
        framework: ``pt`` to read tensors, ``np`` for the header alone.

    Raises:
        CheckpointError: no such file, damaged, or of another format.

    """
    try:
        with safe_open(str(path), framework=framework) as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f'{path} ({_size(path)} bytes) cannot be read: {error}',
            expected='a complete safetensors file',
            remedy='it is only a Git LFS pointer: run `git lfs pull`'
            if _is_pointer(path)
            else 'it is truncated, damaged or of another format: copy or download it again',
        ) from None


def read_header(path: Path) -> Header:
    """Return what a safetensors file holds.

    Raises:
        CheckpointError: no such file, damaged, or of another format.

    """
    with opened(path, 'np') as file:
        return header_of(file)


def header_of(file: Any) -> Header:
    """Return what an open safetensors file holds."""
    header = {}
    for name in file.keys():  # noqa: SIM118 - not a mapping
        view = file.get_slice(name)
        header[name] = TensorInfo(view.get_dtype(), tuple(view.get_shape()))
    return header


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_pointer(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open('rb') as raw:
        return raw.read(64).startswith(b'version https://git-lfs')
