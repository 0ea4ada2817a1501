# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An executor of an arm joint beside a gripper, and chunks for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from fakes import make_spec
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from openpi_policy_ros.configuration.execution import Execution
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.axes import Axes, make_axes
from openpi_policy_ros.control.executor import ChunkExecutor

START = 1_764_456_407_123_456_789
"""A moment of the real clock: floats could not tell its nanoseconds."""
MS = 1_000_000
DT = 100 * MS
LEAD = 20 * MS
ARM, HAND = 0, 1
VALUES = st.floats(-3.0, 3.0)


def make(space: str = 'joint_position') -> Axes:
    """Return an arm joint (axis 0) and a gripper (axis 1)."""
    robot = validate(
        RobotConfig,
        {
            'joints': {'names': ['a'], 'keys': ['state']},
            'timing': {'action_rate': 10.0},
            'output_names': ['arm', 'hand'],
            'outputs': {
                'arm': {'type': 'array', 'topic': 'x', 'joints': ['a'], 'action_indices': [0]},
                'hand': {'type': 'gripper', 'topic': 'y', 'joints': ['g'], 'action_indices': [1]},
            },
        },
        'test',
    )
    return make_axes(robot, make_spec(10, 2, action_space=space))


POSITIONS, VELOCITIES = make(), make('joint_velocity')
SPACES = st.sampled_from([POSITIONS, VELOCITIES])


def executor(
    axes: Axes = POSITIONS, disabled: frozenset[str] = frozenset(), **changes: Any
) -> ChunkExecutor:
    return ChunkExecutor(axes, validate(Execution, changes, 'test'), DT, disabled)


def ramp(horizon: int = 10, start: float = 0.0, step: float = 1.0) -> npt.NDArray[np.float64]:
    """Return rows whose number is their value, on both axes."""
    return np.repeat((start + step * np.arange(horizon))[:, np.newaxis], 2, axis=1)


def rows(horizon: int) -> st.SearchStrategy[npt.NDArray[np.float64]]:
    return arrays(np.float64, (horizon, 2), elements=VALUES)


def at(one: ChunkExecutor, ms: float) -> list[float] | None:
    row = one.sample(START + round(ms * MS))
    return None if row is None else row.tolist()
