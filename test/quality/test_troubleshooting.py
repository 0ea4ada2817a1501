# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every text that the page of troubles quotes is one that the program says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from openpi_policy_ros.configuration.execution import Execution, Output, Safety
from openpi_policy_ros.configuration.robot import Camera, Profile, Timing

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / 'docs' / 'troubleshooting.md').read_text(encoding='utf-8')
QUOTES = re.findall(r'^> `(.*)`$', PAGE, re.MULTILINE)
GAP = '…'
SECTIONS = {
    'execution': Execution,
    'outputs': Output,
    'safety': Safety,
    'cameras': Camera,
    'profile': Profile,
    'timing': Timing,
}


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield every text in a module; what an f-string fills in is a gap."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield ''.join(
                str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # The log fills these in.
            yield re.sub(r'%[sdr]', GAP, node.value)


@cache
def said() -> tuple[str, ...]:
    files = [path for name in ('openpi_policy_ros', 'sim') for path in (ROOT / name).rglob('*.py')]
    return tuple(text for path in files for text in texts(ast.parse(path.read_text('utf-8'))))


@pytest.mark.parametrize('quote', QUOTES)
def test_a_quoted_text_is_in_the_code(quote: str) -> None:
    assert any(quote in text for text in said()), f'nothing in the package says {quote!r}'


def test_a_text_that_nobody_says_would_be_found_out() -> None:
    assert not any('S1: the robot is sad' in text for text in said())
    assert next(texts(ast.parse("f'a {b} c' 'd'"))) == f'a {GAP} cd'
    assert next(texts(ast.parse("'left in %s'"))) == f'left in {GAP}'


def test_every_gate_has_its_symptom() -> None:
    missing = [f'S{number}' for number in range(1, 17) if not re.search(rf'\bS{number}\b', PAGE)]
    assert missing == []


def test_many_symptoms_are_told() -> None:
    assert len(QUOTES) > 35
    assert PAGE.count('\n## ') >= 10


def test_every_key_that_it_tells_to_set_exists() -> None:
    known = {f'{section}.{key}' for section, kind in SECTIONS.items() for key in kind.model_fields}
    named = set(re.findall(rf'`((?:{"|".join(SECTIONS)})(?:\.<name>)?\.\w+)', PAGE))
    assert named
    assert {key.replace('.<name>', '') for key in named} - known == set()
