# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How each family of clients packs an observation, with the real packages where they exist."""

from __future__ import annotations

from typing import Any

import msgpack
import msgpack_numpy
import numpy as np


def pack_with_msgpack_numpy(value: object) -> bytes:
    """Pack with the msgpack-numpy package."""
    frame: bytes = msgpack.packb(value, default=msgpack_numpy.encode)
    return frame


def pack_legacy(value: object) -> bytes:
    """Pack in the legacy vLLM form."""

    def encode(item: Any) -> dict[str, Any]:
        form = {'nd': isinstance(item, np.ndarray), 'type': item.dtype.str}
        form |= {'kind': item.dtype.kind, 'data': item.tobytes()}
        return {**form, 'shape': list(item.shape)} if form['nd'] else form

    frame: bytes = msgpack.packb(value, default=encode)
    return frame
