# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure what a request costs between the socket and the policy, and back.

Two server processes, one client (this process), blocks of requests to either in turn. A server's
cost is the CPU time of its process alone; the round trip is the client's clock.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from openpi_policy_ros.bench import echo_policy
from openpi_policy_ros.bench.child import Child
from openpi_policy_ros.bench.statistics import Spread, quantiles, ratios, table
from openpi_policy_ros.errors import ConfigurationError

SIZES = {'3x224x224x3': (224, 224), '3x480x640x3': (480, 640)}
"""Name → height and width of each of three images: 452 kB and 2.77 MB a frame."""
WARM_UP = 5
TIMEOUT = 30.0
MODULE = 'openpi_policy_ros.bench.transport_server'


@dataclass
class Blocks:
    """One server's rounds at one frame size.

    Attributes:
        cpu_ms: server CPU per request, one value per round.
        faults: minor page faults of the server per request, one value per round.
        round_trip_ms: every request of all rounds.

    """

    cpu_ms: list[float] = field(default_factory=list)
    faults: list[float] = field(default_factory=list)
    round_trip_ms: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return {
            'server_cpu_ms': Spread.of(self.cpu_ms).as_dict(),
            'minor_faults': Spread.of(self.faults).as_dict(),
            'round_trip_ms': quantiles(self.round_trip_ms),
        }


class Peer:
    """A server process and our connection to it."""

    def __init__(self, stack: ExitStack, path: str, arguments: Sequence[str]) -> None:
        from websockets.sync.client import connect

        self.child = stack.enter_context(Child(MODULE, arguments))
        self._socket = stack.enter_context(
            connect(
                f'ws://127.0.0.1:{self.child.hello["port"]}{path}',
                compression=None,
                max_size=None,
                open_timeout=TIMEOUT,
                ping_interval=None,
            )
        )
        self._socket.recv(TIMEOUT)

    def request(self, frame: bytes) -> float:
        """Send one request, check that a chunk came back, return milliseconds."""
        began = time.perf_counter()
        self._socket.send(frame)
        reply = self._socket.recv(TIMEOUT)
        took = time.perf_counter() - began
        assert len(reply) > 4 * echo_policy.HORIZON * echo_policy.WIDTH, reply
        return 1e3 * took

    def block(self, frame: bytes, requests: int, blocks: Blocks) -> None:
        """Add one round."""
        for _ in range(WARM_UP):
            self.request(frame)
        before = self.child.ask('usage')
        took = [self.request(frame) for _ in range(requests)]
        after = self.child.ask('usage')
        blocks.round_trip_ms += took
        blocks.cpu_ms.append(1e3 * (after['cpu'] - before['cpu']) / requests)
        blocks.faults.append((after['minor_faults'] - before['minor_faults']) / requests)


def missing() -> str | None:
    """Return what to install before this can run, None = nothing."""
    if importlib.util.find_spec('openpi_client') is None:
        return (
            'the rival decodes with openpi_client, which is not installed: '
            'pip install --no-deps openpi-client && pip install dm-tree typing_extensions pillow'
        )
    return None


def measure(
    *, rounds: int, requests: int, uvloop: bool = False, keep_heap: bool = True
) -> dict[str, Any]:
    """Return the comparison for both frame sizes.

    Args:
        rounds: blocks per server and size, at least 1.
        requests: requests per block at the smaller size; a third of it at the larger.
        uvloop: run our event loop on uvloop.
        keep_heap: leave our server's heap setting on; see ``server.heap``.

    Raises:
        ConfigurationError: a package is missing; says which and how to install it.
        ChildFailed: a server did not start or died; shows its log.

    """
    problem = missing()
    if problem is not None:
        raise ConfigurationError('bench transport', [problem])
    if uvloop and importlib.util.find_spec('uvloop') is None:
        raise ConfigurationError('bench --uvloop', ['uvloop is not installed: pip install uvloop'])
    from openpi_client import msgpack_numpy

    from openpi_policy_ros.wire import Dialect

    ours_arguments = ['ours']
    ours_arguments += ['--uvloop'] if uvloop else []
    ours_arguments += [] if keep_heap else ['--plain-heap']
    sizes: dict[str, Any] = {}
    with ExitStack() as stack:
        ours = Peer(stack, Dialect.OPENPI.value, ours_arguments)
        rival = Peer(stack, '/', ['rival'])
        for number, (name, (height, width)) in enumerate(SIZES.items()):
            frame = msgpack_numpy.packb(echo_policy.observation(height, width))
            count = requests if number == 0 else max(1, requests // 3)
            mine, theirs = Blocks(), Blocks()
            for turn in range(rounds):
                pair = [(ours, mine), (rival, theirs)]
                # Whoever goes second finds caches and clock as the first left them.
                for peer, blocks in pair if turn % 2 == 0 else reversed(pair):
                    peer.block(frame, count, blocks)
            sizes[name] = {
                'frame_bytes': len(frame),
                'rounds': rounds,
                'requests_per_round': count,
                'ours': mine.summary(),
                'rival': theirs.summary(),
                'cpu_ratio': ratios(mine.cpu_ms, theirs.cpu_ms).as_dict(),
                'round_trip_ratio': quantiles(mine.round_trip_ms)['p50']
                / quantiles(theirs.round_trip_ms)['p50'],
            }
        memory = {
            name: peer.child.ask('usage')['max_rss_mb']
            for name, peer in (('ours', ours), ('rival', rival))
        }
    return {'uvloop': uvloop, 'keep_heap': keep_heap, 'sizes': sizes, 'max_rss_mb': memory}


def report(result: dict[str, Any]) -> str:
    """Return the table."""
    rows = []
    for name, size in result['sizes'].items():
        for who in ('ours', 'rival'):
            one = size[who]
            label = who
            if who == 'ours' and result['uvloop']:
                label = 'ours, uvloop'
            rows.append(
                [
                    f'{name} ({size["frame_bytes"] / 1e6:.2f} MB)',
                    label,
                    Spread(**one['server_cpu_ms']).text(),
                    f'{one["minor_faults"]["median"]:.0f}',
                    f'{one["round_trip_ms"]["p50"]:.2f}',
                    f'{one["round_trip_ms"]["p95"]:.2f}',
                    Spread(**size['cpu_ratio']).text() if who == 'ours' else '1',
                ]
            )
    headings = [
        'frame',
        'server',
        'server CPU ms',
        'page faults',
        'round trip p50 ms',
        'p95 ms',
        'CPU ratio',
    ]
    memory = result['max_rss_mb']
    return (
        f'{table(headings, rows)}\n\nmost memory a process had: ours {memory["ours"]:.0f} MB, '
        f'rival {memory["rival"]:.0f} MB'
    )
