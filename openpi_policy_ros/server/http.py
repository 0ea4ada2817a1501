# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the server says before any WebSocket: health, unknown paths, refused handshakes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from openpi_policy_ros.configuration.paths import ALIVE_PATH, READY_PATH
from openpi_policy_ros.policies.base import PolicySpec
from openpi_policy_ros.wire import Dialect, dialect_for_path

TEXT = 'text/plain; charset=utf-8'
JSON = 'application/json'

RETRY_AFTER = 5
"""Seconds a refused client is asked to wait, if it listens at all."""

WHO_CONNECTS = {
    Dialect.OPENPI: 'OpenPI (vLLM-Omni) clients',
    Dialect.STOCK: 'openpi-client, RoboArena',
}
GOING_AWAY = 'the server is stopping; connect again in a moment'


@dataclass(frozen=True)
class HttpReply:
    """A plain HTTP answer.

    Attributes:
        status: HTTP status.
        body: text.
        content_type: of the body.
        headers: further ones.
        refusal: for the log, why a client is sent away; '' = it got what it asked for.

    """

    status: HTTPStatus
    body: str
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)
    refusal: str = ''


def reply_to(
    path: str,
    spec: PolicySpec,
    not_ready: str | None,
    draining: bool,
    *,
    aliases: Mapping[str, Dialect] | None = None,
    key_problem: str | None = None,
) -> HttpReply | None:
    """Return the answer to a request for ``path``; None = go on with the WebSocket handshake.

    Args:
        path: as in the request line, query included.
        spec: names model, revision and weights on ``/readyz``.
        not_ready: why the server is not ready; None when it is.
        draining: True once the server stops: new robot clients are sent away.
        aliases: further paths that are served.
        key_problem: why the client's API key opens nothing; None = it does, or none is needed.

    """
    bare = path.partition('?')[0]
    if bare == ALIVE_PATH:
        return HttpReply(HTTPStatus.OK, 'OK\n')
    if key_problem is not None:
        # Also where nothing is: who has no key learns nothing of the paths.
        return _refuse(
            HTTPStatus.UNAUTHORIZED, key_problem, {'WWW-Authenticate': 'Bearer realm="openpi"'}
        )
    if bare == READY_PATH:
        body = {
            'ready': not_ready is None,
            'reason': not_ready or 'ready',
            'policy': spec.name,
            'model': spec.model,
            'revision': spec.revision,
            'weights_hash': spec.weights_hash,
        }
        status = HTTPStatus.OK if not_ready is None else HTTPStatus.SERVICE_UNAVAILABLE
        return HttpReply(status, json.dumps(body) + '\n', JSON)
    if dialect_for_path(path, aliases) is None:
        return HttpReply(
            HTTPStatus.NOT_FOUND, not_found(aliases or {}), refusal=f'nothing on {bare}'
        )
    if draining:
        return unavailable(GOING_AWAY)
    return None


def unavailable(why: str) -> HttpReply:
    """Return the refusal of a handshake that may succeed later."""
    return _refuse(HTTPStatus.SERVICE_UNAVAILABLE, why, {'Retry-After': str(RETRY_AFTER)})


def full(limit: int) -> HttpReply:
    """Return the refusal of one client too many."""
    return unavailable(f'all places for robot clients are taken ({limit}); try again later')


def not_found(aliases: Mapping[str, Dialect]) -> str:
    """Return where to go instead."""
    paths = {dialect.value: dialect for dialect in Dialect} | dict(aliases)
    width = max(len(path) for path in paths)
    lines = [f'  {path:<{width}}  {WHO_CONNECTS[dialect]}\n' for path, dialect in paths.items()]
    return (
        'Nothing here. Robot clients open a WebSocket on\n'
        + ''.join(lines)
        + f'and health is told on {ALIVE_PATH} and {READY_PATH}. '
        + 'Further paths are a setting of the server (path_aliases).\n'
    )


def _refuse(status: HTTPStatus, why: str, headers: Mapping[str, str]) -> HttpReply:
    return HttpReply(status, f'{why[0].upper()}{why[1:]}.\n', headers=headers, refusal=why)
