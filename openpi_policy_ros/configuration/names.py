# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names in a robot file: those of topics, and those that a list gives to groups."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

_PART = '(?:[A-Za-z_]|{[a-z]+})(?:[A-Za-z0-9_]|{[a-z]+})*'
_TOPIC = re.compile(f'(?:~?/)?{_PART}(?:/{_PART})*')
"""A name as ROS takes it for a topic."""


def ros_name(topic: str) -> str:
    """Return a name that ROS takes for a topic or an action.

    Raises:
        ValueError: it would not; says what one looks like.

    """
    if not _TOPIC.fullmatch(topic):
        raise ValueError(
            f'{topic!r} is no topic name; expected letters, digits and _ between single '
            'slashes, no part beginning with a digit, e.g. wrist/image_raw'
        )
    return topic


def listed(name: str, known: Sequence[str] | None, where: str) -> str:
    """Return the name of a group that the list ``where`` holds; it may be a typo otherwise.

    Raises:
        ValueError: not listed; names the nearest one that is.

    """
    if known is not None and name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f', did you mean {close[0]!r}?' if close else ''
        raise ValueError(f'{name!r} is not listed in {where}{hint}')
    return name


def list_problems(names: Sequence[str], groups: Mapping[str, Any], where: str) -> list[str]:
    """Return what is wrong between the list ``where`` and the groups that it names."""
    problems = []
    if len(set(names)) != len(names):
        problems.append(f'{where} are not unique: {list(names)}')
    missing = [name for name in names if name not in groups]
    if missing:
        group = where.removesuffix('_names') + 's'
        problems.append(f'{where} without a group {group}.<name>: {missing}')
    return problems


def close_name(name: str, known: Sequence[str]) -> str:
    """Return a hint at what was meant by a name that is not known; begins with a comma or space."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f', did you mean {close[0]!r}?'
    return f' (known: {", ".join(known)})' if known else ''
