# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What LeRobot's processor files ask for around the model; refuse what is not done here.

A fine-tune served without its normalisation answers with plausible nonsense, so nothing in these
files is passed over in silence.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.checkpoint_files import read_json
from openpi_policy_ros.policies.problems import Problems

logger = logging.getLogger('openpi_policy_ros.policies.pi0')

PREPROCESSOR = 'policy_preprocessor.json'
POSTPROCESSOR = 'policy_postprocessor.json'
# Done by our own code, or without effect on numbers.
_HARMLESS = frozenset(
    ('to_batch_processor', 'device_processor', 'pi0_new_line_processor', 'tokenizer_processor')
)
_NORMALIZERS = ('normalizer_processor', 'unnormalizer_processor')
_RELATIVE = ('relative_actions_processor', 'absolute_actions_processor')
_RENAME = 'rename_observations_processor'
MODES = ('IDENTITY', 'MEAN_STD', 'MIN_MAX', 'QUANTILES', 'QUANTILE10')


@dataclass
class Processing:
    """What the processor files ask for.

    Attributes:
        rename_map: raw observation key → feature.
        action_names: labels of the action columns, or ().
        steps: names of the steps, those of both files in order.
        modes: (file, feature type, mode) of every normalisation that is not IDENTITY.
        statistics: statistics files named by a step.
        has_normalizer: whether any step says how to normalise.

    """

    rename_map: dict[str, str] = field(default_factory=dict)
    action_names: tuple[str, ...] = ()
    steps: list[str] = field(default_factory=list)
    modes: list[tuple[str, str, str]] = field(default_factory=list)
    statistics: list[str] = field(default_factory=list)
    has_normalizer: bool = False


def read_processing(
    directory: Path, config_modes: Mapping[str, str], problems: Problems
) -> Processing:
    """Return what the checkpoint's processors ask for, whether it is supported or not.

    Args:
        directory: the checkpoint.
        config_modes: ``normalization_mapping`` of config.json; counts where a processor file is
            missing, or none of them says how to normalise.
        problems: gains every file that cannot be read and every step that is unknown or not
            supported.

    """
    result = Processing()
    paths = [directory / name for name in (PREPROCESSOR, POSTPROCESSOR)]
    present = [path for path in paths if path.is_file()]
    for path in present:
        with problems.collecting():
            _read_file(path, result, problems)
    if len(present) < 2 or not result.has_normalizer:
        result.modes += [
            ('config.json', kind, mode) for kind, mode in config_modes.items() if mode != 'IDENTITY'
        ]
    return result


def _read_file(path: Path, result: Processing, problems: Problems) -> None:
    """Add the steps of one processor file to ``result``."""
    steps = read_json(path).get('steps')
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise _malformed(path, f'steps is {steps!r}', 'a list of objects')
    for step in steps:
        # A step that was never registered goes by its class.
        result.steps.append(str(step.get('registry_name', step.get('class'))))
        with problems.collecting():
            _read_step(path, step, result)


def _read_step(path: Path, step: Mapping[str, Any], result: Processing) -> None:
    name, config = result.steps[-1], step.get('config', {})
    if not isinstance(config, dict):
        raise _malformed(path, f'config of step {name!r} is {config!r}', 'an object')
    if name in _NORMALIZERS:
        _read_normalizer(path, step, config, result)
    elif name in _RELATIVE:
        _read_relative(path, name, config, result)
    elif name == _RENAME:
        renames = config.get('rename_map') or {}
        if not _is_text_map(renames):
            raise _malformed(path, f'rename_map is {renames!r}', 'an object of texts')
        result.rename_map.update(renames)
    elif name not in _HARMLESS:
        known = sorted({*_HARMLESS, *_NORMALIZERS, *_RELATIVE, _RENAME})
        raise CheckpointError(
            f'{path}: unknown processor step {name!r}',
            expected=f'one of {", ".join(known)}',
            remedy='serving without it would change the numbers; remove the step from the file '
            'only if you know that it does nothing',
        )


def _read_normalizer(
    path: Path, step: Mapping[str, Any], config: Mapping[str, Any], result: Processing
) -> None:
    # Without it nobody knows whether the numbers are to be changed.
    modes: Any = config.get('norm_map')
    if not _is_text_map(modes):
        raise _malformed(path, f'norm_map is {modes!r}', 'an object of texts')
    result.has_normalizer = True
    result.modes += [(path.name, kind, mode) for kind, mode in modes.items() if mode != 'IDENTITY']
    state_file = step.get('state_file')
    if state_file is not None:
        result.statistics.append(str(state_file))


def _read_relative(path: Path, name: str, config: Mapping[str, Any], result: Processing) -> None:
    if config.get('enabled'):
        raise CheckpointError(
            f'{path}: step {name!r} is enabled, relative actions are not supported yet',
            expected='enabled: false',
            remedy='serve a checkpoint trained on absolute actions',
        )
    names = config.get('action_names')
    if isinstance(names, list) and all(isinstance(item, str) for item in names):
        result.action_names = tuple(names)


def require_identity(directory: Path, processing: Processing, *, override_identity: bool) -> None:
    """Refuse a normalisation, unless the user overrode one that has no statistics.

    Args:
        directory: the checkpoint.
        processing: what its processors ask for; an overridden normalisation is taken out.
        override_identity: ``normalization: identity`` in the policy file.

    Raises:
        CheckpointError: the checkpoint normalises.

    """
    for file, kind, mode in processing.modes:
        if mode not in MODES:
            raise CheckpointError(
                f'{directory}: {file} declares the unknown normalisation {mode!r} for {kind}',
                expected=f'one of {", ".join(MODES)}',
                remedy='correct the file; what an unknown mode does to the numbers nobody knows',
            )
    if not processing.modes:
        return
    wanted = ', '.join(f'{kind}: {mode} ({file})' for file, kind, mode in processing.modes)
    if processing.statistics:
        raise CheckpointError(
            f'{directory}: normalisation {wanted} with statistics '
            f'{", ".join(sorted(set(processing.statistics)))} is not supported yet',
            expected='IDENTITY for VISUAL, STATE and ACTION',
            remedy='serve a checkpoint without normalisation'
            + (
                '; normalization: identity is refused, because this checkpoint carries statistics '
                'and would answer in other units'
                if override_identity
                else ''
            ),
        )
    if not override_identity:
        raise CheckpointError(
            f'{directory}: normalisation {wanted} is declared, but the checkpoint carries no '
            'statistics',
            expected='IDENTITY for VISUAL, STATE and ACTION',
            remedy='for a base checkpoint set normalization: identity in the policy file: states '
            'and actions then stay in the units of its training',
        )
    logger.warning(
        '%s: normalisation %s is overridden by normalization: identity', directory, wanted
    )
    processing.modes.clear()


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(item, str) for key, item in value.items()
    )


def _malformed(path: Path, what: str, expected: str) -> CheckpointError:
    return CheckpointError(
        f'{path}: {what}', expected=expected, remedy='copy or download the checkpoint again'
    )
