# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One WebSocket connection to a server: a frame out, the frame that answers it in.

The connection lives on an event loop of its own thread, so that pings are answered while the
caller thinks, and any wait (name lookup, TLS, a peer that does not read) can be cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)

from openpi_policy_ros.client.address import Address
from openpi_policy_ros.client.errors import ConnectionLost, Unreachable
from openpi_policy_ros.wire.peer import NotOpenPi, plain_line

T = TypeVar('T')

LOG = logging.getLogger('openpi_policy_ros.client')

MAX_SIZE = 80 * 1024 * 1024
"""Largest frame of a server, as our own server's."""
PING_INTERVAL = 20.0
CLOSE_TIMEOUT = 1.0
_BUSY_STATUS = frozenset({429, 502, 503, 504})


class IoThread:
    """An event loop on a daemon thread; many links may share it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name='openpi-client', daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float) -> T:
        """Return what ``work`` returns, run on the loop.

        Raises:
            TimeoutError: ``timeout`` seconds went by; ``work`` is cancelled.

        """
        future = self.post(_bounded(work, timeout))
        try:
            return future.result()
        except BaseException:
            # An interrupted caller does not leave its work behind.
            future.cancel()
            raise

    def post(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work`` on the loop without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        """End the thread; goodbyes get ``CLOSE_TIMEOUT``, the rest is cancelled. Idempotent."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # The loop has closed already.
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(4 * CLOSE_TIMEOUT)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(_end_tasks())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)


async def _bounded(work: Coroutine[Any, Any, T], timeout: float) -> T:
    try:
        return await asyncio.wait_for(work, timeout)
    except asyncio.TimeoutError:
        raise TimeoutError from None


class _Connect(connect):
    """Follows no redirect: neither key nor observation goes to a host nobody named."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


class Link:
    """An open connection. Use on its loop only.

    A frame that nobody asked for would shift every later answer by one: it ends the connection.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        # The first frame, the greeting, comes unasked.
        self._awaited: asyncio.Future[bytes | str] | None = self._loop.create_future()
        self._end: Exception | None = None
        self._reader = self._loop.create_task(self._read())

    @classmethod
    async def open(
        cls, address: Address, headers: Mapping[str, str], context: ssl.SSLContext | None
    ) -> Link:
        """Connect.

        Raises:
            Unreachable: says why, what to do, and whether to try again.

        """
        try:
            connection = await _Connect(
                address.url,
                additional_headers=dict(headers),
                ssl=context,
                # Deflating images costs ten times all the rest.
                compression=None,
                max_size=MAX_SIZE,
                open_timeout=None,
                ping_interval=PING_INTERVAL,
                # openpi's own server answers no pings during an inference; deadlines are ours.
                ping_timeout=None,
                close_timeout=CLOSE_TIMEOUT,
                logger=_quiet_logger(),
            )
        except (OSError, WebSocketException, EOFError, ValueError) as error:
            raise cannot_connect(address, error) from None
        return cls(connection)

    @property
    def end(self) -> Exception | None:
        """Return why the connection is over, None while it is open."""
        return self._end

    async def greeting(self) -> bytes | str:
        """Return the first frame; call once, before anything else."""
        assert self._awaited is not None, 'the greeting comes once'
        return await self._take(self._awaited)

    async def ask(self, frame: bytes) -> bytes | str:
        """Send a frame and return the one that answers it.

        After any exception, cancellation included, the link must be closed: a late answer would
        belong to a question nobody remembers.

        Raises:
            ConnectionLost: it ended before the answer came.
            NotOpenPi: it ended because of a frame nobody asked for.

        """
        if self._end is not None:
            raise self._end
        self._awaited = self._loop.create_future()
        try:
            await self._connection.send(frame)
        except ConnectionClosed as closed:
            self._awaited.cancel()
            raise self._end or _lost(closed) from None
        return await self._take(self._awaited)

    async def close(self) -> None:
        """Say goodbye and end, within about ``CLOSE_TIMEOUT``. Idempotent."""
        self._finish(ConnectionLost(1000, 'by this client'))
        try:
            await asyncio.wait_for(self._connection.close(), 2 * CLOSE_TIMEOUT)
        except asyncio.TimeoutError:
            LOG.debug('the server did not say goodbye')
        finally:
            self._connection.transport.abort()
            self._reader.cancel()

    async def _take(self, awaited: asyncio.Future[bytes | str]) -> bytes | str:
        try:
            return await awaited
        finally:
            self._awaited = None

    def _finish(self, why: Exception) -> None:
        """Note the end, and tell who waits; the first reason stays."""
        self._end = self._end or why
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(self._end)

    async def _read(self) -> None:
        while True:
            try:
                frame = await self._connection.recv()
            except ConnectionClosed as closed:
                self._finish(_lost(closed))
                return
            if self._awaited is None or self._awaited.done():
                self._end = NotOpenPi(
                    f'the server sent a frame of {len(frame)} bytes that answers nothing',
                    expected='one reply per request',
                )
                await self._connection.close(1002, 'a frame that answers nothing')
                return
            self._awaited.set_result(frame)


def _lost(closed: ConnectionClosed) -> ConnectionLost:
    if closed.sent is not None and not closed.rcvd_then_sent and closed.sent.code != 1000:
        # The library ended it because of what came in.
        limit = 'its reply is larger than 80 MiB' if closed.sent.code == 1009 else ''
        return ConnectionLost(closed.sent.code, plain_line(closed.sent.reason) or limit)
    if closed.rcvd is None:
        return ConnectionLost(1006)
    code = closed.rcvd.code
    remedy = {
        1008: 'the server wants something else, e.g. an API key',
        1009: "send smaller images: resize them to the handshake's image_resolution",
        1011: 'its log has the reason',
    }.get(code, '')
    return ConnectionLost(code, plain_line(closed.rcvd.reason), remedy=remedy)


def cannot_connect(address: Address, error: Exception) -> Unreachable:
    """Return what to tell when no connection came about."""
    head = f'cannot connect to {address}: '
    if isinstance(error, InvalidStatus):
        return _refused(address, head, error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(
            f'{head}its certificate is not trusted ({error.verify_message})',
            remedy='give the certificate of its CA (ca_file) and the host name it was made for',
        )
    if isinstance(error, ssl.SSLError):
        return Unreachable(
            f'{head}TLS failed ({error.reason or error})',
            remedy='write ws:// if the server has no certificate',
        )
    if isinstance(error, socket.gaierror):
        return Unreachable(
            f'{head}the name {address.host!r} is unknown ({error.strerror})',
            remedy='check the spelling, or give an IP address',
            retry=error.errno == socket.EAI_AGAIN,
        )
    if isinstance(error, (ConnectionResetError, ConnectionAbortedError)):
        return _closed_early(address, head)
    if isinstance(error, OSError):
        # With several addresses, asyncio sums up in a text.
        refused = isinstance(error, ConnectionRefusedError) or (
            error.errno is None and f'[Errno {errno.ECONNREFUSED}]' in str(error)
        )
        why = 'nothing listens there' if refused else error.strerror or str(error)
        gone = error.errno in (errno.EACCES, errno.EPERM)
        return Unreachable(
            head + why,
            remedy='check that the server runs and listens on this address '
            '(not only on its own 127.0.0.1), and that no firewall is between',
            retry=not gone,
        )
    if isinstance(error, EOFError) or (
        isinstance(error, InvalidMessage) and isinstance(error.__cause__, (EOFError, OSError))
    ):
        return _closed_early(address, head)
    return Unreachable(
        f'{head}{plain_line(str(error)) or type(error).__name__}',
        expected='a WebSocket server',
        remedy='check host and port; write wss:// if the server has a certificate',
    )


def _closed_early(address: Address, head: str) -> Unreachable:
    return Unreachable(
        f'{head}the connection was closed during the handshake',
        remedy='if it stays so: is it a WebSocket server, '
        + ('with a certificate (else write ws://)?' if address.secure else 'without TLS (wss://)?'),
        retry=True,
    )


def _refused(address: Address, head: str, error: InvalidStatus) -> Unreachable:
    status = error.response.status_code
    body = plain_line((error.response.body or b'')[:2000].decode('utf-8', 'replace'))
    said = f'HTTP {status}' + (f', {body!r}' if body else '')
    if status in (401, 403):
        remedy = 'give the API key it wants'
    elif status == 404:
        remedy = f'check the path {address.path!r}: /v1/realtime/robot/openpi or /'
    elif status in _BUSY_STATUS:
        remedy = 'try again later; it starts, drains or has as many clients as it takes'
    elif 300 <= status < 400:
        remedy = 'it redirects, which is not followed; give the address it redirects to'
    else:
        remedy = 'check host, port and path'
    return Unreachable(head + said, remedy=remedy, retry=status in _BUSY_STATUS)


def _quiet_logger() -> logging.Logger:
    """Return a logger for websockets that has no debug level: there it writes the API key."""
    logger = logging.Logger('openpi_policy_ros.client.websockets', logging.ERROR)
    logger.parent = LOG
    return logger
