# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Turn samples into the few numbers a table shows. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile: a sample, never interpolated.

    Args:
        samples: in any order, at least one.
        share: 0 to 1.

    Raises:
        ValueError: no samples, or a share outside 0 to 1.

    """
    if not samples:
        raise ValueError('no samples')
    if not 0.0 <= share <= 1.0:
        raise ValueError(f'share {share} is not in 0 to 1')
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True)
class Spread:
    """Several rounds of one quantity. The least disturbed round is the smallest for a time."""

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Spread:
        """Return the spread of at least one sample; the median of two is the smaller."""
        return cls(min(samples), percentile(samples, 0.5), max(samples))

    def as_dict(self) -> dict[str, float]:
        """Return the fields, for JSON."""
        return asdict(self)

    def text(self, digits: int = 2) -> str:
        """Return ``median (min … max)``."""
        return f'{self.median:.{digits}f} ({self.min:.{digits}f} … {self.max:.{digits}f})'


def ratios(ours: Sequence[float], rival: Sequence[float]) -> Spread:
    """Return the spread of ours/rival, round by round.

    A round is measured back to back, so that what disturbs the machine disturbs both; a ratio of
    sums would not cancel it.

    Raises:
        ValueError: not one value each per round, or a rival's is not positive.

    """
    if len(ours) != len(rival) or not ours:
        raise ValueError(f'{len(ours)} and {len(rival)} rounds')
    if min(rival) <= 0.0:
        raise ValueError(f'a round of the rival took {min(rival)}')
    return Spread.of([mine / theirs for mine, theirs in zip(ours, rival, strict=True)])


def quantiles(samples: Sequence[float]) -> dict[str, float]:
    """Return p50, p95, p99 and max of at least one sample."""
    return {
        'p50': percentile(samples, 0.50),
        'p95': percentile(samples, 0.95),
        'p99': percentile(samples, 0.99),
        'max': max(samples),
    }


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with aligned columns; every row as long as the headings."""
    lines = [list(headings), *(list(row) for row in rows)]
    if any(len(line) != len(headings) for line in lines):
        raise ValueError('every row needs one cell per heading')
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]

    def join(cells: Sequence[str]) -> str:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        return f'| {" | ".join(padded)} |'

    rule = f'|{"|".join("-" * (width + 2) for width in widths)}|'
    return '\n'.join([join(lines[0]), rule, *map(join, lines[1:])])
