# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One connection's side of the protocol: which session a request belongs to, and its replies.

A state machine without I/O. The shell feeds it frames and outcomes, one request at a time, and
carries out what it returns; only ``decode`` may run in another thread meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.wire import requests
from openpi_policy_ros.wire.dialect import INFERENCE_ERROR, INVALID_PAYLOAD, Dialect
from openpi_policy_ros.wire.handshake import Greeting
from openpi_policy_ros.wire.requests import Infer, Reset

DEFAULT_SESSION = 'default'


class Session:
    """The protocol state of one connection.

    A connection has one current session. Another session id, a reset command and the end of the
    connection give up its model-side state: their ``SessionKey`` is returned to be freed, and the
    next request starts afresh (``reset=True``), until one has succeeded.
    """

    def __init__(
        self, dialect: Dialect, connection: str, handshake: Mapping[str, Any] | None
    ) -> None:
        """Start a connection.

        Args:
            dialect: of the path the client asked for.
            connection: name of this connection, unique in the process.
            handshake: the policy's ``policy_server_config``; None = it declares none.

        """
        self._dialect = dialect
        self._connection = connection
        self._handshake = handshake
        self._current: SessionKey | None = None
        self._has_succeeded = False

    def greeting(self) -> Greeting:
        """Return the first frame to send, and whether to close after it."""
        return self._dialect.greeting(self._handshake)

    @staticmethod
    def decode(frame: bytes | str) -> Infer | Reset:
        """Return what a frame asks for. Touches no state: may run in another thread.

        Raises:
            InvalidPayload: answer with ``invalid()`` and log the text; it is not for the client.

        """
        return requests.parse(frame)

    def begin(self, command: Infer) -> tuple[InferenceRequest, list[SessionKey]]:
        """Return the request to submit, and the keys to free before it."""
        current = self._current.session_id if self._current else DEFAULT_SESSION
        key = SessionKey(self._connection, command.session_id or current)
        freed = self._leave() if self._current != key else []
        self._current = key
        request = InferenceRequest(
            observation=command.observation,
            session=key,
            reset=not self._has_succeeded,
            seed=command.seed,
            num_inference_steps=command.num_inference_steps,
        )
        return request, freed

    def reset(self) -> tuple[bytes | str, list[SessionKey]]:
        """Forget the session; return the reply and the keys to free."""
        return self._dialect.reset_reply(), self._leave()

    def succeeded(
        self,
        request: InferenceRequest,
        chunk: ActionChunk,
        server_timing_ms: Mapping[str, float],
    ) -> bytes:
        """Return the reply frame, and count the session's first call as done.

        Args:
            request: as returned by ``begin``.
            chunk: the policy's answer, already checked to be finite and of the right shape.
            server_timing_ms: see ``Dialect.reply``.

        Raises:
            UnsupportedValue: the chunk has no form on the wire; the call then does not count.

        """
        frame = self._dialect.reply(chunk, server_timing_ms)
        if request.session == self._current:
            self._has_succeeded = True
        return frame

    def failed(self) -> bytes | str:
        """Return the answer to a request whose inference failed, whatever the reason."""
        return self._dialect.error(INFERENCE_ERROR)

    def invalid(self) -> bytes | str:
        """Return the answer to a frame that ``decode`` refused."""
        return self._dialect.error(INVALID_PAYLOAD)

    def close(self) -> list[SessionKey]:
        """Return the keys to free when the connection has ended; later calls return none."""
        return self._leave()

    def _leave(self) -> list[SessionKey]:
        freed = [self._current] if self._current else []
        self._current = None
        self._has_succeeded = False
        return freed
