# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One checkpoint of each kind that users bring, behind the robot file that goes with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.policies.base import InferenceRequest, Policy, SessionKey
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.registry import CheckpointOptions, find

ATOL = 2e-5
"""Most that the same observation may differ between two ways to ask."""
SEED = 23
PROMPT = 'put the cup on the plate'


@dataclass(frozen=True)
class LayoutCase:
    """A checkpoint, and the shipped robot file it is served with.

    Attributes:
        robot: file of a DROID setup.
        policy: registry entry that makes it.
        options: what its files say.
        relative: whether actions are differences from the state.

    """

    robot: str
    policy: str
    options: dict[str, Any] = field(default_factory=dict)
    relative: bool = False

    def make(self, directory: Path) -> Path:
        """Write the checkpoint and return its directory."""
        make = find(self.policy).make_checkpoint
        assert make is not None
        make(directory, 'small', 1, CheckpointOptions(**self.options))
        return directory

    def load(self, checkpoint: Path) -> Policy:
        """Return the policy as both doors load it: without a policy file."""
        return load_policy(str(checkpoint), profile=load_robot(self.robot).profile)


CASES = {
    'lerobot_mean_std': LayoutCase(
        'droid_jointpos', 'pi0', {'normalization': 'mean_std', 'shards': 2}
    ),
    'lerobot_0_4_min_max': LayoutCase(
        'droid_jointpos', 'pi0', {'layout': 'lerobot-0.4', 'normalization': 'min_max'}
    ),
    'lerobot_relative_pi05': LayoutCase(
        'droid_jointpos', 'pi05', {'normalization': 'min_max', 'relative': True}, relative=True
    ),
    'lerobot_quantiles_pi05': LayoutCase('droid_jointpos', 'pi05'),
    'lerobot_relative': LayoutCase(
        'droid_jointpos', 'pi0', {'normalization': 'quantiles', 'relative': True}, relative=True
    ),
    'openpi_delta_mask': LayoutCase(
        'droid_jointpos_delta', 'pi0', {'layout': 'openpi'}, relative=True
    ),
    'openpi_pi05': LayoutCase('droid', 'pi05', {'layout': 'openpi'}),
}


def image(number: int) -> np.ndarray:
    """Return an image unlike any other and not of the model's size, uint8 [120, 160, 3] RGB."""
    return np.random.default_rng(number).integers(0, 256, (120, 160, 3), dtype=np.uint8)


def observe(joints: np.ndarray, gripper: float, **changes: Any) -> dict[str, Any]:
    """Return what a DROID client sends: joints float32 [7] in rad, gripper 0 to 1."""
    return {
        'observation/exterior_image_1_left': image(1),
        'observation/wrist_image_left': image(2),
        'observation/joint_position': joints.astype(np.float32),
        'observation/gripper_position': np.array([gripper], np.float32),
        'prompt': PROMPT,
        **changes,
    }


def direct(policy: Policy, observation: dict[str, Any]) -> np.ndarray:
    """Return what the policy answers without any door, float32 [H, D]."""
    (answer,) = policy.infer([InferenceRequest(observation, SessionKey('t', 't'), seed=SEED)])
    assert not isinstance(answer, Exception), answer
    return answer.actions
