# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the test policies with the keys of DROID share: two cameras, eight numbers, no weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from openpi_policy_ros.policies.base import (
    ACTIONS,
    CameraSpec,
    InferenceRequest,
    InferenceResult,
    Policy,
    PolicySpec,
    StateSpec,
)
from openpi_policy_ros.policies.registry import LoadRequest

WIDTH = 8
IMAGES = ('observation/exterior_image_1_left', 'observation/wrist_image_left')
STATE = ('observation/joint_position', 'observation/gripper_position')


class DroidPolicy(Policy):
    """Answers each request by itself.

    Args:
        wanted: what the node asks for.
        name: of the policy.
        rows: of a chunk.
        more: of the spec.

    """

    def __init__(self, wanted: LoadRequest, name: str, rows: int, **more: Any) -> None:
        self._spec = PolicySpec(
            name=name,
            model=wanted.model,
            cameras=tuple(CameraSpec(key, (key,), required=True) for key in IMAGES),
            state=StateSpec(STATE, max_dim=WIDTH),
            horizon=rows,
            action_dim=WIDTH,
            action_names=tuple(f'column_{index}' for index in range(WIDTH)),
            output_shapes={ACTIONS: (rows, WIDTH)},
            **more,
        )

    @property
    def spec(self) -> PolicySpec:
        """Return the fixed spec."""
        return self._spec

    def warm_up(self) -> None:
        """Have nothing to prepare."""

    def infer(self, requests: Sequence[InferenceRequest]) -> list[InferenceResult]:
        """Answer each request."""
        return [self.answer(one) for one in requests]

    @abstractmethod
    def answer(self, one: InferenceRequest) -> InferenceResult:
        """Answer one request."""
