# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How a call to a server far away ends without an answer."""

from __future__ import annotations

from openpi_policy_ros.wire.peer import PeerError

RETRIED_CODES = frozenset({1000, 1001, 1006, 1012, 1013})
"""Close codes after which a new connection may work: idle, going away, lost, restart, try later."""

_MEANINGS = {
    1000: 'closed normally',
    1001: 'going away',
    1002: 'protocol error',
    1003: 'unsupported data',
    1006: 'connection lost',
    1007: 'invalid data',
    1008: 'policy violation',
    1009: 'message too big',
    1011: 'internal error of the server',
    1012: 'the server restarts',
    1013: 'the server is full, try again later',
}


class Unreachable(PeerError):
    """No connection came about; ``retry`` tells whether another attempt may work."""

    def __init__(
        self, what: str, *, expected: str = '', remedy: str = '', retry: bool = False
    ) -> None:
        self.retry = retry
        super().__init__(what, expected=expected, remedy=remedy)


class ConnectionLost(PeerError):
    """The connection ended before the answer came.

    ``code`` is the WebSocket close code, 1006 = without a word.
    """

    def __init__(self, code: int, reason: str = '', *, remedy: str = '') -> None:
        self.code = code
        meaning = _MEANINGS.get(code, 'not a code we know')
        said = f', {reason!r}' if reason else ''
        super().__init__(
            f'the server closed the connection with {code} ({meaning}{said})', remedy=remedy
        )

    @property
    def retry(self) -> bool:
        """Return whether a new connection may work."""
        return self.code in RETRIED_CODES


class TimedOut(PeerError):
    """The answer did not come in time; its connection is closed, so it never will."""


class ClientClosed(PeerError):
    """The client was closed, by its owner, before or during the call."""
