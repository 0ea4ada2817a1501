# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A tiny DreamZero behind a door: what its clients send, and a policy to serve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml
from serving import Client, Served

from openpi_policy_ros.client.videos import ROBOARENA
from openpi_policy_ros.configuration.files import config_directory
from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.policies.dreamzero.policy import DreamZeroPolicy
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.wire import Dialect

ROBOT = 'roboarena_dreamzero'
ROWS, COLUMNS = 6, 8
VIEW = (20, 36)
JOINTS, GRIPPER = 'observation/joint_position', 'observation/gripper_position'
PROMPT = 'put the cup on the plate'
LONGEST = 90.0
"""Seconds that a process may take to import and load, on a busy machine."""
QUICK = {'step_cache': 'off', 'num_inference_steps': 2}
"""For tests of anything but the sampler."""
SHIPPED: dict[str, Any] = yaml.safe_load((config_directory() / 'dreamzero.yaml').read_text())
HANDSHAKE = SHIPPED['policy_server_config']


def frames(seed: int) -> dict[str, np.ndarray]:
    """Return one frame of each camera, noise."""
    random = np.random.default_rng(seed)
    return {key: random.integers(0, 256, (*VIEW, 3), np.uint8) for key in ROBOARENA}


def stack(*seeds: int) -> dict[str, np.ndarray]:
    """Return several frames of each camera, [T, H, W, 3]."""
    views = [frames(seed) for seed in seeds]
    return {key: np.stack([view[key] for view in views]) for key in ROBOARENA}


def observed(images: dict[str, np.ndarray], seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Return what a client sends with these images."""
    return {
        **images,
        JOINTS: np.linspace(-1, 1, 7) + seed / 100,
        GRIPPER: np.array([0.5]),
        'observation/cartesian_position': np.zeros(6),
        'prompt': PROMPT,
        **changes,
    }


def session(start: int, call: int, **changes: Any) -> dict[str, Any]:
    """Return call ``call`` of a client that sends one frame, then four."""
    seeds = [start] if call == 0 else [start + 10 * call + i for i in range(4)]
    return observed(stack(*seeds), start + call, **changes)


def load(model: Path, scratch: Path, **options: Any) -> DreamZeroPolicy:
    """Return the policy of the shipped policy file with these changes."""
    file = scratch / 'policy.yaml'
    file.write_text(yaml.safe_dump({**SHIPPED, **options}))
    policy = load_policy(str(model), policy=str(file), profile=load_robot(ROBOT).profile)
    assert isinstance(policy, DreamZeroPolicy)
    return policy


def play(served: Served, dialect: Dialect, start: int, calls: int = 4) -> list[np.ndarray]:
    """Return the chunks of a session on a connection of its own."""
    with Client(served, dialect) as client:
        return [client.actions(session_id='same', **session(start, call)) for call in range(calls)]
