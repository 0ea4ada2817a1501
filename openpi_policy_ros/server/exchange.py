# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One frame's way through decoder and engine, off the event loop, which is woken once at its end.

Waking the loop after the decoding only to submit the request would cost more than the decoding of
a usual frame: pool, engine and loop hand over to each other directly.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from time import perf_counter

from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest
from openpi_policy_ros.server.traffic import Traffic
from openpi_policy_ros.wire import Reset, Session


class Exchange:
    """Created and awaited on the event loop, ``run`` in the codec pool.

    A session has one exchange at a time, and ``over`` ends only after ``run`` has, unless the
    engine is at work; so nobody else touches the session's state meanwhile.

    Attributes:
        undecodable: why the frame is no request; None if it is one.
        reset: whether the frame asks for a reset; nothing is submitted then.
        rejected: whether it was refused because the robot beside the server is enabled.
        expired: whether its time was up before the answer came; the answer is dropped.
        request: what was submitted; None if nothing was.
        future: the engine's answer, done unless given up before; None if nothing was submitted.
        submitted: when, in ``perf_counter`` seconds.

    """

    def __init__(
        self,
        session: Session,
        engine: Engine,
        traffic: Traffic,
        robot_enabled: Callable[[], bool] | None = None,
    ) -> None:
        self._session = session
        self._robot_enabled = robot_enabled
        self._engine = engine
        self._traffic = traffic
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._abandoned = False
        self.undecodable: Exception | None = None
        self.reset = False
        self.rejected = False
        self.expired = False
        self.request: InferenceRequest | None = None
        self.future: Future[ActionChunk] | None = None
        self.submitted = 0.0

    async def over(self) -> None:
        """Wait until the frame was refused, asked for a reset, was answered, or abandoned."""
        await self._over

    def run(self, frame: bytes | str) -> None:
        """Decode ``frame`` and submit what it asks for; never raises."""
        try:
            self._run(frame)
        except Exception as error:
            # Of whatever kind: the client must not wait for ever.
            self.undecodable = error
        if self.future is None:
            _wake(self._loop, self._over)

    def _run(self, frame: bytes | str) -> None:
        began = perf_counter()
        command = self._session.decode(frame)
        self._traffic.time('decode', perf_counter() - began)
        if isinstance(command, Reset):
            self.reset = True
            return
        if self._abandoned:
            return
        if self._robot_enabled is not None and self._robot_enabled():
            # Before the session hears of it: the next call finds it as this one did.
            self.rejected = True
            return
        self.request, keys = self._session.begin(command)
        for key in keys:
            self._engine.close_session(key)
        self.submitted = perf_counter()
        self.future = self._engine.submit(self.request, Lane.REMOTE)
        # Not a method: the future keeps its callbacks, and would keep this object and its request.
        self.future.add_done_callback(partial(_wake, self._loop, self._over))
        if self._abandoned:
            # abandon() may have looked before there was a future.
            self.future.cancel()
            _wake(self._loop, self._over)

    def expire(self) -> None:
        """Give up: the client gets an error in its place. Nothing, if the answer is there."""
        if self.future is None or not self.future.done():
            self.expired = True
            self.abandon()

    def abandon(self) -> None:
        """Give up: nobody waits. A request not started is withdrawn, a result dropped."""
        self._abandoned = True
        if self.future is not None:
            self.future.cancel()
            _end(self._over)


def _wake(loop: asyncio.AbstractEventLoop, over: asyncio.Future[None], _: object = None) -> None:
    with contextlib.suppress(RuntimeError):  # The loop has closed: nobody waits.
        loop.call_soon_threadsafe(_end, over)


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
