# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Thresholds of the diagnostics: every pair in order, refused by name where not."""

from __future__ import annotations

import pytest

from openpi_policy_ros.configuration.diagnostics import LOWER_IS_WORSE, Diagnostics, pairs
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.errors import ConfigurationError


def test_every_warning_has_an_error_beyond_it_by_default() -> None:
    defaults = Diagnostics()
    assert {f'{name}_error' for name in pairs()} <= set(Diagnostics.model_fields)
    assert set(LOWER_IS_WORSE) <= set(pairs())
    for name in pairs():
        warn, error = defaults.pair(name)
        assert (error < warn) if name in LOWER_IS_WORSE else (error > warn), name


@pytest.mark.parametrize('name', pairs())
def test_an_error_on_the_wrong_side_of_its_warning_is_refused_by_name(name: str) -> None:
    warn, error = Diagnostics().pair(name)
    kind = type(getattr(Diagnostics(), f'{name}_warn'))
    swapped = {f'{name}_warn': kind(error), f'{name}_error': kind(warn)}
    with pytest.raises(ConfigurationError) as refused:
        validate(RobotConfig, {'diagnostics': swapped}, 'robot.yaml')
    side = 'below' if name in LOWER_IS_WORSE else 'above'
    assert list(refused.value.problems) == [
        f'diagnostics: {name}_error is {warn:g} and {name}_warn {error:g}; expected the error at '
        f'or {side} the warning'
    ]
    # The same value leaves out WARN.
    Diagnostics(**{f'{name}_warn': kind(error), f'{name}_error': kind(error)})


def test_every_wrong_pair_is_told_at_once() -> None:
    wrong = {'age_warn': 5.0, 'joint_rate_error': 0.9}
    with pytest.raises(ConfigurationError) as refused:
        validate(RobotConfig, {'diagnostics': wrong}, 'robot.yaml')
    (text,) = refused.value.problems
    assert 'joint_rate_error is 0.9 and joint_rate_warn 0.8' in text
    assert 'age_error is 3 and age_warn 5' in text
