# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that knows from a file where things are: the expert, for loops that carry no such key.

``model`` is the file. The prompt decides the task; ``freeze`` makes every inference fail.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
from droid_policy import STATE, DroidPolicy

from openpi_policy_ros.policies.base import (
    ACTIONS,
    ActionChunk,
    InferenceRequest,
    InferenceResult,
)
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.expert import Expert
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.tasks import TASKS

ROWS = 10
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


class SidecarPolicy(DroidPolicy):
    """Answers with the expert's next actions, run ahead in a scene of its own."""

    def __init__(self, wanted: LoadRequest) -> None:
        super().__init__(wanted, 'sidecar', ROWS, action_space='joint_position', handshake={})
        self._file = Path(wanted.model)
        self._environment = Environment()
        self._expert: Expert | None = None
        self._session = ''

    def answer(self, one: InferenceRequest) -> InferenceResult:
        """Return the expert's chunk."""
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
