# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What happens to numbers, images and text around the network, settled when it is loaded.

A fine-tune is its weights and this: served with another's, it answers with plausible nonsense.
LeRobot writes it into processor files, openpi into its source code; both end up here.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.policies.base import FloatArray
from openpi_policy_ros.policies.normalization import IDENTITY, Normalizer


class PromptStyle(enum.Enum):
    """How an instruction becomes the model's text (pi0.md §2.3, §5)."""

    NEWLINE = 'text, and a newline unless it ends with one'
    PLAIN = 'text as it is'
    CLEANED = 'text stripped, _ and newlines as spaces; then a newline, encoded by itself'
    STATE = 'Task: {text}, State: {numbers};\\nAction: , the normalised state as whole numbers'


@dataclass(frozen=True)
class Pipeline:
    """Everything between an observation's features and the network, both ways.

    Attributes:
        state, actions: normalisation of each; ``actions`` spans ``action_dim`` columns.
        action_dim: columns of the model's chunk that mean something.
        prompt: how the text is made.
        state_token: whether the network sees the state as a token of its own.
        antialias: whether images are scaled down with an antialiasing filter (openpi).
        legacy_padding: letterbox bars of −3 (LeRobot up to 0.4.4).
        text_state_dim: numbers of state in the text, zeros after the normalised state (LeRobot up
            to 0.4.4); 0 = as many as the state has.
        units: (feature type, mode, file it comes from) of each normalisation that is done.
        delta_mask: [action_dim]; where true, the checkpoint answers differences from the current
            state, and the state is added. Empty: all columns are absolute.

    """

    action_dim: int
    state: Normalizer = IDENTITY
    actions: Normalizer = IDENTITY
    prompt: PromptStyle = PromptStyle.NEWLINE
    state_token: bool = True
    antialias: bool = False
    legacy_padding: bool = False
    text_state_dim: int = 0
    units: tuple[tuple[str, str, str], ...] = ()
    delta_mask: tuple[bool, ...] = ()

    @property
    def relative(self) -> bool:
        """Return whether any action is a difference from the state."""
        return any(self.delta_mask)

    @property
    def state_width(self) -> int | None:
        """Return how many numbers of state there have to be; None = any that the model takes."""
        return self.state.width

    @property
    def least_state(self) -> int:
        """Return the fewest numbers of state that the differences can be added to."""
        return max((column + 1 for column, delta in enumerate(self.delta_mask) if delta), default=1)

    def text_state(self, normalized: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the normalised state [S] as the text shows it, [max(S, text_state_dim)]."""
        return np.pad(normalized, (0, max(self.text_state_dim - normalized.size, 0)))

    def robot_actions(self, chunk: FloatArray, state: FloatArray) -> FloatArray:
        """Return a model's chunk [T, >= action_dim] in robot units, float32 [T, action_dim].

        Args:
            chunk: model space.
            state: the raw state of the observation the chunk answers, float32 [S].

        """
        actions = self.actions.unnormalize(chunk[:, : self.action_dim])
        return actions + self._offset(state) if self.relative else actions

    def model_actions(self, actions: FloatArray, state: FloatArray) -> FloatArray:
        """Return robot-unit actions [T, D] in model space, relative to ``state``, float32 [T, D].

        The inverse of ``robot_actions``. D may be smaller than ``action_dim``: a robot file crops.
        """
        columns = actions.shape[1]
        if self.relative:
            actions = actions - self._offset(state)[:columns]
        wide = np.zeros((actions.shape[0], self.action_dim), actions.dtype)
        wide[:, :columns] = actions
        return self.actions.normalize(wide)[:, :columns].astype(np.float32)

    def re_anchored(
        self, leftover: FloatArray, old_state: FloatArray, new_state: FloatArray
    ) -> FloatArray:
        """Return model-space rows made from one state as seen from another (pi0.md §6)."""
        if not self.relative:
            return leftover
        moved = leftover.copy()
        moved[:, : self.action_dim] = self.model_actions(
            self.robot_actions(leftover, old_state), new_state
        )
        return moved

    def _offset(self, state: FloatArray) -> npt.NDArray[np.float32]:
        """Return what the differences are added to, float32 [action_dim]."""
        offset = np.zeros(self.action_dim, np.float32)
        mask = np.flatnonzero(self.delta_mask)
        offset[mask] = state[mask]
        return offset
