# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulator's WebSocket loop, and a server that is none of ours for it to talk to.

The server greets with what it is told to, and keeps what it is sent.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from openpi_client import msgpack_numpy
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.cli import main


@dataclass
class StandIn:
    """What it is and what it was sent: one list of requests per connection."""

    url: str = ''
    requests: list[list[dict[str, Any]]] = field(default_factory=list)

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Return all requests in order."""
        return [request for connection in self.requests for request in connection]


@contextlib.contextmanager
def standing_in(
    greeting: object, answer: Callable[[dict[str, Any]], Any], path: str = '/'
) -> Iterator[StandIn]:
    """Serve on a free port for the length of the block.

    Args:
        greeting: first frame: text as it is, anything else packed.
        answer: of each request: text as it is, None = vanish without a word, else packed.
        path: appended to ``url``.

    """
    there = StandIn()

    def talk(connection: ServerConnection) -> None:
        mine: list[dict[str, Any]] = []
        there.requests.append(mine)
        connection.send(greeting if isinstance(greeting, str) else msgpack_numpy.packb(greeting))
        with contextlib.suppress(ConnectionClosed):
            for frame in connection:
                mine.append(msgpack_numpy.unpackb(frame))
                reply = answer(mine[-1])
                if reply is None:
                    connection.socket.shutdown(socket.SHUT_RDWR)
                    return
                connection.send(reply if isinstance(reply, str) else msgpack_numpy.packb(reply))

    with serve(talk, '127.0.0.1', 0, compression=None, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        there.url = f'ws://127.0.0.1:{server.socket.getsockname()[1]}{path}'
        try:
            yield there
        finally:
            server.shutdown()
            thread.join(10.0)
            assert not thread.is_alive()


def run(url: str, file: Path, *arguments: str, expect: int = 0) -> dict[str, Any]:
    """Run the command; return its file of results."""
    status = main(['ws', '--url', url, '--json', str(file), *arguments])
    assert status == expect
    content: dict[str, Any] = json.loads(file.read_text(encoding='utf-8'))
    return content


def turning(rows: int) -> np.ndarray:
    """Return a chunk that turns the first joint, so that no two images are equal."""
    chunk = np.tile(np.append(c.HOME, 0.0), (rows, 1)).astype(np.float32)
    chunk[:, 0] = np.linspace(0.02, 0.3, rows)
    return chunk
