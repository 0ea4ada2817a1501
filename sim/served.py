# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Ask a checkpoint directly, by the code that serves it, without a server in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.policies.base import ACTIONS, ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros_sim.closing import Closing
from openpi_policy_ros_sim.episodes import Act, Observation

ROBOT = 'droid_jointpos'


class ServedPolicy(Closing):
    """A checkpoint that answers observations of the simulated DROID setup; close it.

    Args:
        checkpoint: folder.
        robot: robot file whose profile it is asked in.

    """

    def __init__(self, checkpoint: Path, robot: str = ROBOT) -> None:
        self._policy = load_policy(str(checkpoint), profile=load_robot(robot).profile)
        self._policy.warm_up()

    @property
    def horizon(self) -> int:
        """Return how many rows a chunk has."""
        return self._policy.spec.horizon

    def begin(self, seed: int) -> Act:
        """Return what answers the observations of one episode; equal seeds, equal answers."""
        calls = 0

        def act(observation: Observation) -> Any:
            nonlocal calls
            calls += 1
            state = observation.state.policy_state
            request = InferenceRequest(
                {
                    'observation/exterior_image_1_left': observation.images['exterior_1'],
                    'observation/wrist_image_left': observation.images['wrist'],
                    'observation/joint_position': state[:7].astype(np.float32),
                    'observation/gripper_position': state[7:].astype(np.float32),
                    'prompt': observation.prompt,
                },
                SessionKey('simulation', str(seed)),
                reset=calls == 1,
                seed=(1000 * seed + calls) % 2**31,
            )
            (answer,) = self._policy.infer([request])
            if not isinstance(answer, ActionChunk):
                raise answer
            return answer.outputs[ACTIONS]

        return act

    def close(self) -> None:
        """Free the weights."""
        self._policy.close()
