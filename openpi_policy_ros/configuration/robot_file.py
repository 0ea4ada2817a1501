# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read a robot file as rclpy would: its ROS header, and only what ROS parameters can hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from openpi_policy_ros.configuration import files
from openpi_policy_ros.errors import ConfigurationError


def read_robot_parameters(path: Path) -> Mapping[str, Any]:
    """Return the nested parameters of a robot file, without its ROS header, not yet validated.

    Raises:
        ConfigurationError: no ``/**: ros__parameters:`` header, or a value ROS cannot hold.

    """
    values, problems = read_robot_values(path)
    if problems:
        raise ConfigurationError(str(path), list(problems.values()))
    return values


def read_robot_values(path: Path) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return the nested parameters, and by dotted key what is wrong with those ROS cannot hold.

    Raises:
        ConfigurationError: no ``/**: ros__parameters:`` header.

    """
    values: Any = files.read_yaml(path)
    for part in files.ROS_HEADER:
        if not isinstance(values, dict) or set(values) != {part}:
            raise ConfigurationError(
                str(path),
                ["a robot file starts with '/**:' and 'ros__parameters:' and holds nothing else"],
            )
        values = values[part]
    if values is not None and not isinstance(values, dict):
        raise ConfigurationError(
            str(path),
            [f'{files.ROS_HEADER[1]} holds {values!r:.80}, expected a mapping of parameters'],
        )
    return values or {}, _not_ros(values or {}, '')


def untold(problems: Iterable[str], told: Collection[str]) -> list[str]:
    """Return the problems without those of keys (dotted) of which something was told already."""
    starts = tuple(f'{key}{end}' for key in told for end in (':', '.'))
    return [problem for problem in problems if not problem.startswith(starts)]


def _not_ros(values: Mapping[str, Any], prefix: str) -> dict[str, str]:
    problems: dict[str, str] = {}
    for key, value in values.items():
        dotted = f'{prefix}{key}'
        if isinstance(value, dict):
            problems |= _not_ros(value, f'{dotted}.')
        elif isinstance(value, list):
            kinds = {type(item) for item in value}
            if len(kinds) != 1 or not kinds <= {bool, int, float, str}:
                problems[dotted] = (
                    f'{dotted}: ROS parameters hold non-empty flat lists of one type '
                    f'(write 1.0 beside 2.5; leave the key out for none), found {value!r}'
                )
        elif not isinstance(value, (bool, int, float, str)):
            problems[dotted] = f'{dotted}: ROS parameters hold scalars and lists, found {value!r}'
    return problems
