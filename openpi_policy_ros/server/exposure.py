# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What stands between the network and the policy: keys, TLS, and a word about their absence."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.server.access import KEY_VARIABLE, ApiKeys, read_keys
from openpi_policy_ros.server.tls import tls_context


@dataclass(frozen=True)
class Exposure:
    """Secrets of a server, read once.

    Attributes:
        keys: who may connect; None = everybody.
        tls: certificate and key; None = unencrypted.
        notes: what the operator should know of where they came from.

    """

    keys: ApiKeys | None = None
    tls: ssl.SSLContext | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def load(cls, config: ServerConfig, environment: Mapping[str, str] = os.environ) -> Exposure:
        """Read the files that ``config`` names, and the environment.

        Raises:
            ConfigurationError: every problem with them, in one message.

        """
        problems: list[str] = []
        keys = tls = None
        try:
            keys = read_keys(config.api_key_file, environment)
        except ConfigurationError as error:
            problems += error.problems
        if config.tls_certificate:
            try:
                tls = tls_context(config.tls_certificate, config.tls_key)
            except ConfigurationError as error:
                problems += error.problems
        if problems:
            raise ConfigurationError('server', problems)
        notes = []
        if config.api_key_file and KEY_VARIABLE in environment:
            notes.append(f'{KEY_VARIABLE} in the environment is ignored: api_key_file is set')
        if keys is not None and keys.weak:
            notes.append('an API key is so short that it can be guessed; use 32 random bytes')
        return cls(keys, tls, tuple(notes))

    @property
    def scheme(self) -> str:
        """Return how addresses of this server begin."""
        return 'ws' if self.tls is None else 'wss'

    def warning(self, host: str) -> str | None:
        """Return what to fear from listening on the address ``host``, None = nothing."""
        if ip_address(host.partition('%')[0]).is_loopback:
            return None
        if self.keys is None:
            return (
                f'{host} is reachable from the network: whoever can connect can use the policy; '
                'set api_key_file, keep it behind a firewall, or listen on 127.0.0.1'
            )
        if self.tls is None:
            return (
                f'{host} is reachable from the network without TLS: whoever can listen in reads '
                'images and API keys; set tls_certificate, or use a network of your own'
            )
        return None
