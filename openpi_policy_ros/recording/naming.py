# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the file or folder of a session is called."""

from __future__ import annotations

import re
import time
from datetime import datetime, timezone
from pathlib import Path

from openpi_policy_ros.engine import Lane
from openpi_policy_ros.policies.base import SessionKey

_SHOWN = 40
_NAMES = 1000


def free_path(directory: Path, lane: Lane, key: SessionKey, suffix: str = '') -> Path:
    """Return a path below ``directory`` that nothing has yet; names sort by time.

    Raises:
        OSError: a thousand such names are taken.

    """
    began = datetime.fromtimestamp(time.time(), timezone.utc).strftime('%Y%m%dT%H%M%S')
    session = key.session_id
    if lane is Lane.REMOTE:
        session = f'{key.connection}-{key.session_id}'
    session = re.sub(r'[^A-Za-z0-9-]+', '-', session).strip('-')[:_SHOWN] or 'unnamed'
    name = f'{began}Z_{lane.name.lower()}_{session}'
    for number in range(1, _NAMES):
        path = directory / f'{name}{"" if number == 1 else f"_{number}"}{suffix}'
        if not path.exists():
            return path
    raise OSError(f'no free name like {name}{suffix}')
