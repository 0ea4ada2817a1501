# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Show the simulation in MuJoCo's own window while it runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.errors import SimulationError

_REMEDY = 'leave --view out, and record with --video DIR instead'


class Closed(SimulationError):
    """Somebody closed the window."""


class Window:
    """A live view of an environment, which slows it down to real time; use ``with``.

    Args:
        environment: to show.
        variables: of the process, as ``os.environ``.

    Raises:
        SimulationError: there is no display, or no window can be opened on it.

    """

    def __init__(self, environment: Environment, variables: Mapping[str, str] = os.environ) -> None:
        linux = sys.platform == 'linux'
        if linux and not (variables.get('DISPLAY') or variables.get('WAYLAND_DISPLAY')):
            raise SimulationError(
                'there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set)',
                remedy=_REMEDY,
            )
        try:
            from mujoco import viewer

            self._viewer: Any = viewer.launch_passive(
                environment.model, environment.data, show_left_ui=False, show_right_ui=False
            )
        except Exception as error:  # every window system has its own
            raise SimulationError(
                f'no window can be opened ({type(error).__name__}: {error})', remedy=_REMEDY
            ) from error
        self._due = time.monotonic()

    def __enter__(self) -> Window:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the window."""
        self._viewer.close()

    def show(self) -> None:
        """Show the present moment, not before its time.

        Raises:
            Closed: somebody closed the window.

        """
        if not self._viewer.is_running():
            raise Closed('the window was closed', remedy='start again to run the rest')
        self._viewer.sync()
        now = time.monotonic()
        # What an inference took is not caught up with.
        self._due = max(self._due + 1.0 / c.CONTROL_RATE, now)
        time.sleep(self._due - now)
