# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The server's address: whether it can be had, and who can reach it."""

from __future__ import annotations

import socket

from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, fail, ok, warn
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.server.address import refuse_taken_address
from openpi_policy_ros.server.exposure import Exposure

CHECK = 'server address'


def examine(asked: Asked, own: str = '') -> list[Finding]:
    """Try to bind, read keys and certificates.

    Args:
        asked: about what.
        own: host:port of the server of a node that runs already; '' = none is known.

    """
    config = asked.server
    where = f'{config.host}:{config.port}'
    findings = []
    try:
        refuse_taken_address(config)
        findings.append(ok(CHECK, f'{where} can be listened on'))
    except ConfigurationError as error:
        found, _, remedy = error.problems[0].partition('; ')
        if own.rpartition(':')[2] != str(config.port):
            return [fail(CHECK, found, remedy)]
        findings.append(ok(CHECK, f'{where} is taken by the node that runs already'))
    try:
        exposure = Exposure.load(config, asked.environment)
    except ConfigurationError as error:
        text = '; '.join(error.problems)
        return [*findings, fail('API keys and TLS', text, 'mend these files')]
    address = socket.getaddrinfo(config.host, None, type=socket.SOCK_STREAM)[0][4][0]
    warning = exposure.warning(str(address))
    if warning is not None:
        found, _, remedy = warning.rpartition('; ')
        findings.append(warn('API keys and TLS', found, remedy))
    else:
        findings.append(ok('API keys and TLS', 'fit this address'))
    if not str(address).startswith('127.') and address != '::1':
        # Whether a packet passes can only be seen from the other side.
        findings.append(
            warn(
                'firewall',
                'from here it cannot be seen whether other machines get through',
                f'allow TCP {config.port}, then ask from there: '
                f'`openpi-policy client --url {exposure.scheme}://<this machine>:{config.port}`',
            )
        )
    return findings
