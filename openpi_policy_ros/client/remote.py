# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``policy: remote``: a policy that is another OpenPI server, asked over the network.

Engine, server and ROS door see a policy like any other. Observations are passed on as they are,
under the robot's own keys; transforms belong to the far side.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openpi_policy_ros.client.agreement import Agreement, agree
from openpi_policy_ros.client.api_key import read_api_key
from openpi_policy_ros.client.client import ClientConfig, OpenPiClient, Reply
from openpi_policy_ros.client.errors import ClientClosed
from openpi_policy_ros.client.link import IoThread
from openpi_policy_ros.client.options import RemoteOptions
from openpi_policy_ros.client.recorded import load_observation
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.errors import InvalidObservation, InvalidOutput
from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    FloatArray,
    InferenceRequest,
    InferenceResult,
    Observation,
    Policy,
    PolicySpec,
    SessionKey,
    StateSpec,
)
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin
from openpi_policy_ros.wire.errors import UnsupportedValue
from openpi_policy_ros.wire.peer import PeerError, RequestFailed

LOG = logging.getLogger('openpi_policy_ros.client.remote')

DEFAULT_SESSION = 'default'


class ServerChanged(PeerError):
    """After a reconnect the server declares something else than at the start."""


class RemotePolicy(Policy):
    """A server somewhere else.

    Each client of ours has a connection of its own there, so that its session, and what the server
    remembers of it, begins and ends with the client's.

    Args:
        url: the server's address.
        config: how to connect.
        options: see ``RemoteOptions``.
        request: the robot's conventions and, for messages, the policy file.

    Raises:
        ConfigurationError: address, options, handshake and robot do not fit together.
        PeerError: no connection came about within ``options.start_timeout``.

    """

    def __init__(
        self, url: str, config: ClientConfig, options: RemoteOptions, request: LoadRequest
    ) -> None:
        self._url = url
        self._config = config
        self._options = options
        self._warm_up_observation = (
            load_observation(options.warm_up_observation) if options.warm_up_observation else None
        )
        self._declared: Mapping[str, Any] | None = None
        self._lock = threading.Lock()
        self._lines: dict[str, _Line] = {}
        self._prefix = uuid.uuid4().hex[:12] if options.session_ids == 'unique' else ''
        self._told = ''
        self._io = IoThread()
        try:
            # Any mistake in the address comes up before waiting for somebody to listen there.
            with self._client() as client:
                LOG.info('connecting to %s', url)
                self._declared = client.connect(options.start_timeout)
            self._agreement = agree(
                self._declared,
                supplement=options.policy_server_config,
                profile=request.profile,
                optional_cameras=tuple(options.optional_cameras),
                url=url,
                source=request.options_source or 'policy file',
            )
        except BaseException:
            self._io.stop()
            raise
        self._spec = _spec(url, self._agreement, options)

    @property
    def spec(self) -> PolicySpec:
        """Return what the server's handshake and the robot's profile make of it."""
        return self._spec

    def warm_up(self) -> None:
        """Send the recorded observation if there is one, else only make sure that it still answers.

        Raises:
            InvalidObservation: the server refuses the recorded observation.
            InvalidOutput: its chunk is not what it declared.
            PeerError: it does not answer.

        """
        with self._client() as client:
            if self._warm_up_observation is None:
                client.connect(self._options.connect_timeout)
                return
            reply = client.infer(self._warm_up_observation, timeout=self._options.warm_up_timeout)
            LOG.info('%s: the first request took %.0f ms', self._url, reply.round_trip_ms)
            self._chunk(reply)

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Pass on each request; see ``Policy.infer``.

        Timing of a chunk in ms: ``round_trip`` and what the server says of itself
        (``server.infer_ms``, ``policy.infer_ms``).

        Raises:
            PeerError: the server failed, or did not answer in time.
            InvalidOutput: its answer is no chunk of the agreed shape.

        """
        return [self._answer(request) for request in requests]

    def close_session(self, key: SessionKey) -> None:
        """Close the session's connection, which frees what the server remembers of it."""
        with self._lock:
            line = self._lines.get(key.connection)
            if line is None or line.session != key.session_id:
                return
            del self._lines[key.connection]
        line.client.close()

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            lines, self._lines = list(self._lines.values()), {}
        for line in lines:
            line.client.close()
        self._io.stop()

    def _answer(self, request: InferenceRequest) -> InferenceResult:
        options = self._options
        line = self._line(request.session)
        end = time.monotonic() + options.deadline
        if request.reset and line.asked:
            # A first call that failed is tried again: the server may have begun already.
            self._reset(line.client)
        line.asked = True
        try:
            reply = line.client.infer(
                nested(request.observation, self._options.nested_keys),
                timeout=end - time.monotonic(),
                session_id=self._session_id(request.session),
                seed=request.seed,
                num_inference_steps=request.num_inference_steps,
            )
        except InvalidObservation as error:
            return error
        except UnsupportedValue as error:
            return InvalidObservation(
                'observation',
                f'cannot be sent on: {error.what}',
                expected=error.expected,
                remedy=error.remedy,
            )
        except RequestFailed as error:
            if not error.refused:
                raise
            self._tell(str(error))
            # Without its words: this text may go to a client, and they are not ours to pass on.
            return InvalidObservation(
                'observation',
                'the remote policy server refused it',
                expected='the keys, shapes and values that server reads',
                remedy='its log has the reason',
            )
        if reply.fresh and not request.reset:
            LOG.warning(
                '%s: session %s: the connection was new, so the server began the session afresh',
                self._url,
                request.session,
            )
        return self._chunk(reply)

    def _reset(self, client: OpenPiClient) -> None:
        try:
            client.reset(self._options.deadline)
        except ClientClosed:
            raise
        except PeerError as error:
            # Its connection is closed now, and the session's memory gone with it.
            LOG.info('%s: reset: %s; connecting again instead', self._url, error)

    def _line(self, key: SessionKey) -> _Line:
        with self._lock:
            line = self._lines.get(key.connection)
            if line is None:
                line = self._lines[key.connection] = _Line(self._client())
            line.session = key.session_id
            return line

    def _client(self) -> OpenPiClient:
        return OpenPiClient(self._url, self._config, check=self._same_server, io=self._io)

    def _same_server(self, handshake: Mapping[str, Any]) -> None:
        if self._declared is None or handshake == self._declared:
            return
        changes = [
            f'{key}: {self._declared.get(key)!r} -> {handshake.get(key)!r}'
            for key in sorted({*self._declared, *handshake})
            if self._declared.get(key) != handshake.get(key)
        ]
        raise ServerChanged(
            f'{self._url} declares something else than at the start: {", ".join(changes)}'[:1000],
            remedy='if that is wanted, start this process again',
        )

    def _session_id(self, key: SessionKey) -> str | None:
        if self._options.session_ids == 'none':
            return None
        if self._prefix:
            return f'{self._prefix}/{key}'
        # Where nobody has to name a session, the server's own default will do.
        return key.session_id if self._spec.stateful or key.session_id != DEFAULT_SESSION else None

    def _chunk(self, reply: Reply) -> ActionChunk:
        agreed = self._agreement
        extra = sorted(set(reply.outputs) - {ACTIONS})
        if extra:
            self._tell(f'the server also sends {", ".join(extra)}, which nobody reads')
        actions = checked_actions(reply.actions, agreed, self._url)
        timing = {'round_trip': reply.round_trip_ms, **reply.timing_ms}
        return ActionChunk({ACTIONS: actions}, timing_ms=timing)

    def _tell(self, text: str) -> None:
        """Log what would otherwise come with every request, once."""
        if text != self._told:
            self._told = text
            LOG.warning('%s: %s', self._url, text)


def nested(observation: Observation, prefixes: Sequence[str]) -> Observation:
    """Return ``observation`` with every ``prefix/key`` moved into a mapping ``prefix``."""
    if not prefixes:
        return observation
    content: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for key, value in observation.items():
        prefix, slash, rest = key.partition('/')
        if slash and prefix in prefixes:
            groups.setdefault(prefix, {})[rest] = value
        else:
            content[key] = value
    for prefix, group in groups.items():
        beside = content.get(prefix, {})
        if not isinstance(beside, Mapping):
            raise InvalidObservation(
                prefix, f'is there beside {prefix}/{next(iter(group))}', expected='one of them'
            )
        content[prefix] = {**beside, **group}
    return content


class _Line:
    """A client of ours and its connection there."""

    def __init__(self, client: OpenPiClient) -> None:
        self.client = client
        self.session = ''
        self.asked = False


def checked_actions(actions: np.ndarray, agreed: Agreement, url: str) -> FloatArray:
    """Return the server's chunk as float32 [H, D], cut to the profile.

    Raises:
        InvalidOutput: not numbers, another shape than declared, fewer rows or columns than the
            robot takes, NaN or infinity anywhere in it.

    """
    rows, columns = agreed.rows, agreed.columns
    wanted = (
        f'numbers of shape [{rows or f"{agreed.horizon} or more"}, '
        f'{columns or f"{agreed.action_dim} or more"}]'
    )
    fits = actions.ndim == 2 and actions.dtype.kind in 'fiu'
    for found, exact, least in zip(
        actions.shape, (rows, columns), (agreed.horizon, agreed.action_dim), strict=False
    ):
        fits = fits and (found == exact if exact is not None else found >= least)
    if not fits:
        raise InvalidOutput(
            f'{url} sent actions of dtype {actions.dtype} and shape {list(actions.shape)}',
            expected=wanted,
            remedy='it is another policy than declared, or the robot file (profile.crop_*) or '
            'policy_server_config of the policy file is wrong',
        )
    with np.errstate(over='ignore'):
        chunk: FloatArray = actions.astype(np.float32, copy=False)
    finite = np.isfinite(chunk)
    if not finite.all():
        raise InvalidOutput(
            f'{url} sent {int((~finite).sum())} values that are not finite',
            expected='finite numbers',
            remedy='the policy there is at fault; its log may have the reason',
        )
    return np.ascontiguousarray(chunk[: agreed.horizon, : agreed.action_dim])


def _spec(url: str, agreed: Agreement, options: RemoteOptions) -> PolicySpec:
    return PolicySpec(
        name='remote',
        model=url,
        cameras=agreed.cameras,
        # How wide it may be, only the server knows.
        state=StateSpec(agreed.state_keys, max_dim=sys.maxsize),
        horizon=agreed.horizon,
        action_dim=agreed.action_dim,
        action_space=agreed.action_space,
        action_names=agreed.action_names,
        output_shapes={ACTIONS: (agreed.horizon, agreed.action_dim)},
        handshake=agreed.handshake,
        stateful=agreed.declared.get('needs_session_id') is True,
        max_in_flight=options.max_in_flight,
        history_offsets=tuple(options.history_offsets),
    )


def load(request: LoadRequest) -> RemotePolicy:
    """Return the policy behind ``request.model``, a ``ws://`` or ``wss://`` address."""
    source = request.options_source or 'policy: remote'
    options = validate(RemoteOptions, request.options or {}, source)
    key = read_api_key(options.api_key_file, options.api_key_env, os.environ)
    config = ClientConfig(
        connect_timeout=options.connect_timeout,
        handshake_timeout=options.connect_timeout,
        api_key=key,
        ca_file=options.ca_file,
    )
    return RemotePolicy(request.model, config, options, request)


PLUGIN = PolicyPlugin(load=load, option_names=tuple(RemoteOptions.model_fields))
