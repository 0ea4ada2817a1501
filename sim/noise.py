# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Disturb an expert's actions, so that its demonstrations show how to recover."""

from __future__ import annotations

import math

import numpy as np

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.state import Vector

# A slow wander of every target, a shove now and then, and a hand that opens or closes by mistake.
_WANDER, _MEMORY = 0.015, 0.9
_SHOVE, _SHOVES_PER_STEP, _SHOVE_STEPS = 0.06, 1 / 30, (3, 9)
_SLIPS_PER_STEP, _SLIP_STEPS = 1 / 150, (2, 5)


class Noise:
    """Noise for one episode; the actions it disturbs are executed, the undisturbed ones learnt.

    Args:
        random: where it comes from.
        level: 1 = the tool strays about a centimetre, and is shoved some centimetres away once in
            two seconds; 0 = none.

    """

    def __init__(self, random: np.random.Generator, level: float = 1.0) -> None:
        self._random = random
        self._level = level
        self._wander = np.zeros(c.JOINTS)
        self._shove: Vector = np.zeros(c.JOINTS)
        self._shove_left = self._slip_left = 0

    def disturb(self, action: Vector) -> Vector:
        """Return what to execute instead of ``action`` [8]: joint targets and the gripper."""
        disturbed = action.copy()
        if self._level <= 0.0:
            return disturbed
        random = self._random
        fresh = random.normal(0.0, _WANDER, c.JOINTS) * math.sqrt(1 - _MEMORY**2)
        self._wander = _MEMORY * self._wander + fresh
        if self._shove_left == 0 and random.random() < _SHOVES_PER_STEP:
            self._shove = random.normal(0.0, _SHOVE, c.JOINTS)
            self._shove_left = int(random.integers(*_SHOVE_STEPS))
        if self._slip_left == 0 and random.random() < _SLIPS_PER_STEP * self._level:
            self._slip_left = int(random.integers(*_SLIP_STEPS))
        disturbed[: c.JOINTS] += self._level * self._wander
        if self._shove_left > 0:
            self._shove_left -= 1
            disturbed[: c.JOINTS] += self._level * self._shove
        if self._slip_left > 0:
            self._slip_left -= 1
            disturbed[c.JOINTS] = 1.0 - disturbed[c.JOINTS]
        return disturbed
