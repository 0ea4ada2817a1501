# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The OpenPI protocol without I/O: codec, handshake, session state machine, dialects."""

from openpi_policy_ros.wire.codec import packb, unpackb
from openpi_policy_ros.wire.dialect import Dialect, dialect_for_path
from openpi_policy_ros.wire.errors import InvalidPayload, UnsupportedValue
from openpi_policy_ros.wire.handshake import Greeting
from openpi_policy_ros.wire.requests import MAX_FRAME_BYTES, Infer, Reset
from openpi_policy_ros.wire.session import Session

__all__ = [
    'MAX_FRAME_BYTES',
    'Dialect',
    'Greeting',
    'Infer',
    'InvalidPayload',
    'Reset',
    'Session',
    'UnsupportedValue',
    'dialect_for_path',
    'packb',
    'unpackb',
]
