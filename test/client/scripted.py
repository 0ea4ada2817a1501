# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A server that does what a test says, connection by connection: for what no good server does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from fakes import WAIT
from openpi_client import msgpack_numpy
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

Script: TypeAlias = Callable[['Line'], None]

HANDSHAKE: dict[str, Any] = {'action_horizon': 4, 'action_dim': 3}
CHUNK = np.arange(12, dtype=np.float32).reshape(4, 3)


class Line:
    """The server's end of one connection."""

    def __init__(self, socket: ServerConnection, heard: list[dict[str, Any]]) -> None:
        self.socket = socket
        self._heard = heard

    def greet(self, handshake: Mapping[str, Any] | None = None) -> Line:
        """Send a handshake."""
        self.socket.send(msgpack_numpy.packb(dict(HANDSHAKE if handshake is None else handshake)))
        return self

    def hear(self) -> dict[str, Any]:
        """Return the next request."""
        request: dict[str, Any] = msgpack_numpy.unpackb(self.socket.recv(timeout=WAIT))
        self._heard.append(request)
        return request

    def say(self, value: Any) -> None:
        """Send a value as MessagePack."""
        self.socket.send(msgpack_numpy.packb(value))

    def serve(self, chunk: Any = CHUNK, limit: int = 1000) -> None:
        """Answer requests with ``chunk`` until the client is gone."""
        for _ in range(limit):
            if self.hear().get('endpoint') == 'reset':
                self.say({'status': 'reset successful'})
            else:
                self.say(chunk)

    def vanish(self) -> None:
        """End without a word."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)


class Scripted:
    """Listens on loopback; connection k follows script k, later ones the last script."""

    def __init__(self, *scripts: Script, port: int = 0, **options: Any) -> None:
        self.scripts = scripts
        self.heard: list[dict[str, Any]] = []
        self.lines: list[Line] = []
        self.failures: list[BaseException] = []
        options = {'compression': None, 'max_size': None, 'close_timeout': 1.0, **options}
        self._server = serve(self._handle, '127.0.0.1', port, **options)
        self.port: int = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Scripted:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        for line in self.lines:
            line.socket.close_socket()
        self._server.shutdown()
        self._thread.join(WAIT)

    def url(self, path: str = '/v1/realtime/robot/openpi') -> str:
        """Return the address."""
        return f'ws://127.0.0.1:{self.port}{path}'

    def _handle(self, connection: ServerConnection) -> None:
        line = Line(connection, self.heard)
        self.lines.append(line)
        script = self.scripts[min(len(self.lines), len(self.scripts)) - 1]
        try:
            script(line)
        except (ConnectionClosed, OSError):
            pass
        except BaseException as error:
            self.failures.append(error)
            raise


def good(line: Line) -> None:
    """Greet and serve."""
    line.greet().serve()
