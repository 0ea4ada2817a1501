# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read what LeRobot's processor files ask for around the model.

A fine-tune served without its processing answers with plausible nonsense, so nothing in these files
is passed over: every step, every setting of it and their order is known here, or refuses.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.checkpoint_files import is_hub_id, read_json
from openpi_policy_ros.policies.normalization import IDENTITY_MODE, LEROBOT_EPS
from openpi_policy_ros.policies.pi0.config import MAX_TOKENS, STATE, Family, Pi0Config
from openpi_policy_ros.policies.pi0.processing import (
    POSTPROCESSOR,
    PREPROCESSOR,
    NormalizerStep,
    Processing,
    RelativeStep,
)
from openpi_policy_ros.policies.problems import Problems

_RENAME = 'rename_observations_processor'
_NEWLINE = 'pi0_new_line_processor'
_TOKENIZER = 'tokenizer_processor'
_RELATIVE = 'relative_actions_processor'
_RELATIVE_OLD = 'delta_actions_processor'
_NORMALIZER = 'normalizer_processor'
_PREPARE_STATE = 'pi05_prepare_state_tokenizer_processor_step'
_UNNORMALIZER = 'unnormalizer_processor'
_ABSOLUTE = 'absolute_actions_processor'


@dataclass(frozen=True)
class _Known:
    """A step that is done here, or changes no number.

    Attributes:
        settings: keys its ``config`` may have.
        file: the one that may hold it; '' = both, any number of times.
        family: the one whose training has it; None = both.

    """

    settings: tuple[str, ...] = ()
    file: str = PREPROCESSOR
    family: Family | None = None


_LONGEST_NAME = 255
"""Characters of a file's name that a file system takes."""
_NORMALIZING = ('eps', 'features', 'norm_map', 'normalize_observation_keys')
_RELATIVE_STEP = _Known(('enabled', 'exclude_joints', 'action_names'))
_STEPS: Mapping[str, _Known] = {
    _RENAME: _Known(('rename_map',)),
    'to_batch_processor': _Known(file=''),
    'device_processor': _Known(('device', 'float_dtype'), file=''),
    _NEWLINE: _Known(family='pi0'),
    _TOKENIZER: _Known(
        ('max_length', 'task_key', 'padding_side', 'padding', 'truncation', 'tokenizer_name')
    ),
    _RELATIVE: _RELATIVE_STEP,
    # Its name in LeRobot 0.5.1.
    _RELATIVE_OLD: _RELATIVE_STEP,
    _NORMALIZER: _Known(_NORMALIZING),
    _PREPARE_STATE: _Known(('max_state_dim', 'task_key', 'include_state_in_prompt'), family='pi05'),
    _UNNORMALIZER: _Known(_NORMALIZING, POSTPROCESSOR),
    _ABSOLUTE: _Known(('enabled',), POSTPROCESSOR),
}
_ORDER = (
    (_RENAME, _RELATIVE, 'it reads the state by its new name'),
    (_RENAME, _NORMALIZER, 'it knows the inputs by their new names'),
    (_RENAME, _PREPARE_STATE, 'it reads the state by its new name'),
    (_RELATIVE, _NORMALIZER, 'it needs the state as the robot measured it'),
    (_NORMALIZER, _PREPARE_STATE, 'it writes the normalised state into the text'),
    (_PREPARE_STATE, _TOKENIZER, 'the state would not be in the text'),
    (_NEWLINE, _TOKENIZER, 'the newline would not be in the text'),
    (_UNNORMALIZER, _ABSOLUTE, "it adds the state in the robot's units"),
)
"""(earlier, later, why the later one has to be later): another order gives other numbers."""
_FEATURE_TYPES = ('STATE', 'VISUAL', 'ENV', 'ACTION', 'REWARD', 'LANGUAGE')


def read_processing(directory: Path, config: Pi0Config, problems: Problems) -> Processing:
    """Return what a LeRobot checkpoint's processors ask for.

    Args:
        directory: the checkpoint.
        config: its config.json.
        problems: gains every file that cannot be read, every step and every setting that is not
            known, and every order of steps that changes the numbers.

    """
    result = Processing()
    before = len(problems.errors)
    with problems.collecting():
        raw = read_json(directory / 'config.json')
        result.config_relative = raw.get('use_relative_actions')
        result.norm_stats = raw.get('norm_stats')
    for name in (PREPROCESSOR, POSTPROCESSOR):
        # A link into a cache that was cleared is a file that got lost, not one that never was.
        if os.path.lexists(directory / name):
            with problems.collecting():
                _ProcessorFile(directory / name, config, result).read(problems)
    _collect_modes(result, config)
    result.complete = len(problems.errors) == before
    return result


def _collect_modes(result: Processing, config: Pi0Config) -> None:
    """Note every normalisation that has an effect.

    config.json counts where no processor says how to normalise.
    """
    written = NormalizerStep('config.json', config.normalization)
    inward = result.normalizer or written
    outward = result.unnormalizer or written
    skipped = {
        'STATE': inward.skips(STATE),
        'VISUAL': all(map(inward.skips, config.image_features)),
    }
    found = [
        *((inward.file, kind, mode) for kind, mode in inward.modes.items() if kind != 'ACTION'),
        *((inward.file, kind, mode) for kind, mode in inward.modes.items() if kind == 'ACTION'),
        *((outward.file, kind, mode) for kind, mode in outward.modes.items() if kind == 'ACTION'),
    ]
    for entry in found:
        if entry[2] != IDENTITY_MODE and not skipped.get(entry[1]) and entry not in result.modes:
            result.modes.append(entry)


class _ProcessorFile:
    """Reads one processor file into a ``Processing``."""

    def __init__(self, path: Path, config: Pi0Config, result: Processing) -> None:
        self._path = path
        self._config = config
        self._result = result
        self._seen: set[str] = set()
        self._effective: list[str] = []
        self._readers = {
            _RENAME: self._rename,
            'device_processor': self._device,
            _NEWLINE: self._newline,
            _TOKENIZER: self._tokenizer,
            _RELATIVE: self._relative,
            _RELATIVE_OLD: self._relative,
            _NORMALIZER: self._normalizer,
            _PREPARE_STATE: self._prepare_state,
            _UNNORMALIZER: self._normalizer,
            _ABSOLUTE: self._absolute,
        }

    def read(self, problems: Problems) -> None:
        """Add the steps of the file to the result, in order."""
        if self._path.name == PREPROCESSOR:
            self._result.preprocessor = True
        steps = read_json(self._path).get('steps')
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise self._malformed(f'steps is {steps!r:.120}', 'a list of objects')
        before = len(problems.errors)
        for step in steps:
            with problems.collecting():
                self._step(step)
        # Of steps that could not be read, nobody knows whether their order matters.
        if len(problems.errors) == before:
            with problems.collecting():
                self._check_order()
            with problems.collecting():
                self._check_state_in_text()

    def _step(self, step: Mapping[str, Any]) -> None:
        name, settings = step.get('registry_name'), step.get('config', {})
        # A step that was never registered goes by its class.
        self._result.steps.append(str(name if name is not None else step.get('class')))
        known = _STEPS.get(name) if isinstance(name, str) else None
        if not isinstance(name, str) or known is None:
            raise self._unknown(self._result.steps[-1])
        if known.family not in (None, self._config.family):
            raise CheckpointError(
                f'{self._path}: step {name!r} belongs to {known.family}, but config.json has type '
                f'{self._config.family}',
                expected=f'the steps of {self._config.family}',
                remedy='put the processor files of this checkpoint beside it, not those of another',
            )
        if known.file not in ('', self._path.name):
            raise CheckpointError(
                f'{self._path}: step {name!r} stands in the wrong file',
                expected=f'it in {known.file}',
                remedy='copy or download both processor files again; do not exchange them',
            )
        if not isinstance(settings, dict):
            raise self._malformed(f'config of step {name!r} is {settings!r}', 'an object')
        self._check_settings(name, settings, known)
        current_name = _RELATIVE if name == _RELATIVE_OLD else name
        if known.file and current_name in self._seen:
            raise CheckpointError(
                f'{self._path}: a second step {name!r}',
                expected='one',
                remedy='remove the one that training did not have',
            )
        self._seen.add(current_name)
        self._check_state_file(step)
        reader = self._readers.get(name)
        # A step that does nothing may stand anywhere.
        if reader is not None and reader(settings, step):
            self._effective.append(current_name)

    def _check_settings(self, name: str, settings: Mapping[str, Any], known: _Known) -> None:
        unknown = sorted(settings.keys() - set(known.settings))
        if unknown:
            raise CheckpointError(
                f'{self._path}: step {name!r} has settings that are not known here: '
                + ', '.join(f'{key} = {settings[key]!r}' for key in unknown),
                expected=f'only {", ".join(known.settings) or "an empty config"}',
                remedy='what they do to the numbers nobody knows: take them out of the file only '
                'if you know that they do nothing',
            )

    def _check_state_file(self, step: Mapping[str, Any]) -> None:
        """Refuse a file of statistics that is not there, whatever its name and number."""
        name = step.get('state_file')
        if name is None:
            return
        if not isinstance(name, str) or not name or set(name) & set('/\\') or name in ('.', '..'):
            raise self._malformed(f'state_file is {name!r}', 'the name of a file beside it')
        if len(name) > _LONGEST_NAME or not (self._path.parent / name).is_file():
            raise CheckpointError(
                f'{self._path} names the statistics {name}, which do not exist',
                expected=f'a file {self._path.parent / name}',
                remedy='copy or download the whole checkpoint; without it every number would be in '
                'other units',
            )

    def _newline(self, _: Mapping[str, Any], __: Mapping[str, Any]) -> bool:
        self._result.newline = True
        return True

    def _rename(self, settings: Mapping[str, Any], _: Mapping[str, Any]) -> bool:
        renames = settings.get('rename_map') or {}
        if not _is_text_map(renames):
            raise self._malformed(f'rename_map is {renames!r}', 'an object of texts')
        self._result.rename_map.update(renames)
        return bool(renames)

    def _device(self, settings: Mapping[str, Any], _: Mapping[str, Any]) -> bool:
        dtype = settings.get('float_dtype')
        if dtype not in (None, 'float32', 'float'):
            raise CheckpointError(
                f"{self._path}: step 'device_processor' has float_dtype {dtype!r}",
                expected='null or float32',
                remedy='numbers around the network are float32 here; where training had another '
                'precision only for speed, set it to null, and dtype in the policy file for the '
                'network itself',
            )
        return False

    def _tokenizer(self, settings: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
        self._check_task_key(_TOKENIZER, settings)
        # LeRobot's default.
        length = settings.get('max_length', 512)
        whole = isinstance(length, int) and not isinstance(length, bool)
        if not whole or not 2 <= length <= MAX_TOKENS:
            raise self._malformed(
                f'max_length is {length!r:.80}', f'a whole number from 2 to {MAX_TOKENS}'
            )
        name = settings.get('tokenizer_name')
        if name is not None and not isinstance(name, str):
            raise self._malformed(f'tokenizer_name is {name!r}', 'a text')
        self._result.max_length = length
        artifacts = step.get('artifacts') or {}
        if not isinstance(artifacts, dict):
            raise self._malformed(f'artifacts is {artifacts!r:.80}', 'an object')
        # The name of a tokenizer that was saved beside it says nothing about the hub.
        saved = 'tokenizer_name' in artifacts
        if name is not None and not saved and is_hub_id(name):
            self._result.tokenizer_name = name
        return True

    def _check_task_key(self, step: str, settings: Mapping[str, Any]) -> None:
        key = settings.get('task_key', 'task')
        if key != 'task':
            raise CheckpointError(
                f'{self._path}: step {step!r} has task_key {key!r}',
                expected="'task'",
                remedy='the model was trained on another text than the instruction, which is not '
                'served here',
            )

    def _prepare_state(self, settings: Mapping[str, Any], _: Mapping[str, Any]) -> bool:
        self._check_task_key(_PREPARE_STATE, settings)
        included = settings.get('include_state_in_prompt', True)
        if included is not True:
            raise CheckpointError(
                f'{self._path}: step {_PREPARE_STATE!r} has include_state_in_prompt {included!r}',
                expected='true',
                remedy='checkpoints with a memory (MEM) are not supported: serve it with LeRobot',
            )
        return True

    def _relative(self, settings: Mapping[str, Any], _: Mapping[str, Any]) -> bool:
        exclude = settings.get('exclude_joints') or []
        names = settings.get('action_names')
        if not _is_text_list(exclude):
            raise self._malformed(f'exclude_joints is {exclude!r}', 'a list of texts')
        if names is not None and not _is_text_list(names):
            raise self._malformed(f'action_names is {names!r}', 'a list of texts, or null')
        self._result.relative = RelativeStep(
            self._enabled(settings), tuple(exclude), None if names is None else tuple(names)
        )
        self._result.action_names = tuple(names or ())
        return self._result.relative.enabled

    def _absolute(self, settings: Mapping[str, Any], _: Mapping[str, Any]) -> bool:
        self._result.absolute = self._enabled(settings)
        return self._result.absolute

    def _enabled(self, settings: Mapping[str, Any]) -> bool:
        enabled = settings.get('enabled', False)
        if not isinstance(enabled, bool):
            raise self._malformed(f'enabled is {enabled!r}', 'true or false')
        return enabled

    def _normalizer(self, settings: Mapping[str, Any], step: Mapping[str, Any]) -> bool:
        # Without it nobody knows whether the numbers are to be changed.
        modes: Any = settings.get('norm_map')
        if not _is_text_map(modes):
            raise self._malformed(f'norm_map is {modes!r}', 'an object of texts')
        unknown = sorted(modes.keys() - set(_FEATURE_TYPES))
        if unknown:
            raise self._malformed(
                f'norm_map has the unknown feature type {unknown[0]!r}',
                f'only {", ".join(_FEATURE_TYPES)}',
            )
        eps = settings.get('eps', LEROBOT_EPS)
        real = isinstance(eps, (int, float)) and not isinstance(eps, bool)
        if not real or not 0 < eps <= float(np.finfo(np.float32).max):
            raise self._malformed(f'eps is {eps!r:.80}', 'a number above 0 (float32)')
        only = settings.get('normalize_observation_keys')
        if only is not None and not _is_text_list(only):
            raise self._malformed(
                f'normalize_observation_keys is {only!r}', 'a list of texts, or null'
            )
        normalizer = NormalizerStep(
            file=self._path.name,
            modes=modes,
            eps=float(eps),
            features=self._features(settings.get('features', {})),
            only=None if only is None else frozenset(only),
            state_file=step.get('state_file'),
        )
        if normalizer.state_file is not None:
            self._result.statistics.append(normalizer.state_file)
        if self._path.name == PREPROCESSOR:
            self._result.normalizer = normalizer
        else:
            self._result.unnormalizer = normalizer
        return True

    def _features(self, features: Any) -> dict[str, str]:
        if not isinstance(features, dict) or not all(
            isinstance(feature, dict) and isinstance(feature.get('type'), str)
            for feature in features.values()
        ):
            raise self._malformed(
                f'features is {features!r:.120}', 'an object of features with a type'
            )
        return {name: feature['type'] for name, feature in features.items()}

    def _check_order(self) -> None:
        for earlier, later, why in _ORDER:
            if {earlier, later} <= set(self._effective) and (
                self._effective.index(earlier) > self._effective.index(later)
            ):
                raise CheckpointError(
                    f'{self._path}: step {earlier!r} comes after {later!r}',
                    expected=f'{earlier!r} first: {why}',
                    remedy='no training of LeRobot writes this order; copy or download the '
                    'checkpoint again',
                )

    def _check_state_in_text(self) -> None:
        if (
            self._config.family == 'pi05'
            and self._path.name == PREPROCESSOR
            and _PREPARE_STATE not in self._effective
        ):
            raise CheckpointError(
                f'{self._path} has no step {_PREPARE_STATE!r}',
                expected='it: π0.5 reads the state as part of its text',
                remedy='put the processor files of this checkpoint beside it; without any, the '
                'state is written into the text as well',
            )

    def _unknown(self, name: str) -> CheckpointError:
        known = sorted(
            name for name, step in _STEPS.items() if step.family in (None, self._config.family)
        )
        return CheckpointError(
            f'{self._path}: unknown processor step {name!r}',
            expected=f'one of {", ".join(known)}',
            remedy='serving without it would change the numbers; remove the step from the file '
            'only if you know that it does nothing',
        )

    def _malformed(self, what: str, expected: str) -> CheckpointError:
        return CheckpointError(
            f'{self._path}: {what}',
            expected=expected,
            remedy='copy or download the checkpoint again',
        )


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(key, str) and isinstance(item, str) for key, item in value.items()
    )
