# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The two habits of OpenPI clients, told apart by the path they connect to."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any

from openpi_policy_ros.configuration.paths import OPENPI_PATH, STOCK_PATH
from openpi_policy_ros.policies.base import ACTIONS, INFER, ActionChunk
from openpi_policy_ros.wire.codec import packb
from openpi_policy_ros.wire.handshake import Greeting, roboarena_keys

INVALID_PAYLOAD = 'Invalid request payload'
INFERENCE_ERROR = 'Internal inference error'

RESET_DONE = 'reset successful'


class Dialect(enum.Enum):
    """How one path greets, replies and reports errors."""

    OPENPI = OPENPI_PATH
    """Bare arrays, MessagePack errors, one JSON text frame when no policy declares itself."""
    STOCK = STOCK_PATH
    """``openpi-client`` and RoboArena: mappings with timings, text for errors and reset."""

    def greeting(self, handshake: Mapping[str, Any] | None) -> Greeting:
        """Return the first frame for a policy that declares ``handshake``."""
        declared = handshake if isinstance(handshake, Mapping) else None
        if self is Dialect.STOCK:
            # The stock client takes any mapping; RoboArena's knows six keys and no other.
            return Greeting(packb(roboarena_keys(declared or {})))
        if declared is None:
            refusal = {
                'type': 'error',
                'error': 'Robot policy not available',
                'code': 'unsupported',
            }
            return Greeting(json.dumps(refusal), close=True)
        return Greeting(packb(dict(declared)))

    def reply(
        self, chunk: ActionChunk, server_timing_ms: Mapping[str, float], *, bare: bool = False
    ) -> bytes:
        """Return the frame that carries ``chunk``.

        Args:
            chunk: a checked answer of the policy.
            server_timing_ms: ``infer_ms`` and, from the second request on, ``prev_total_ms``;
                only the stock dialect sends it.
            bare: also the stock dialect replies in the form of the OpenPI path, without timings.

        Raises:
            UnsupportedValue: an output has a dtype that is refused on the wire.

        """
        if bare or self is Dialect.OPENPI:
            if set(chunk.outputs) == {ACTIONS}:
                return packb(chunk.actions)
            return packb(dict(chunk.outputs))
        horizon = len(chunk.actions)
        reply: dict[str, Any] = {}
        for name, output in chunk.outputs.items():
            # The stock ActionChunkBroker slices every array on its first axis, step by step. What
            # has no such axis travels as plain numbers, which it hands through.
            per_step = output.ndim > 0 and len(output) == horizon
            reply[name] = output if per_step else output.tolist()
        reply['server_timing'] = {name: float(ms) for name, ms in server_timing_ms.items()}
        reply['policy_timing'] = {
            # Without the wait for the worker, which is the server's time.
            'infer_ms': float(chunk.timing_ms[INFER])
        }
        return packb(reply)

    def reset_reply(self) -> bytes | str:
        """Return the answer to a reset."""
        if self is Dialect.STOCK:
            return RESET_DONE
        return packb({'status': RESET_DONE})

    def error(self, message: str, details: Mapping[str, str] | None = None) -> bytes | str:
        """Return an error frame; the stock client raises on text and takes maps for actions.

        Args:
            message: one of the generic ones.
            details: further keys of the map; the stock dialect's text has no place for them.

        """
        if self is Dialect.STOCK:
            return message
        return packb({'type': 'error', 'message': message, **(details or {})})


def dialect_for_path(path: str, aliases: Mapping[str, Dialect] | None = None) -> Dialect | None:
    """Return the dialect of a request path (its query ignored), None = not found.

    Args:
        path: as in the request line.
        aliases: further paths.

    """
    bare = path.partition('?')[0]
    own = next((dialect for dialect in Dialect if dialect.value == bare), None)
    return own or (aliases or {}).get(bare)
