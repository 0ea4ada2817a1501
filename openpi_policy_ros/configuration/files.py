# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find and read the YAML files in ``config/`` and the user's own."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from openpi_policy_ros.errors import ConfigurationError

ROS_HEADER = ('/**', 'ros__parameters')


class _StrictLoader(yaml.SafeLoader):
    """Refuses what PyYAML would settle in silence: of two equal keys it keeps the last."""

    def strict_mapping(self, node: yaml.MappingNode) -> dict[Any, Any]:
        """Return the mapping in ``node``; nested ones at once, so that none can hold itself."""
        seen = []
        for key_node, _ in node.value:
            # Compared as written: a merge (<<) may repeat, and its keys be overridden.
            if key_node.value in seen and key_node.value != '<<':
                raise yaml.constructor.ConstructorError(
                    None, None, f'key {key_node.value!r} occurs twice', key_node.start_mark
                )
            seen.append(key_node.value)
        return self.construct_mapping(node, deep=True)


_StrictLoader.add_constructor('tag:yaml.org,2002:map', _StrictLoader.strict_mapping)


def config_directory() -> Path:
    """Return the folder of shipped configuration files, installed or in a source tree."""
    installed = Path(str(resources.files('openpi_policy_ros'))) / 'config'
    if installed.is_dir():
        return installed
    return Path(__file__).resolve().parents[2] / 'config'


def resolve(name: str, kind: str) -> Path:
    """Return the file that ``name`` means: a path, or the stem of a shipped file.

    Args:
        name: ``droid``, ``my_robot.yaml``, ``/etc/robots/fr3.yaml``, …
        kind: ``policy`` or ``robot``, for messages.

    Raises:
        ConfigurationError: no such file; names the shipped ones.

    """
    path = Path(name).expanduser()
    if path.suffix in ('.yaml', '.yml') or '/' in name:
        if path.is_file():
            return path
        where = '' if path.is_absolute() else f'; it was looked for in {Path.cwd()}'
        raise ConfigurationError(f'{kind} file', [f'{path} does not exist{where}'])
    directory = config_directory()
    shipped = sorted(p.stem for p in directory.glob('*.yaml') if _kind(p) == kind)
    if name in shipped:
        return directory / f'{name}.yaml'
    close = difflib.get_close_matches(name, shipped, n=1)
    hint = f', did you mean {close[0]!r}?' if close else ''
    raise ConfigurationError(
        f'{kind} file',
        [f'{name!r} is not shipped{hint} (shipped: {", ".join(shipped)}; or give a path)'],
    )


def read_yaml(path: Path) -> Mapping[str, Any]:
    """Return the mapping in a YAML file.

    Raises:
        ConfigurationError: unreadable, not YAML (with line and column), a key that occurs twice,
            or no mapping.

    """
    try:
        text = path.read_text(encoding='utf-8')
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(str(path), [f'cannot be read: {error}']) from None
    try:
        values = yaml.load(text, _StrictLoader)
    except yaml.YAMLError as error:
        raise ConfigurationError(str(path), [f'is not YAML: {error}']) from None
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise ConfigurationError(
            str(path), [f'holds a {type(values).__name__} at its top, expected a mapping']
        )
    return values


def _kind(path: Path) -> str:
    return 'robot' if ROS_HEADER[0] in read_yaml(path) else 'policy'
