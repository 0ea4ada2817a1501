# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Validate a mapping into a typed section, with every problem in one message."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from openpi_policy_ros.errors import ConfigurationError


class Section(BaseModel):
    """Base of all configuration sections: frozen, strict types, no unknown keys, no NaN."""

    model_config = ConfigDict(
        extra='forbid', frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=()
    )


S = TypeVar('S', bound=Section)


def validate(section: type[S], values: Mapping[str, Any], source: str) -> S:
    """Return ``section`` built from ``values``.

    Raises:
        ConfigurationError: names ``source`` and every problem, with the path of the key, the
            value found and, for an unknown key, the nearest known one.

    """
    try:
        return section.model_validate(dict(values))
    except ValidationError as error:
        problems = [_describe(section, item) for item in error.errors(include_url=False)]
        raise ConfigurationError(source, problems) from None


def _describe(section: type[Section], error: Mapping[str, Any]) -> str:
    # pydantic marks a mapping's key that way; it is the last part already.
    path = tuple(part for part in error['loc'] if part != '[key]')
    dotted = '.'.join(str(part) for part in path)
    if error['type'] == 'extra_forbidden':
        known = _keys_at(section, path[:-1])
        close = difflib.get_close_matches(str(path[-1]), known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f'known here: {", ".join(known)}'
        return f'{dotted}: unknown key; {hint}'
    if error['type'] == 'missing':
        return f'{dotted}: required, but not set'
    message = str(error['msg'])
    prefix = 'Value error, '
    if message.startswith(prefix):
        text = message[len(prefix) :]
        return f'{dotted}: {text}' if dotted else text
    return f'{dotted}: {message} (found {error["input"]!r})'


def _keys_at(section: type[Section], path: tuple[Any, ...]) -> list[str]:
    """Return the keys known in the section that ``path`` leads to."""
    current: Any = section
    for part in path:
        if isinstance(current, type) and issubclass(current, Section):
            info = current.model_fields.get(str(part))
            current = _strip_optional(info.annotation) if info is not None else None
        elif typing.get_origin(current) is dict:
            current = _strip_optional(typing.get_args(current)[1])
    if isinstance(current, type) and issubclass(current, Section):
        return sorted(current.model_fields)
    return []


def _strip_optional(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        return inner[0] if len(inner) == 1 else annotation
    return annotation


def flatten(values: Mapping[str, Any], prefix: str = '') -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, leaf value) of a nested mapping, as ROS names parameters."""
    for key, value in values.items():
        dotted = f'{prefix}{key}'
        if isinstance(value, Mapping):
            yield from flatten(value, f'{dotted}.')
        else:
            yield dotted, value


def unflatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the nested mapping of dotted keys; the inverse of ``flatten``."""
    nested: dict[str, Any] = {}
    for dotted, value in values.items():
        *parents, leaf = dotted.split('.')
        level = nested
        for part in parents:
            level = level.setdefault(part, {})
            if not isinstance(level, dict):
                raise _value_and_group(dotted, part)
        if isinstance(level.get(leaf), dict):
            raise _value_and_group(dotted, leaf)
        level[leaf] = value
    return nested


def _value_and_group(dotted: str, part: str) -> ConfigurationError:
    return ConfigurationError('parameters', [f'{dotted}: {part!r} is a value and a group at once'])
