# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Load a policy: choose the registry entry, hand it everything it needs."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from openpi_policy_ros.configuration.policy_file import PolicyFile, load_policy_file
from openpi_policy_ros.configuration.robot import Profile, RobotConfig
from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies import checkpoint_files, layouts, named_models, registry
from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.policies.checkpoint_view import tell_commit, view_model
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin

logger = logging.getLogger('openpi_policy_ros.policies')

NEEDED = 'a checkpoint directory or a hub id, e.g. /data/pi0_droid'
"""What a model is, for messages."""
REMOTE = 'remote'
"""Policy file for a model that is an address."""


def load_policy(
    model: str,
    *,
    policy: str | None = None,
    profile: Profile | None = None,
    device: str = 'cpu',
    revision: str | None = None,
    robot: RobotConfig | None = None,
) -> Policy:
    """Return the policy in ``model``, loaded but not yet warmed up.

    Args:
        model: directory, or, where no such directory exists, the name of a model that an installed
            package brings (``demo``), or a hub id; for ``remote`` the address of another server,
            ``ws://host:port/path`` or ``wss://…``; '' where ``policy`` needs none.
        policy: policy file (a stem of ``config/`` or a path), or a whole deploy file, of which
            keys nobody reads are named in the log; None = the registry entry is found
            by ``type`` (DreamZero: ``model_type``) in the checkpoint's config.json, or, where
            openpi wrote it, by its tensors, and everything is derived from it; an address is
            served by ``remote``.
        profile: conventions of the robot; None = the model's own names.
        device: torch device, ``cpu``, ``cuda`` or ``cuda:N``.
        revision: hub revision; ignored for a directory.
        robot: the whole robot file, for policies that are about the robot itself; None = unknown.

    Raises:
        CheckpointError: the checkpoint cannot be found, or served as it is.
        ConfigurationError: policy file, profile and checkpoint do not fit together.
        SeveralErrors: more than one of these.

    """
    # An OpenMP thread that spins while it waits starves the one it waits for as soon as the cores
    # are busy with anything else. Read when torch is first imported, so it is set before that.
    os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')
    try:
        plugin, request = choose_policy(
            model, policy=policy, profile=profile, device=device, revision=revision
        )
        if model in named_models.names() and not Path(model).is_dir():
            logger.info(
                'model %s: the checkpoint that came with an installed package, %s; what it was '
                'trained for is said in its README.md',
                model,
                named_models.find(model),
            )
        return plugin.load(replace(request, robot=robot))
    except OSError as error:
        # What a reader did not foresee: most often files that belong to another user.
        raise CheckpointError(
            f'{model}: {error}',
            expected='a directory whose files this user may read',
            remedy='check the path, and its owner and permissions (ls -l)',
        ) from error


def choose_policy(
    model: str,
    *,
    policy: str | None = None,
    profile: Profile | None = None,
    device: str = 'cpu',
    revision: str | None = None,
) -> tuple[PolicyPlugin, LoadRequest]:
    """Return who loads ``model`` and what is asked of it; see ``load_policy``.

    Raises:
        CheckpointError: the checkpoint cannot be found, or nobody serves its kind.
        ConfigurationError: the policy file is wrong.

    """
    if policy is None and '://' in model:
        policy = REMOTE
    if policy is not None:
        file = load_policy_file(policy)
        plugin = _find(file)
        if plugin.needs_model and not model:
            raise ConfigurationError(
                file.source, [f'policy {file.policy!r} needs a model: {NEEDED}']
            )
        if plugin.model_types and '://' in model:
            raise ConfigurationError(
                file.source,
                [
                    f'model {model!r} is an address, but policy {file.policy!r} loads checkpoints; '
                    f'use policy {REMOTE!r}, or give a directory or a hub id'
                ],
            )
        options = _known_options(file, plugin) if file.is_deploy_file else file.options
        return plugin, LoadRequest(model, device, options, file.source, profile, revision)
    view = view_model(model, revision)
    tell_commit(view, revision)
    located = view.located
    if layouts.known_layout(view) is layouts.OPENPI_PYTORCH:
        kind = layouts.openpi_type(view)
    else:
        kind = model_type(located.directory)
    found = registry.find_by_model_type(kind)
    if found is None:
        known = [t for name in registry.names() for t in registry.find(name).model_types]
        raise layouts.unserved(model, kind, known)
    _, plugin = found
    return plugin, LoadRequest(
        model, device, profile=profile, revision=located.revision or revision
    )


def needs_model(policy: str | None) -> bool:
    """Return whether a model must be named beside this policy file; None or '' = no file.

    Raises:
        ConfigurationError: the policy file is wrong.

    """
    return not policy or _find(load_policy_file(policy)).needs_model


def _find(file: PolicyFile) -> PolicyPlugin:
    try:
        return registry.find(file.policy)
    except ConfigurationError as error:
        problems = [f'{file.named_by}: {problem}' for problem in error.problems]
        raise ConfigurationError(file.source, problems) from None


def _known_options(file: PolicyFile, plugin: PolicyPlugin) -> Mapping[str, Any]:
    """Return the options of a deploy file that the plugin knows; name all other keys in the log."""
    known = file.options if plugin.option_names is None else plugin.option_names
    ignored = list(file.ignored)
    options = {**_stage_options(file, plugin, ignored), **file.options}
    for key in file.options:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f' (did you mean {close[0]!r}?)' if close else ''
            ignored.append(f'stages[0].model_config.{key}{hint}')
    if ignored:
        logger.warning('%s: deploy file; ignored: %s', file.source, ', '.join(ignored))
    return {key: value for key, value in options.items() if key in known}


def _stage_options(file: PolicyFile, plugin: PolicyPlugin, ignored: list[str]) -> Mapping[str, Any]:
    """Return what the plugin knows of a deploy file's stage beside its ``model_config``.

    Args:
        file: the deploy file.
        plugin: who serves it.
        ignored: gains the dotted names of all other keys.

    """
    options: dict[str, Any] = {}
    problems = []
    for group, values in file.stage_options.items():
        read = values.keys() & (plugin.option_names or ())
        if not read:
            ignored.append(f'stages[0].{group}')
            continue
        ignored += [f'stages[0].{group}.{key}' for key in values if key not in read]
        for key in sorted(read):
            if file.options.get(key, values[key]) != values[key]:
                problems.append(
                    f'{key} is {file.options[key]!r} in stages[0].model_config, but '
                    f'{values[key]!r} in stages[0].{group}; leave one of them'
                )
            options[key] = values[key]
    if problems:
        raise ConfigurationError(file.source, problems)
    return options


def model_type(directory: Path) -> str:
    """Return the kind of model in a checkpoint's config.json.

    LeRobot calls it ``type``, DreamZero ``model_type``.

    Raises:
        CheckpointError: no such file, not a JSON object, or neither key in it.

    """
    config = checkpoint_files.read_json(directory / 'config.json')
    value = config.get('type', config.get('model_type'))
    if not isinstance(value, str):
        raise CheckpointError(
            f'{directory / "config.json"}: type is {value!r}',
            expected="the kind of model as text, e.g. 'pi0'",
            remedy='pass a checkpoint of LeRobot, openpi or DreamZero, or name a policy file '
            '(policy:=…)',
        )
    return value
