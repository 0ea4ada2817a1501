# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the API key for a server comes from; never the command line, which others can read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from openpi_policy_ros.errors import ConfigurationError


def read_api_key(file: str, variable: str, environment: Mapping[str, str]) -> str:
    """Return the key to send, '' = none.

    Args:
        file: its first line that is neither empty nor starts with # is the key. '' = look into
            the environment.
        variable: environment variable that holds the key.
        environment: as ``os.environ``.

    Raises:
        ConfigurationError: the file cannot be read or holds no key.

    """
    if not file:
        return environment.get(variable, '').strip() if variable else ''
    try:
        lines = Path(file).expanduser().read_text(encoding='ascii').splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, 'strerror', None) or 'holds other characters than ASCII'
        raise ConfigurationError('API key', [f'{file}: {why}']) from None
    keys = [line.strip() for line in lines if line.strip() and not line.startswith('#')]
    if not keys:
        raise ConfigurationError('API key', [f'{file}: holds no key'])
    return keys[0]
