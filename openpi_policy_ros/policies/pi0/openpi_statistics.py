# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The statistics an openpi checkpoint was trained with: ``assets/<id>/norm_stats.json``.

openpi cuts statistics to the width of whatever state comes along. Here a state of another width is
refused: it belongs to another robot, or came in another order.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies.checkpoint_files import read_json
from openpi_policy_ros.policies.checkpoint_view import CheckpointView
from openpi_policy_ros.policies.layouts import asset_ids
from openpi_policy_ros.policies.normalization import STATISTICS, Normalizer, openpi_normalizer
from openpi_policy_ros.policies.pi0.options import NormStats, Pi0Options

_NAMES = ('mean', 'std', 'q01', 'q99')
_FEATURES = ('state', 'actions')
_NOTHING = 1e-6
"""A column with no larger number in any statistic was padding when the statistics were made."""
_GIVEN = {
    'MEAN_STD': ('mean_std', {'mean': 'mean', 'std': 'std'}),
    'QUANTILES': ('min_max', {'min': 'q01', 'max': 'q99'}),
}
"""Mode → that of a policy file's norm_stats that means it, and key there → statistic."""


@dataclass(frozen=True)
class OpenpiStatistics:
    """What state and actions are normalised with, padding taken off.

    Attributes:
        source: path inside the checkpoint, or ``norm_stats`` of the policy file.
        mode: ``MEAN_STD`` or ``QUANTILES``.
        state, actions: statistic → float64 [D]; those of ``mode`` are there.

    """

    source: str
    mode: str
    state: Mapping[str, npt.NDArray[np.float64]]
    actions: Mapping[str, npt.NDArray[np.float64]]

    @property
    def state_normalizer(self) -> Normalizer:
        """Return how a state is normalised; its width is how many numbers a state has."""
        return openpi_normalizer(self.mode, self.state)

    @property
    def action_normalizer(self) -> Normalizer:
        """Return how actions are; its width is how many columns of a chunk mean something."""
        return openpi_normalizer(self.mode, self.actions)

    def degenerate(self) -> list[str]:
        """Return what to say of each column that the training data never moved."""
        low, high = STATISTICS[self.mode]
        told = []
        for feature, values in (('state', self.state), ('actions', self.actions)):
            spread = values[high] if self.mode == 'MEAN_STD' else values[high] - values[low]
            told += [
                f'{feature}[{column}] is {values[low][column]:g} ± {spread[column]:g}'
                for column in np.flatnonzero(spread <= _NOTHING)
            ]
        return told


def settle_statistics(
    view: CheckpointView, options: Pi0Options, source: str, mode: str, most: int
) -> OpenpiStatistics | None:
    """Return the statistics that count; None = there are none, and the policy file says: identity.

    Args:
        view: the checkpoint's files.
        options: the policy file: which asset, or statistics for a checkpoint without.
        source: that file, for messages.
        mode: ``MEAN_STD`` or ``QUANTILES``, as the family has it.
        most: columns of the model.

    Raises:
        CheckpointError: no statistics, or every number of them that is missing or cannot be.
        ConfigurationError: the policy file chooses none of several, or contradicts the checkpoint.

    """
    given, identity = options.norm_stats, options.normalization == 'identity'
    file = _find(view, options.asset_id, source)
    if given is not None and identity:
        raise ConfigurationError(
            source, ['norm_stats and normalization: identity are both set; remove one of them']
        )
    if file is None:
        if given is not None:
            return _given(given, source, mode, most)
        if identity:
            return None
        raise CheckpointError(
            f'{view.model} carries no statistics (assets/<asset_id>/norm_stats.json)',
            expected='those that its state and actions were normalised with in training',
            remedy='copy the folder assets/ of the JAX checkpoint it was converted from into it '
            "(openpi's script looks for that folder one level too high), or write norm_stats into "
            'the policy file; normalization: identity there serves without any',
        )
    if given is not None or identity:
        name = 'norm_stats' if given is not None else 'normalization: identity'
        raise ConfigurationError(
            source,
            [
                f'{name} is set, but {view.model} carries statistics of its own ({file}), which '
                'count; remove it'
            ],
        )
    path = view.located.directory / file
    features = read_json(path).get('norm_stats')
    if not isinstance(features, dict):
        raise _refused(str(path), [f'norm_stats is {features!r:.80}, expected an object'])
    read, problems = _read_all(features, mode, most)
    if problems:
        raise _refused(str(path), problems)
    return OpenpiStatistics(file, mode, **read)


def _find(view: CheckpointView, asset_id: str | None, source: str) -> str | None:
    """Return the path of the statistics that count inside a checkpoint; None = it carries none."""
    ids = asset_ids(view.sizes)
    if asset_id is None and len(ids) > 1:
        raise ConfigurationError(
            source,
            [
                f'{view.model} carries the statistics of {len(ids)} robots; set asset_id in the '
                f'policy file to that of yours: {", ".join(ids)}'
            ],
        )
    if asset_id is not None and asset_id not in ids:
        # The id of a data set of the hub has an owner, which people leave out.
        close = [known for known in ids if known.rpartition('/')[2] == asset_id]
        close = close or difflib.get_close_matches(asset_id, ids, n=1)
        hint = f', did you mean {close[0]!r}?' if close else ''
        listing = ', '.join(ids) or 'nothing'
        raise ConfigurationError(
            source,
            [f'asset_id is {asset_id!r}{hint} (assets/ of {view.model} holds {listing})'],
        )
    return f'assets/{ids[0] if asset_id is None else asset_id}/norm_stats.json' if ids else None


def _given(given: NormStats, source: str, mode: str, most: int) -> OpenpiStatistics:
    """Return the statistics of a policy file; those of a norm_stats.json do there what they did."""
    wanted, names = _GIVEN[mode]
    problems = []
    features: dict[str, dict[str, Any]] = {}
    for feature, key in (('state', 'state'), ('actions', 'action')):
        statistics = getattr(given, key)
        features[feature] = {theirs: getattr(statistics, ours) for ours, theirs in names.items()}
        if statistics.mode != wanted:
            how = 'min_max, q01 as min and q99 as max' if wanted == 'min_max' else wanted
            problems.append(
                f'norm_stats.{key}.mode is {statistics.mode}, but openpi normalises '
                f'{"π0 by mean and deviation" if mode == "MEAN_STD" else "π0.5 by quantiles"}: '
                f'write {how}'
            )
    if problems:
        raise ConfigurationError(source, problems)
    read, problems = _read_all(features, mode, most)
    if problems:
        raise ConfigurationError(f'{source}: norm_stats', problems)
    return OpenpiStatistics('norm_stats', mode, **read)


def _read_all(
    features: Mapping[str, Any], mode: str, most: int
) -> tuple[dict[str, dict[str, npt.NDArray[np.float64]]], list[str]]:
    """Return the statistics of both features, and what is wrong with them."""
    problems: list[str] = []
    read = {name: _read(features.get(name), name, mode, most, problems) for name in _FEATURES}
    return read, problems


def _read(
    values: Any, feature: str, mode: str, most: int, problems: list[str]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return the statistics of one feature, those that are well-formed; note what is not."""
    if not isinstance(values, dict):
        problems.append(f'{feature} is {values!r:.80}, expected an object')
        return {}
    before = len(problems)
    read: dict[str, npt.NDArray[np.float64]] = {}
    for name in _NAMES:
        numbers = values.get(name)
        if numbers is None:
            if name in STATISTICS[mode]:
                why = ' (π0.5 normalises by quantiles)' if mode == 'QUANTILES' else ''
                problems.append(f'{feature}.{name} is missing{why}')
        elif not _is_numbers(numbers):
            problems.append(
                f'{feature}.{name} is {numbers!r:.80}, expected a list of finite numbers'
            )
        else:
            read[name] = np.array(numbers, np.float64)
    lengths = {name: array.size for name, array in read.items()}
    if len(set(lengths.values())) > 1:
        told = ', '.join(f'{name} {length}' for name, length in lengths.items())
        problems.append(f'{feature}: statistics of unequal length ({told})')
    if len(problems) > before:
        return {}
    return _true_columns(read, feature, most, problems)


def _true_columns(
    read: Mapping[str, npt.NDArray[np.float64]], feature: str, most: int, problems: list[str]
) -> dict[str, npt.NDArray[np.float64]]:
    largest = np.max([np.abs(array) for array in read.values()], axis=0)
    used = np.flatnonzero(largest > _NOTHING)
    width = int(used[-1]) + 1 if used.size else 0
    if not width:
        problems.append(f'{feature}: all statistics are 0, no column was ever used')
    if width > most:
        problems.append(f'{feature} has {width} columns, but the model only {most}')
    for low, high, says in (('', 'std', 'negative'), ('q01', 'q99', 'below q01')):
        if high not in read or (low and low not in read):
            continue
        wrong = np.flatnonzero(read[high] < (read[low] if low else 0.0))
        problems += [f'{feature}.{high}[{i}] is {read[high][i]:g}, {says}' for i in wrong]
    return {name: array[:width] for name, array in read.items()}


def _is_numbers(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and len(value) > 0
        and all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in value)
        and all(math.isfinite(item) for item in value)
    )


def _refused(path: str, problems: list[str]) -> CheckpointError:
    return CheckpointError(
        '\n  - '.join([f'{path}: {len(problems)} problem(s) with the statistics', *problems]),
        expected='what openpi computed for the training data (scripts/compute_norm_stats.py)',
        remedy='copy the file of the training again, or compute it again',
    )
