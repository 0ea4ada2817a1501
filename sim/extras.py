# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What only the simulator needs, and how to install what is missing of it."""

from __future__ import annotations

import importlib
from typing import Final

from openpi_policy_ros_sim.backend import REMEDY, VARIABLE, choose_backend, chosen
from openpi_policy_ros_sim.errors import SimulationError

_EXTRA: Final = "pip install 'openpi_policy_ros[sim]'"
_CLIENT: Final = (
    'pip install --no-deps openpi-client && pip install dm-tree typing_extensions pillow'
)
_NEEDED: Final = {
    'mujoco': ('MuJoCo', _EXTRA),
    'PIL': ('Pillow', _EXTRA),
    'websockets': ('websockets', 'pip install websockets'),
    # It pins numpy<2 and works with 2.
    'openpi_client': ("openpi's client, openpi-client", _CLIENT),
}


def require(*modules: str) -> None:
    """Import modules.

    Raises:
        SimulationError: one cannot be imported; names the command that installs it.

    """
    if 'mujoco' in modules:
        # It reads the choice once, when it is first imported.
        choose_backend()
    for module in modules:
        name, command = _NEEDED[module]
        try:
            importlib.import_module(module)
            if module == 'openpi_client':
                importlib.import_module('openpi_client.websocket_client_policy')
        except (RuntimeError, AttributeError) as error:
            if module != 'mujoco':
                raise
            # Its ways to say that it cannot draw as it was told to.
            raise SimulationError(
                f'MuJoCo cannot be imported with {VARIABLE}={chosen()!r} ({error})', remedy=REMEDY
            ) from error
        except ImportError as error:
            raise SimulationError(
                f'{name} cannot be imported ({error})', expected='it installed', remedy=command
            ) from error
