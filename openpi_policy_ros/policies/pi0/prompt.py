# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The text a model reads, made from the instruction and, for π0.5, the state (pi0.md §2.3, §5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.policies.pi0.pipeline import PromptStyle

# Lower edges of 256 equal bins over −1..1. A value below all of them is numbered −1; one above the
# last bin stays in it.
_EDGES = np.linspace(-1.0, 1.0, 257)[:-1]


@dataclass(frozen=True)
class Prompt:
    """Text for the tokenizer.

    Attributes:
        parts: pieces that are encoded one by one, so that no token spans two of them.
        holds_state: whether the state is in it, at the end: nothing may be cut off.

    """

    parts: tuple[str, ...]
    holds_state: bool = False


def make_prompt(style: PromptStyle, text: str, state: npt.NDArray[Any]) -> Prompt:
    """Return the text of one request.

    Args:
        style: see ``PromptStyle``.
        text: the instruction.
        state: normalised, not padded, float [S], in the precision it was normalised in (a value
            near an edge would change its number in another); only ``STATE`` reads it.

    """
    if style is PromptStyle.NEWLINE:
        return Prompt((text if text.endswith('\n') else f'{text}\n',))
    if style is PromptStyle.PLAIN:
        return Prompt((text,))
    cleaned = text.strip().replace('_', ' ').replace('\n', ' ')
    if style is PromptStyle.CLEANED:
        return Prompt((cleaned, '\n'))
    numbers = ' '.join(map(str, state_numbers(state).tolist()))
    return Prompt((f'Task: {cleaned}, State: {numbers};\nAction: ',), holds_state=True)


def state_numbers(state: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the bin of each value of a normalised state [S]: 0..255 in −1..1, −1 below."""
    return np.digitize(state, _EDGES) - 1
