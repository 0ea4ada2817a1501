# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What training left beside the weights: ``experiment_cfg/metadata.json`` and ``conf.yaml``.

The first holds the statistics of state and actions and the resolution of the cameras, the second
(which some published checkpoints lack) how the numbers are normalised and whether actions are
relative.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from openpi_policy_ros.errors import CheckpointError, PolicyRosError, SeveralErrors
from openpi_policy_ros.policies.checkpoint_files import read_json

FOLDER = 'experiment_cfg'
METADATA, CONF = f'{FOLDER}/metadata.json', f'{FOLDER}/conf.yaml'

VIEWS = ('exterior_image_1_left', 'exterior_image_2_left', 'wrist_image_left')
"""Cameras of the DROID data in the order of the model's views."""
JOINTS, GRIPPER = 'joint_position', 'gripper_position'
PARTS: Mapping[str, int] = {JOINTS: 7, GRIPPER: 1}
"""Parts of state and action, in order → numbers in each."""

STATISTICS: Mapping[str, tuple[str, str]] = {
    'q99': ('q01', 'q99'),
    'min_max': ('min', 'max'),
    'mean_std': ('mean', 'std'),
}
"""Mode of normalisation → the two statistics it needs."""
DEFAULT_MODE = 'q99'

Array = npt.NDArray[np.float64]

_REFERENCE = re.compile(r'\$\{([\w.]+)\}')
_AGAIN = 'copy or download the checkpoint again'
_SHOWN = 200
_LARGEST = 1e6
"""Beyond what any joint does, and far from where float32 overflows."""


@dataclass(frozen=True)
class PartStatistics:
    """How one part of state or action is normalised.

    Attributes:
        mode: one of ``STATISTICS``.
        low: q01, min or mean, float64 [D], for actions also [H, D], one row per step.
        high: q99, max or std, of the same shape.

    """

    mode: str
    low: Array
    high: Array


@dataclass(frozen=True)
class Metadata:
    """What is needed of both files.

    Attributes:
        state: part → its statistics, in the order of ``PARTS``.
        action: likewise.
        resolution: (height, width) of the cameras' images in training.
        relative: whether the joints of a chunk are differences from the measured ones.
        sources: the files that were read.

    """

    state: Mapping[str, PartStatistics]
    action: Mapping[str, PartStatistics]
    resolution: tuple[int, int]
    relative: bool
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Conf:
    """What ``conf.yaml`` says; None, or an empty mapping, where it says nothing.

    Attributes:
        modes: ``state.joint_position`` and the like → mode.
        relative: whether ``relative_action`` is on for the joints.

    """

    modes: Mapping[str, str]
    relative: bool | None = None


def read_metadata(
    folder: Path, embodiment: str, horizon: int, statistics: Path | None = None
) -> Metadata:
    """Return what a checkpoint's training left.

    Args:
        folder: the checkpoint.
        embodiment: whose statistics count, e.g. ``oxe_droid``.
        horizon: rows of a chunk.
        statistics: another metadata.json to read instead of the checkpoint's.

    Raises:
        CheckpointError: a file that is missing (``conf.yaml`` may be) or damaged, or a statistic
            that is missing, not finite, or of another length.
        SeveralErrors: more than one of these.

    """
    path = statistics or folder / METADATA
    values = read_json(path)
    conf, sources = Conf({}), [str(statistics) if statistics else METADATA]
    if (folder / CONF).is_file():
        conf = read_conf(folder / CONF, embodiment)
        sources.append(CONF)
    tag = values.get(embodiment)
    if not isinstance(tag, dict):
        there = ', '.join(sorted(key for key, value in values.items() if isinstance(value, dict)))
        raise CheckpointError(
            f'{path} holds nothing of embodiment {embodiment!r}',
            expected=f'that key (there is: {there or "none"})',
            remedy='serve a checkpoint that was trained on DROID data; others are not served',
        )
    errors: list[PolicyRosError] = []
    groups: dict[str, dict[str, PartStatistics]] = {'state': {}, 'action': {}}
    for group, parts in groups.items():
        for part, width in PARTS.items():
            mode = conf.modes.get(f'{group}.{part}', DEFAULT_MODE)
            rows = horizon if group == 'action' else None
            try:
                parts[part] = _part(path, tag, embodiment, group, part, mode, width, rows)
            except CheckpointError as error:
                errors.append(error)
    resolution = (0, 0)
    try:
        resolution = _resolution(path, tag, embodiment)
    except CheckpointError as error:
        errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralErrors(errors)
    relative = True if conf.relative is None else conf.relative
    return Metadata(groups['state'], groups['action'], resolution, relative, tuple(sources))


def _part(
    path: Path,
    tag: Mapping[str, Any],
    embodiment: str,
    group: str,
    part: str,
    mode: str,
    width: int,
    rows: int | None,
) -> PartStatistics:
    names = STATISTICS[mode]
    arrays = []
    for name in names:
        keys = ('statistics', group, part, name)
        where = f'{path}: {".".join((embodiment, *keys))}'
        value = _lookup(tag, keys)
        if value is None:
            raise CheckpointError(
                f'{where} is missing',
                expected=f'{width} numbers, which normalisation {mode} needs',
                remedy=f'{_AGAIN}, or name a complete file as action_norm_stats_path in the '
                'policy file',
            )
        arrays.append(_numbers(where, value, width, rows))
    low, high = arrays
    if low.shape != high.shape:
        raise CheckpointError(
            f'{path}: {embodiment}.statistics.{group}.{part}: {names[0]} has shape '
            f'{list(low.shape)}, {names[1]} {list(high.shape)}',
            expected='equal shapes',
            remedy=_AGAIN,
        )
    bad = np.argwhere(high < (0.0 if mode == 'mean_std' else low))
    if bad.size:
        index = tuple(int(i) for i in bad[0])
        raise CheckpointError(
            f'{path}: {embodiment}.statistics.{group}.{part}: {names[1]}{list(index)} is '
            f'{high[index]:g}'
            + ('' if mode == 'mean_std' else f', below {names[0]}, {low[index]:g}'),
            expected='0 or more' if mode == 'mean_std' else f'at least {names[0]}',
            remedy=_AGAIN,
        )
    return PartStatistics(mode, low, high)


def _numbers(where: str, value: Any, width: int, rows: int | None) -> Array:
    expected = f'{width} finite numbers'
    if rows is not None:
        expected += f', or {rows} rows of {width}, one per step'
    try:
        raw = np.asarray(value)
        # Text and truth values would pass for numbers.
        array = raw.astype(np.float64) if raw.dtype.kind in 'iufO' else np.empty(0)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    shapes = [(width,)] if rows is None else [(width,), (rows, width)]
    if array.shape not in shapes:
        found = list(array.shape) if array.size else type(value).__name__
        raise CheckpointError(f'{where} has shape {found}', expected=expected, remedy=_AGAIN)
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        index = [int(i) for i in bad[0]]
        raise CheckpointError(
            f'{where}{index} is {array[tuple(index)]}', expected=expected, remedy=_AGAIN
        )
    if array.size and np.abs(array).max() > _LARGEST:
        raise CheckpointError(
            f'{where} holds {np.abs(array).max():g}',
            expected=f'angles and gripper positions, at most {_LARGEST:g}',
            remedy=_AGAIN,
        )
    return array


def _resolution(path: Path, tag: Mapping[str, Any], embodiment: str) -> tuple[int, int]:
    found = {}
    for view in VIEWS:
        keys = ('modalities', 'video', view, 'resolution')
        value = _lookup(tag, keys)
        if (
            not isinstance(value, list)
            or len(value) != 2
            or not all(isinstance(side, int) and not isinstance(side, bool) for side in value)
            or not all(1 <= side <= 8192 for side in value)
        ):
            raise CheckpointError(
                f'{path}: {embodiment}.{".".join(keys)} is {_shown(value)}',
                expected='[width, height] of the images in training, in pixels',
                remedy=_AGAIN,
            )
        found[view] = value
    if len({tuple(value) for value in found.values()}) > 1:
        raise CheckpointError(
            f'{path}: the cameras have different resolutions: {found}',
            expected='one, as the views are tiled into one canvas',
            remedy='this is another kind of checkpoint than DROID; it is not served',
        )
    width, height = found[VIEWS[0]]
    return height, width


def read_conf(path: Path, embodiment: str) -> Conf:
    """Return what a ``conf.yaml`` says of normalisation and relative actions.

    Values of the form ``${a.b}`` are looked up in the file itself.

    Raises:
        CheckpointError: unreadable, or it asks for what is not served.

    """
    try:
        values = yaml.safe_load(path.read_text(encoding='utf-8'))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(
            f'{path} cannot be read: {line}', expected='a YAML mapping', remedy=_AGAIN
        ) from None
    if not isinstance(values, dict):
        raise CheckpointError(
            f'{path} holds a {type(values).__name__}', expected='a YAML mapping', remedy=_AGAIN
        )
    root: Mapping[str, Any] = values
    modes: dict[str, str] = {}
    transforms = _resolved(root, _lookup(root, ('transforms', embodiment, 'transforms')), path)
    for transform in transforms if isinstance(transforms, list) else ():
        if not isinstance(transform, dict):
            continue
        declared = _resolved(root, transform.get('normalization_modes'), path)
        for key, mode in declared.items() if isinstance(declared, dict) else ():
            modes[str(key)] = _known_mode(path, str(key), _resolved(root, mode, path))
    return Conf(modes, _relative(root, path))


def _relative(root: Mapping[str, Any], path: Path) -> bool | None:
    """Return whether the joints, and only they, are relative; None where nothing says so."""
    flags = {}
    for name in ('relative_action', 'relative_action_per_horizon'):
        value = _resolved(root, root.get(name), path)
        if value is not None and not isinstance(value, bool):
            raise CheckpointError(
                f'{path}: {name} is {_shown(value)}', expected='true or false', remedy=_AGAIN
            )
        flags[name] = value
    keys = _resolved(root, root.get('relative_action_keys'), path)
    relative = any(flags.values())
    if relative and keys is not None and keys != [JOINTS]:
        raise CheckpointError(
            f'{path}: relative_action_keys is {_shown(keys)}',
            expected=f'[{JOINTS}]: the gripper is absolute',
            remedy='this is another kind of checkpoint than DROID; it is not served',
        )
    return None if flags == dict.fromkeys(flags) else relative


def _known_mode(path: Path, key: str, mode: Any) -> str:
    if isinstance(mode, str) and mode in STATISTICS:
        return mode
    raise CheckpointError(
        f'{path}: normalization_modes of {key} is {_shown(mode)}',
        expected=f'one of {", ".join(STATISTICS)}',
        remedy='other modes are not served: train with one of these',
    )


def _resolved(root: Mapping[str, Any], value: Any, path: Path) -> Any:
    """Return ``value``, or what the reference in it leads to."""
    seen: list[str] = []
    while isinstance(value, str) and (found := _REFERENCE.fullmatch(value)):
        seen.append(value)
        value = _lookup(root, found[1].split('.'))
        if value is None or value in seen:
            raise CheckpointError(
                f'{path}: {seen[-1]} leads nowhere',
                expected='a key of the file',
                remedy='write the value itself',
            )
    return value


def _shown(value: Any) -> str:
    """Return ``value`` for a message, however much a file's anchors make of it."""
    text = reprlib.repr(value)
    return text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…'


def _lookup(level: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        if not isinstance(level, Mapping):
            return None
        level = level.get(key)
    return level
