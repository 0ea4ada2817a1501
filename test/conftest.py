# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Choose how MuJoCo draws before any test imports it: it reads the choice once."""

from __future__ import annotations

import importlib.util

from openpi_policy_ros_sim.backend import choose_backend

if importlib.util.find_spec('mujoco') is not None:
    choose_backend()
