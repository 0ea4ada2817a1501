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


def load_observation(path: str) -> dict[str, Any]:
    """Return the observation in an ``.npz`` file: wire key → array, text as ``str``.

    Written by ``numpy.savez(path, **observation)``.

    Raises:
        ConfigurationError: no such file, no ``.npz``, nothing in it, or a pickled object in it.

    """
    file = Path(path).expanduser()
    try:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise ValueError('is a single array')
        with loaded as archive:
            content = {name: archive[name] for name in archive.files}
    except OSError as error:
        raise ConfigurationError(str(file), [error.strerror or str(error)]) from None
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigurationError(
            str(file), [f'{error}; expected an .npz file of arrays, as numpy.savez writes it']
        ) from None
    if not content:
        raise ConfigurationError(str(file), ['holds nothing'])
    return {name: _text(value) for name, value in content.items()}


def _text(value: npt.NDArray[Any]) -> Any:
    return value.item() if value.ndim == 0 and value.dtype.kind in 'US' else value
