# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Queue, single worker, sessions, timing: the only code that calls a policy."""

from openpi_policy_ros.engine.engine import Engine
from openpi_policy_ros.engine.stats import EngineStats, Stages, Timing, Window
from openpi_policy_ros.engine.tap import Tap
from openpi_policy_ros.engine.types import EngineHealth, EngineStopped, Lane, Superseded

__all__ = [
    'Engine',
    'EngineHealth',
    'EngineStats',
    'EngineStopped',
    'Lane',
    'Stages',
    'Superseded',
    'Tap',
    'Timing',
    'Window',
]
