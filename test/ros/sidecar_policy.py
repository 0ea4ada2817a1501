# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that knows from a file where things are: the expert, for loops that carry no such key.

``model`` is the file. The prompt decides the task; ``freeze`` makes every inference fail.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    CameraSpec,
    InferenceRequest,
    InferenceResult,
    Policy,
    PolicySpec,
    StateSpec,
)
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.expert import Expert
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.tasks import TASKS

ROWS, COLUMNS = 10, 8
IMAGES = ('observation/exterior_image_1_left', 'observation/wrist_image_left')
STATE = ('observation/joint_position', 'observation/gripper_position')
FREEZE = 'freeze'


def write_state(path: Path, state: State) -> None:
    """Tell the policy how things are."""
    fields = dataclasses.asdict(state)
    text = json.dumps({name: np.asarray(value).tolist() for name, value in fields.items()})
    part = path.with_suffix('.part')
    part.write_text(text)
    os.replace(part, path)


def read_state(path: Path) -> State:
    """Return what was told last."""
    fields = json.loads(path.read_text())
    return State(
        **{
            name: value if isinstance(value, float) else np.array(value)
            for name, value in fields.items()
        }
    )


class SidecarPolicy(Policy):
    """Answers with the expert's next actions, run ahead in a scene of its own."""

    def __init__(self, wanted: LoadRequest) -> None:
        self._file = Path(wanted.model)
        self._environment = Environment()
        self._expert: Expert | None = None
        self._session = ''
        self._spec = PolicySpec(
            name='sidecar',
            model=wanted.model,
            cameras=tuple(CameraSpec(key, (key,), required=True) for key in IMAGES),
            state=StateSpec(STATE, max_dim=COLUMNS),
            horizon=ROWS,
            action_dim=COLUMNS,
            action_space='joint_position',
            action_names=tuple(f'column_{index}' for index in range(COLUMNS)),
            output_shapes={ACTIONS: (ROWS, COLUMNS)},
            handshake={},
        )

    @property
    def spec(self) -> PolicySpec:
        """Return the fixed spec."""
        return self._spec

    def warm_up(self) -> None:
        """Have nothing to prepare."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer each request."""
        return [self._answer(one) for one in requests]

    def _answer(self, one: InferenceRequest) -> InferenceResult:
        seen = one.observation
        if seen['prompt'] == FREEZE:
            raise RuntimeError('frozen')
        state = read_state(self._file)
        (task,) = (task.name for task in TASKS.values() if task.prompt == seen['prompt'])
        if self._expert is None or one.reset or self._session != str(one.session):
            self._expert, self._session = Expert(task), str(one.session)
        # As of the observation: what the robot measured, not what the file says of it.
        joints = seen[STATE[0]].astype(np.float64)
        state = dataclasses.replace(state, joint_position=joints)
        self._environment.set_state(state, closing=self._expert.memory()[1])
        actions = self._expert.chunk(self._environment, ROWS).astype(np.float32)
        return ActionChunk({ACTIONS: actions})


PLUGIN = PolicyPlugin(load=lambda wanted: SidecarPolicy(wanted))
