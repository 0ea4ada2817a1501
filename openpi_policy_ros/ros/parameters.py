# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Declare the node's parameters in ROS and read them back into typed settings.

rclpy refuses one wrong parameter at a time, with a traceback, when it is declared. So a value that
does not fit is declared as it is, and refused with all the others when the node is configured.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import ParameterException
from rclpy.node import Node
from rclpy.parameter import Parameter

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.ros.declarations import (
    Declaration,
    Kind,
    declarations,
    free_form,
    is_dynamic,
)
from openpi_policy_ros.ros.settings import (
    NodeConfig,
    changed_settings,
    effective_parameters,
    validate_parameters,
)

FOREIGN = ('use_sim_time', 'start_type_description_service')
"""Parameters that rclpy declares for itself."""

_log = logging.getLogger('openpi_policy_ros.ros.parameters')

_INTEGER_LIMIT = 2**63 - 1


class ParameterBook:
    """The parameters of a node that has declared none of its own yet.

    Args:
        node: theirs.
        apply: called after dynamic parameters were set while frozen, with the settings that hold
            now and the names of those that were set.

    """

    def __init__(self, node: Node, apply: Callable[[NodeConfig, frozenset[str]], None]) -> None:
        self._node = node
        self._apply = apply
        # What holds from ``freeze`` to ``thaw``.
        self._config: NodeConfig | None = None
        self._effective: dict[str, Any] = {}
        self._declaring = False
        # Nothing may be set while settings are put together.
        self._lock = threading.RLock()
        # rclpy tells overrides that nobody declares, and empty ones, nowhere else.
        overrides = {
            name: _plain(parameter.value)
            for name, parameter in node._parameter_overrides.items()
            if name not in FOREIGN
        }
        known = _known(overrides)
        self._explicit: dict[str, Any] = {
            name: None if _is_null(value, known.get(name)) else value
            for name, value in overrides.items()
        }
        self._declared: dict[str, Any] = {}
        node.add_on_set_parameters_callback(self._on_set)
        # Humble has none; there ours is the last of those that may still refuse.
        self._told_after = getattr(node, 'add_post_set_parameters_callback', None) is not None
        if self._told_after:
            node.add_post_set_parameters_callback(self._after_set)
        self._declare()

    @property
    def autostart(self) -> bool:
        """Return whether to configure and activate at start; a wrong value is refused there."""
        return self._explicit.get('autostart', True) is not False

    def freeze(self) -> NodeConfig:
        """Return the settings and refuse changes from here on, but of dynamic parameters.

        Raises:
            ConfigurationError: every problem, in one message; parameters then stay open.

        """
        with self._lock:
            self._note_changes()
            config = validate_parameters(self._explicit)
            self._declare()
            self._config = config
            return config

    def thaw(self) -> None:
        """Accept changes again; they take effect with the next ``freeze``."""
        self._config = None

    @property
    def config(self) -> NodeConfig | None:
        """Return the settings as they hold now; None while open to changes."""
        return self._config

    def seed(self) -> int | None:
        """Return the current seed, None = none."""
        config = self._config
        return None if config is None or config.seed < 0 else config.seed

    def _note_changes(self) -> None:
        """Take what was set since the last declaration for the user's own wish."""
        for name, value in self._values().items():
            if name not in self._declared or self._declared[name] != value:
                self._explicit[name] = self._declared[name] = value

    def _values(self) -> dict[str, Any]:
        return {
            name: _plain(parameter.value)
            for name, parameter in self._node.get_parameters_by_prefix('').items()
            if name not in FOREIGN and parameter.type_ != Parameter.Type.NOT_SET
        }

    def _declare(self) -> None:
        """Declare every known parameter with its effective value, anew where it changed."""
        try:
            wanted = effective_parameters(self._explicit)
        except ConfigurationError:
            # Told when the node is configured; what the user set is declared meanwhile.
            wanted = dict(self._explicit)
        self._effective = wanted
        known = _known(wanted)
        self._declaring = True
        try:
            for name, one in known.items():
                self._declare_one(one, wanted.get(name, one.default))
            for name in wanted.keys() - known.keys():
                free = free_form(name)
                if free is not None:
                    self._declare_one(free, wanted[name])
            for name in self._declared.keys() - known.keys() - wanted.keys():
                # Of a robot file that is not the one any more.
                del self._declared[name]
                if self._node.has_parameter(name):
                    self._node.undeclare_parameter(name)
        finally:
            self._declaring = False

    def _declare_one(self, one: Declaration, value: Any) -> None:
        if self._node.has_parameter(one.name):
            if one.name in self._declared and self._declared[one.name] == value:
                return
            self._node.undeclare_parameter(one.name)
        value = _fit(one.kind, value)
        static = _matches(one.kind, value)
        try:
            self._node.declare_parameter(one.name, value, _descriptor(one, static), True)
        except ParameterException:
            # Out of range: shown as it is, refused with the others at configure.
            loose = Declaration(one.name, Kind.ANY, None, one.description)
            self._node.declare_parameter(one.name, value, _descriptor(loose, False), True)
        self._declared[one.name] = value

    def _on_set(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        with self._lock:
            return self._judge(parameters)

    def _judge(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        if self._declaring or self._config is None:
            # Told when the node is configured, with all others.
            return SetParametersResult(successful=True)
        late = [p.name for p in parameters if p.name not in FOREIGN and not is_dynamic(p.name)]
        if late:
            return SetParametersResult(
                successful=False,
                reason=f'{", ".join(late)}: takes effect when the node is configured; run '
                'deactivate and cleanup first, or restart the node with it',
            )
        try:
            changed_settings(self._effective, _own(parameters))
        except ConfigurationError as error:
            return SetParametersResult(successful=False, reason='; '.join(error.problems))
        if not self._told_after:
            self._after_set(parameters)
        return SetParametersResult(successful=True)

    def _after_set(self, parameters: list[Parameter[Any]]) -> None:
        changes = _own(parameters)
        if self._declaring or self._config is None or not changes:
            return
        with self._lock:
            config = changed_settings(self._effective, changes)
            self._effective = {**self._effective, **changes}
            self._config = config
            for name, value in changes.items():
                _log.info('%s is %r from now on', name, value)
            # Inside, so that what was set last is also used last.
            self._apply(config, frozenset(changes))


def _descriptor(one: Declaration, static: bool) -> ParameterDescriptor:
    constraints = [] if static else [f'{one.kind.value}; absent = none']
    descriptor = ParameterDescriptor(
        description=one.description,
        additional_constraints='; '.join(
            [*constraints, *filter(None, [one.constraints]), one.takes_effect]
        ),
        dynamic_typing=not static,
    )
    if one.minimum is None and one.maximum is None:
        return descriptor
    if one.kind is Kind.INTEGER:
        low = -_INTEGER_LIMIT if one.minimum is None else int(one.minimum)
        high = _INTEGER_LIMIT if one.maximum is None else int(one.maximum)
        descriptor.integer_range = [IntegerRange(from_value=low, to_value=high, step=0)]
    elif one.kind is Kind.DOUBLE:
        low_end = -sys.float_info.max if one.minimum is None else float(one.minimum)
        high_end = sys.float_info.max if one.maximum is None else float(one.maximum)
        descriptor.floating_point_range = [
            FloatingPointRange(from_value=low_end, to_value=high_end, step=0.0)
        ]
    return descriptor


def _fit(kind: Kind, value: Any) -> Any:
    """Return whole numbers as floats where floats are meant: ``12`` for ``12.0`` is fine."""
    if kind is Kind.DOUBLE and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is Kind.DOUBLE_ARRAY and isinstance(value, list) and all(type(v) is int for v in value):
        return [float(v) for v in value]
    return value


def _matches(kind: Kind, value: Any) -> bool:
    if kind is Kind.ANY or value is None:
        return False
    return Parameter.Type.from_parameter_value(value) == Parameter.Type[kind.name]


def _own(parameters: list[Parameter[Any]]) -> dict[str, Any]:
    """Return what was set, but for what belongs to rclpy."""
    return {p.name: _plain(p.value) for p in parameters if p.name not in FOREIGN}


def _plain(value: Any) -> Any:
    """Return arrays of any kind as lists."""
    return value if isinstance(value, (bool, int, float, str)) or value is None else list(value)


def _is_null(value: Any, one: Declaration | None) -> bool:
    """Return whether a value stands for none: `ros2 param dump` writes it, rcl reads a text."""
    return value == 'null' and one is not None and one.kind is not Kind.STRING


def _known(values: Mapping[str, Any]) -> dict[str, Declaration]:
    """Return every parameter of a node that these values tell of, by dotted name."""
    return declarations(
        _members(values, 'camera_names', 'cameras'), _members(values, 'output_names', 'outputs')
    )


def _members(values: Mapping[str, Any], listing: str, group: str) -> list[str]:
    """Return the cameras or outputs named, or described, as far as they can be told."""
    named = values.get(listing)
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    for name in values:
        parts = name.split('.')
        if parts[0] == group and len(parts) > 2 and parts[1] not in names:
            names.append(parts[1])
    return names
