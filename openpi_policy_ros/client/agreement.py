# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Does what a server declares fit the robot? Settled when the policy is loaded, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.base import CameraSpec
from openpi_policy_ros.policies.feature_map import STATE, STATE_ALIAS
from openpi_policy_ros.policies.handshake import RTC, HandshakeFacts, build_handshake

ANY_NUMBER = 64
"""Camera slots of a server that does not say how many it has."""


@dataclass(frozen=True)
class Agreement:
    """What both sides hold to.

    Attributes:
        declared: the server's handshake, completed by the policy file.
        rows: rows of the server's replies, None = it does not say.
        columns: columns of them, None = it does not say.
        horizon: rows of a chunk after the profile's crop.
        action_dim: columns of a chunk after the profile's crop.
        action_space: '' where neither side declares it.
        action_names: one per column.
        cameras: the robot's, in the order of its key map.
        state_keys: the robot's, in the order of its key map.
        handshake: for our own clients.

    """

    declared: Mapping[str, Any]
    rows: int | None
    columns: int | None
    horizon: int
    action_dim: int
    action_space: str
    action_names: tuple[str, ...]
    cameras: tuple[CameraSpec, ...]
    state_keys: tuple[str, ...]
    handshake: Mapping[str, Any] | None


def agree(
    handshake: Mapping[str, Any],
    *,
    supplement: Mapping[str, Any],
    profile: Profile | None,
    optional_cameras: tuple[str, ...] = (),
    url: str,
    source: str,
) -> Agreement:
    """Return what holds between a server and a robot.

    Args:
        handshake: as the server sent it.
        supplement: ``policy_server_config`` of the policy file.
        profile: the robot's; None = whatever the server does.
        optional_cameras: features that may be missing; a list in the profile replaces it.
        url: the server's, for messages.
        source: the policy file, for messages.

    Raises:
        ConfigurationError: every contradiction, with both values, and every size nobody declares.

    """
    problems = [
        f'{source}: policy_server_config.{key} is {value!r}, but {url} declares '
        f'{handshake[key]!r}; remove the line, or connect to the server it was written for'
        for key, value in supplement.items()
        if key in handshake and handshake[key] != value
    ]
    declared = {**supplement, **handshake}
    robot = profile or Profile()
    rows, horizon = _size(declared, 'action_horizon', robot.crop_rows, 'rows', problems)
    # Names count the columns only where nobody else does: they do not crop.
    named = len(robot.action_names) if declared.get('action_dim') is None else 0
    crop = robot.crop_columns or named or None
    columns, action_dim = _size(declared, 'action_dim', crop, 'columns', problems)
    if named and not robot.crop_columns:
        columns = named
    if robot.action_names and action_dim not in (None, len(robot.action_names)):
        problems.append(
            f'profile.action_names has {len(robot.action_names)} entries, but a reply has '
            f'{action_dim} columns; set profile.crop_columns, or name every column'
        )
    cameras = _cameras(robot, optional_cameras)
    problems += _camera_problems(declared, cameras)
    theirs = declared.get('action_space', '')
    if robot.action_space and theirs and theirs != robot.action_space:
        problems.append(
            f'action_space is {theirs!r} at the server, but {robot.action_space!r} in the robot '
            'file (profile.action_space); the same numbers would mean another motion'
        )
    if problems:
        raise ConfigurationError(f'{url} and this robot', problems)
    assert horizon is not None
    assert action_dim is not None
    # The rest of a chunk is not passed on, so our clients are not invited to send it.
    cropped = {key: value for key, value in declared.items() if key != RTC}
    for key, size in (('action_horizon', horizon), ('action_dim', action_dim)):
        if key in cropped:
            cropped[key] = size
    resolution = {**cropped, **robot.policy_server_config}.get('image_resolution')
    facts = HandshakeFacts(
        # Images are passed on as they come: whatever is declared is right.
        image_resolution=tuple(resolution) if isinstance(resolution, list) else (0, 0),
        cameras=tuple(camera.feature for camera in cameras),
        camera_slots=_slots(declared),
        horizon=horizon,
        action_dim=action_dim,
    )
    return Agreement(
        declared=declared,
        rows=rows,
        columns=columns,
        horizon=horizon,
        action_dim=action_dim,
        action_space=robot.action_space or str(theirs),
        action_names=tuple(robot.action_names)
        or tuple(f'action_{index}' for index in range(action_dim)),
        cameras=cameras,
        state_keys=tuple(wire for wire, feature in robot.pairs() if _is_state(feature)),
        handshake=build_handshake(cropped, facts, robot, source=f'{url} and this robot'),
    )


def _size(
    declared: Mapping[str, Any], key: str, crop: int | None, what: str, problems: list[str]
) -> tuple[int | None, int | None]:
    """Return (what the server sends, what is left of it after the crop); None = unknown."""
    theirs = declared.get(key)
    if theirs is None:
        if crop is None:
            problems.append(
                f'nobody says how many {what} a reply has: the server declares no {key}; write '
                f'policy_server_config: {{{key}: N}} into the policy file, or profile.crop_{what} '
                'into the robot file'
            )
        return None, crop
    if not isinstance(theirs, int) or isinstance(theirs, bool) or theirs < 1:
        problems.append(f'{key} is {theirs!r} at the server, expected a positive number')
        return None, crop
    if crop is not None and crop > theirs:
        problems.append(
            f'{key} is {theirs} at the server, but the robot file wants {crop} {what} '
            f'(profile.crop_{what}); serve another checkpoint, or mend the robot file'
        )
    return theirs, crop or theirs


def _cameras(robot: Profile, optional: tuple[str, ...]) -> tuple[CameraSpec, ...]:
    keys: dict[str, list[str]] = {}
    for wire, feature in robot.pairs():
        if not _is_state(feature):
            keys.setdefault(feature, []).append(wire)
    missing = optional if robot.optional_cameras is None else robot.optional_cameras
    return tuple(
        CameraSpec(feature, tuple(wires), feature not in missing) for feature, wires in keys.items()
    )


def _camera_problems(declared: Mapping[str, Any], cameras: tuple[CameraSpec, ...]) -> list[str]:
    """Compare the robot's cameras with those the server wants; nothing to compare without any."""
    if not cameras:
        return []
    wrists = sum(_is_wrist(camera) for camera in cameras)
    external = len(cameras) - wrists
    names = ', '.join(repr(camera.wire_keys[0]) for camera in cameras)
    wanted, slots = declared.get('n_external_cameras'), declared.get('max_cameras')
    problems = []
    if _is_count(wanted) and wanted > external:
        problems.append(
            f'n_external_cameras is {wanted} at the server, but the robot file maps {external} '
            f'(of {names}); add the missing one to profile.key_map'
        )
    if declared.get('needs_wrist_camera') is True and not wrists:
        problems.append(
            f'needs_wrist_camera is true at the server, but the robot file maps 0 (of {names}); '
            'add one whose key or feature says wrist to profile.key_map'
        )
    if _is_count(slots) and len(cameras) > slots:
        problems.append(
            f'max_cameras is {slots} at the server, but the robot file maps {len(cameras)} '
            f'({names}); it would not see all of them'
        )
    return problems


def _slots(declared: Mapping[str, Any]) -> int:
    slots = declared.get('max_cameras')
    return slots if _is_count(slots) else ANY_NUMBER


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_wrist(camera: CameraSpec) -> bool:
    return any('wrist' in name.lower() for name in (camera.feature, *camera.wire_keys))


def _is_state(feature: str) -> bool:
    return feature in (STATE, STATE_ALIAS)
