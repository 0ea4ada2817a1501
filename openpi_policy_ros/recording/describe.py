# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Say in text what a recording holds and how a replay differs from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openpi_policy_ros.recording.compare import Comparison
from openpi_policy_ros.recording.reader import Recording

HEAD = ('action', 'mean', 'max', 'rms', 'rms first', 'rms last')
UNIT = 'unit'
"""Heads a last column."""


@dataclass
class Summary:
    """What one bag holds.

    Attributes:
        name: of the bag.
        facts: label → text, in the order to show.
        topics: topic → messages.

    """

    name: str
    facts: dict[str, str] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return the text."""
        width = max(map(len, self.facts))
        return [self.name, *(f'  {name:{width}}  {text}' for name, text in self.facts.items())]


def summarise(recording: Recording) -> Summary:
    """Return what a bag holds, reading it once."""
    header = recording.header
    policy = header['policy']
    count, seeds, steps = 0, set(), Counter[Any]()
    errors: Counter[str] = Counter()
    shapes: dict[str, str] = {}
    latency: list[float] = []
    for one in recording.inferences():
        count += 1
        seeds.add(one.request.seed)
        steps[one.request.num_inference_steps] += 1
        if one.error:
            errors[one.error] += 1
        latency.append(one.timing_ms.get('infer', 0.0))
        if not shapes:
            shapes = {key: _shape(value) for key, value in one.request.observation.items()}
    model = f'{policy["name"]}, {policy["model"]}'
    for key in ('revision', 'weights_hash'):
        model += f', {key.replace("_", " ")} {policy[key]}' if policy[key] else ''
    seed = 'none' if seeds <= {None} else ', '.join(map(str, sorted(map(_number, seeds))[:5]))
    facts = {
        'door': f'{header["door"]}, session {header["session"]!r} of {header["connection"]}',
        'policy': model,
        'robot': header['robot']['name'] or '-',
        'inferences': f'{count} in {recording.duration_s:.1f} s, {sum(errors.values())} failed',
        'chunk': f'{policy["horizon"]} steps x {policy["action_dim"]} actions'
        + (f' at {recording.action_rate:g} Hz' if recording.action_rate else ''),
        'seeds': seed,
        'infer': f'median {np.median(latency):.1f} ms' if latency else '-',
        'observation': '; '.join(f'{key} {shape}' for key, shape in shapes.items()) or '-',
        'messages': str(sum(recording.counts.values())),
        'written by': f'version {header["version"]}',
    }
    for error, times in errors.most_common(3):
        facts[f'failed {times} x'] = error
    return Summary(recording.name, facts, dict(sorted(recording.counts.items())))


def table(comparison: Comparison) -> list[str]:
    """Return the differences of one session as lines of equal columns."""
    rows = comparison.differences()
    lines = [
        f'{comparison.name}: {len(comparison.recorded)} inferences, replayed - recorded, '
        f'{comparison.rows} steps'
    ]
    if rows:
        width = max(len(HEAD[0]), *(len(one.name) for one in rows))
        head = [f'  {HEAD[0]:{width}}', *(f'{one:>9}' for one in HEAD[1:]), UNIT]
        lines.append('  '.join(head))
        for one in rows:
            figures = (one.mean, one.maximum, one.rms, one.first, one.last)
            unit = comparison.units.get(one.name, '')
            line = [f'  {one.name:{width}}', *(f'{n:>9.3g}' for n in figures), unit]
            lines.append('  '.join(line).rstrip())
        largest = comparison.largest
        lines.append(f'  largest difference {largest:.3g}{"" if largest else ": identical"}')
    else:
        lines.append('  nothing was compared')
    for number, why in list(comparison.failed.items())[:3]:
        lines.append(f'  inference {number} failed: {why}')
    if comparison.failed:
        lines.append(f'  {len(comparison.failed)} failed that had not when they were recorded')
    return lines + [f'  note: {note}' for note in comparison.notes]


def _number(seed: int | None) -> int:
    return -1 if seed is None else seed


def _shape(value: Any) -> str:
    if hasattr(value, 'shape') and value.shape:
        return f'{value.dtype} {list(value.shape)}'
    text = repr(value)
    return text if len(text) <= 40 else f'{text[:39]}…'


def document(
    summaries: Sequence[Summary], comparisons: Sequence[Comparison], settings: dict[str, Any]
) -> dict[str, Any]:
    """Return everything for ``json.dumps``."""
    return {
        'settings': settings,
        'recordings': [
            {'name': one.name, 'facts': one.facts, 'topics': one.topics} for one in summaries
        ],
        'comparisons': [one.as_json() for one in comparisons],
    }
