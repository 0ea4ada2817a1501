# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The WebSocket server on a thread of its own, beside whatever owns the process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from http import HTTPStatus

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.server.address import address_family, cannot_listen
from openpi_policy_ros.server.admission import Admission
from openpi_policy_ros.server.codec_pool import CodecPool
from openpi_policy_ros.server.conversation import SERVICE_RESTART, Conversation, Shared
from openpi_policy_ros.server.exposure import Exposure
from openpi_policy_ros.server.heap import keep_freed_memory
from openpi_policy_ros.server.http import HttpReply, full, reply_to
from openpi_policy_ros.server.log import LOG, BoundedLog, LogBudget, WebsocketsLogger
from openpi_policy_ros.server.loop import Runner, runner
from openpi_policy_ros.server.traffic import ServerStats, Traffic
from openpi_policy_ros.wire import Dialect, Session, dialect_for_path

MAX_SIZE = 80 * 1024 * 1024
"""Where the WebSocket layer itself gives up (1009); above ``wire.MAX_FRAME_BYTES``, so that a
frame just over the limit is answered."""
PING_INTERVAL = 20.0
OPEN_TIMEOUT = 10.0
CLOSE_TIMEOUT = 5.0
HEALTH_PERIOD = 0.5
CODEC_THREADS = 2


class ServerThread:
    """Serves an engine to OpenPI clients from a background thread.

    Args:
        engine: started; it stays the caller's and is not closed by ``stop``.
        config: where and how to listen.
        exposure: keys and certificate, where they were read before; None = read them at ``start``.
        robot_enabled: asked from any thread before each request; True = it is answered with an
            inference error, because a robot is driven that must not wait for it. None = never.

    """

    def __init__(
        self,
        engine: Engine,
        config: ServerConfig,
        exposure: Exposure | None = None,
        *,
        robot_enabled: Callable[[], bool] | None = None,
    ) -> None:
        self._engine = engine
        self._config = config
        self._given_exposure = exposure
        self._robot_enabled = robot_enabled
        self._exposure = Exposure()
        self._aliases = {path: Dialect[name.upper()] for path, name in config.aliases.items()}
        self._traffic = Traffic()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._names = itertools.count(1)

    @property
    def running(self) -> bool:
        """Return whether the server's thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> int:
        """Listen; return the bound port.

        Raises:
            RuntimeError: the engine is not started (a client must never wait for a warm-up), or
                this server was started before.
            ConfigurationError: host and port cannot be bound, the event loop is not installed, or
                a file of keys or certificates is wrong; says which, why and what to do.

        """
        if not self._engine.started:
            raise RuntimeError('start the engine before the server: it must be warmed up')
        if self._thread is not None:
            raise RuntimeError('a ServerThread starts once; make a new one')
        run = runner(self._config.event_loop)
        if self._config.heap == 'keep' and not keep_freed_memory():
            LOG.debug('no glibc here: memory of frames is not kept')
        self._exposure = self._given_exposure or Exposure.load(self._config)
        for note in self._exposure.notes:
            LOG.warning('%s', note)
        bound: Future[int] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(run, bound), name='openpi-server', daemon=True
        )
        self._thread.start()
        return bound.result()

    def stop(self) -> None:
        """Stop: accept no clients, finish what is in flight, close with 1012.

        Blocks, at most about ``drain_timeout`` plus the time the clients take to close. Idempotent.
        """
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        with contextlib.suppress(RuntimeError):  # The loop has closed already.
            self._loop.call_soon_threadsafe(self._stopping.set)
        limit = self._config.drain_timeout + 3 * CLOSE_TIMEOUT
        self._thread.join(limit)
        if self._thread.is_alive():
            LOG.error('the server did not stop within %g s; its thread is left alone', limit)

    def stats(self) -> ServerStats:
        """Return counts and codec times so far; thread-safe."""
        return self._traffic.stats()

    def _run(self, run: Runner, bound: Future[int]) -> None:
        try:
            run(self._main(bound))
        except BaseException as error:
            if bound.done():
                LOG.critical('the server died; clients cannot connect any more', exc_info=True)
            else:
                bound.set_exception(error)

    async def _main(self, bound: Future[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        with CodecPool(CODEC_THREADS) as pool:
            log = BoundedLog(LogBudget(burst=200, per_second=5.0))
            shared = Shared(
                self._engine,
                pool,
                log,
                self._traffic,
                request_timeout=self._config.request_timeout,
                robot_enabled=self._robot_enabled,
            )
            server = await self._listen(shared)
            port: int = server.sockets[0].getsockname()[1]
            self._announce(server)
            bound.set_result(port)
            health = asyncio.create_task(self._watch_health())
            await self._stopping.wait()
            health.cancel()
            await self._drain(server, shared)

    async def _listen(self, shared: Shared) -> Server:
        async def handler(connection: ServerConnection) -> None:
            await self._converse(connection, shared)

        admission = Admission(self._config.max_connections)
        # Who knocks and is not let in must not use up the lines of those who were.
        refused = BoundedLog(LogBudget(burst=20, per_second=1.0), parent=shared.log)

        def refuse(connection: ServerConnection, reply: HttpReply) -> Response:
            if reply.refusal:
                refused.write(
                    logging.WARNING,
                    f'{_peer(connection)}: refused ({reply.status.value}): {reply.refusal}',
                )
            return _response(reply)

        def answer_http(connection: ServerConnection, request: Request) -> Response | None:
            keys = self._exposure.keys
            reply = reply_to(
                request.path,
                self._engine.spec,
                self._not_ready(shared),
                shared.draining,
                aliases=self._aliases,
                key_problem=keys.refusal(request.headers.get_all('Authorization'))
                if keys is not None
                else None,
            )
            return None if reply is None else refuse(connection, reply)

        def admit(connection: ServerConnection, _: Request, response: Response) -> Response | None:
            if response.status_code != HTTPStatus.SWITCHING_PROTOCOLS:
                return None
            if admission.admit(connection.wait_closed):
                return None
            return refuse(connection, full(self._config.max_connections))

        host, port = self._config.host, self._config.port
        try:
            return await serve(
                handler,
                host,
                port,
                family=address_family(self._config),
                process_request=answer_http,
                process_response=admit,
                ssl=self._exposure.tls,
                # Deflating images costs ten times all the rest.
                compression=None,
                max_size=MAX_SIZE,
                # One frame read ahead; more would be memory for clients that do not wait.
                max_queue=1,
                open_timeout=OPEN_TIMEOUT,
                ping_interval=PING_INTERVAL,
                # A client on a slow link or in a debugger is not dead.
                ping_timeout=None,
                close_timeout=CLOSE_TIMEOUT,
                logger=WebsocketsLogger(shared.log),
            )
        except OSError as error:
            raise cannot_listen(host, port, error) from None

    async def _converse(self, connection: ServerConnection, shared: Shared) -> None:
        assert connection.request is not None
        dialect = dialect_for_path(connection.request.path, self._aliases)
        assert dialect is not None, 'answer_http refused it'
        if shared.draining:
            await connection.close(SERVICE_RESTART, 'server restarts')
            return
        name = f'c{next(self._names)}'
        # Without the query, where somebody may have put a key.
        path = connection.request.path.partition('?')[0]
        shared.log.write(logging.INFO, f'{name}: {_peer(connection)} connected to {path}')
        idle_timeout = (
            self._config.idle_timeout
            if dialect is Dialect.OPENPI
            else self._config.root_idle_timeout
        )
        session = Session(
            dialect,
            name,
            self._engine.spec.handshake,
            reply_shape=(self._engine.spec.horizon, self._engine.spec.action_dim),
            bare_replies=self._config.root_reply == 'array',
            error_detail=self._config.error_detail,
        )
        conversation = Conversation(connection, session, name, idle_timeout, shared)
        task = asyncio.current_task()
        assert task is not None
        shared.conversations[conversation] = task
        self._traffic.add('connections')
        self._traffic.add('clients')
        try:
            await conversation.run()
        finally:
            self._traffic.add('clients', -1)
            del shared.conversations[conversation]

    async def _drain(self, server: Server, shared: Shared) -> None:
        """Let every conversation finish its request, then close the listening socket."""
        shared.draining = True
        LOG.info('stopping: %d clients connected', len(shared.conversations))
        for conversation in shared.conversations:
            conversation.drain()
        # The listening socket stays until then, so that /readyz tells why and a new client is
        # sent away with a reason.
        if shared.conversations:
            await asyncio.wait(
                set(shared.conversations.values()), timeout=self._config.drain_timeout
            )
        if shared.conversations:
            LOG.warning(
                'drain timeout of %g s: %d clients are closed in the middle of a request',
                self._config.drain_timeout,
                len(shared.conversations),
            )
            for conversation in shared.conversations:
                conversation.end(SERVICE_RESTART, 'server restarts')
            await asyncio.wait(set(shared.conversations.values()), timeout=2 * CLOSE_TIMEOUT)
        server.close()
        # Who is left has not even finished the handshake, and is cut when the loop ends.
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 1.0)
        LOG.info('stopped')

    async def _watch_health(self) -> None:
        """Log when the engine stops or starts to be ready, once per change."""
        was_ready = True
        while True:
            health = self._engine.health()
            if health.ready and not was_ready:
                LOG.info('ready again')
            elif not health.ready and was_ready:
                LOG.warning('not ready: %s', health.reason)
            was_ready = health.ready
            await asyncio.sleep(HEALTH_PERIOD)

    def _not_ready(self, shared: Shared) -> str | None:
        if shared.draining:
            return 'draining: finishing what is in flight'
        health = self._engine.health()
        return None if health.ready else health.reason

    def _announce(self, server: Server) -> None:
        for listening in server.sockets:
            host, port = listening.getsockname()[:2]
            LOG.info(
                'listening on %s://%s: OpenPI clients on %s, stock clients on %s%s',
                self._exposure.scheme,
                f'[{host}]:{port}' if ':' in host else f'{host}:{port}',
                Dialect.OPENPI.value,
                Dialect.STOCK.value,
                '' if self._exposure.keys is None else ', with an API key',
            )
            warning = self._exposure.warning(host)
            if warning is not None:
                LOG.warning('%s', warning)


def _peer(connection: ServerConnection) -> str:
    return ':'.join(str(part) for part in (connection.remote_address or ('?',))[:2])


def _response(reply: HttpReply) -> Response:
    body = reply.body.encode()
    headers = Headers(
        {
            'Content-Type': reply.content_type,
            'Content-Length': str(len(body)),
            'Connection': 'close',
            **reply.headers,
        }
    )
    return Response(reply.status.value, reply.status.phrase, headers, body)
