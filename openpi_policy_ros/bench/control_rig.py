# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot that the bench drives: seven joints and a gripper, with limits that never interfere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.axes import Axes, make_axes
from openpi_policy_ros.control.limits import JointLimits
from openpi_policy_ros.policies.base import ACTIONS, ActionChunk, FloatArray, PolicySpec, StateSpec

ARM = tuple(f'joint_{number}' for number in range(1, 8))
FINGER = 'finger'
JOINTS = (*ARM, FINGER)
HORIZON = 50
INFERENCE_TIMEOUT = 60.0


def make_robot(
    *,
    action_rate: float,
    control_rate: float,
    output: str = 'array',
    mode: str = 'async',
    blend_steps: int = 3,
    safety: Mapping[str, Any] | None = None,
) -> RobotConfig:
    """Return the robot.

    Args:
        action_rate: actions per second, Hz.
        control_rate: ticks per second, Hz.
        output: type of the arm's output; the finger is always a gripper's array.
        mode: of the execution.
        blend_steps: of the execution.
        safety: what differs from the defaults.

    """
    return RobotConfig.model_validate(
        {
            'joints': {'names': list(JOINTS), 'keys': ['state']},
            'timing': {'action_rate': action_rate},
            'output_names': ['arm', 'hand'],
            'outputs': {
                'arm': {
                    'type': output,
                    'topic': 'arm/commands',
                    'joints': list(ARM),
                    'action_indices': list(range(len(ARM))),
                },
                'hand': {
                    'type': 'array',
                    'topic': 'hand/commands',
                    'joints': [FINGER],
                    'action_indices': [len(ARM)],
                    'gripper': True,
                },
            },
            'execution': {'mode': mode, 'control_rate': control_rate, 'blend_steps': blend_steps},
            'safety': dict(safety or {}),
        }
    )


def make_spec() -> PolicySpec:
    """Return the facts of a policy of eight joint positions, 50 rows a chunk."""
    width = len(JOINTS)
    return PolicySpec(
        name='bench',
        model='',
        cameras=(),
        state=StateSpec(('state',), width),
        horizon=HORIZON,
        action_dim=width,
        action_space='joint_position',
        action_names=JOINTS,
        output_shapes={ACTIONS: (HORIZON, width)},
        handshake=None,
    )


def axes_and_limits(robot: RobotConfig) -> tuple[Axes, JointLimits]:
    """Return the axes, and limits so wide that no gate of numbers changes anything."""
    axes = make_axes(robot, make_spec())
    count = len(axes)
    limits = JointLimits(np.full(count, -100.0), np.full(count, 100.0), np.full(count, 1e4))
    return axes, limits


def still() -> dict[str, float]:
    """Return measured positions of a robot that stands at zero, rad."""
    return dict.fromkeys(JOINTS, 0.0)


def swing(
    t_obs_ns: int, action_rate: float, offset: float | np.ndarray = 0.0, *, swing_s: float = 4.0
) -> FloatArray:
    """Return a chunk float32 [50, 8] of joints that swing by ±0.3 rad in ``swing_s``.

    Chunks of other observations say the same of the same moment, but for their ``offset``.

    Args:
        t_obs_ns: stamp of the observation.
        action_rate: actions per second, Hz.
        offset: added, rad; a number or [8].
        swing_s: period of the swing, s.

    """
    times = t_obs_ns * 1e-9 + np.arange(1, HORIZON + 1) / action_rate
    phases = np.linspace(0.0, math.pi, len(JOINTS))
    return (0.3 * np.sin(2.0 * math.pi * times[:, None] / swing_s + phases) + offset).astype(
        np.float32
    )


def as_chunk(rows: FloatArray) -> ActionChunk:
    """Return what a policy would answer with these rows."""
    return ActionChunk({ACTIONS: rows})
