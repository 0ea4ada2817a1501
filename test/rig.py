# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot's control core under test: a small arm, clocks moved by hand, and a log of the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.axes import make_axes
from openpi_policy_ros.control.commands import Command
from openpi_policy_ros.control.controller import Controller, Tick
from openpi_policy_ros.control.gates import Stream, StreamReport
from openpi_policy_ros.control.limits import JointLimits
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.policies.base import ActionChunk, PolicySpec, StateSpec

MS = 1_000_000
PERIOD_NS = 20 * MS
START_NS = 1_700_000_000_000 * MS
JOINTS = ['shoulder', 'elbow', 'finger']
LOWER, UPPER, SPEED = -2.0, 2.0, 2.0
"""Limits of each joint, rad and rad/s, before margin and scale."""
MARGIN, VELOCITY_SCALE = 0.02, 0.5
HORIZON, ACTION_RATE = 50, 50.0
"""One second."""

ARM_ARRAY = {
    'type': 'array',
    'topic': 'arm/commands',
    'joints': JOINTS[:2],
    'action_indices': [0, 1],
}
ARM_TRAJECTORY = {**ARM_ARRAY, 'type': 'trajectory', 'topic': 'arm/joint_trajectory'}
GRIPPER = {
    'type': 'gripper',
    'topic': 'gripper/gripper_cmd',
    'joints': ['finger'],
    'action_indices': [2],
    'threshold': 0.5,
    'hysteresis': 0.1,
    'closed': 0.8,
    'open': 0.0,
    'max_effort': 5.0,
}


def make_robot(
    outputs: Mapping[str, Any] | None = None,
    *,
    execution: Mapping[str, Any] | None = None,
    safety: Mapping[str, Any] | None = None,
    timing: Mapping[str, Any] | None = None,
) -> RobotConfig:
    """Return a robot of two arm joints and a finger; default: one array output for the arm."""
    outputs = outputs or {'arm': ARM_ARRAY}
    return RobotConfig.model_validate(
        {
            'joints': {'names': JOINTS, 'keys': ['state']},
            'timing': {'action_rate': ACTION_RATE, **(timing or {})},
            'output_names': list(outputs),
            'outputs': dict(outputs),
            'execution': dict(execution or {}),
            'safety': dict(safety or {}),
        }
    )


def make_spec(action_space: str = 'joint_position', horizon: int = HORIZON) -> PolicySpec:
    """Return the facts of a policy with three action columns."""
    return PolicySpec(
        name='rig',
        model='',
        cameras=(),
        state=StateSpec(('state',), 3),
        horizon=horizon,
        action_dim=3,
        action_space=action_space,
        action_names=('a', 'b', 'c'),
        output_shapes={'actions': (horizon, 3)},
        handshake=None,
    )


@dataclass
class Rig:
    """A controller, its clocks and everything that left it.

    ``measured`` follows what is commanded only where a test lets it.
    """

    outputs: Mapping[str, Any] | None = None
    execution: Mapping[str, Any] | None = None
    safety: Mapping[str, Any] | None = None
    action_space: str = 'joint_position'
    horizon: int = HORIZON
    inference_timeout: float = 60.0
    dry_run: bool = False
    disabled: frozenset[str] = frozenset()
    now_ns: int = START_NS
    steady_ns: int = 5_000 * MS
    streams: dict[str, Stream] = field(
        default_factory=lambda: {"camera 'wrist'": Stream(10 * MS, 150 * MS)}
    )
    skew: str = ''
    measured: dict[str, float] | None = field(default_factory=lambda: dict.fromkeys(JOINTS, 0.0))
    wire: list[Command] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.robot = make_robot(self.outputs, execution=self.execution, safety=self.safety)
        spec = make_spec(self.action_space, self.horizon)
        self.axes = make_axes(self.robot, spec)
        self.controller = Controller(
            self.robot,
            spec,
            self.axes,
            inference_timeout=self.inference_timeout,
            dry_run=self.dry_run,
            disabled=self.disabled,
        )
        count = len(self.axes)
        self.limits = JointLimits(
            np.full(count, LOWER), np.full(count, UPPER), np.full(count, SPEED)
        )
        self.controller.set_limits(self.limits)
        self.controller.activate()

    def pass_time(self, by_ns: int = PERIOD_NS) -> None:
        """Let both clocks run."""
        self.now_ns += by_ns
        self.steady_ns += by_ns

    def tick(self, by_ns: int = PERIOD_NS, *, delivered: bool = True) -> Tick:
        """Let time pass, deliver the joints, tick, and send what comes of it."""
        self.pass_time(by_ns)
        if self.measured is not None:
            self.controller.on_joints(self.measured, self.steady_ns)
        tick = self.controller.tick(
            self.now_ns, self.steady_ns, StreamReport(dict(self.streams), self.skew)
        )
        if delivered:
            self.wire += tick.commands
            self.controller.sent(tick, self.steady_ns)
        return tick

    def ticks(self, count: int) -> Tick:
        """Tick so often; return the last one."""
        for _ in range(count - 1):
            self.tick()
        return self.tick()

    def enable(self) -> None:
        """Enable, which must succeed."""
        done, text = self.controller.enable(True, self.steady_ns)
        assert done, text

    def offer(self, actions: npt.ArrayLike, *, t_obs_ns: int | None = None, epoch: int = 0) -> str:
        """Hand in a chunk, observed now; a row alone stands for every step."""
        rows = np.asarray(actions, np.float32)
        if rows.ndim == 1:
            rows = np.tile(rows, (self.horizon, 1))
        observed = self.now_ns if t_obs_ns is None else t_obs_ns
        return self.controller.on_chunk(
            ActionChunk({'actions': rows}), observed, epoch, self.now_ns, self.steady_ns
        )

    def run(self, actions: npt.ArrayLike = (0.1, 0.1, 0.0), ticks: int = 5) -> Tick:
        """Enable and drive for some ticks with one chunk; the robot is then ENABLED."""
        self.tick()
        self.enable()
        assert not self.offer(actions)
        tick = self.ticks(ticks)
        assert tick.state is State.ENABLED, tick.reason
        return tick
