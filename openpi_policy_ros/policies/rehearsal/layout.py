# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a robot file says of the rehearsal: its spec, and where in the state each column is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.robot import STATE_FEATURES, RobotConfig
from openpi_policy_ros.errors import ConfigurationError, InvalidObservation
from openpi_policy_ros.policies.base import (
    ACTIONS,
    CameraSpec,
    FloatArray,
    Observation,
    PolicySpec,
    StateSpec,
)
from openpi_policy_ros.policies.handshake import HandshakeFacts, build_handshake, derive
from openpi_policy_ros.policies.rehearsal.motion import Row, alternating
from openpi_policy_ros.policies.rehearsal.options import RehearsalOptions

POSITION, VELOCITY = 'joint_position', 'joint_velocity'
"""Action spaces whose actions are numbers of the state, or their rates."""
GRIPPER = 'gripper'
RESOLUTION = (224, 224)
"""What clients are told to send; no image is looked at."""
DEFAULT_PROMPT = 'rehearsal'


@dataclass(frozen=True)
class Layout:
    """What the policy answers to.

    Attributes:
        spec: for the doors.
        step: seconds from one row to the next.
        amplitude: how far each column goes, in action units, float64 [D]; 0 = it stays.
        rate: columns that are rates of the state's numbers, bool [D].
        entries: number of the state that each column is, or is the rate of, int [D].
        state_size: numbers of the state.
        mapped: whether the state's keys are those of the robot file, which must all come; else any
            one of them does.

    """

    spec: PolicySpec
    step: float
    amplitude: Row
    rate: npt.NDArray[np.bool_]
    entries: npt.NDArray[np.intp]
    state_size: int
    mapped: bool


def make_layout(robot: RobotConfig, options: RehearsalOptions, source: str) -> Layout:
    """Return the layout for a robot.

    Raises:
        ConfigurationError: every reason why the robot's state does not say where its actions are.

    """
    profile = robot.profile
    names = _names(robot)
    order = robot.state_joints()
    size = len(order) or sum(profile.state_dims) or len(names)
    problems = _problems(robot, options, names)
    entries = [_entry(robot, column, order) for column in range(len(names))]
    problems += [
        f'column {column} ({name}) of the actions: neither joints.action_indices nor its place '
        f'says which of the {size} numbers of the state it is, so nobody knows where it is'
        for column, (name, entry) in enumerate(zip(names, entries, strict=True))
        if entry >= size
    ]
    if not order and profile.state_dims and size != len(names):
        problems.append(
            f'the state has {size} numbers (profile.state_dims) and the actions have {len(names)} '
            'columns, and no joint says which is which; write joints.names, keys and action_indices'
        )
    if problems:
        raise ConfigurationError(source, problems)
    still = _grippers(robot, names)
    wanted = (
        np.array(options.amplitude, np.float64)
        if isinstance(options.amplitude, list)
        else alternating(options.amplitude, still)
    )
    rate = ~still if profile.action_space == VELOCITY else np.zeros(len(names), np.bool_)
    scale = [
        _scale(robot, order[entry] if order else '', velocity=bool(rate[column]))
        for column, entry in enumerate(entries)
    ]
    assert robot.timing.action_rate is not None
    return Layout(
        _spec(robot, options, names, source),
        1.0 / robot.timing.action_rate,
        wanted * np.array(scale, np.float64),
        rate,
        np.array(entries, np.intp),
        size,
        mapped=bool(profile.state_keys() or robot.joints.keys),
    )


def read_state(observation: Observation, layout: Layout) -> FloatArray:
    """Return the state, float32 [S].

    Raises:
        InvalidObservation: a key is missing, or what is under them are no finite numbers, or not as
            many as the robot has.

    """
    keys = layout.spec.state.wire_keys
    found = [(key, _find(observation, key)) for key in keys]
    there = [(key, value) for key, value in found if value is not None]
    missing = [key for key, value in found if value is None]
    if not there or (layout.mapped and missing):
        raise InvalidObservation(
            missing[0],
            'is missing',
            expected=f'{(" and " if layout.mapped else " or ").join(keys)}',
            remedy='the rehearsal moves a robot around where its state says it is',
        )
    parts = []
    for key, value in there:
        part = np.asarray(value)
        if part.dtype.kind not in 'fiu' or part.ndim != 1 or not np.isfinite(part).all():
            raise InvalidObservation(
                key,
                f'is of type {part.dtype} and shape {list(part.shape)}, or not finite',
                expected='finite numbers in one row',
            )
        parts.append(part.astype(np.float32))
    state: FloatArray = np.concatenate(parts)
    if len(state) != layout.state_size:
        raise InvalidObservation(
            ' and '.join(key for key, _ in there),
            f'hold {len(state)} numbers',
            expected=f'{layout.state_size}, as the robot file says',
        )
    return state


def _names(robot: RobotConfig) -> tuple[str, ...]:
    profile = robot.profile
    if profile.action_names:
        return tuple(profile.action_names)
    count = profile.crop_columns or sum(profile.state_dims) or len(robot.state_joints())
    return tuple(f'action_{number}' for number in range(count))


def _entry(robot: RobotConfig, column: int, order: list[str]) -> int:
    """Return the number of the state that a column is: that of its joint, else its own."""
    for name, index in zip(robot.joints.names, robot.joints.action_indices, strict=False):
        if index == column and name in order:
            return order.index(name)
    return column


def _problems(robot: RobotConfig, options: RehearsalOptions, names: tuple[str, ...]) -> list[str]:
    problems = []
    profile, count = robot.profile, len(names)
    if profile.action_space not in (POSITION, VELOCITY):
        said = repr(profile.action_space) if profile.action_space else 'not declared'
        problems.append(
            f'profile.action_space is {said}, expected {POSITION} or {VELOCITY}: the rehearsal '
            'moves joints around where the state has them; name a robot file that says so (robot)'
        )
    if not count:
        problems.append(
            'nobody knows how many columns the actions have; write profile.action_names, or '
            'joints.names and keys, into the robot file'
        )
    if robot.timing.action_rate is None:
        problems.append(
            'nobody says how many actions a second there are; write timing.action_rate into the '
            'robot file'
        )
    if isinstance(options.amplitude, list) and count and len(options.amplitude) != count:
        problems.append(
            f'amplitude has {len(options.amplitude)} numbers for {count} columns; expected one '
            'number for all of them, or one for each'
        )
    if profile.crop_rows is not None and profile.crop_rows > options.horizon:
        problems.append(
            f'profile.crop_rows is {profile.crop_rows}, but horizon is {options.horizon}; expected '
            'at least as many rows'
        )
    return problems


def _grippers(robot: RobotConfig, names: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Return the columns of grippers: those of such outputs, and those that are called so."""
    columns = {
        column
        for output in robot.outputs.values()
        if output.is_gripper
        for column in output.action_indices
    }
    return np.array(
        [number in columns or GRIPPER in name.lower() for number, name in enumerate(names)],
        np.bool_,
    )


def _scale(robot: RobotConfig, joint: str, *, velocity: bool) -> float:
    """Return action units per rad or m, or per rad/s or m/s."""
    joints = robot.joints
    scales = (joints.velocity_scale or joints.scale) if velocity else joints.scale
    return dict(zip(joints.names, scales, strict=False)).get(joint, 1.0)


def _spec(
    robot: RobotConfig, options: RehearsalOptions, names: tuple[str, ...], source: str
) -> PolicySpec:
    profile = robot.profile
    cameras: dict[str, list[str]] = {}
    for key, feature in profile.pairs():
        if feature not in STATE_FEATURES:
            cameras.setdefault(feature, []).append(key)
    known = {key for keys in cameras.values() for key in keys}
    # No image is looked at, so those of the robot fit, whatever a model would call them.
    own = {camera.key: [camera.key] for camera in robot.cameras.values()}
    cameras.update({key: keys for key, keys in own.items() if key not in known})
    horizon = profile.crop_rows or options.horizon
    facts = HandshakeFacts(
        image_resolution=RESOLUTION,
        cameras=tuple(cameras),
        camera_slots=len(cameras),
        horizon=horizon,
        action_dim=len(names),
        supports_rtc=True,
    )
    declared: dict[str, Any] = {
        **derive(facts, profile.action_space),
        **options.policy_server_config,
    }
    own_keys = tuple(dict.fromkeys(key for key in robot.joints.keys if key))
    return PolicySpec(
        name='rehearsal',
        model='',
        cameras=tuple(
            CameraSpec(feature, tuple(keys), required=False) for feature, keys in cameras.items()
        ),
        state=StateSpec(
            tuple(profile.state_keys()) or own_keys or STATE_FEATURES, max_dim=len(names)
        ),
        horizon=horizon,
        action_dim=len(names),
        action_space=profile.action_space,
        action_names=names,
        output_shapes={ACTIONS: (horizon, len(names))},
        handshake=build_handshake(declared, facts, profile, source=source),
        default_prompt=DEFAULT_PROMPT,
        stateful=True,
        supports_rtc=True,
    )


def _find(observation: Observation, key: str) -> Any:
    """Return what is under a key: flat, or as ``a`` → ``b`` where the key is ``a/b``."""
    if key in observation:
        return observation[key]
    outer, _, inner = key.partition('/')
    group = observation.get(outer)
    return group.get(inner) if inner and isinstance(group, Mapping) else None
