# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""docs/parameters.md says what the node declares."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from openpi_policy_ros.ros.declarations import Declaration, Kind, declarations

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def script() -> ModuleType:
    path = ROOT / 'scripts' / 'parameters_page.py'
    spec = importlib.util.spec_from_file_location('parameters_page', path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_declarations_say(script: ModuleType) -> None:
    written = (ROOT / 'docs' / 'parameters.md').read_text(encoding='utf-8')
    assert written == script.page(), 'run: python scripts/parameters_page.py'


def test_every_parameter_is_in_the_page_once(script: ModuleType) -> None:
    text = script.page()
    for name in declarations(['<camera>'], ['<output>']):
        assert text.count(f'\n| `{name}` |') == 1, name


def test_every_group_has_a_title(script: ModuleType) -> None:
    groups = {name.partition('.')[0] for name in declarations([], []) if '.' in name}
    assert groups <= set(script.TITLES)


@pytest.mark.parametrize(
    ('minimum', 'maximum', 'constraints', 'said'),
    [
        (None, None, '', '–'),
        (0.0, None, '', '≥ 0'),
        (0.0, None, 'greater than 0.0', '&gt; 0'),
        (None, 5.0, '', '≤ 5'),
        (0, 65535, '', '0 to 65535'),
        (0.0, 1.0, 'greater than 0.0', '&gt; 0 to 1'),
        (None, None, 'one of raw, compressed', '`raw`, `compressed`'),
        (0, 270, 'one of 0, 90, 180, 270', '`0`, `90`, `180`, `270`'),
    ],
)
def test_a_range_is_shown_as_it_is(
    script: ModuleType, minimum: float | None, maximum: float | None, constraints: str, said: str
) -> None:
    one = Declaration('x', Kind.DOUBLE, None, '', minimum, maximum, constraints)
    assert script.extent(one) == said


@pytest.mark.parametrize(
    ('default', 'said'), [(None, '–'), ('', '–'), (False, '`false`'), (0.5, '`0.5`')]
)
def test_a_default_is_shown_as_yaml_has_it(script: ModuleType, default: object, said: str) -> None:
    assert script.shown(default) == said
