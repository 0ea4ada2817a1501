# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The address of an OpenPI server, checked before anything is connected."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from openpi_policy_ros.configuration.paths import OPENPI_PATH
from openpi_policy_ros.errors import ConfigurationError

EXAMPLE = f'ws://gpu-box:8000{OPENPI_PATH}'
SCHEMES = ('ws', 'wss')


@dataclass(frozen=True)
class Address:
    """Where a server is.

    Attributes:
        url: as given, with ``/`` where it has no path.
        host: name or IP address, without brackets.
        port: TCP port.
        path: with the query, at least ``/``.
        secure: whether it is reached over TLS (``wss://``).

    """

    url: str
    host: str
    port: int
    path: str
    secure: bool

    def __str__(self) -> str:
        """Return the whole address."""
        return self.url


def parse_address(text: str) -> Address:
    """Return the address in ``ws://host:port/path`` or ``wss://…``.

    Raises:
        ConfigurationError: another scheme, no host, no port, credentials or a fragment in it;
            says how to write it.

    """
    problems: list[str] = []
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or '', parts.port
    except ValueError as error:
        raise ConfigurationError('server address', [f'{text!r}: {error}']) from None
    if parts.username is not None or parts.password is not None:
        # Not repeated: it would end up in a log.
        raise ConfigurationError(
            'server address',
            ['holds a user or password, which would be logged; give an API key instead'],
        )
    if parts.scheme in ('http', 'https'):
        right = {'http': 'ws', 'https': 'wss'}[parts.scheme]
        rest = text[len(parts.scheme) :]
        problems.append(f'{text!r} is an {parts.scheme}:// address; write {right}{rest}')
    elif parts.scheme not in SCHEMES:
        problems.append(
            f'{text!r} is not a WebSocket address; write e.g. {EXAMPLE} (or wss:// for TLS)'
        )
    else:
        if not host:
            problems.append(f'{text!r} names no host; write e.g. {EXAMPLE}')
        elif port is None:
            shown = f'[{host}]' if ':' in host else host
            usual = 443 if parts.scheme == 'wss' else 8000
            problems.append(
                f'{text!r} names no port; write e.g. {parts.scheme}://{shown}:{usual}'
                f'{parts.path or "/"}'
            )
        elif port == 0:
            problems.append(f'{text!r}: write the port it listens on, not 0')
        if parts.fragment:
            problems.append(f'{text!r} has a fragment (#{parts.fragment}), which no server sees')
        if any(character.isspace() or not character.isprintable() for character in text):
            problems.append(f'{text!r} holds white space or unprintable characters')
    if problems:
        raise ConfigurationError('server address', problems)
    assert port is not None
    path = parts.path or '/'
    url = text if parts.path else parts._replace(path='/').geturl()
    query = f'?{parts.query}' if parts.query else ''
    return Address(url, host, port, path + query, parts.scheme == 'wss')
