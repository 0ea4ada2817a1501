# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write figures, tables and one self-contained page of HTML into a folder."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openpi_policy_ros.recording.compare import Comparison
from openpi_policy_ros.recording.describe import HEAD, UNIT, Summary

if TYPE_CHECKING:
    from openpi_policy_ros.recording.plots import Page

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1250px; padding: 0 1em;
  color: #222; background: #fff }
h1 { font-size: 1.5em } h2 { font-size: 1.2em; margin-top: 2em; border-top: 1px solid #ccc;
  padding-top: 1em; overflow-wrap: anywhere }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .15em .8em; text-align: right }
td:first-child, th:first-child { text-align: left } tr:nth-child(even) { background: #f4f4f4 }
.facts td { text-align: left; vertical-align: top; overflow-wrap: anywhere }
img { width: 100%; height: auto } .note { color: #8a4b00 } details { margin: .5em 0 }
"""


@dataclass
class Section:
    """One session of the report.

    Attributes:
        summary: what was recorded.
        comparison: what a replay made of it; None = there was none.
        pages: pictures; empty without matplotlib.

    """

    summary: Summary
    comparison: Comparison | None = None
    pages: list[Page] = field(default_factory=list)


def write(folder: Path, sections: Sequence[Section], document: dict[str, Any]) -> list[Path]:
    """Write ``replay.json``, ``replay.html`` and one PNG per picture; return their paths.

    Raises:
        OSError: the folder cannot be written.

    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / 'replay.json', folder / 'replay.html']
    paths[0].write_text(json.dumps(document, indent=2), encoding='utf-8')
    paths[1].write_text(_html(sections, document['settings']), encoding='utf-8')
    for section in sections:
        for page in section.pages:
            path = folder / f'{page.name}.png'
            path.write_bytes(page.png)
            paths.append(path)
    return paths


def _html(sections: Sequence[Section], settings: dict[str, Any]) -> str:
    model = settings.get('model')
    head = 'Replay' if model else 'Recording'
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f'<title>{head}</title><style>{_STYLE}</style></head><body><h1>{head}</h1>',
        _facts({key: str(value) for key, value in settings.items() if value is not None}),
    ]
    for section in sections:
        parts.append(f'<h2>{html.escape(section.summary.name)}</h2>')
        parts.append(_facts(section.summary.facts))
        topics = {name: str(count) for name, count in section.summary.topics.items()}
        parts.append(f'<details><summary>topics</summary>{_facts(topics)}</details>')
        if section.comparison is not None:
            parts.append(_differences(section.comparison))
        for page in section.pages:
            data = base64.b64encode(page.png).decode()
            title = html.escape(page.title)
            parts.append(f'<h3>{title}</h3><img alt="{title}" src="data:image/png;base64,{data}">')
    return '\n'.join([*parts, '</body></html>\n'])


def _facts(facts: dict[str, str]) -> str:
    rows = ''.join(
        f'<tr><td>{html.escape(key)}</td><td>{html.escape(text)}</td></tr>'
        for key, text in facts.items()
    )
    return f'<table class="facts">{rows}</table>'


def _differences(comparison: Comparison) -> str:
    parts = [f'<h3>Replayed less recorded, {len(comparison.recorded)} inferences</h3>', '<table>']
    parts.append('<tr>' + ''.join(f'<th>{name}</th>' for name in (*HEAD, UNIT)) + '</tr>')
    for one in comparison.differences():
        figures = (one.mean, one.maximum, one.rms, one.first, one.last)
        cells = ''.join(f'<td>{number:.3g}</td>' for number in figures)
        unit = html.escape(comparison.units.get(one.name, ''))
        parts.append(f'<tr><td>{html.escape(one.name)}</td>{cells}<td>{unit}</td></tr>')
    parts.append('</table>')
    told = [f'inference {number} failed: {why}' for number, why in comparison.failed.items()]
    for note in [*told, *comparison.notes]:
        parts.append(f'<p class="note">{html.escape(note)}</p>')
    return ''.join(parts)
