# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A real server on loopback around a fake policy, and the clients that talk to it."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from openpi_client import msgpack_numpy as openpi_msgpack
from websockets.sync.client import ClientConnection, connect

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.server import ServerThread
from openpi_policy_ros.wire import Dialect

TIMEOUT = 20.0
"""Longest any client waits for a frame, in seconds: a broken server fails a test, not hangs it."""

INVALID = 'Invalid request payload'
FAILED = 'Internal inference error'


@dataclass(frozen=True)
class Served:
    """A listening server."""

    port: int
    engine: Engine
    server: ServerThread

    def url(self, dialect: Dialect) -> str:
        """Return the address of one path."""
        return f'ws://127.0.0.1:{self.port}{dialect.value}'


@contextlib.contextmanager
def serving(policy: Policy, **config: Any) -> Iterator[Served]:
    """Serve ``policy`` on a free port for the length of the block."""
    engine = Engine(policy)
    engine.start()
    server = ServerThread(engine, ServerConfig(port=0, drain_timeout=5.0, **config))
    try:
        port = server.start()
        yield Served(port, engine, server)
    finally:
        server.stop()
        engine.close()


class Client:
    """The least an OpenPI client does on either path: pack, send, receive, unpack."""

    def __init__(self, served: Served, dialect: Dialect, **options: Any) -> None:
        self.dialect = dialect
        self._stack = contextlib.ExitStack()
        self.socket: ClientConnection = self._stack.enter_context(
            connect(
                served.url(dialect),
                compression=None,
                max_size=None,
                open_timeout=TIMEOUT,
                **options,
            )
        )
        self.handshake = openpi_msgpack.unpackb(self.receive())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection as a polite client does."""
        self._stack.close()

    def vanish(self) -> None:
        """End the connection as a client does that crashes: without a word."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)
        self.close()

    def receive(self) -> bytes | str:
        """Return the next frame."""
        return self.socket.recv(timeout=TIMEOUT)

    def send(self, **content: Any) -> None:
        """Send a request without waiting for its answer."""
        self.socket.send(openpi_msgpack.packb(content))

    def ask(self, frame: bytes | str) -> Any:
        """Send a raw frame and return the answer, unpacked unless it is text."""
        self.socket.send(frame)
        return self.answer()

    def answer(self) -> Any:
        """Return the next answer, unpacked unless it is text."""
        frame = self.receive()
        return frame if isinstance(frame, str) else openpi_msgpack.unpackb(frame)

    def infer(self, **content: Any) -> Any:
        """Send a request and return its answer."""
        self.send(**content)
        return self.answer()

    def actions(self, **content: Any) -> np.ndarray:
        """Send a request that must succeed and return the chunk."""
        return actions_of(self.infer(**content))

    def reset(self) -> Any:
        """Send a reset and return its answer."""
        return self.infer(endpoint='reset')

    def error(self, message: str) -> Any:
        """Return what an error with this message looks like on this path."""
        return message if self.dialect is Dialect.STOCK else {'type': 'error', 'message': message}


def actions_of(answer: Any) -> np.ndarray:
    """Return the chunk in an answer of either path."""
    actions = answer['actions'] if isinstance(answer, dict) else answer
    assert isinstance(actions, np.ndarray), answer
    return actions


def eventually(condition: Callable[[], Any], what: str) -> None:
    """Wait until ``condition`` holds."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, f'never happened: {what}'
        time.sleep(0.01)
