# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One observation in an ``.npz`` file: what a warm-up or a try-out sends."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.errors import ConfigurationError

_UNREADABLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError)


def load_observation(path: str | Path) -> dict[str, Any]:
    """Return the observation in an ``.npz`` file: wire key → array, text as ``str``.

    Written by ``numpy.savez(path, **observation)``.

    Raises:
        ConfigurationError: no such file, no ``.npz``, nothing in it, or a pickled object in it.

    """
    path = Path(path).expanduser()
    archive = load_arrays(path)
    if isinstance(archive, np.ndarray):
        raise ConfigurationError(
            str(path), ['is one array (.npy), expected an .npz with one array per key']
        )
    values, problems = {}, []
    with archive:
        for key in archive.files:
            try:
                value = archive[key]
            except _UNREADABLE as error:
                why = 'it holds Python objects, not numbers' if 'pickle' in str(error) else error
                problems.append(f'{key}: cannot be read: {why}')
                continue
            if isinstance(value, np.ndarray):
                values[key] = value
            else:
                problems.append(f'{key}: is no array')
    if not values and not problems:
        problems.append(
            'is empty, expected one array per key '
            '(openpi-policy check --example writes one that fits)'
        )
    if problems:
        raise ConfigurationError(str(path), problems)
    return {key: _plain(value) for key, value in values.items()}


def load_arrays(path: Path) -> Any:
    """Return what ``numpy.load`` finds in a file, never unpickling it.

    Raises:
        ConfigurationError: no such file, or none of plain arrays.

    """
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ConfigurationError(str(path), ['does not exist; check the path']) from None
    except _UNREADABLE as error:
        # NumPy's own advice is to allow pickles, which can run code.
        text = str(error) or type(error).__name__
        why = 'it is no file of plain arrays' if 'pickle' in text else text
        raise ConfigurationError(str(path), [f'cannot be read: {why}']) from None


def _plain(value: npt.NDArray[Any]) -> Any:
    """Return text as text; arrays stay what they are."""
    return value.item() if value.ndim == 0 and value.dtype.kind in 'US' else value
