# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The address a server listens on: whether it can be had, and what to do where it cannot."""

from __future__ import annotations

import errno
import socket

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError


def address_family(config: ServerConfig) -> socket.AddressFamily:
    """Return which addresses of the host are listened on.

    A name such as localhost has an address per family, and a free port would be another one for
    each: port 0 means one socket.
    """
    one = config.port == 0 and ':' not in config.host
    return socket.AF_INET if one else socket.AF_UNSPEC


def refuse_taken_address(config: ServerConfig) -> None:
    """Refuse an address that cannot be listened on, without listening: before a long load.

    It may still be taken by somebody else meanwhile; ``ServerThread.start`` then says the same.

    Raises:
        ConfigurationError: says why, and what to do.

    """
    try:
        addresses = socket.getaddrinfo(
            config.host,
            config.port,
            family=address_family(config),
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        absent: OSError | None = None
        bound = 0
        for family, kind, _, _, address in addresses:
            try:
                _try_to_bind(family, kind, address)
                bound += 1
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                absent = error
        if absent is not None and not bound:
            raise absent
    except OSError as error:
        raise cannot_listen(config.host, config.port, error) from None


def cannot_listen(host: str, port: int, error: OSError) -> ConfigurationError:
    """Return what to tell when ``host``:``port`` cannot be bound."""
    if isinstance(error, socket.gaierror):
        why, remedy = 'the name is unknown', 'give an address of this machine, e.g. 127.0.0.1'
    elif error.errno == errno.EADDRINUSE:
        why = 'the port is in use'
        remedy = 'stop the other server, or choose another port (0 picks a free one)'
    elif error.errno == errno.EACCES:
        why, remedy = 'permission denied', 'ports below 1024 are privileged; choose a higher one'
    elif error.errno in (errno.EADDRNOTAVAIL, None):
        # Without a number: asyncio (3.13) found that no address of the name is this machine's.
        why = 'this machine has no such address'
        remedy = 'use 127.0.0.1, an address that `ip address` lists, or 0.0.0.0 for all of them'
    else:
        why, remedy = error.strerror or str(error), 'choose another host or port'
    return ConfigurationError('server', [f'cannot listen on {host}:{port}: {why}; {remedy}'])


def _try_to_bind(family: int, kind: int, address: tuple[object, ...]) -> None:
    with socket.socket(family, kind) as trial:
        # As asyncio binds: what a server left behind a moment ago is no obstacle.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        trial.bind(address)
