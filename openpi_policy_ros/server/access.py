# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Who may connect: API keys, read from a file or the environment and never told to anyone."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from openpi_policy_ros.errors import ConfigurationError

KEY_VARIABLE = 'OPENPI_API_KEY'
SCHEMES = ('api-key', 'bearer')
"""Of the header ``Authorization``: openpi-client's and everybody else's."""

SHORTEST_SAFE = 16
"""Characters below which a key can be found by trying; nobody counts wrong ones here."""

MISSING = 'an API key is needed: send the header "Authorization: Api-Key <key>" or "Bearer <key>"'
MALFORMED = 'the header Authorization is not of the form "Api-Key <key>" or "Bearer <key>"'
UNKNOWN = 'the API key is not one of this server'
MAKE_ONE = 'make a key with `openssl rand -hex 32`'


class ApiKeys:
    """The keys that open this server. Holds their digests only.

    Args:
        keys: at least one, printable ASCII without spaces.

    """

    def __init__(self, keys: Iterable[str]) -> None:
        keys = tuple(keys)
        self._digests = tuple(_digest(key) for key in keys)
        self.weak = any(len(key) < SHORTEST_SAFE for key in keys)

    def __len__(self) -> int:
        """Return how many keys there are."""
        return len(self._digests)

    def refusal(self, authorization: Sequence[str]) -> str | None:
        """Return why a request is refused, None = it may pass.

        How long this takes tells nothing about the keys.

        Args:
            authorization: every value of the header ``Authorization``.

        """
        if not authorization:
            return MISSING
        scheme, _, key = authorization[0].strip().partition(' ')
        key = key.strip()
        if len(authorization) > 1 or scheme.lower() not in SCHEMES or not key:
            return MALFORMED
        given = _digest(key)
        # Every one of them, so that the place of a key does not show either.
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        return None if any(matches) else UNKNOWN


def read_keys(file: str, environment: Mapping[str, str]) -> ApiKeys | None:
    """Return the keys of this server, None = it needs none.

    Args:
        file: one key per line; empty lines and lines that start with # do not count. '' = look
            into the environment.
        environment: ``OPENPI_API_KEY`` holds keys separated by spaces; not looked at when there
            is a file.

    Raises:
        ConfigurationError: the file cannot be read, or there is no key where one was to be.

    """
    if file:
        source = f'api_key_file: {file}'
        try:
            content = Path(file).expanduser().read_bytes()
        except OSError as error:
            raise ConfigurationError('server', [f'{source}: {error.strerror or error}']) from None
        lines = enumerate(content.splitlines(), 1)
        keys = [(f'line {n}', line.strip()) for n, line in lines if line.strip()]
        keys = [(place, key) for place, key in keys if not key.startswith(b'#')]
    elif KEY_VARIABLE in environment:
        source = f'environment variable {KEY_VARIABLE}'
        values = environment[KEY_VARIABLE].encode('utf-8', 'surrogateescape').split()
        keys = [(f'key {n}', value) for n, value in enumerate(values, 1)]
    else:
        return None
    if not keys:
        raise ConfigurationError('server', [f'{source}: holds no key; {MAKE_ONE}, or unset it'])
    # By their place: an error message is no place for a key.
    wrong = [place for place, key in keys if not all(0x21 <= byte <= 0x7E for byte in key)]
    if wrong:
        raise ConfigurationError(
            'server',
            [f'{source}: {", ".join(wrong)}: expected printable ASCII without spaces; {MAKE_ONE}'],
        )
    return ApiKeys(key.decode('ascii') for _, key in keys)


def _digest(key: str) -> bytes:
    # Of equal length, which compare_digest would otherwise tell.
    return hashlib.sha256(key.encode('utf-8', 'surrogateescape')).digest()
