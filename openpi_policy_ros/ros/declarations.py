# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every parameter of the node with its type, range and description, read from the schema.

One source: what ``ros2 param describe`` shows is what the settings validate. No ROS in here.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import annotated_types
from pydantic.fields import FieldInfo

from openpi_policy_ros.configuration.schema import Section
from openpi_policy_ros.ros.settings import NodeConfig

DYNAMIC = (
    'seed',
    'default_prompt',
    'timing.inference_rate',
    'execution.blend_steps',
    'execution.ensemble_decay',
    'safety.velocity_scale',
)
"""Parameters that take effect at once: they size nothing, and nothing of the robot jumps."""

DYNAMIC_GROUPS = ('diagnostics.',)
"""Groups of which every parameter takes effect at once."""


class Kind(enum.Enum):
    """Type of a parameter; the names are those of ``rclpy.Parameter.Type``."""

    BOOL = 'true or false'
    INTEGER = 'integer'
    DOUBLE = 'number'
    STRING = 'text'
    BOOL_ARRAY = 'list of true or false'
    INTEGER_ARRAY = 'list of integers'
    DOUBLE_ARRAY = 'list of numbers'
    STRING_ARRAY = 'list of texts'
    ANY = 'any'


@dataclass(frozen=True)
class Declaration:
    """One parameter.

    Attributes:
        name: dotted.
        kind: its type.
        default: None = absent unless set, as ROS has neither null nor empty lists.
        description: one sentence or two.
        minimum, maximum: inclusive range, None = open on that side.
        constraints: what a range cannot say.

    """

    name: str
    kind: Kind
    default: Any
    description: str
    minimum: float | None = None
    maximum: float | None = None
    constraints: str = ''

    @property
    def dynamic(self) -> bool:
        """Return whether a change takes effect at once."""
        return is_dynamic(self.name)

    @property
    def takes_effect(self) -> str:
        """Return when a change counts, for the operator."""
        if self.dynamic:
            return 'takes effect at once'
        if self.name == 'autostart':
            return 'takes effect when the node starts'
        return 'takes effect when the node is configured'


def is_dynamic(name: str) -> bool:
    """Return whether a change of this parameter takes effect at once."""
    return name in DYNAMIC or name.startswith(DYNAMIC_GROUPS)


def declarations(
    camera_names: Sequence[str], output_names: Sequence[str] = ()
) -> dict[str, Declaration]:
    """Return every parameter of a node with these cameras and outputs, by dotted name."""
    groups = {'cameras': camera_names, 'outputs': output_names}
    return {one.name: one for one in _walk(NodeConfig, '', groups)}


def free_form(name: str) -> Declaration | None:
    """Return the declaration of a key inside a group of free keys, or None outside of one."""
    group, _, key = name.rpartition('.')
    current: Any = NodeConfig
    info: FieldInfo | None = None
    for part in group.split('.'):
        if not (isinstance(current, type) and issubclass(current, Section)):
            return None
        info = current.model_fields.get(part)
        if info is None:
            return None
        current = info.annotation
    if info is None or not key or typing.get_args(current)[1:] != (Any,):
        return None
    return Declaration(name, Kind.ANY, None, info.description or '')


def _walk(
    section: type[Section], prefix: str, groups: Mapping[str, Sequence[str]]
) -> Iterator[Declaration]:
    for key, info in section.model_fields.items():
        name = f'{prefix}{key}'
        annotation = _required(info.annotation)
        if isinstance(annotation, type) and issubclass(annotation, Section):
            yield from _walk(annotation, f'{name}.', groups)
        elif typing.get_origin(annotation) is dict:
            inner = typing.get_args(annotation)[1]
            if isinstance(inner, type) and issubclass(inner, Section):
                for member in groups[name]:
                    yield from _walk(inner, f'{name}.{member}.', groups)
        else:
            yield _declare(name, annotation, info)


def _declare(name: str, annotation: Any, info: FieldInfo) -> Declaration:
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    minimum = maximum = None
    constraints = []
    for one in info.metadata:
        if isinstance(one, annotated_types.Ge):
            minimum = typing.cast(float, one.ge)
        elif isinstance(one, annotated_types.Gt):
            minimum = typing.cast(float, one.gt)
            constraints.append(f'greater than {minimum}')
        elif isinstance(one, annotated_types.Le):
            maximum = typing.cast(float, one.le)
    if typing.get_origin(annotation) is typing.Literal:
        choices = typing.get_args(annotation)
        constraints.append('one of ' + ', '.join(map(str, choices)))
        if all(isinstance(choice, int) for choice in choices):
            minimum, maximum = min(choices), max(choices)
    return Declaration(
        name,
        _kind(annotation),
        None if default == [] else default,
        ' '.join((info.description or '').split()),
        minimum,
        maximum,
        '; '.join(constraints),
    )


def _required(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [one for one in typing.get_args(annotation) if one is not type(None)]
        return inner[0]
    return annotation


_KINDS: dict[Any, Kind] = {
    bool: Kind.BOOL,
    int: Kind.INTEGER,
    float: Kind.DOUBLE,
    str: Kind.STRING,
    list[bool]: Kind.BOOL_ARRAY,
    list[int]: Kind.INTEGER_ARRAY,
    list[float]: Kind.DOUBLE_ARRAY,
    list[str]: Kind.STRING_ARRAY,
}


def _kind(annotation: Any) -> Kind:
    if typing.get_origin(annotation) is typing.Literal:
        return _KINDS[type(typing.get_args(annotation)[0])]
    return _KINDS[annotation]
