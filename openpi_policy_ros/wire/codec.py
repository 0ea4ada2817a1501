# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""MessagePack with NumPy values, as openpi's clients speak it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from openpi_policy_ros.wire import markers
from openpi_policy_ros.wire.errors import UnsupportedValue
from openpi_policy_ros.wire.reader import Reader


def packb(obj: object) -> bytes:
    """Return ``obj`` as one MessagePack frame in openpi-client's form.

    Tuples become lists; arrays and NumPy scalars become ``markers.encode``.

    Raises:
        UnsupportedValue: something in it has no form on the wire.

    """
    try:
        frame: bytes = msgpack.packb(obj, default=_encode, use_bin_type=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnsupportedValue(f'cannot be sent: {error}') from error
    return frame


def _encode(value: object) -> dict[Any, Any]:
    # msgpack itself knows no mapping but dict.
    return dict(value) if isinstance(value, Mapping) else markers.encode(value)


def unpackb(data: bytes | bytearray | memoryview) -> Any:
    """Return the value in one MessagePack frame; see ``reader.Reader.read``.

    Arrays are read-only and may be views that keep ``data`` alive: copy what must outlive it.

    Raises:
        InvalidPayload: the frame is malformed or over a limit; the text is for the log only.

    """
    # A mutable buffer could change under the views.
    return Reader(data if isinstance(data, bytes) else bytes(data)).read()
