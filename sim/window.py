# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Show the simulation in MuJoCo's own window while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.closing import Closing
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.errors import SimulationError

_REMEDY = 'leave --view out, and record with --video DIR instead'
# MuJoCo ends the process where it gets no window, so another one tries first.
_PROBE = (
    'import glfw, warnings; warnings.simplefilter("error"); glfw.init(); '
    'glfw.window_hint(glfw.VISIBLE, 0); glfw.create_window(64, 64, "", None, None)'
)
_PROBE_TIMEOUT_S = 30.0
_CLOSING_TIMEOUT_S = 10.0


class Closed(SimulationError):
    """Somebody closed the window."""


class Window(Closing):
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
        _try(variables)
        self._environment = environment
        try:
            from mujoco import viewer

            before = set(threading.enumerate())
            self._viewer: Any = viewer.launch_passive(
                environment.model, environment.data, show_left_ui=False, show_right_ui=False
            )
        except Exception as error:  # MuJoCo has no one kind of error for it
            raise SimulationError(
                f'no window can be opened ({type(error).__name__}: {error})', remedy=_REMEDY
            ) from error
        self._drawers = set(threading.enumerate()) - before
        self._due = time.monotonic()

    def close(self) -> None:
        """Close the window."""
        self._viewer.close()
        # It only asks for it: whoever goes on takes the graphics away under those that still draw.
        for thread in self._drawers:
            thread.join(_CLOSING_TIMEOUT_S)

    def show(self) -> None:
        """Show the present moment, not before its time.

        Raises:
            Closed: somebody closed the window.

        """
        if not self._viewer.is_running():
            raise Closed('the window was closed', remedy='start again to run the rest')
        self._environment.prepare_drawing()
        self._viewer.sync()
        now = time.monotonic()
        # What an inference took is not caught up with.
        self._due = max(self._due + 1.0 / c.CONTROL_RATE, now)
        time.sleep(self._due - now)


def _try(variables: Mapping[str, str]) -> None:
    """Open a window that nobody sees, elsewhere.

    Raises:
        SimulationError: there is none to be had.

    """
    try:
        done = subprocess.run(
            [sys.executable, '-c', _PROBE],
            env=dict(variables),
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
        reason = done.stderr.strip().splitlines()[-1:] or [f'exit status {done.returncode}']
    except subprocess.TimeoutExpired:
        done, reason = None, [f'no answer within {_PROBE_TIMEOUT_S:g} s']
    if done is None or done.returncode != 0:
        raise SimulationError(f'no window can be opened ({reason[0]})', remedy=_REMEDY)
