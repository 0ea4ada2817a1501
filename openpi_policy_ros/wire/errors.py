# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a frame or a value; the text is for the operator's log only."""

from __future__ import annotations

from openpi_policy_ros.errors import PolicyRosError


class InvalidPayload(PolicyRosError):
    """A client's frame is not a request; the client only hears ``Invalid request payload``."""


class UnsupportedValue(PolicyRosError):
    """A value has no form on the wire, so it is not sent."""


def shorten(value: object, limit: int = 80) -> str:
    """Return ``repr(value)`` cut to ``limit`` characters, for messages about hostile input."""
    if isinstance(value, (str, bytes, bytearray)):
        value = value[:limit]
    elif not isinstance(value, (int, float, bool, type(None))):
        # The repr of an array or of a nested container can be large; its type says enough.
        return f'a {type(value).__name__}'
    text = repr(value)
    return text if len(text) <= limit else f'{text[: limit - 1]}…'
