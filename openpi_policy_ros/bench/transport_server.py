# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One server to measure, in a process of its own: ours, or the rival that users have today.

The rival is what openpi's own server is made of: the ``websockets`` asyncio server, decoding with
``openpi_client.msgpack_numpy`` on its event loop. It runs as its users run it: nothing is set for
it that its authors do not set.
"""

from __future__ import annotations

import argparse
import asyncio
import threading

from openpi_policy_ros.bench import echo_policy
from openpi_policy_ros.bench.child import answer_commands, usage


def main() -> None:
    """Serve until the parent closes our input."""
    parser = argparse.ArgumentParser()
    parser.add_argument('kind', choices=('ours', 'rival'))
    parser.add_argument('--uvloop', action='store_true')
    parser.add_argument('--plain-heap', action='store_true')
    options = parser.parse_args()
    if options.kind == 'ours':
        serve_ours(options.uvloop, not options.plain_heap)
    else:
        serve_rival()


def serve_ours(uvloop: bool, keep_heap: bool) -> None:
    """Serve with the package as it is."""
    from openpi_policy_ros.configuration.server import ServerConfig
    from openpi_policy_ros.engine import Engine
    from openpi_policy_ros.server import ServerThread

    engine = Engine(echo_policy.EchoPolicy())
    engine.start()
    config = ServerConfig(
        port=0,
        idle_timeout=0.0,
        event_loop='uvloop' if uvloop else 'asyncio',
        heap='keep' if keep_heap else 'system',
    )
    server = ServerThread(engine, config)
    port = server.start()
    answer_commands({'port': port}, {'usage': usage})
    server.stop()
    engine.close()


def serve_rival() -> None:
    """Serve as openpi does."""
    ports: list[int] = []
    listening = threading.Event()

    def run() -> None:
        asyncio.run(_rival(ports, listening))

    threading.Thread(target=run, name='rival', daemon=True).start()
    listening.wait()
    answer_commands({'port': ports[0]}, {'usage': usage})


async def _rival(ports: list[int], listening: threading.Event) -> None:
    from openpi_client import msgpack_numpy
    from websockets.asyncio.server import ServerConnection, serve
    from websockets.exceptions import ConnectionClosed

    async def handle(connection: ServerConnection) -> None:
        packer = msgpack_numpy.Packer()
        await connection.send(packer.pack({}))
        try:
            while True:
                observation = msgpack_numpy.unpackb(await connection.recv())
                images = [observation[f'observation/{name}'] for name in echo_policy.CAMERAS]
                await connection.send(packer.pack(echo_policy.chunk(images)))
        except ConnectionClosed:
            pass

    async with serve(handle, '127.0.0.1', 0, compression=None, max_size=None) as server:
        ports.append(server.sockets[0].getsockname()[1])
        listening.set()
        await server.serve_forever()


if __name__ == '__main__':
    main()
