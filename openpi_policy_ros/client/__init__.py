# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Our own OpenPI client, and the policy that is a server somewhere else."""

from openpi_policy_ros.client.address import Address, parse_address
from openpi_policy_ros.client.backoff import Backoff
from openpi_policy_ros.client.client import ClientConfig, OpenPiClient, Reply
from openpi_policy_ros.client.errors import ClientClosed, ConnectionLost, TimedOut, Unreachable

__all__ = [
    'Address',
    'Backoff',
    'ClientClosed',
    'ClientConfig',
    'ConnectionLost',
    'OpenPiClient',
    'Reply',
    'TimedOut',
    'Unreachable',
    'parse_address',
]
