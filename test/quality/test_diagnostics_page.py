# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""docs/diagnostics.md lists every key and every threshold, and its analyzers find every status."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from health_cases import actuation, camera, inference, joints, recording, serving

from openpi_policy_ros.configuration.diagnostics import LOWER_IS_WORSE, Diagnostics, pairs
from openpi_policy_ros.control.health import Health
from openpi_policy_ros.control.health_streams import camera_health, joint_health
from openpi_policy_ros.control.health_work import (
    actuation_health,
    inference_health,
    recording_health,
    server_health,
)

SECTIONS: list[tuple[str, Callable[..., Health], Any]] = [
    ('Camera', camera_health, camera()),
    ('Joint states', joint_health, joints()),
    ('Inference', inference_health, inference()),
    ('Actuation', actuation_health, actuation()),
    ('Server', server_health, serving()),
    ('Recording', recording_health, recording()),
]
PARTS = ('status', 'camera wrist', 'joint states', 'inference', 'actuation', 'server', 'recording')


@pytest.fixture
def page(root) -> str:
    return (root / 'docs' / 'diagnostics.md').read_text(encoding='utf-8')


@pytest.mark.parametrize(
    ('title', 'judged', 'facts'), SECTIONS, ids=[title for title, *_ in SECTIONS]
)
def test_the_page_lists_the_keys_of_each_status(page, title, judged, facts) -> None:
    (section,) = re.findall(rf'^### {title}\n(.*?)(?=^##)', page, re.S | re.M)
    cells = re.findall(r'^\| (`.*?) \|', section, re.M)
    assert re.findall(r'`(\w+)`', ' '.join(cells)) == list(judged(facts, Diagnostics()).values)


def threshold_table() -> str:
    """Return the table of the thresholds."""
    lines = ['| `diagnostics.` | `…_warn` | `…_error` | WARN |', '|---|---|---|---|']
    for name in pairs():
        side = '<' if name in LOWER_IS_WORSE else '>'
        warn, error = Diagnostics().pair(name)
        text = str(Diagnostics.model_fields[f'{name}_warn'].description)
        meaning = text.removeprefix('WARN ').removesuffix('.')
        lines.append(f'| `{name}` | {side} {warn:g} | {side} {error:g} | {meaning} |')
    return '\n'.join(lines)


def test_the_page_lists_every_threshold(page) -> None:
    expected = f'<!-- thresholds -->\n\n{threshold_table()}\n\n'
    assert expected in page, f'docs/diagnostics.md: replace this table by\n{expected}'


def prefixes(analyzers: Any) -> Iterator[str]:
    """Yield what each analyzer of a parameter file looks for."""
    if isinstance(analyzers, dict):
        for key in ('startswith', 'find_and_remove_prefix'):
            yield from analyzers.get(key, ())
        for one in analyzers.values():
            yield from prefixes(one)


def test_the_analyzers_of_the_page_find_every_status_once(page) -> None:
    (text,) = re.findall(r'^```yml\n(.*?)^```', page, re.S | re.M)
    looked_for = list(prefixes(yaml.safe_load(text)))
    for namespace in ('left', 'right'):
        for part in PARTS:
            name = f'/{namespace}/openpi_policy: {part}'
            assert sum(name.startswith(prefix) for prefix in looked_for) == 1, name
