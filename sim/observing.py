# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Build requests by a plan, with the images of earlier steps where it asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.privileged import POSES
from openpi_policy_ros_sim.request import Plan
from openpi_policy_ros_sim.state import State

Image = npt.NDArray[np.uint8]


class Observer:
    """Looks through the cameras of one episode at the steps that matter.

    Args:
        plan: what to send.
        prompt: the instruction.
        session_id: sent where the plan says so.

    """

    def __init__(self, plan: Plan, prompt: str, session_id: str) -> None:
        self._plan = plan
        self._prompt = prompt
        self._session_id = session_id
        self._step = -1
        self._seen: dict[int, dict[str, Image]] = {}

    def see(self, environment: Environment) -> None:
        """Take the next step in: draw what a request now or later holds of it."""
        self._step += 1
        step, plan = self._step, self._plan
        # The first image stands in for what was before it.
        if step == 0 or any((step - offset) % plan.horizon == 0 for offset in plan.offsets):
            self._seen[step] = {
                key: self._oriented(view.look(environment)) for key, view in plan.images.items()
            }
        oldest = step + plan.offsets[0]
        for old in [known for known in self._seen if 0 < known < oldest]:
            del self._seen[old]

    def request(self, state: State) -> dict[str, Any]:
        """Return the observation of the step seen last, arrays that are nobody else's."""
        plan = self._plan
        numbers = state.policy_state
        content: dict[str, Any] = {key: self._image(key) for key in plan.images}
        content |= {key: numbers[part].copy() for key, part in plan.state.items()}
        content |= {key: np.zeros(count, np.float32) for key, count in plan.zeros.items()}
        for key in plan.poses:
            content[key] = getattr(state, POSES[key]).astype(np.float32)
        content[plan.prompt_key] = self._prompt
        if plan.session_id:
            content['session_id'] = self._session_id
        if plan.commands:
            content['endpoint'] = 'infer'
        return content

    def _image(self, key: str) -> Image:
        if not self._plan.stacked:
            return self._seen[self._step][key]
        # A session's first request has one image, whatever the later ones have.
        offsets = self._plan.offsets if self._step else (0,)
        steps = [max(0, self._step + offset) for offset in offsets]
        return np.stack([self._seen[step][key] for step in steps])

    def _oriented(self, image: Image) -> Image:
        if self._plan.colour_order == 'BGR':
            image = image[..., ::-1]
        if self._plan.layout == 'CHW':
            image = image.transpose(2, 0, 1)
        return np.ascontiguousarray(image)
