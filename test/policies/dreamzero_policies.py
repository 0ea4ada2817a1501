# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A served DreamZero checkpoint, and observations in RoboArena's names that fit it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.policies.dreamzero.load import load
from openpi_policy_ros.policies.dreamzero.make_checkpoint import make_checkpoint
from openpi_policy_ros.policies.dreamzero.policy import DreamZeroPolicy
from openpi_policy_ros.policies.registry import LoadRequest

QUICK = {'step_cache': 'off', 'num_inference_steps': 2}
"""Options for tests of anything but the sampler."""
KEY = SessionKey('test', 'x')
PROMPT = 'put the red cube into the bowl'

Serve = Callable[..., DreamZeroPolicy]


def make_tiny(directory: Path) -> Path:
    """Write a tiny checkpoint and return where."""
    make_checkpoint(directory, 'tiny', 0)
    return directory


def serve(checkpoint: Path, **options: Any) -> DreamZeroPolicy:
    """Return the policy in ``checkpoint``, not warmed up."""
    policy = load(LoadRequest(str(checkpoint), options=options))
    assert isinstance(policy, DreamZeroPolicy)
    return policy


def observe(policy: DreamZeroPolicy, seed: int, frames: int = 1, **changes: Any) -> dict[str, Any]:
    """Return an observation of ``frames`` images per camera."""
    rng = np.random.default_rng(seed)
    observation = policy.transform.example(frames)
    for name, value in observation.items():
        if isinstance(value, np.ndarray) and value.dtype == np.uint8:
            observation[name] = rng.integers(0, 256, value.shape, np.uint8)
    observation['prompt'] = PROMPT
    return {**observation, **changes}


def ask(
    policy: DreamZeroPolicy, observation: dict[str, Any], key: SessionKey = KEY, **changes: Any
) -> ActionChunk:
    """Return the chunk for an observation that is accepted."""
    (result,) = policy.infer([InferenceRequest(observation, key, **changes)])
    assert isinstance(result, ActionChunk), result
    return result


def play(
    policy: DreamZeroPolicy, calls: int, key: SessionKey = KEY, start: int = 0, **changes: Any
) -> list[np.ndarray]:
    """Return the chunks of a session's calls: one image, then four each."""
    return [
        ask(policy, observe(policy, start + number, 4 if number else 1, **changes), key).actions
        for number in range(calls)
    ]
