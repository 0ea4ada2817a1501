# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""openpi's own client, on either path, with errors that say what happened.

It has no way to end an episode but a new connection or a new ``session_id``; both are used.
"""

from __future__ import annotations

import contextlib
import math
import queue
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgpack
import numpy as np
import numpy.typing as npt
from openpi_client.websocket_client_policy import WebsocketClientPolicy
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from openpi_policy_ros.client.address import parse_address
from openpi_policy_ros.configuration.paths import OPENPI_PATH
from openpi_policy_ros.policies.base import ACTIONS
from openpi_policy_ros.wire.peer import knows_commands, plain_line
from openpi_policy_ros_sim.errors import SimulationError

OPENING_S: Final = 10.0
GREETING_S: Final = 60.0
"""As long as a server that hangs is waited for later."""
_EXPECTED: Final = 'an OpenPI server'
_LOG: Final = "look into the server's log"


class ServerError(SimulationError):
    """The server cannot be reached, went away, or answered with an error."""


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        actions: float64 [H, D].
        latency_ms: from the observation to the answer, packing and transport included.

    """

    actions: npt.NDArray[np.float64]
    latency_ms: float


class Server:
    """A server, connected by openpi's client when it is first needed.

    Args:
        url: ``ws://host:port/path`` or ``wss://…``.
        api_key: '' = none.

    Raises:
        ConfigurationError: the address is none.

    """

    def __init__(self, url: str, api_key: str = '') -> None:
        self._address = parse_address(url)
        self._key = api_key
        self._client: Any = None
        self._handshake: dict[str, Any] | None = None
        self._fresh = False

    @property
    def url(self) -> str:
        """Return the address."""
        return self._address.url

    @property
    def knows_commands(self) -> bool:
        """Return whether the server reads ``endpoint``."""
        return knows_commands(self._address.path, self.handshake())

    def handshake(self) -> dict[str, Any]:
        """Return what the server said first.

        Raises:
            ServerError: it cannot be reached, or has no policy.

        """
        if self._handshake is None:
            self._connect()
        assert self._handshake is not None
        return self._handshake

    def begin_episode(self) -> None:
        """Make sure that the server remembers nothing of the episode before.

        Raises:
            ServerError: it cannot be reached any more, or says something else than it did.

        """
        if not self._fresh:
            self.close()
            self._connect()
        self._fresh = False

    def infer(self, observation: Mapping[str, Any]) -> Reply:
        """Return its answer.

        Raises:
            ServerError: it is gone, answered with an error, or with what is no chunk.

        """
        assert self._client is not None
        start = time.perf_counter()
        try:
            answer = self._client.infer(dict(observation))
        except RuntimeError as error:
            # The client's own way to say that it got text.
            text = str(error).partition('\n')[2] or str(error)
            raise ServerError(
                f'the server answered {plain_line(text)!r} instead of actions', remedy=_LOG
            ) from error
        except (ConnectionClosed, OSError, EOFError) as error:
            raise ServerError(
                f'the server at {self.url} went away while it was asked '
                f'({type(error).__name__}: {error})',
                remedy='see whether it still runs, and what its log says',
            ) from error
        except (msgpack.exceptions.UnpackException, ValueError, TypeError) as error:
            raise ServerError(
                f'the server answered with what is no MessagePack ({error})', expected=_EXPECTED
            ) from error
        latency = 1000.0 * (time.perf_counter() - start)
        return Reply(_actions(answer), latency)

    def close(self) -> None:
        """Close the connection; harmless when repeated."""
        connection = getattr(self._client, '_ws', None)
        self._client, self._fresh = None, False
        if connection is not None:
            with contextlib.suppress(OSError, ConnectionClosed):
                connection.close()

    def _greeted(self) -> Any:
        """Return openpi's client, once the server has greeted it.

        Some versions of it wait for ever for a server that is not there, and all of them for the
        greeting.
        """
        outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def connect() -> None:
            try:
                outcome.put(WebsocketClientPolicy(self.url, None, self._key or None))
            except BaseException as error:  # handed on
                outcome.put(error)

        # Left to itself where it hangs; it ends with the process.
        threading.Thread(target=connect, daemon=True).start()
        try:
            found = outcome.get(timeout=GREETING_S)
        except queue.Empty:
            # Not before: a connection without a word stands in the log of every server.
            place = self._address.host, self._address.port
            socket.create_connection(place, OPENING_S).close()
            raise ServerError(
                f'{self.url} said nothing within {GREETING_S:g} s of the connection',
                expected='an OpenPI server, which greets first',
            ) from None
        if isinstance(found, BaseException):
            raise found
        return found

    def _connect(self) -> None:
        try:
            self._client = self._greeted()
        except InvalidStatus as error:
            status = error.response.status_code
            body = (error.response.body or b'').decode('utf-8', 'replace')
            remedy = {
                401: 'give its key with --api-key-file',
                404: f'its paths are / and {OPENPI_PATH}',
                503: 'it has no place for another client; try again later',
            }.get(status, '')
            # The rest of the page tells at length what the remedy tells.
            said = plain_line(body).partition('. ')[0].removesuffix('.')
            raise ServerError(
                f'{self.url} refused with HTTP status {status}' + (f' ({said})' if said else ''),
                remedy=remedy,
            ) from error
        except (InvalidHandshake, ConnectionClosed, OSError, EOFError) as error:
            raise ServerError(
                f'{self.url} cannot be reached ({type(error).__name__}: {error})',
                expected=_EXPECTED,
                remedy='start one (openpi-policy serve …), or check host and port',
            ) from error
        except (msgpack.exceptions.UnpackException, ValueError, TypeError) as error:
            raise ServerError(
                f'{self.url} greeted with text, or with what is no MessagePack: on this path it '
                f'has no policy, or it speaks something else ({type(error).__name__})',
                expected='a mapping as the first frame',
                remedy='start it with a policy that declares a policy_server_config, or use its '
                'path /',
            ) from error
        said = self._client.get_server_metadata()
        if not isinstance(said, dict):
            raise ServerError(
                f'{self.url} greeted with a {type(said).__name__}', expected='a mapping'
            )
        plain = {_text(key): _plain(value) for key, value in said.items()}
        if self._handshake is not None and plain != self._handshake:
            raise ServerError(
                f'the handshake of {self.url} is {plain} now and was {self._handshake}',
                expected='one server for all episodes',
                remedy='start again',
            )
        self._handshake, self._fresh = plain, True


def _actions(answer: Any) -> npt.NDArray[np.float64]:
    content = answer
    if isinstance(answer, Mapping):
        texts = {_text(key): value for key, value in answer.items()}
        if texts.get('type') == 'error':
            message = texts.get('message', texts.get('error', ''))
            raise ServerError(
                f'the server answered {plain_line(str(message))!r} instead of actions', remedy=_LOG
            )
        if ACTIONS not in texts:
            keys = ', '.join(list(texts)[:8])
            raise ServerError(
                f'the server answered a mapping of {keys}', expected=f'{ACTIONS!r} in it'
            )
        content = texts[ACTIONS]
    try:
        # Text would pass for the numbers it spells.
        chunk = np.array(content).astype(np.float64, casting='same_kind')
    except (TypeError, ValueError) as error:
        raise ServerError(
            f'the server answered with what are no actions ({error})',
            expected='an array [rows, columns]',
        ) from error
    if chunk.ndim != 2 or not np.isfinite(chunk).all():
        raise ServerError(
            f'the server answered with an array of shape {list(chunk.shape)}'
            + ('' if np.isfinite(chunk).all() else ' that is not finite'),
            expected='finite numbers [rows, columns]',
        )
    return chunk


def _text(key: Any) -> str:
    return key.decode('utf-8', 'replace') if isinstance(key, bytes) else str(key)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode('utf-8', 'replace')
    # What JSON has no word for, and what is not even equal to itself.
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)
