# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What came of the episodes: a table for people, a file for programs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.tasks import TASKS

FORMAT: Final = 'openpi_policy_ros_sim.results'
VERSION: Final = 1
_Z: Final = 1.959964
"""Of 95 %."""
_COLUMNS: Final = (
    'task', 'success', 'rate', '95 % interval', 'steps', 'seconds', 'latency ms p50', 'p95',
    'clamped',
)  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Which episodes to run.

    Attributes:
        tasks: told and judged, one after the other.
        episodes: of each.
        seed: of the first; the next has the next.
        max_steps: actions before time is up.
        prompt: instruction instead of the task's own; None = that.
        policy_seed: where the seeds of requests come from; None = none is sent.

    """

    tasks: tuple[str, ...]
    episodes: int
    seed: int
    max_steps: int
    prompt: str | None = None
    policy_seed: int | None = None

    @staticmethod
    def checked(**values: Any) -> Settings:
        """Return settings.

        Raises:
            ConfigurationError: every value that cannot be.

        """
        least = {'episodes': 1, 'seed': 0, 'max_steps': 1, 'policy_seed': 0}
        problems = [
            f'--{name.replace("_", "-")}: {values[name]}, expected {limit} or more'
            for name, limit in least.items()
            if values.get(name) is not None and values[name] < limit
        ]
        if values.get('prompt') is not None and not values['prompt'].strip():
            problems.append('--prompt: is empty')
        if problems:
            raise ConfigurationError('arguments', problems)
        return Settings(**values)


@dataclass(frozen=True)
class Record:
    """One episode.

    Attributes:
        seed: of the reset.
        task: told and judged.
        prompt: what was said.
        success: whether it was done in time.
        seconds: until each task was done, None = never; also those that were not told.
        steps: actions executed.
        inferences: answers received.
        latency_ms: of each answer.
        clamped: how often which limit came to bear.
        video: file, or None.
        error: why it ended before its time, or None.

    """

    seed: int
    task: str
    prompt: str
    success: bool
    seconds: Mapping[str, float | None]
    steps: int
    inferences: int
    latency_ms: Sequence[float]
    clamped: Mapping[str, int]
    video: str | None = None
    error: str | None = None


@dataclass
class Results:
    """Everything that was run up to now.

    Attributes:
        settings: which episodes.
        plan: as ``Plan.described``.
        server: its address.
        handshake: what it said.
        records: in the order they were run.

    """

    settings: Settings
    plan: Mapping[str, Any]
    server: str
    handshake: Mapping[str, Any] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)

    def summary(self) -> list[dict[str, Any]]:
        """Return one entry for each task; episodes that broke off count for nothing in it."""
        return [
            summarise(task, [record for record in self.records if record.task == task])
            for task in self.settings.tasks
        ]

    def content(self) -> dict[str, Any]:
        """Return what the file holds."""
        return {
            'format': FORMAT,
            'version': VERSION,
            'server': {'url': self.server, 'handshake': dict(self.handshake)},
            'settings': {**asdict(self.settings), **self.plan},
            'summary': self.summary(),
            'episodes': [asdict(record) for record in self.records],
        }

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f'{path.name}.partial')
        partial.write_text(f'{json.dumps(self.content(), indent=1)}\n', encoding='utf-8')
        partial.replace(path)

    def keep(self, path: Path | None) -> SimulationError | None:
        """Write the file, if there is to be one; return why that cannot be done."""
        if path is None:
            return None
        try:
            self.write(path)
        except OSError as error:
            return SimulationError(
                f'{path}: cannot be written: {error.strerror}',
                remedy='the table has what was done up to now',
            )
        return None

    def table(self) -> str:
        """Return the table."""
        rows = [list(_COLUMNS), *(_row(entry) for entry in self.summary())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = [
            '  '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        for record in self.records:
            if record.error is not None:
                lines.append(
                    f'{record.task}, seed {record.seed}: broke off after {record.steps} steps, not '
                    'counted'
                )
        return '\n'.join(lines)


def summarise(task: str, records: Sequence[Record]) -> dict[str, Any]:
    """Return how often a task was done and how long it took."""
    whole = [record for record in records if record.error is None]
    done = [record for record in whole if record.success]
    latencies = [ms for record in whole for ms in record.latency_ms]
    clamped: Counter[str] = Counter()
    for record in whole:
        clamped.update(record.clamped)
    return {
        'task': task,
        'episodes': len(whole),
        'successes': len(done),
        'success_rate': len(done) / len(whole) if whole else None,
        'interval_95': list(wilson(len(done), len(whole))) if whole else None,
        'steps_p50': percentile([record.steps for record in whole], 50),
        'seconds_until_success_p50': percentile(
            [seconds for record in done if (seconds := record.seconds[task]) is not None], 50
        ),
        'latency_ms': {
            'count': len(latencies),
            'p50': percentile(latencies, 50),
            'p95': percentile(latencies, 95),
        },
        'clamped': dict(clamped),
        'done_besides': {
            name: sum(record.seconds[name] is not None for record in whole)
            for name in TASKS
            if name != task
        },
    }


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a rate (1927, eq. 4), within 0..1; ``trials`` >= 1."""
    rate, square = successes / trials, _Z**2
    middle = (rate + square / (2 * trials)) / (1 + square / trials)
    half = (
        _Z
        * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials**2))
        / (1 + square / trials)
    )
    return max(0.0, middle - half), min(1.0, middle + half)


def percentile(values: Sequence[float], level: float) -> float | None:
    """Return a percentile, None = there are no values."""
    return float(np.percentile(values, level)) if values else None


def _row(entry: Mapping[str, Any]) -> list[str]:
    rate, interval, latency = entry['success_rate'], entry['interval_95'], entry['latency_ms']
    clamped = ', '.join(f'{name} {count}' for name, count in entry['clamped'].items())
    return [
        entry['task'],
        f'{entry["successes"]}/{entry["episodes"]}',
        '-' if rate is None else f'{100 * rate:.0f} %',
        '-' if interval is None else f'{100 * interval[0]:.0f}-{100 * interval[1]:.0f} %',
        _shown(entry['steps_p50'], 0),
        _shown(entry['seconds_until_success_p50'], 1),
        _shown(latency['p50'], 1),
        _shown(latency['p95'], 1),
        clamped or '0',
    ]


def _shown(value: float | None, digits: int) -> str:
    return '-' if value is None else f'{value:.{digits}f}'
