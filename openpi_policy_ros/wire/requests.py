# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a frame asks for: the control keys taken out and checked, the observation left alone.

Everything consumed here is part of the request, not of the observation: a wrong ``seed``,
``session_id``, ``sampling_params`` or rest of a chunk is answered ``Invalid request payload``
before any state changes, never ``Internal inference error``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from openpi_policy_ros.policies.base import Observation, RtcPrefix
from openpi_policy_ros.wire.codec import unpackb
from openpi_policy_ros.wire.errors import InvalidPayload, shorten

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Largest inbound frame. The WebSocket layer's own limit must be higher, so that one byte more is
answered and not cut off."""

MAX_SESSION_ID_LENGTH = 1024
"""Characters of a session id: it is kept, compared and logged for as long as the connection is."""

MAX_INFERENCE_STEPS = 1000
"""Sampler steps one request may ask for; no call is ever cut, so a typo would hold the worker."""

RTC_ACTIONS, RTC_DELAY = 'rtc/prev_actions', 'rtc/delay'
"""Keys of the rest of the last chunk; control keys only where the handshake advertises them."""


@dataclass(frozen=True)
class Infer:
    """A request for a chunk.

    Attributes:
        observation: every key that is not a control key, untouched.
        session_id: None = omitted (or falsy), the connection's current one applies.
        seed: None = independent noise.
        num_inference_steps: None = the policy's configured number.
        rtc: what is left of the last chunk, in robot units; None = nothing.

    """

    observation: Observation
    session_id: str | None = None
    seed: int | None = None
    num_inference_steps: int | None = None
    rtc: RtcPrefix | None = None


@dataclass(frozen=True)
class Reset:
    """A request to forget the connection's session."""


def parse(frame: bytes | str, rtc_shape: tuple[int, int] | None = None) -> Infer | Reset:
    """Return what a frame asks for.

    Args:
        frame: as it came.
        rtc_shape: (rows, columns) of a reply, where the handshake advertises real-time chunking;
            None = its keys belong to the observation.

    Raises:
        InvalidPayload: a text, empty or too large frame; not MessagePack; not a mapping at the
            top; an unknown endpoint or a wrong control key. The text is for the log only.

    """
    if isinstance(frame, str):
        raise InvalidPayload(
            f'a text frame of {len(frame)} characters',
            expected='a binary MessagePack frame',
            remedy='send the observation with openpi-client or msgpack',
        )
    if not frame:
        raise InvalidPayload('an empty frame', expected='a MessagePack mapping')
    if len(frame) > MAX_FRAME_BYTES:
        raise InvalidPayload(
            f'a frame of {len(frame)} bytes',
            expected=f'at most {MAX_FRAME_BYTES} bytes',
            remedy="resize images to the handshake's image_resolution before sending",
        )
    content = unpackb(frame)
    if not isinstance(content, dict):
        raise InvalidPayload(
            f'{shorten(content)} at the top of the frame',
            expected='a mapping of observation keys',
        )
    endpoint = _endpoint(content.pop('endpoint', 'infer'))
    if endpoint == 'reset':
        return Reset()
    session_id = content.pop('session_id', None)
    seed = content.pop('seed', None)
    sampling_params = content.pop('sampling_params', None)
    rtc = None
    if rtc_shape is not None:
        rtc = _rtc(content.pop(RTC_ACTIONS, None), content.pop(RTC_DELAY, None), rtc_shape)
    return Infer(
        observation=content,
        session_id=_session_id(session_id),
        seed=_seed(seed),
        num_inference_steps=_inference_steps(sampling_params),
        rtc=rtc,
    )


def _endpoint(value: object) -> str:
    endpoint = _text(_single(value))
    if endpoint not in ('infer', 'reset'):
        raise InvalidPayload(
            f'endpoint {shorten(value)}', expected="'infer' (or no endpoint at all) or 'reset'"
        )
    return endpoint


def _session_id(value: object) -> str | None:
    item = _single(value)
    if isinstance(item, (str, bytes, bool, int, float)) or item is None:
        if not item:
            return None
        session_id = _text(item)
        if session_id is None:
            session_id = str(item)
        if len(session_id) <= MAX_SESSION_ID_LENGTH:
            return session_id
        raise InvalidPayload(
            f'session_id of {len(session_id)} characters',
            expected=f'at most {MAX_SESSION_ID_LENGTH}',
        )
    if isinstance(item, (list, dict)) and not item:
        return None
    if isinstance(item, np.ndarray) and item.size == 0:
        return None
    raise InvalidPayload(
        f'session_id is {_describe(value)}',
        expected='text, bytes, a number or an array of one such element',
    )


def _seed(value: object) -> int | None:
    item = _single(value)
    if item is None:
        return None
    if isinstance(item, bool) or not isinstance(item, int):
        raise InvalidPayload(
            f'seed is {_describe(value)}',
            expected='an integer',
            remedy='leave the key out for independent noise',
        )
    # Any integer MessagePack can carry (-2**63 … 2**64 - 1) is a seed torch takes.
    return item


def _inference_steps(params: object) -> int | None:
    if params is None:
        return None
    if not isinstance(params, Mapping):
        raise InvalidPayload(
            f'sampling_params is {_describe(params)}',
            expected='a mapping, e.g. {"num_inference_steps": 10}',
        )
    unknown = sorted(set(params) - {'num_inference_steps'})
    if unknown:
        raise InvalidPayload(
            f'sampling_params has unknown keys {[shorten(key) for key in unknown[:8]]}',
            expected='num_inference_steps only',
        )
    steps = _single(params.get('num_inference_steps'))
    if steps is None:
        return None
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise InvalidPayload(
            f'sampling_params: num_inference_steps is {_describe(steps)}', expected='an integer'
        )
    if not 1 <= steps <= MAX_INFERENCE_STEPS:
        raise InvalidPayload(
            f'sampling_params: num_inference_steps {steps}',
            expected=f'1 … {MAX_INFERENCE_STEPS}',
        )
    return steps


def _rtc(actions: object, delay: object, shape: tuple[int, int]) -> RtcPrefix | None:
    if actions is None and delay is None:
        return None
    if actions is None or delay is None:
        missing, there = (RTC_ACTIONS, RTC_DELAY) if actions is None else (RTC_DELAY, RTC_ACTIONS)
        raise InvalidPayload(
            f'{there} without {missing}',
            expected='both or neither',
            remedy='leave both out where nothing is left of the last chunk',
        )
    rows, columns = shape
    if (
        not isinstance(actions, np.ndarray)
        or actions.dtype.kind != 'f'
        or actions.ndim != 2
        or not 1 <= actions.shape[0] <= rows
        or actions.shape[1] != columns
    ):
        raise InvalidPayload(
            f'{RTC_ACTIONS} is {_describe(actions)}',
            expected=f'a float array [T, {columns}] with T from 1 to {rows}',
            remedy='send the rows of the last reply that are not executed yet, as they came',
        )
    steps = _single(delay)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise InvalidPayload(
            f'{RTC_DELAY} is {_describe(delay)}',
            expected='a number of steps, 0 or more',
            remedy='count the rows that will have been executed when the reply arrives',
        )
    # A float64 beyond float32 becomes infinite; the policy names it.
    with np.errstate(over='ignore'):
        leftover = actions.astype(np.float32)
    return RtcPrefix(leftover, steps, robot_units=True)


def _single(value: object) -> Any:
    """Return the native value of a NumPy scalar or of an array or list of one element."""
    if isinstance(value, np.ndarray) and value.size == 1:
        return value.reshape(-1)[0].item()
    if isinstance(value, list) and len(value) == 1:
        return _single(value[0]) if not isinstance(value[0], list) else value
    if isinstance(value, np.generic):
        return value.item()
    return value


def _text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        # Raw UUIDs are not UTF-8; every byte string still needs a distinct, printable name.
        return value.decode('utf-8', 'backslashreplace')
    return None


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f'an array of dtype {value.dtype} and shape {value.shape}'
    return shorten(value)
