# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the server says before any WebSocket: health, unknown paths, refused handshakes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus

from openpi_policy_ros.policies.base import PolicySpec
from openpi_policy_ros.wire import Dialect, dialect_for_path

TEXT = 'text/plain; charset=utf-8'
JSON = 'application/json'

NOT_FOUND = (
    'Nothing here. Robot clients open a WebSocket on '
    + ' or '.join(dialect.value for dialect in Dialect)
    + ' ; health is told on /healthz and /readyz\n'
)
GOING_AWAY = 'The server is stopping; connect again in a moment.\n'


@dataclass(frozen=True)
class HttpReply:
    """A plain HTTP answer."""

    status: HTTPStatus
    body: str
    content_type: str = TEXT


def reply_to(
    path: str, spec: PolicySpec, not_ready: str | None, draining: bool
) -> HttpReply | None:
    """Return the answer to a request for ``path``; None = go on with the WebSocket handshake.

    Args:
        path: as in the request line, query included.
        spec: names model, revision and weights on ``/readyz``.
        not_ready: why the server is not ready; None when it is.
        draining: True once the server stops: new robot clients are sent away.

    """
    bare = path.partition('?')[0]
    if bare == '/healthz':
        return HttpReply(HTTPStatus.OK, 'OK\n')
    if bare == '/readyz':
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
    if dialect_for_path(path) is None:
        return HttpReply(HTTPStatus.NOT_FOUND, NOT_FOUND)
    if draining:
        return HttpReply(HTTPStatus.SERVICE_UNAVAILABLE, GOING_AWAY)
    return None
