# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Statistics of the training data: read, checked, and made into a normalisation.

They come from the files that LeRobot's processors name, or from ``norm_stats`` in a policy file or
config.json. Numbers that cannot be those of this checkpoint refuse by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import deserialize

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.base import FloatArray
from openpi_policy_ros.policies.normalization import STATISTICS, Normalizer, lerobot_normalizer
from openpi_policy_ros.policies.pi0.options import Statistics
from openpi_policy_ros.policies.weight_files import read_header

_COPY = 'copy or download the checkpoint again, statistics included'
_MOST_BYTES = 64 * 2**20
"""Far more than statistics take: beyond that it is another file."""
# fmt: off
_DTYPES = {
    'F64': '<f8', 'F32': '<f4', 'F16': '<f2', 'BF16': '<u2',
    'I64': '<i8', 'I32': '<i4', 'I16': '<i2', 'I8': '<i1',
    'U64': '<u8', 'U32': '<u4', 'U16': '<u2', 'U8': '<u1',
}
# fmt: on
_GIVEN_MODES = {'mean_std': 'MEAN_STD', 'min_max': 'MIN_MAX'}


@dataclass(frozen=True, eq=False)
class FeatureStatistics:
    """What one feature is normalised with.

    Attributes:
        source: file they come from.
        feature: which.
        mode: of ``normalization.STATISTICS``.
        first: mean, or low end of the range, float32 [D].
        second: standard deviation, or high end, float32 [D].

    """

    source: str
    feature: str
    mode: str
    first: FloatArray
    second: FloatArray

    def normalizer(self, eps: float) -> Normalizer:
        """Return LeRobot's normalisation with them."""
        names = STATISTICS[self.mode]
        return lerobot_normalizer(
            self.mode, dict(zip(names, (self.first, self.second), strict=True)), eps
        )

    def degenerate(self, eps: float) -> list[tuple[int, str]]:
        """Return (dimension, its values as text) of every one that did not move in training."""
        low, high = STATISTICS[self.mode]
        if self.mode == 'MEAN_STD':
            flat = np.flatnonzero(self.second <= eps)
            return [(int(i), f'{high} {self.second[i]:g}') for i in flat]
        flat = np.flatnonzero(self.second - self.first <= eps)
        return [(int(i), f'{low} {self.first[i]:g}, {high} {self.second[i]:g}') for i in flat]


def read_statistics(
    path: Path, feature: str, mode: str, width: int, *, padded: bool = False
) -> FeatureStatistics | None:
    """Return the statistics of a feature from a file named by a processor.

    Args:
        path: safetensors; keys ``<feature>.<statistic>``, shapes [D] or [1, D].
        feature: e.g. ``observation.state``.
        mode: which two are read; not ``IDENTITY``.
        width: D.
        padded: whether ``width`` counts padding, so that D may be smaller.

    Returns:
        None where the file has neither.

    Raises:
        CheckpointError: unreadable, only one of the two, another width, or numbers that no training
            data have.

    """
    header = read_header(path)
    keys = [f'{feature}.{name}' for name in STATISTICS[mode]]
    if not header.keys() & set(keys):
        return None
    for key in keys:
        if key not in header:
            raise CheckpointError(
                f'{path} holds no {key}, which {mode} needs',
                expected=' and '.join(keys),
                remedy='compute the statistics of the training data again with LeRobot',
            )
    if path.stat().st_size > _MOST_BYTES:
        raise CheckpointError(
            f'{path} has {path.stat().st_size} bytes',
            expected=f'a file of statistics, at most {_MOST_BYTES} bytes',
            remedy='the processor names another file: copy or download the checkpoint again',
        )
    # Not by way of torch: a folder is inspected without it.
    stored = dict(deserialize(path.read_bytes()))
    first, second = (_row(stored[key], f'{path}: {key}') for key in keys)
    if padded and first.size == second.size and 0 < first.size < width:
        width = first.size
    return checked(FeatureStatistics(str(path), feature, mode, first, second), width, _COPY)


def feature_statistics(
    given: Statistics, feature: str, source: str, width: int
) -> FeatureStatistics:
    """Return the statistics of one feature of ``norm_stats``.

    Raises:
        CheckpointError: another width, or numbers that no training data have.

    """
    mode = _GIVEN_MODES[given.mode]
    first, second = (np.array(getattr(given, name), np.float64) for name in STATISTICS[mode])
    with np.errstate(over='ignore'):
        statistics = FeatureStatistics(
            source, feature, mode, first.astype(np.float32), second.astype(np.float32)
        )
    return checked(statistics, width, 'correct them, or remove norm_stats')


def checked(statistics: FeatureStatistics, width: int, remedy: str) -> FeatureStatistics:
    """Return ``statistics``.

    Raises:
        CheckpointError: another width than ``width``, not finite, a negative deviation, or a low
            end above the high one; names the dimension and the value.

    """
    names = STATISTICS[statistics.mode]
    what = f'{statistics.source}: {statistics.feature}'
    for name, values in zip(names, (statistics.first, statistics.second), strict=True):
        if values.size != width:
            raise CheckpointError(
                f'{what}.{name} has {values.size} values, but the feature has {width}',
                expected=f'{width}, as config.json says',
                remedy='they belong to another checkpoint: put the files of one training together',
            )
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise CheckpointError(
                f'{what}.{name}[{bad[0]}] is {values[bad[0]]}',
                expected='a finite number (float32)',
                remedy=remedy,
            )
    first, second = statistics.first, statistics.second
    if statistics.mode == 'MEAN_STD':
        bad = np.flatnonzero(second < 0)
        if bad.size:
            raise CheckpointError(
                f'{what}.std[{bad[0]}] is {second[bad[0]]:g}', expected='0 or more', remedy=remedy
            )
        return statistics
    bad = np.flatnonzero(second < first)
    if bad.size:
        low, high, at = *names, bad[0]
        raise CheckpointError(
            f'{what}.{high}[{at}] is {second[at]:g}, below {low}[{at}], {first[at]:g}',
            expected=f'{low} <= {high}',
            remedy=remedy,
        )
    return statistics


def _row(stored: Mapping[str, Any], what: str) -> FloatArray:
    """Return a stored statistic as float32 [D]."""
    dtype, shape = stored['dtype'], list(stored['shape'])
    if dtype not in _DTYPES:
        raise CheckpointError(f'{what} has dtype {dtype}', expected='a number', remedy=_COPY)
    if len(shape) != 1 and (len(shape), shape[:1]) != (2, [1]):
        raise CheckpointError(f'{what} has shape {shape}', expected='[D] or [1, D]', remedy=_COPY)
    values = np.frombuffer(stored['data'], _DTYPES[dtype])
    if dtype == 'BF16':
        # The upper half of a float32.
        values = (values.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over='ignore'):
        return values.astype(np.float32)


def equal(one: FeatureStatistics, other: FeatureStatistics) -> bool:
    """Return whether two sources say the same of a feature."""
    return bool(np.array_equal(one.first, other.first) and np.array_equal(one.second, other.second))
