# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read a whole vLLM-Omni deploy file as a policy file.

Such a file describes a pipeline of stages for another server. One stage with one model is what is
served here: which model, its ``model_config`` and its number type are taken over, and of its
parallelism and caches what the policy knows. What else the file holds (devices, schedulers) has no
meaning here and is named, so that nobody believes that it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpi_policy_ros.errors import ConfigurationError

MARKS = frozenset(('stages', 'pipeline'))
"""Keys that only a deploy file has at its top."""

CLASS_SUFFIX = 'Pipeline'
CHECKPOINT_DECIDES = 'auto'

_READ_AT_TOP = frozenset(('pipeline', 'dtype', 'stages'))
_READ_IN_STAGE = frozenset(('stage_id', 'model_class_name', 'model_config', 'dtype'))
_GROUPS, _BARE = ('parallel_config', 'cache_config'), 'cache_backend'


@dataclass(frozen=True)
class DeployFile:
    """What is taken over from a deploy file.

    Attributes:
        policy: registry entry.
        named_by: dotted key that named it, for messages.
        options: the stage's ``model_config``, and ``dtype`` where the file sets one.
        ignored: dotted names of the keys outside ``model_config`` that are not taken over.
        stage_options: of the stage, what a policy may know: ``parallel_config`` and
            ``cache_config`` → their keys, ``cache_backend`` → itself alone; in the file's order.

    """

    policy: str
    named_by: str
    options: Mapping[str, Any]
    ignored: tuple[str, ...]
    stage_options: Mapping[str, Mapping[str, Any]]


def read_deploy_file(values: Mapping[str, Any], source: str) -> DeployFile:
    """Return what a deploy file says of the one model it serves.

    Args:
        values: the file's mapping.
        source: path, for messages.

    Raises:
        ConfigurationError: not exactly one stage, no model named or two different ones, two
            different number types, or a value of the wrong kind; all problems at once.

    """
    problems: list[str] = []
    stage = _only_stage(values, problems)
    policy, named_by = _policy(values, stage, problems)
    options = _options(values, stage, problems)
    stage_options = _stage_options(stage, problems)
    if problems:
        raise ConfigurationError(source, problems)
    ignored = [str(key) for key in values if key not in _READ_AT_TOP]
    left = _READ_IN_STAGE | stage_options.keys()
    ignored += [f'stages[0].{key}' for key in stage if key not in left]
    return DeployFile(policy, named_by, options, tuple(ignored), stage_options)


def _only_stage(values: Mapping[str, Any], problems: list[str]) -> Mapping[str, Any]:
    if 'stages' not in values:
        problems.append(
            'stages: missing, but pipeline marks a deploy file; add the stage, or write policy '
            'instead of pipeline'
        )
        return {}
    stages = values['stages']
    if not isinstance(stages, list) or not all(isinstance(one, Mapping) for one in stages):
        problems.append(f'stages: expected a list of one stage, found {stages!r}')
        return {}
    if len(stages) != 1:
        names = ', '.join(str(one.get('model_class_name', 'unnamed')) for one in stages)
        problems.append(
            f'stages: has {len(stages)} stages ({names or "none"}), but one model is served here; '
            "leave the robot policy's stage alone in it"
        )
        return {}
    only: Mapping[str, Any] = stages[0]
    return only


def _policy(
    values: Mapping[str, Any], stage: Mapping[str, Any], problems: list[str]
) -> tuple[str, str]:
    """Return (registry entry, key that named it)."""
    pipeline = _text(values, 'pipeline', '', problems)
    class_name = _text(stage, 'model_class_name', 'stages[0].', problems)
    if pipeline and class_name and _of_class(class_name) != pipeline.lower().replace('_', ''):
        problems.append(
            f'pipeline is {pipeline!r}, but stages[0].model_class_name is {class_name!r}; both '
            'must name the same model'
        )
    if pipeline:
        return pipeline, 'pipeline'
    if class_name:
        return _of_class(class_name), 'stages[0].model_class_name'
    if not problems:
        problems.append(
            'neither pipeline nor stages[0].model_class_name says which model this is; write '
            'e.g. pipeline: pi0'
        )
    return '', ''


def _of_class(class_name: str) -> str:
    return class_name.removesuffix(CLASS_SUFFIX).lower()


def _options(
    values: Mapping[str, Any], stage: Mapping[str, Any], problems: list[str]
) -> dict[str, Any]:
    config = stage.get('model_config')
    if config is None:
        config = {}
    if not isinstance(config, Mapping):
        problems.append(f'stages[0].model_config: expected a mapping, found {config!r}')
        config = {}
    said = {}
    for prefix, level in (
        ('', values),
        ('stages[0].', stage),
        ('stages[0].model_config.', config),
    ):
        dtype = _text(level, 'dtype', prefix, problems)
        if dtype is not None and dtype != CHECKPOINT_DECIDES:
            said[f'{prefix}dtype'] = dtype
    if len(set(said.values())) > 1:
        contradiction = ', but '.join(f'{key} is {dtype!r}' for key, dtype in said.items())
        problems.append(f'{contradiction}; leave one of them')
    options = {str(key): value for key, value in config.items() if key != 'dtype'}
    if said:
        options['dtype'] = next(iter(said.values()))
    return options


def _stage_options(stage: Mapping[str, Any], problems: list[str]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for name, value in stage.items():
        if name == _BARE:
            found[name] = {} if value is None else {name: value}
        elif name in _GROUPS:
            if not isinstance(value, Mapping | None):
                problems.append(f'stages[0].{name}: expected a mapping, found {value!r}')
                continue
            found[name] = {str(key): one for key, one in (value or {}).items()}
    return found


def _text(level: Mapping[str, Any], key: str, prefix: str, problems: list[str]) -> str | None:
    value = level.get(key)
    if value is None:
        return None
    if isinstance(value, str) and value:
        return value
    problems.append(f'{prefix}{key}: expected a name, found {value!r}')
    return None
