# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The WebSocket shell around wire and engine, with the health endpoints."""

from openpi_policy_ros.server.address import refuse_taken_address
from openpi_policy_ros.server.exposure import Exposure
from openpi_policy_ros.server.signals import serve_until_signal
from openpi_policy_ros.server.thread import ServerThread
from openpi_policy_ros.server.traffic import ServerStats

__all__ = [
    'Exposure',
    'ServerStats',
    'ServerThread',
    'refuse_taken_address',
    'serve_until_signal',
]
