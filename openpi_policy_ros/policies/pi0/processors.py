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
        modes: (file, feature type, mode) of every normalisation that is not IDENTITY.
        statistics: statistics files named by a step.
        has_normalizer: whether any step says how to normalise.

    """

    rename_map: dict[str, str] = field(default_factory=dict)
    action_names: tuple[str, ...] = ()
    modes: list[tuple[str, str, str]] = field(default_factory=list)
    statistics: list[str] = field(default_factory=list)
    has_normalizer: bool = False


def read_processing(
    directory: Path, config_modes: Mapping[str, str], *, override_identity: bool
) -> Processing:
    """Return what the checkpoint's processors ask for, all of it supported.

    Args:
        directory: the checkpoint.
        config_modes: ``normalization_mapping`` of config.json; counts where a processor file is
            missing, or none of them says how to normalise.
        override_identity: ``normalization: identity`` in the policy file.

    Raises:
        CheckpointError: a step that is unknown or not supported, or a normalisation.

    """
    result = Processing()
    present = [
        name for name in (PREPROCESSOR, POSTPROCESSOR) if _read_file(directory / name, result)
    ]
    if len(present) < 2 or not result.has_normalizer:
        result.modes += [
            ('config.json', kind, mode) for kind, mode in config_modes.items() if mode != 'IDENTITY'
        ]
    for file, kind, mode in result.modes:
        if mode not in MODES:
            raise CheckpointError(
                f'{directory}: {file} declares the unknown normalisation {mode!r} for {kind}',
                expected=f'one of {", ".join(MODES)}',
                remedy='correct the file; what an unknown mode does to the numbers nobody knows',
            )
    if result.modes:
        _decide(directory, result, override_identity)
    return result


def _read_file(path: Path, result: Processing) -> bool:
    """Add the steps of one processor file to ``result``; return whether there is such a file."""
    if not path.is_file():
        return False
    steps = read_json(path).get('steps')
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise _malformed(path, f'steps is {steps!r}', 'a list of objects')
    for step in steps:
        name, config = step.get('registry_name'), step.get('config', {})
        if not isinstance(config, dict):
            raise _malformed(path, f'config of step {name!r} is {config!r}', 'an object')
        if name in _NORMALIZERS:
            _read_normalizer(path, step, config, result)
        elif name in _RELATIVE:
            _read_relative(path, str(name), config, result)
        elif name == _RENAME:
            renames = config.get('rename_map') or {}
            if not _is_text_map(renames):
                raise _malformed(path, f'rename_map is {renames!r}', 'an object of texts')
            result.rename_map.update(renames)
        elif name not in _HARMLESS:
            raise CheckpointError(
                f'{path}: unknown processor step {name!r}',
                expected=f'one of {", ".join(sorted({*_HARMLESS, *_NORMALIZERS, *_RELATIVE, _RENAME}))}',  # noqa: E501
                remedy='serving without it would change the numbers; remove the step from the file '
                'only if you know that it does nothing',
            )
    return True


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


def _decide(directory: Path, result: Processing, override_identity: bool) -> None:
    """Refuse a normalisation, unless the user overrode one that has no statistics."""
    wanted = ', '.join(f'{kind}: {mode} ({file})' for file, kind, mode in result.modes)
    if result.statistics:
        raise CheckpointError(
            f'{directory}: normalisation {wanted} with statistics '
            f'{", ".join(sorted(set(result.statistics)))} is not supported yet',
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
    result.modes.clear()


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(item, str) for key, item in value.items()
    )


def _malformed(path: Path, what: str, expected: str) -> CheckpointError:
    return CheckpointError(
        f'{path}: {what}', expected=expected, remedy='copy or download the checkpoint again'
    )
