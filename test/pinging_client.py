# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A client in a process of its own that pings often and gives up soon.

Usage: python pinging_client.py URL VALUE…

Sends one request per value on one connection and prints what came back for each. In the server's
process it would prove nothing: whatever held the interpreter would hold the client's clock too.
"""

from __future__ import annotations

import sys

from openpi_client import msgpack_numpy
from websockets.sync.client import connect

PING_INTERVAL = 0.2
PING_TIMEOUT = 2.0


def main(url: str, *values: str) -> None:
    """Ask for a chunk per value."""
    with connect(
        url,
        compression=None,
        max_size=None,
        ping_interval=PING_INTERVAL,
        ping_timeout=PING_TIMEOUT,
    ) as socket:
        socket.recv(timeout=20)
        for value in values:
            socket.send(msgpack_numpy.packb({'value': float(value)}))
            answer = msgpack_numpy.unpackb(socket.recv(timeout=20))
            actions = answer['actions'] if isinstance(answer, dict) else answer
            print(actions[0, 0], flush=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
