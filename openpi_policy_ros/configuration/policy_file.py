# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The policy file: which registry entry serves, and the options a plugin validates itself.

A whole deploy file counts as one, see ``deploy_file``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openpi_policy_ros.configuration import files
from openpi_policy_ros.configuration.deploy_file import MARKS, read_deploy_file
from openpi_policy_ros.errors import ConfigurationError


@dataclass(frozen=True)
class PolicyFile:
    """A read policy file.

    Attributes:
        policy: registry entry; the file's ``policy`` key, else its stem.
        options: all other keys, for the plugin to validate.
        source: path, for messages.
        named_by: what in the file named the entry, for messages.
        is_deploy_file: options the plugin does not know are ignored, not refused.
        ignored: dotted names of keys that were left out of the options.
        stage_options: of a deploy file, see ``DeployFile``.

    """

    policy: str
    options: Mapping[str, Any]
    source: str
    named_by: str = 'policy'
    is_deploy_file: bool = False
    ignored: tuple[str, ...] = ()
    stage_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def load_policy_file(name: str) -> PolicyFile:
    """Return the policy file that ``name`` (a stem of ``config/`` or a path) means.

    Raises:
        ConfigurationError: no such file, not a mapping, a robot file by mistake, or a deploy file
            that is not one stage with one model.

    """
    path = files.resolve(name, 'policy')
    values = dict(files.read_yaml(path))
    if files.ROS_HEADER[0] in values:
        raise ConfigurationError(str(path), ['is a robot file; pass it as robot, not as policy'])
    if not values.keys().isdisjoint(MARKS):
        deploy = read_deploy_file(values, str(path))
        return PolicyFile(
            policy=deploy.policy,
            options=deploy.options,
            source=str(path),
            named_by=deploy.named_by,
            is_deploy_file=True,
            ignored=deploy.ignored,
            stage_options=deploy.stage_options,
        )
    named_by = 'policy' if 'policy' in values else 'name of the file'
    policy = values.pop('policy', path.stem)
    if not isinstance(policy, str):
        raise ConfigurationError(str(path), [f'policy: expected a name, found {policy!r}'])
    return PolicyFile(policy=policy, options=values, source=str(path), named_by=named_by)
