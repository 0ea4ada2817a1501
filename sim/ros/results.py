# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Results of episodes over ROS: those of every loop, and what the node's gates did besides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from openpi_policy_ros_sim.results import Record, Results

_SHOWN: Final = ('clamped', 'slowed', 'waits', 'late', 'holds')


@dataclass(frozen=True)
class RosRecord(Record):
    """One episode over ROS.

    ``inferences`` are chunks heard, and ``latency_ms`` the age of what each one answers when it
    came, in simulated time.

    Attributes:
        ended: why the node drove no more before the time was up, e.g. ``HOLD: S2: …``; None = it
            did to the end. Such an episode counts as failed.
        gates: what the node counted in it.
        real_time_factor: simulated seconds per second.

    """

    ended: str | None = None
    gates: Mapping[str, int] = field(default_factory=dict)
    real_time_factor: float | None = None


@dataclass
class RosResults(Results):
    """Everything that was run up to now."""

    def summary(self) -> list[dict[str, Any]]:
        """Return one entry for each task, with the gates of its whole episodes summed up."""
        entries = super().summary()
        for entry in entries:
            whole = [one for one in self._of(entry['task']) if one.error is None]
            gates: Counter[str] = Counter()
            for one in whole:
                gates.update(one.gates)
            entry['gates'] = dict(gates)
            entry['ended_by_the_node'] = sum(one.ended is not None for one in whole)
            factors = [one.real_time_factor for one in whole if one.real_time_factor is not None]
            entry['real_time_factor'] = sum(factors) / len(factors) if factors else None
        return entries

    def table(self) -> str:
        """Return the table, and below it what the gates did."""
        lines = [super().table()]
        for entry in self.summary():
            if entry['real_time_factor'] is None:
                continue
            gates = ', '.join(f'{name} {entry["gates"].get(name, 0)}' for name in _SHOWN)
            lines.append(
                f'{entry["task"]}: {entry["real_time_factor"]:.2f} times real time; gates: {gates}'
            )
        for one in self._of():
            if one.ended is not None:
                lines.append(f'{one.task}, seed {one.seed}: ended by the node: {one.ended}')
        return '\n'.join(lines)

    def _of(self, task: str | None = None) -> list[RosRecord]:
        return [
            one
            for one in self.records
            if isinstance(one, RosRecord) and (task is None or one.task == task)
        ]
