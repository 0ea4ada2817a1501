# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that costs nothing, so that all that is measured is the way to it and back."""

from __future__ import annotations

from collections.abc import Sequence

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

HORIZON, WIDTH = 50, 32
CAMERAS = ('base', 'left_wrist', 'right_wrist')


class EchoPolicy(Policy):
    """Answers with the same chunk [50, 32], one corner pixel of each image in its first row."""

    def __init__(self) -> None:
        keys = [f'observation/{name}' for name in CAMERAS]
        self._keys = keys
        self._spec = PolicySpec(
            name='echo',
            model='echo',
            cameras=tuple(CameraSpec(key, (key,), required=True) for key in keys),
            state=StateSpec(('observation/state',), max_dim=WIDTH),
            horizon=HORIZON,
            action_dim=WIDTH,
            action_space='joint_position',
            action_names=tuple(f'joint_{i}' for i in range(WIDTH)),
            output_shapes={ACTIONS: (HORIZON, WIDTH)},
            handshake={'action_horizon': HORIZON, 'action_dim': WIDTH},
        )

    @property
    def spec(self) -> PolicySpec:
        """Return the fixed spec."""
        return self._spec

    def warm_up(self) -> None:
        """Do nothing: there is nothing to warm."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer each request with ``chunk``."""
        return [
            ActionChunk(
                {ACTIONS: chunk([request.observation[key] for key in self._keys])},
                timing_ms={'model': 0.0},
            )
            for request in requests
        ]


def chunk(images: Sequence[np.ndarray]) -> np.ndarray:
    """Return float32 [50, 32] that proves that the images arrived."""
    actions = np.zeros((HORIZON, WIDTH), np.float32)
    for column, image in enumerate(images):
        actions[0, column] = image[0, 0, 0]
    return actions


def observation(height: int, width: int) -> dict[str, object]:
    """Return three images uint8 [height, width, 3], a state and a prompt, as a client sends."""
    rng = np.random.default_rng(0)
    images = {
        f'observation/{name}': rng.integers(0, 256, (height, width, 3), np.uint8)
        for name in CAMERAS
    }
    return {**images, 'observation/state': np.zeros(WIDTH, np.float32), 'prompt': 'pick it up'}
