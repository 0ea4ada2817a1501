# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The protocol from the other end: what a server's frames say to a client, without I/O.

Reads any OpenPI server: openpi's own (mappings with timings, errors as text, sometimes a whole
traceback), RoboArena's (text for reset), vLLM-Omni's and ours on the OpenPI path (bare arrays,
MessagePack errors). What a server says is for the operator's log, never for another client.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.paths import OPENPI_PATH
from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.policies.base import ACTIONS, Observation
from openpi_policy_ros.wire.codec import packb, unpackb
from openpi_policy_ros.wire.dialect import INVALID_PAYLOAD, RESET_DONE
from openpi_policy_ros.wire.errors import InvalidPayload, UnsupportedValue, shorten
from openpi_policy_ros.wire.requests import MAX_FRAME_BYTES

_TOLD = 400
"""Characters of a server's text that are worth a log line."""


class PeerError(PolicyRosError):
    """A server did not answer as it should."""


class NotOpenPi(PeerError):
    """A frame that no OpenPI server sends; nothing after it can be trusted."""


class NoPolicy(PeerError):
    """The server speaks the protocol, but has no policy for this path."""


class RequestFailed(PeerError):
    """The server answered a request with an error; the connection goes on.

    ``refused`` is True where the request itself was wrong, not the inference.
    """

    def __init__(self, message: str, details: str = '') -> None:
        self.refused = message.startswith(INVALID_PAYLOAD)
        told = plain_line(message) or 'an error without a text'
        super().__init__(
            f'the server answered {told!r}{details}',
            remedy='its log has the reason'
            + (' (a wrong key, shape or value in the request)' if self.refused else ''),
        )


@dataclass(frozen=True)
class Answer:
    """A server's answer to a request.

    Attributes:
        outputs: output name → array as it was sent, read-only, any numeric dtype; always holds
            ``actions``.
        timing_ms: what the server says it took, e.g. ``server.infer_ms``; empty on the OpenPI path.

    """

    outputs: Mapping[str, npt.NDArray[Any]]
    timing_ms: Mapping[str, float] = field(default_factory=dict)


def read_greeting(frame: bytes | str) -> dict[str, Any]:
    """Return the mapping in a connection's first frame, NumPy values as plain ones.

    Raises:
        NoPolicy: the server says that it has no policy here.
        NotOpenPi: anything else but a mapping.

    """
    expected = 'a MessagePack mapping (policy_server_config) as the first frame'
    if isinstance(frame, str):
        refusal = _json_object(frame)
        if refusal.get('type') == 'error':
            raise NoPolicy(
                f'the server says {plain_line(str(refusal.get("error", "")))!r}',
                expected='a policy that declares a policy_server_config',
                remedy='start the server with a robot policy (this package: write '
                'policy_server_config into its policy file), or connect to its path /',
            )
        raise NotOpenPi(
            f'the server greeted with the text {plain_line(frame)!r}', expected=expected
        )
    content = _unpack(frame, 'greeting', expected)
    if not isinstance(content, dict):
        raise NotOpenPi(f'the server greeted with {_describe(content)}', expected=expected)
    plain: dict[str, Any] = _plain(content)
    return plain


def knows_commands(path: str, handshake: Mapping[str, Any]) -> bool:
    """Return whether the server understands ``endpoint``.

    openpi's own does not: it would hand ``{"endpoint": "reset"}`` to its policy, fail and close.
    RoboArena's needs it; it is told by ``needs_session_id``, which its handshake always has.
    """
    return path.partition('?')[0] == OPENPI_PATH or 'needs_session_id' in handshake


def pack_request(
    observation: Observation,
    *,
    commands: bool,
    session_id: str | None = None,
    seed: int | None = None,
    num_inference_steps: int | None = None,
) -> bytes:
    """Return the frame that asks for a chunk; ``commands`` as by ``knows_commands``.

    Raises:
        UnsupportedValue: the observation has no form on the wire, or is larger than a server takes.

    """
    content: dict[str, Any] = dict(observation)
    if commands:
        content['endpoint'] = 'infer'
    if session_id is not None:
        content['session_id'] = session_id
    if seed is not None:
        content['seed'] = seed
    if num_inference_steps is not None:
        content['sampling_params'] = {'num_inference_steps': num_inference_steps}
    frame = packb(content)
    if len(frame) > MAX_FRAME_BYTES:
        raise UnsupportedValue(
            f'an observation of {len(frame)} bytes',
            expected=f'at most {MAX_FRAME_BYTES}',
            remedy="resize images to the handshake's image_resolution",
        )
    return frame


def pack_reset() -> bytes:
    """Return the frame that ends a session, for a server that ``knows_commands``."""
    return packb({'endpoint': 'reset'})


def read_answer(frame: bytes | str) -> Answer:
    """Return the chunk in a reply to a request.

    Raises:
        RequestFailed: the server answered with an error, in either dialect.
        NotOpenPi: it answered with something that is neither.

    """
    if isinstance(frame, str):
        raise RequestFailed(frame)
    expected = f'an array, or a mapping whose {ACTIONS!r} is an array'
    content = _unpack(frame, 'reply', expected)
    if isinstance(content, np.ndarray):
        return Answer({ACTIONS: content})
    if not isinstance(content, dict):
        raise NotOpenPi(f'the server replied with {_describe(content)}', expected=expected)
    if content.get('type') == 'error':
        raise _failure(content)
    outputs = {name: value for name, value in content.items() if isinstance(value, np.ndarray)}
    if ACTIONS not in outputs:
        keys = ', '.join(f'{name[:40]!r}: {_describe(v)}' for name, v in list(content.items())[:8])
        raise NotOpenPi(f'the server replied with the mapping {{{keys}}}', expected=expected)
    return Answer(outputs, _timing(content))


def read_reset_reply(frame: bytes | str) -> None:
    """Check the reply to a reset.

    Raises:
        RequestFailed: the server answered with an error.
        NotOpenPi: it answered with anything but its confirmation.

    """
    if isinstance(frame, str):
        if frame == RESET_DONE:
            return
        raise RequestFailed(frame)
    content = _unpack(frame, 'reply to a reset', f'{RESET_DONE!r}')
    if isinstance(content, dict):
        if content.get('type') == 'error':
            raise _failure(content)
        if content.get('status') == RESET_DONE:
            return
    raise NotOpenPi(
        f'the server answered a reset with {_describe(content)}', expected=f'{RESET_DONE!r}'
    )


def plain_line(text: str) -> str:
    """Return what a log line may show of a server's text.

    One printable line; of a traceback the last line, which says what happened.
    """
    lines = [line for line in text.strip().splitlines() if line.strip()]
    line = lines[-1] if lines and lines[0].startswith('Traceback') else ' '.join(lines)
    line = ' '.join(''.join(c if c.isprintable() else ' ' for c in line[:_TOLD]).split())
    return f'{line}…' if len(text) > _TOLD and line else line


def _failure(content: Mapping[str, Any]) -> RequestFailed:
    message = content.get('message', content.get('error', ''))
    details = ''.join(
        f', {plain_line(str(key))}: {plain_line(value)!r}'
        for key, value in list(content.items())[:8]
        if key not in ('type', 'message', 'error') and isinstance(value, str)
    )
    return RequestFailed(message if isinstance(message, str) else '', details)


def _timing(content: Mapping[str, Any]) -> dict[str, float]:
    timing = {}
    for source in ('server_timing', 'policy_timing'):
        stages = content.get(source)
        if not isinstance(stages, Mapping):
            continue
        for stage, value in list(stages.items())[:16]:
            number = value.item() if isinstance(value, np.generic) else value
            if isinstance(number, (int, float)) and math.isfinite(number):
                timing[f'{source.partition("_")[0]}.{stage}'] = float(number)
    return timing


def _unpack(frame: bytes, what: str, expected: str) -> Any:
    try:
        return unpackb(frame)
    except InvalidPayload as error:
        raise NotOpenPi(
            f'the server sent a {what} of {len(frame)} bytes that is not MessagePack: {error.what}',
            expected=expected,
        ) from None


def _json_object(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text[:10_000])
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _plain(value: Any) -> Any:
    """Return ``value`` with lists for arrays and numbers for NumPy scalars."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f'an array of dtype {value.dtype} and shape {list(value.shape)}'
    return shorten(value)
