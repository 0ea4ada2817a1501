# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure how far replayed chunks are from recorded ones, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.policies.base import FloatArray

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Replayed less recorded, of one column over all chunks of a session.

    Attributes:
        name: of the column.
        mean: of the absolute difference.
        maximum: of the absolute difference.
        rms: over all steps.
        first: root mean square of the first step, which is what the robot does next.
        last: root mean square of the last step.

    """

    name: str
    mean: float
    maximum: float
    rms: float
    first: float
    last: float


@dataclass
class Comparison:
    """What became of one session.

    Attributes:
        name: of the bag.
        names: columns compared, in the recording's order.
        rows: steps compared.
        units: column → unit of its numbers.
        numbers: of every inference compared; a gap is one that is missing or failed.
        times_ns: of every inference compared: when it was observed.
        recorded: [N, rows, columns].
        replayed: [N, rows, columns].
        failed: inference → why it failed in the replay, though it had not.
        skipped: inferences that had failed when they were recorded.
        unseeded: inferences without a seed, whose noise cannot come again.
        missing: inferences that are missing, for a stateful policy to stumble over.
        notes: what else is to be known.

    """

    name: str
    names: tuple[str, ...]
    rows: int
    units: dict[str, str] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    recorded: list[Rows] = field(default_factory=list)
    replayed: list[Rows] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)
    skipped: int = 0
    unseeded: int = 0
    missing: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def errors(self) -> Rows:
        """Return replayed less recorded, float64 [N, rows, columns]."""
        if not self.recorded:
            return np.empty((0, self.rows, len(self.names)))
        return np.stack(self.replayed) - np.stack(self.recorded)

    def differences(self) -> list[Difference]:
        """Return the figures of every column; none where nothing was compared."""
        errors = self.errors
        if not len(errors):
            return []
        size = np.abs(errors)
        squares = np.square(errors)
        return [
            Difference(
                name,
                float(size[:, :, column].mean()),
                float(size[:, :, column].max()),
                float(np.sqrt(squares[:, :, column].mean())),
                float(np.sqrt(squares[:, 0, column].mean())),
                float(np.sqrt(squares[:, -1, column].mean())),
            )
            for column, name in enumerate(self.names)
        ]

    @property
    def largest(self) -> float:
        """Return the largest absolute difference; 0 where nothing was compared."""
        return max((one.maximum for one in self.differences()), default=0.0)

    def as_json(self) -> dict[str, Any]:
        """Return all figures for ``json.dumps``."""
        return {
            'session': self.name,
            'inferences': len(self.recorded),
            'steps': self.rows,
            'largest': self.largest,
            'failed': {str(number): why for number, why in self.failed.items()},
            'skipped': self.skipped,
            'unseeded': self.unseeded,
            'missing': self.missing,
            'notes': self.notes,
            'columns': {
                one.name: {
                    'unit': self.units.get(one.name, ''),
                    'mean': one.mean,
                    'max': one.maximum,
                    'rms': one.rms,
                    'rms_first_step': one.first,
                    'rms_last_step': one.last,
                }
                for one in self.differences()
            },
        }


class Matching:
    """Which columns and steps of two policies' chunks can be compared.

    Args:
        recorded: names of the recording's columns.
        replayed: names of the policy's columns.
        source: names the recording in errors.

    Attributes:
        names: columns compared.
        notes: what was left out.

    Raises:
        PolicyRosError: no column has the same name.

    """

    def __init__(self, recorded: Sequence[str], replayed: Sequence[str], source: str) -> None:
        self.notes: list[str] = []
        theirs = {name: column for column, name in enumerate(replayed)}
        self.names = tuple(name for name in recorded if name in theirs)
        if not self.names:
            raise PolicyRosError(
                f'{source} has the actions {", ".join(recorded)}, the policy {", ".join(replayed)}',
                expected='at least one name in common',
                remedy='give the robot file it was recorded with (--robot), or a policy of the '
                'same robot',
            )
        self._recorded = [list(recorded).index(name) for name in self.names]
        self._replayed = [theirs[name] for name in self.names]
        for one, whose in ((recorded, 'the recording'), (replayed, 'the policy')):
            alone = [name for name in one if name not in self.names]
            if alone:
                self.notes.append(f'only {whose} has {", ".join(alone)}: not compared')

    def pair(self, recorded: FloatArray, replayed: FloatArray, rows: int) -> tuple[Rows, Rows]:
        """Return both chunks, cut to the same columns and steps."""
        return (
            recorded[:rows, self._recorded].astype(np.float64),
            replayed[:rows, self._replayed].astype(np.float64),
        )
