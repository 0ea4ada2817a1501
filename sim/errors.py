# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the simulator refuses, and why."""

from __future__ import annotations

from openpi_policy_ros.errors import PolicyRosError


class SimulationError(PolicyRosError):
    """The simulator cannot do what was asked of it."""


class InvalidAction(SimulationError):
    """One action is no action: wrong shape, or a value that is not finite. Nothing has moved."""


class RenderingUnavailable(SimulationError):
    """No image can be drawn on this machine; physics goes on without."""
