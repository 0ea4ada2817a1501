# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A client of any OpenPI server, with an end to every wait."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from openpi_policy_ros.client.address import Address, parse_address
from openpi_policy_ros.client.backoff import Backoff
from openpi_policy_ros.client.errors import (
    ClientClosed,
    ConnectionLost,
    TimedOut,
    Unreachable,
)
from openpi_policy_ros.client.link import CLOSE_TIMEOUT, IoThread, Link
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import ACTIONS, Observation
from openpi_policy_ros.wire import peer

LOG = logging.getLogger('openpi_policy_ros.client')

MAX_SENDS = 4
"""Connections one call may lose before it gives up: what it sends may be what ends them."""

_FOREVER = 3600.0


@dataclass(frozen=True)
class ClientConfig:
    """How a client connects.

    Attributes:
        connect_timeout: seconds for name, TCP, TLS and HTTP.
        handshake_timeout: seconds for the server's first frame after that.
        api_key: sent as ``Authorization: Api-Key …``; '' = none. Never logged.
        ca_file: PEM file of the CA that signed a ``wss://`` server's certificate; '' = the
            system's CAs.
        backoff: waits between attempts.

    """

    connect_timeout: float = 5.0
    handshake_timeout: float = 5.0
    api_key: str = field(default='', repr=False)
    ca_file: str = ''
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True)
class Reply:
    """A server's answer to ``OpenPiClient.infer``.

    Attributes:
        outputs: output name → array as sent, read-only, any numeric dtype; holds ``actions``.
        fresh: True for the first answer on a connection or after a reset: the server began with
            an empty memory, whatever this client had asked it before.
        round_trip_ms: from handing over the frame to having the reply's.
        timing_ms: what the server says it took; empty on the OpenPI path.
        sent_bytes: size of the request's frame.

    """

    outputs: Mapping[str, npt.NDArray[Any]]
    fresh: bool
    round_trip_ms: float
    timing_ms: Mapping[str, float]
    sent_bytes: int

    @property
    def actions(self) -> npt.NDArray[Any]:
        """Return the chunk of actions."""
        return self.outputs[ACTIONS]


class OpenPiClient:
    """Asks one server, over one connection at a time.

    Connects when first asked, and again whenever the connection was lost or closed: a new one
    starts with the handshake and an empty memory at the server (``Reply.fresh``). A connection on
    which an answer did not come in time is closed, so that a late one can never be taken for the
    next. One call at a time; further threads wait.

    Args:
        url: ``ws://host:port/path`` or ``wss://…``.
        config: see ``ClientConfig``.
        check: called with every new connection's handshake; what it raises is raised to the
            caller and the connection is closed.
        io: shared with other clients; None = its own.

    Raises:
        ConfigurationError: the address or the CA file is no use.

    """

    def __init__(
        self,
        url: str,
        config: ClientConfig | None = None,
        *,
        check: Callable[[Mapping[str, Any]], None] | None = None,
        io: IoThread | None = None,
    ) -> None:
        self.address = parse_address(url)
        self._config = config or ClientConfig()
        self._context = tls_context(self.address, self._config.ca_file)
        self._headers = _headers(self.address, self._config.api_key)
        self._check = check
        self._owns_io = io is None
        self._io = io or IoThread()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._link: Link | None = None
        self._handshake: Mapping[str, Any] = {}
        self._commands = False
        self._failures = 0
        self._last_failure: Exception | None = None
        self._retry_at = 0.0
        self._fresh = True

    def __enter__(self) -> OpenPiClient:
        """Return the client; leaving the block closes it."""
        return self

    def __exit__(self, *details: object) -> None:
        """Close."""
        self.close()

    @property
    def connected(self) -> bool:
        """Return whether there is a connection that nobody has closed so far."""
        link = self._link
        return link is not None and link.end is None

    def connect(self, timeout: float) -> Mapping[str, Any]:
        """Return the server's handshake, connecting if there is no connection.

        Args:
            timeout: seconds to keep trying while nothing listens or the server is busy; 0 = one
                attempt.

        Raises:
            Unreachable, NoPolicy, NotOpenPi, ConnectionLost: no connection came about.
            ClientClosed: ``close`` was called.

        """
        with self._lock:
            self._ensure(_Deadline(timeout), least_one=True)
            return self._handshake

    def infer(
        self,
        observation: Observation,
        *,
        timeout: float,
        session_id: str | None = None,
        seed: int | None = None,
        num_inference_steps: int | None = None,
    ) -> Reply:
        """Return the server's chunk for one observation.

        Where the connection ends before the answer (1000, 1001, 1006, 1012, 1013) the request is
        sent again on a new one: its answer then starts a session afresh.

        Args:
            observation: wire key → value, sent as it is.
            timeout: seconds for everything, connecting included.
            session_id: None = the server's default.
            seed: None = independent noise.
            num_inference_steps: None = the policy's configured number.

        Raises:
            RequestFailed: the server answered with an error; the connection stays.
            TimedOut: no answer in time.
            Unreachable, NoPolicy, NotOpenPi, ConnectionLost: no answer will come.
            UnsupportedValue: the observation cannot be sent.
            ClientClosed: ``close`` was called.

        """
        with self._lock:
            deadline = _Deadline(timeout)
            for sends_left in range(MAX_SENDS - 1, -1, -1):
                link = self._ensure(deadline)
                frame = peer.pack_request(
                    observation,
                    commands=self._commands,
                    session_id=session_id,
                    seed=seed,
                    num_inference_steps=num_inference_steps,
                )
                began = time.perf_counter()
                try:
                    answer = peer.read_answer(self._ask(link, frame, deadline))
                except ConnectionLost as lost:
                    if not (lost.retry and sends_left):
                        raise
                    LOG.info('%s: %s; sending again', self.address, lost.what)
                    continue
                except peer.NotOpenPi:
                    self._drop()
                    raise
                round_trip = 1e3 * (time.perf_counter() - began)
                fresh, self._fresh = self._fresh, False
                return Reply(answer.outputs, fresh, round_trip, answer.timing_ms, len(frame))
        raise AssertionError('the last attempt raises')

    def reset(self, timeout: float) -> None:
        """Make the server forget the session: the next reply is ``fresh``.

        openpi's own server has no command for it, so there the connection is closed.

        Raises:
            As ``infer``; the connection is then closed, which resets as well.

        """
        with self._lock:
            link = self._link
            if link is None or link.end is not None or not self._commands:
                self._drop()
                return
            try:
                peer.read_reset_reply(self._ask(link, peer.pack_reset(), _Deadline(timeout)))
            except ConnectionLost:
                # Its memory went with it.
                return
            except peer.PeerError:
                self._drop()
                raise
            self._fresh = True

    def close(self) -> None:
        """Close the connection; a call in progress ends with ``ClientClosed``. Idempotent."""
        self._closed.set()
        link, self._link = self._link, None
        if link is not None:
            goodbye = self._io.post(link.close())
            if self._owns_io:
                try:
                    goodbye.result(3 * CLOSE_TIMEOUT)
                except Exception as error:
                    LOG.debug('%s: closing: %r', self.address, error)
        if self._owns_io:
            self._io.stop()

    def _ask(self, link: Link, frame: bytes, deadline: _Deadline) -> bytes | str:
        """Send a frame and return its answer; whatever goes wrong, the link is not used again."""
        try:
            answer = self._run(link.ask(frame), deadline.left())
        except TimeoutError:
            self._drop()
            raise TimedOut(
                f'{self.address}: no answer within {deadline.seconds:g} s',
                remedy='is the server overloaded, or still compiling? a longer timeout helps then',
            ) from None
        except BaseException as error:
            self._drop()
            if isinstance(error, ConnectionLost) and error.retry:
                self._note_failure(error)
            raise
        self._failures, self._last_failure = 0, None
        return answer

    def _ensure(self, deadline: _Deadline, *, least_one: bool = False) -> Link:
        """Return an open link, waiting between attempts, until the deadline."""
        self._notice_end()
        while self._link is None:
            # Counted from the last failure, not from this call: short deadlines get there too.
            wait = max(self._retry_at - time.monotonic(), 0.0)
            if self._last_failure is not None and wait >= max(deadline.left(), 0.0):
                if not least_one:
                    raise self._last_failure
                wait = 0.0
            if self._closed.wait(wait):
                raise ClientClosed('this client is closed')
            try:
                self._open(_Deadline(_FOREVER) if least_one else deadline)
            except (Unreachable, ConnectionLost) as error:
                self._note_failure(error)
                if not error.retry or deadline.left() <= 0.0:
                    raise
                if self._failures == 1:
                    LOG.warning('%s; trying again', error)
            least_one = False
        return self._link

    def _notice_end(self) -> None:
        """Let go of a connection that ended while nobody asked."""
        link = self._link
        if link is None or link.end is None:
            return
        if isinstance(link.end, ConnectionLost) and link.end.code == 1000:
            LOG.debug('%s: %s; connecting again', self.address, link.end.what)
        else:
            LOG.warning('%s: %s; connecting again', self.address, link.end)
            # Without the jitter, all clients of a server that went down would come back at once.
            self._note_failure(link.end)
        self._drop()

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        self._last_failure = error
        self._retry_at = time.monotonic() + self._config.backoff.delay(self._failures)

    def _open(self, deadline: _Deadline) -> None:
        """Connect once; the connection counts only with its handshake read and checked."""
        config = self._config
        patience = min(config.connect_timeout, deadline.left())
        try:
            connecting = Link.open(self.address, self._headers, self._context)
            link: Link = self._run(connecting, patience)
        except TimeoutError:
            if patience < config.connect_timeout and self._last_failure is not None:
                # This attempt was not given its time; the one before says more.
                raise self._last_failure from None
            raise Unreachable(
                f'cannot connect to {self.address}: no answer in time',
                remedy='check address and network; is a firewall between?',
                retry=True,
            ) from None
        try:
            patience = min(config.handshake_timeout, deadline.left())
            handshake = peer.read_greeting(self._run(link.greeting(), patience))
            if self._check is not None:
                self._check(handshake)
        except TimeoutError:
            self._io.post(link.close())
            raise Unreachable(
                f'{self.address} accepted the connection, but sent no handshake in time',
                expected='an OpenPI server, which speaks first',
                remedy='check port and path',
            ) from None
        except BaseException:
            self._io.post(link.close())
            raise
        if self._failures:
            LOG.info('%s: connected', self.address)
        self._handshake = handshake
        self._commands = peer.knows_commands(self.address.path, handshake)
        self._fresh = True
        self._link = link
        if self._closed.is_set():
            self._drop()
            raise ClientClosed('this client is closed')

    def _run(self, work: Any, timeout: float) -> Any:
        if self._closed.is_set():
            work.close()
            raise ClientClosed('this client is closed')
        try:
            return self._io.run(work, max(timeout, 0.0))
        except CancelledError:
            raise ClientClosed('this client is closed') from None
        except ConnectionLost:
            if self._closed.is_set():
                raise ClientClosed('this client is closed') from None
            raise

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None and not (self._closed.is_set() and self._owns_io):
            self._io.post(link.close())


def tls_context(address: Address, ca_file: str) -> ssl.SSLContext | None:
    """Return what checks a ``wss://`` server's certificate, None for ``ws://``.

    Raises:
        ConfigurationError: the CA file cannot be used, or would not be.

    """
    if not address.secure:
        if ca_file:
            raise ConfigurationError(
                'ca_file', [f'{address} is not encrypted; write wss://, or leave ca_file out']
            )
        return None
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:  # ssl.SSLError is one.
        why = error.strerror or str(error)
        raise ConfigurationError(
            'ca_file', [f'{ca_file!r}: {why}; expected a PEM file of CA certificates']
        ) from None


def _headers(address: Address, api_key: str) -> dict[str, str]:
    if not api_key:
        return {}
    if not api_key.isascii() or not api_key.isprintable() or ' ' in api_key:
        raise ConfigurationError(
            'API key', ['holds characters that no HTTP header can carry (value not shown)']
        )
    if not address.secure and address.host not in ('127.0.0.1', '::1', 'localhost'):
        LOG.warning('%s: the API key travels unencrypted; wss:// would protect it', address)
    return {'Authorization': f'Api-Key {api_key}'}


class _Deadline:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return self._end - time.monotonic()
