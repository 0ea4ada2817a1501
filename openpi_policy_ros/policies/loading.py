# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Load a policy: choose the registry entry, hand it everything it needs."""

from __future__ import annotations

import os
from pathlib import Path

from openpi_policy_ros.configuration.policy_file import load_policy_file
from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import checkpoint_files, registry
from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.policies.registry import LoadRequest


def load_policy(
    model: str,
    *,
    policy: str | None = None,
    profile: Profile | None = None,
    device: str = 'cpu',
    revision: str | None = None,
) -> Policy:
    """Return the policy in ``model``, loaded but not yet warmed up.

    Args:
        model: directory, or hub id where no such directory exists.
        policy: policy file (a stem of ``config/`` or a path); None = the registry entry is found
            by ``type`` in the checkpoint's config.json, and everything is derived from it.
        profile: conventions of the robot; None = the model's own names.
        device: torch device, ``cpu``, ``cuda`` or ``cuda:N``.
        revision: hub revision; ignored for a directory.

    Raises:
        CheckpointError: the checkpoint cannot be found, or served as it is.
        ConfigurationError: policy file, profile and checkpoint do not fit together.

    """
    # An OpenMP thread that spins while it waits starves the one it waits for as soon as the cores
    # are busy with anything else. Read when torch is first imported, so it is set before that.
    os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')
    try:
        return _load(model, policy, profile, device, revision)
    except OSError as error:
        # What a reader did not foresee: most often files that belong to another user.
        raise CheckpointError(
            f'{model}: {error}',
            expected='a directory whose files this user may read',
            remedy='check the path, and its owner and permissions (ls -l)',
        ) from error


def _load(
    model: str, policy: str | None, profile: Profile | None, device: str, revision: str | None
) -> Policy:
    if policy is not None:
        file = load_policy_file(policy)
        plugin = registry.find(file.policy)
        return plugin.load(LoadRequest(model, device, file.options, file.source, profile, revision))
    located = checkpoint_files.locate(model, revision, ['config.json'])
    found = registry.find_by_model_type(model_type(located.directory))
    if found is None:
        known = sorted(t for name in registry.names() for t in registry.find(name).model_types)
        raise CheckpointError(
            f'{model}: config.json has type {model_type(located.directory)!r}, which no registered '
            'policy serves',
            expected=f'one of {", ".join(known)}',
            remedy='name a policy file (policy:=…), or install the package that adds this policy',
        )
    _, plugin = found
    return plugin.load(
        LoadRequest(model, device, profile=profile, revision=located.revision or revision)
    )


def model_type(directory: Path) -> str:
    """Return ``type`` from a checkpoint's config.json.

    Raises:
        CheckpointError: no such file, not a JSON object, or no such key in it.

    """
    value = checkpoint_files.read_json(directory / 'config.json').get('type')
    if not isinstance(value, str):
        raise CheckpointError(
            f'{directory / "config.json"}: type is {value!r}',
            expected="the kind of model as text, e.g. 'pi0'",
            remedy='pass a checkpoint in the LeRobot layout, or name a policy file (policy:=…)',
        )
    return value
