# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The real node with a policy that costs nothing and numbers its chunks, and an ear at its core."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from openpi_policy_ros.bench.child import answer_commands, usage
from openpi_policy_ros.bench.echo_policy import HORIZON, WIDTH, EchoPolicy
from openpi_policy_ros.bench.topic_node import DOOR
from openpi_policy_ros.control.controller import Controller, Tick
from openpi_policy_ros.control.gates import StreamReport
from openpi_policy_ros.policies import loading
from openpi_policy_ros.policies.base import ACTIONS, ActionChunk, InferenceRequest, InferenceResult
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin
from openpi_policy_ros.ros import main as node

SERIAL = 'serial'
"""Stage of ``timing_ms`` that carries the number of a chunk through engine and door."""
SERIALS = 100_000


def position(serial: int) -> float:
    """Return the position that every row of a chunk commands, rad; repeats after 100000 chunks."""
    return (serial % SERIALS) / SERIALS


class CountingPolicy(EchoPolicy):
    """Answers chunk n with its number in every row."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer each request with the next number."""
        chunks: list[InferenceResult] = []
        for _ in requests:
            self._count += 1
            rows = np.full((HORIZON, WIDTH), position(self._count), np.float32)
            chunks.append(ActionChunk({ACTIONS: rows}, timing_ms={SERIAL: float(self._count)}))
        return chunks


class Ear(logging.Filter):
    """Times of every chunk on the machine's monotonic clock, which other processes share.

    Attributes:
        taken: serial → when the core had taken it over.
        played: serial → when the first tick after that began.
        triggered: serial → when its inference was triggered.

    """

    def __init__(self) -> None:
        super().__init__()
        self.taken: dict[int, int] = {}
        self.played: dict[int, int] = {}
        self.triggered: dict[int, int] = {}
        self._newest: int | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Note the trigger from the door's line about a chunk, which it writes at its end."""
        timing = getattr(record, 'timing_ms', None)
        if timing is not None:
            ended = time.monotonic_ns()
            self.triggered[int(timing[SERIAL])] = ended - round(timing['total'] * 1e6)
        return record.levelno > logging.DEBUG

    def took(self, chunk: ActionChunk) -> None:
        """Note that the core has a chunk."""
        serial = int(chunk.timing_ms[SERIAL])
        self.taken[serial] = time.monotonic_ns()
        self._newest = serial

    def ticks(self) -> None:
        """Note that a tick begins."""
        serial, self._newest = self._newest, None
        if serial is not None:
            self.played[serial] = time.monotonic_ns()

    def report(self) -> dict[str, Any]:
        """Return [serial, position, triggered, taken, played] of every chunk that was played."""
        whole = sorted(set(self.triggered) & set(self.played))
        return {
            'chunks': [
                [n, position(n), self.triggered[n], self.taken[n], self.played[n]] for n in whole
            ],
            **usage(),
        }


def listen(ear: Ear) -> None:
    """Lay the ear at controller and door; hand out the policy whatever model is asked for."""
    on_chunk, tick = Controller.on_chunk, Controller.tick

    def heard_chunk(self: Controller, chunk: ActionChunk, *more: Any, **named: Any) -> str:
        refused = on_chunk(self, chunk, *more, **named)
        if not refused:
            ear.took(chunk)
        return refused

    def heard_tick(self: Controller, now_ns: int, steady_ns: int, streams: StreamReport) -> Tick:
        ear.ticks()
        return tick(self, now_ns, steady_ns, streams)

    Controller.on_chunk = heard_chunk  # type: ignore[method-assign]
    Controller.tick = heard_tick  # type: ignore[method-assign]
    door = logging.getLogger(DOOR)
    door.setLevel(logging.DEBUG)
    door.addFilter(ear)

    def choose(model: str, **_: Any) -> tuple[PolicyPlugin, LoadRequest]:
        return PolicyPlugin(load=lambda request: CountingPolicy()), LoadRequest(model)

    loading.choose_policy = choose


def run() -> int:
    """Run the node until the parent closes our input."""
    ear = Ear()
    listen(ear)

    def answer() -> None:
        answer_commands({}, {'report': ear.report})
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=answer, name='commands', daemon=True).start()
    return node.main()


if __name__ == '__main__':
    sys.exit(run())
