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
from openpi_policy_ros.wire.handshake import Greeting, advertises_rtc
from openpi_policy_ros.wire.requests import Infer, Reset

DEFAULT_SESSION = 'default'


class Session:
    """The protocol state of one connection.

    A connection has one current session. Another session id, a reset command and the end of the
    connection give up its model-side state: their ``SessionKey`` is returned to be freed, and the
    next request starts afresh (``reset=True``), until one has succeeded.
    """

    def __init__(
        self,
        dialect: Dialect,
        connection: str,
        handshake: Mapping[str, Any] | None,
        *,
        reply_shape: tuple[int, int] | None = None,
        bare_replies: bool = False,
        error_detail: bool = False,
    ) -> None:
        """Start a connection.

        Args:
            dialect: of the path the client asked for.
            connection: name of this connection, unique in the process.
            handshake: the policy's ``policy_server_config``; None = it declares none.
            reply_shape: rows and columns of a chunk, which the rest of one may not exceed where
                the handshake advertises real-time chunking; None = that is not served.
            bare_replies: see ``Dialect.reply``.
            error_detail: let ``failed`` and ``invalid`` pass on what they are told.

        """
        self._dialect = dialect
        self._connection = connection
        self._handshake = handshake
        self._rtc_shape = reply_shape if advertises_rtc(handshake) else None
        self._bare_replies = bare_replies
        self._error_detail = error_detail
        self._current: SessionKey | None = None
        self._has_succeeded = False

    def greeting(self) -> Greeting:
        """Return the first frame to send, and whether to close after it."""
        return self._dialect.greeting(self._handshake)

    def decode(self, frame: bytes | str) -> Infer | Reset:
        """Return what a frame asks for. Reads no state that changes: may run in another thread.

        Raises:
            InvalidPayload: answer with ``invalid()`` and log the text; it is not for the client.

        """
        return requests.parse(frame, self._rtc_shape)

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
            rtc=command.rtc,
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
        frame = self._dialect.reply(chunk, server_timing_ms, bare=self._bare_replies)
        if request.session == self._current:
            self._has_succeeded = True
        return frame

    def failed(self, request_id: str = '', detail: str = '') -> bytes | str:
        """Return the answer to a request whose inference failed, whatever the reason.

        Args:
            request_id: names the request in the log; only sent with ``error_detail``.
            detail: our own words about what was wrong with the request, '' = it was not at fault;
                only sent with ``error_detail``. Never the text of a foreign exception.

        """
        return self._error(INFERENCE_ERROR, request_id, detail)

    def invalid(self, request_id: str = '', detail: str = '') -> bytes | str:
        """Return the answer to a frame that ``decode`` refused; arguments as of ``failed``."""
        return self._error(INVALID_PAYLOAD, request_id, detail)

    def close(self) -> list[SessionKey]:
        """Return the keys to free when the connection has ended; later calls return none."""
        return self._leave()

    def _error(self, message: str, request_id: str, detail: str) -> bytes | str:
        if not self._error_detail:
            return self._dialect.error(message)
        told = {'request_id': request_id, 'detail': detail}
        return self._dialect.error(message, {key: text for key, text in told.items() if text})

    def _leave(self) -> list[SessionKey]:
        freed = [self._current] if self._current else []
        self._current = None
        self._has_succeeded = False
        return freed
