# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One client's connection: frames in, through decoder and engine, replies out, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from openpi_policy_ros.engine import Engine, EngineStopped
from openpi_policy_ros.errors import (
    InvalidObservation,
    InvalidOutput,
    NoCapacity,
    PolicyRosError,
)
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.server.codec_pool import CodecPool
from openpi_policy_ros.server.exchange import Exchange
from openpi_policy_ros.server.log import BoundedLog, LogBudget, one_line
from openpi_policy_ros.server.traffic import Traffic
from openpi_policy_ros.wire import InvalidPayload, Session

SERVICE_RESTART = 1012
CLIENT_AT_FAULT = {
    1002: 'send WebSocket frames as RFC 6455 has them',
    1007: 'send observations as binary frames',
    1009: "resize images to the handshake's image_resolution before sending",
}
"""Close codes with which the WebSocket layer gives up on a client, and the remedy."""
TRY_AGAIN_LATER = 1013
INLINE_REPLY = 64 * 1024
"""Bytes of output up to which encoding (a few microseconds) is cheaper than another thread."""


@dataclass
class Shared:
    """What all conversations of a server share.

    Attributes:
        engine: answers requests.
        codec_pool: threads that decode frames and encode replies; never the event loop, which
            must answer pings meanwhile.
        log: bounded for all of them together.
        traffic: counts.
        draining: True once the server stops: a conversation ends after its current reply.
        conversations: those that are open, and the tasks they run in.
        request_timeout: seconds until a request is answered with an error, 0 = never.
        robot_enabled: see ``ServerThread``.

    """

    engine: Engine
    codec_pool: CodecPool
    log: BoundedLog
    traffic: Traffic = field(default_factory=Traffic)
    draining: bool = False
    conversations: dict[Conversation, asyncio.Task[None]] = field(default_factory=dict)
    request_timeout: float = 0.0
    robot_enabled: Callable[[], bool] | None = None


class Conversation:
    """Serves one WebSocket connection until either side ends it.

    Args:
        socket: open connection.
        session: its protocol state.
        name: name of the connection in log lines and session keys, unique in the process.
        idle_timeout: seconds to wait for a frame, 0 = for ever.
        shared: see ``Shared``.

    """

    def __init__(
        self,
        socket: ServerConnection,
        session: Session,
        name: str,
        idle_timeout: float,
        shared: Shared,
    ) -> None:
        self._socket = socket
        self._session = session
        self._name = name
        self._idle_timeout = idle_timeout
        self._shared = shared
        self._log = BoundedLog(LogBudget(burst=10, per_second=0.2), parent=shared.log)
        self._loop = asyncio.get_running_loop()
        self._closed = asyncio.ensure_future(socket.wait_closed())
        self._closed.add_done_callback(self._gone)
        self._exchange: Exchange | None = None
        self._ending: asyncio.Task[None] | None = None
        self._waiting = False
        self._count = 0
        self._failures = 0
        self._previous_total: float | None = None
        self._no_capacity = False

    async def run(self) -> None:
        """Greet, then answer frame after frame; returns when the connection is over."""
        try:
            greeting = self._session.greeting()
            await self._socket.send(greeting.frame)
            if greeting.close:
                self._log.write(
                    logging.WARNING,
                    f'{self._name}: turned away: the policy declares no policy_server_config; '
                    'write one into the policy file, or let the client connect to /',
                )
                await self._socket.close()
                return
            while not self._shared.draining and not self._no_capacity:
                # Nothing here may hold the frame or what came of it while waiting for the next.
                await self._answer(await self._receive())
            if self._no_capacity:
                await self._socket.close(TRY_AGAIN_LATER, 'no memory for another session')
            else:
                await self._socket.close(SERVICE_RESTART, 'server restarts')
        except ConnectionClosed as closed:
            # A code that the client sent first is merely echoed.
            remedy = CLIENT_AT_FAULT.get(closed.sent.code) if closed.sent is not None else None
            if remedy is not None and not closed.rcvd_then_sent:
                self._log.write(logging.WARNING, f'{self._name}: cut off: {closed.sent}; {remedy}')
        finally:
            self._closed.cancel()
            self._free(self._session.close())
            code = self._socket.protocol.close_code
            # Within the server's budget only, so that it sums up what the own one left out.
            self._shared.log.write(
                logging.INFO,
                f'{self._name}: closed ({code}) after {self._count} requests, '
                f'{self._failures} of them failed',
            )

    def drain(self) -> None:
        """End the conversation now if it waits for a frame, else after its current reply."""
        if self._waiting:
            self.end(SERVICE_RESTART, 'server restarts')

    def end(self, code: int, reason: str) -> None:
        """Close the connection; what is in flight for it is dropped."""
        if self._ending is None:
            self._ending = self._loop.create_task(self._socket.close(code, reason))

    def _gone(self, _: object) -> None:
        if self._exchange is not None:
            self._exchange.abandon()

    async def _receive(self) -> bytes | str:
        """Return the next frame; only this wait counts as idle."""
        timer = None
        if self._idle_timeout:
            timer = self._loop.call_later(
                self._idle_timeout, self.end, 1000, f'no frame for {self._idle_timeout:g} s'
            )
        self._waiting = True
        try:
            return await self._socket.recv()
        finally:
            self._waiting = False
            if timer is not None:
                timer.cancel()

    async def _answer(self, frame: bytes | str) -> None:
        """Answer one frame."""
        received = perf_counter()
        self._count += 1
        self._shared.traffic.add('requests')
        shared = self._shared
        exchange = Exchange(self._session, shared.engine, shared.traffic, shared.robot_enabled)
        self._exchange = exchange
        self._shared.codec_pool.hand_over(exchange.run, frame)
        # A 64 MiB frame would otherwise live on beside what was decoded from it.
        del frame
        if self._closed.done():
            exchange.abandon()
        timer = None
        if self._shared.request_timeout:
            timer = self._loop.call_later(self._shared.request_timeout, exchange.expire)
        try:
            await exchange.over()
        finally:
            if timer is not None:
                timer.cancel()
            exchange.abandon()
            self._exchange = None
        reply = await self._reply(exchange)
        if reply is not None:
            await self._socket.send(reply)
            self._previous_total = perf_counter() - received

    async def _reply(self, exchange: Exchange) -> bytes | str | None:
        """Return the answer to a frame, None if the client went away meanwhile."""
        if exchange.undecodable is not None:
            error, exchange.undecodable = exchange.undecodable, None
            return self._invalid(error)
        if self._closed.done():
            who = 'client went away' if self._ending is None else 'connection was closed'
            self._note(logging.INFO, f'{who} during inference; result dropped')
            return None
        if exchange.reset:
            reply, keys = self._session.reset()
            self._free(keys)
            return reply
        if exchange.rejected:
            return self._reject()
        if exchange.expired:
            return self._late(exchange.request)
        request, future = exchange.request, exchange.future
        assert request is not None, 'decoded, no reset, and not given up'
        assert future is not None
        # Asked for, not raised: a raised one would hold this frame and the request with it.
        failure = future.exception()
        if failure is not None:
            return self._fail(request, failure)
        chunk = future.result()
        timing = {'infer_ms': 1e3 * (perf_counter() - exchange.submitted)}
        if self._previous_total is not None:
            timing['prev_total_ms'] = 1e3 * self._previous_total
        encode = partial(self._encode, request, chunk, timing)
        if sum(output.nbytes for output in chunk.outputs.values()) <= INLINE_REPLY:
            return encode()
        return await self._loop.run_in_executor(self._shared.codec_pool, encode)

    def _encode(
        self, request: InferenceRequest, chunk: ActionChunk, timing: dict[str, float]
    ) -> bytes | str:
        began = perf_counter()
        try:
            return self._session.succeeded(request, chunk, timing)
        except Exception as error:
            return self._fail(request, error)
        finally:
            self._shared.traffic.time('encode', perf_counter() - began)

    def _invalid(self, error: Exception) -> bytes | str:
        """Log why a frame is no request and return what the client may know of it."""
        self._failures += 1
        self._shared.traffic.add('invalid_payloads')
        if isinstance(error, InvalidPayload):
            self._note(logging.WARNING, f'invalid payload: {error}')
            return self._session.invalid(self._request_id, one_line(str(error)))
        self._note(logging.ERROR, f'decoding failed: {error!r}', error)
        return self._session.invalid(self._request_id)

    def _fail(self, request: InferenceRequest, error: BaseException) -> bytes | str:
        """Log why a request failed and return what the client may know of it."""
        self._failures += 1
        self._shared.traffic.add('failures')
        ours = isinstance(error, PolicyRosError)
        expected = isinstance(error, (InvalidObservation, EngineStopped, NoCapacity))
        kind = {
            InvalidObservation: 'invalid observation',
            InvalidOutput: 'invalid output',
            NoCapacity: 'no capacity',
        }.get(type(error), 'inference failed')
        self._note(
            logging.WARNING if expected else logging.ERROR,
            f'session={request.session}: {kind}: {error if ours else repr(error)}',
            None if ours else error,
        )
        # A session that lives keeps its connection, whoever was refused in the same call.
        self._no_capacity = isinstance(error, NoCapacity) and request.reset
        told = one_line(str(error)) if isinstance(error, InvalidObservation) else ''
        return self._session.failed(self._request_id, told)

    def _reject(self) -> bytes | str:
        """Log that the robot goes first and return what the client may know of it."""
        self._failures += 1
        self._shared.traffic.add('failures')
        self._shared.traffic.add('rejected')
        told = 'no remote client is served while the robot is enabled'
        self._note(
            logging.WARNING,
            f'{told} (safety.remote_clients: reject_while_enabled); disable the robot, or allow it',
        )
        return self._session.failed(self._request_id, told)

    def _late(self, request: InferenceRequest | None) -> bytes | str:
        """Log that a request's time is up and return what the client may know of it."""
        self._failures += 1
        self._shared.traffic.add('failures')
        told = f'no answer within the request timeout of {self._shared.request_timeout:g} s'
        session = f'session={request.session}: ' if request is not None else ''
        self._note(
            logging.WARNING,
            f'{session}{told}; a call that runs is not cut, and its result dropped',
        )
        return self._session.failed(self._request_id, told)

    @property
    def _request_id(self) -> str:
        """Return the name of the current request in log lines."""
        return f'{self._name}-{self._count}'

    def _note(self, level: int, text: str, error: BaseException | None = None) -> None:
        self._log.write(level, f'req={self._request_id}: {text}', error)

    def _free(self, keys: Iterable[SessionKey]) -> None:
        for key in keys:
            self._shared.engine.close_session(key)
