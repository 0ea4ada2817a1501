# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The text of each kind of checkpoint, letter by letter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openpi_policy_ros.policies.pi0.pipeline import PromptStyle
from openpi_policy_ros.policies.pi0.prompt import Prompt, make_prompt, state_numbers

STATE = np.array([0.0, -1.0, 1.0, -1.0001, 0.999], np.float32)


@pytest.mark.parametrize(
    ('style', 'text', 'parts'),
    [
        (PromptStyle.NEWLINE, 'pick', ('pick\n',)),
        (PromptStyle.NEWLINE, 'pick\n', ('pick\n',)),
        (PromptStyle.NEWLINE, ' pick_up \n ', (' pick_up \n \n',)),
        (PromptStyle.PLAIN, 'pick', ('pick',)),
        (PromptStyle.PLAIN, ' pick_up\n', (' pick_up\n',)),
        (PromptStyle.CLEANED, '  pick_up\nthe cup \n', ('pick up the cup', '\n')),
        (PromptStyle.CLEANED, '_pick_', (' pick ', '\n')),
        (PromptStyle.CLEANED, 'Pick\tup', ('Pick\tup', '\n')),
    ],
)
def test_text_without_the_state(style: PromptStyle, text: str, parts: tuple[str, ...]) -> None:
    assert make_prompt(style, text, STATE) == Prompt(parts, holds_state=False)


def test_text_with_the_state() -> None:
    # Bins are 1/128 wide: 0 starts bin 128, 0.999 is in the last one, 1 stays in it, and what is
    # below −1 is numbered −1.
    assert make_prompt(PromptStyle.STATE, ' pick_up\nthe cup\n', STATE) == Prompt(
        ('Task: pick up the cup, State: 128 0 255 -1 255;\nAction: ',), holds_state=True
    )


def test_one_number_of_state() -> None:
    prompt = make_prompt(PromptStyle.STATE, 'go', np.array([0.5], np.float32))
    assert prompt.parts == ('Task: go, State: 192;\nAction: ',)


@pytest.mark.parametrize(
    ('value', 'number'),
    [
        (-50.0, -1),
        (-1.0, 0),
        (-0.9921876, 0),
        (-0.9921875, 1),
        (-0.0000001, 127),
        (0.0, 128),
        (0.0078124, 128),
        (0.0078125, 129),
        (0.9921875, 255),
        (1.0, 255),
        (50.0, 255),
    ],
)
def test_the_bins_edges(value: float, number: int) -> None:
    assert state_numbers(np.array([value], np.float64)).tolist() == [number]


def test_the_precision_of_the_statistics_decides_which_bin() -> None:
    just_below = np.nextafter(0.5, 0.0)
    assert make_prompt(PromptStyle.STATE, 'go', np.array([just_below])).parts == (
        'Task: go, State: 191;\nAction: ',
    )
    # In float32 it is 0.5.
    assert state_numbers(np.array([just_below], np.float32)).tolist() == [192]


@given(st.floats(-2.0, 2.0))
def test_a_bin_holds_the_values_between_its_edges(value: float) -> None:
    (number,) = state_numbers(np.array([value])).tolist()
    # Exactly: value + 1.0 would be rounded.
    assert number == (-1 if value < -1.0 else min(int((Fraction(value) + 1) * 128), 255))
