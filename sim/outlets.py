# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where results go: refused before anything runs, if it cannot be written to."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

from openpi_policy_ros.errors import ConfigurationError


def writable(option: str, name: str | None, *, folder: bool) -> Path | None:
    """Return the path, whose folder can be written to; None where no name is given.

    Args:
        option: of the command line, for the error.
        name: of a file, or of a folder.
        folder: which of them; it is made where it is missing, as are those above it.

    Raises:
        ConfigurationError: it cannot.

    """
    if not name:
        return None
    path = Path(name).expanduser()
    place = path if folder else path.parent
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
        if not folder and path.is_dir():
            raise IsADirectoryError(errno.EISDIR, 'is a folder', name)
    except OSError as error:
        raise ConfigurationError(
            'arguments', [f'{option}: {place} cannot be written to: {error.strerror}']
        ) from error
    return path
