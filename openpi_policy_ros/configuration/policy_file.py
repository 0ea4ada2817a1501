# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The policy file: which registry entry serves, and the options a plugin validates itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpi_policy_ros.configuration import files
from openpi_policy_ros.errors import ConfigurationError


@dataclass(frozen=True)
class PolicyFile:
    """A read policy file.

    Attributes:
        policy: registry entry; the file's ``policy`` key, else its stem.
        options: all other keys, for the plugin to validate.
        source: path, for messages.

    """

    policy: str
    options: Mapping[str, Any]
    source: str


def load_policy_file(name: str) -> PolicyFile:
    """Return the policy file that ``name`` (a stem of ``config/`` or a path) means.

    Raises:
        ConfigurationError: no such file, not a mapping, or a robot file by mistake.

    """
    path = files.resolve(name, 'policy')
    values = dict(files.read_yaml(path))
    if files.ROS_HEADER[0] in values:
        raise ConfigurationError(str(path), ['is a robot file; pass it as robot, not as policy'])
    if 'stages' in values:
        raise ConfigurationError(
            str(path),
            [
                'is a whole deploy file (it has stages:), which is not read yet; paste the block '
                'under stages[0].model_config into a policy file'
            ],
        )
    policy = values.pop('policy', path.stem)
    if not isinstance(policy, str):
        raise ConfigurationError(str(path), [f'policy: expected a name, found {policy!r}'])
    return PolicyFile(policy=policy, options=values, source=str(path))
