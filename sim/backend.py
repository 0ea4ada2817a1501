# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Choose how MuJoCo draws without a window, before anything imports it.

MuJoCo reads ``MUJOCO_GL`` once, when it is imported. Whoever sets the variable decides; where
nobody did, the first of EGL and OSMesa that really opens a context is taken.
"""

from __future__ import annotations

import os
import subprocess
import sys

VARIABLE = 'MUJOCO_GL'
BACKENDS = ('egl', 'osmesa')
OFF = 'disable'
REMEDY = (
    'install the Debian packages libegl1 and libgl1-mesa-dri (EGL) or libosmesa6 (OSMesa), or set '
    f'{VARIABLE} to a backend that works here'
)
# Loading a driver that is not there can crash the process: tried in another one.
_PROBE = 'from mujoco.{0} import GLContext as C; c = C(8, 8); c.make_current(); c.free()'
_PROBE_TIMEOUT_S = 30.0


def works(backend: str) -> bool:
    """Return whether a fresh process can open a context of ``egl`` or ``osmesa``."""
    environment = {**os.environ, VARIABLE: backend}
    environment.pop('PYOPENGL_PLATFORM', None)
    try:
        done = subprocess.run(
            [sys.executable, '-c', _PROBE.format(backend)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def choose_backend() -> str:
    """Set ``MUJOCO_GL`` where nobody did, and return it; ``disable`` where nothing works.

    Processes started later inherit the choice and do not try again. Outside Linux MuJoCo's own
    default stands.
    """
    if os.environ.get(VARIABLE) or 'mujoco' in sys.modules or sys.platform != 'linux':
        return os.environ.get(VARIABLE, '')
    os.environ[VARIABLE] = next(filter(works, BACKENDS), OFF)
    return os.environ[VARIABLE]


def chosen() -> str:
    """Return the backend MuJoCo was or will be told to use; '' = its own choice."""
    return os.environ.get(VARIABLE, '')
