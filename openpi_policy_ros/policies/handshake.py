# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ``policy_server_config`` a remote client reads first (openpi-protocol.md §1).

A client builds its observations and cuts its chunks by these numbers, so the start is refused where
they contradict what the policy will really answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import ConfigurationError

logger = logging.getLogger('openpi_policy_ros.policies')

DEFAULT_ACTION_SPACE = 'joint_position'
RTC = 'rtc'
"""Key that invites clients to send what is left of the last chunk (docs/protocol.md)."""


@dataclass(frozen=True)
class HandshakeFacts:
    """What the loaded policy really does.

    Attributes:
        image_resolution: (height, width) the model sees.
        cameras: camera features in model order.
        camera_slots: cameras the model has room for.
        horizon: rows of a reply, after the profile's crop.
        action_dim: columns of a reply, after the profile's crop.
        needs_session_id: whether a client has to name its session.
        supports_rtc: whether a client may send what is left of the last chunk.

    """

    image_resolution: tuple[int, int]
    cameras: tuple[str, ...]
    camera_slots: int
    horizon: int
    action_dim: int
    needs_session_id: bool = False
    supports_rtc: bool = False


def derive(facts: HandshakeFacts, action_space: str = '') -> dict[str, Any]:
    """Return the whole handshake from the checkpoint alone, for want of a policy file.

    A camera counts as wrist camera if its feature says so. ``action_space`` is '' where no robot
    file declares it; π0 and its kin are then announced as what they are trained on,
    ``joint_position``.
    """
    wrists = sum('wrist' in name.lower() for name in facts.cameras)
    return {
        'image_resolution': list(facts.image_resolution),
        'n_external_cameras': len(facts.cameras) - wrists,
        'needs_wrist_camera': wrists > 0,
        'needs_stereo_camera': False,
        'needs_session_id': facts.needs_session_id,
        'action_space': action_space or DEFAULT_ACTION_SPACE,
        'action_horizon': facts.horizon,
        'action_dim': facts.action_dim,
        'max_cameras': facts.camera_slots,
    }


def build_handshake(
    declared: Mapping[str, Any] | None,
    facts: HandshakeFacts,
    profile: Profile | None = None,
    *,
    source: str = 'policy_server_config',
) -> dict[str, Any] | None:
    """Return the mapping to send, or None where none is declared.

    Args:
        declared: the policy file's mapping (or what ``derive`` returned); sent verbatim, tuples as
            lists, keys left out not invented. None = none; ``{}`` is a handshake.
        facts: what it is checked against.
        profile: the robot's; its ``policy_server_config`` overrides key by key.
        source: for messages.

    Raises:
        ConfigurationError: every contradiction, with both values, and every value that cannot be
            sent.

    """
    overrides = profile.policy_server_config if profile is not None else {}
    if declared is None:
        if overrides:
            logger.warning(
                '%s declares no policy_server_config, so the one of the robot file (%s) has '
                'nothing to override and OpenPI clients are answered "unsupported"; write '
                'policy_server_config: {} there to serve them',
                source,
                ', '.join(overrides),
            )
        return None
    problems: list[str] = []
    merged = {
        key: _plain(value, f'policy_server_config.{key}', problems)
        for key, value in {**declared, **overrides}.items()
    }
    problems += _contradictions(merged, facts, profile)
    if problems:
        raise ConfigurationError(source, problems)
    resolution = merged.get('image_resolution')
    if resolution is not None and resolution != list(facts.image_resolution):
        logger.warning(
            'clients are told to send images of %s, the policy resizes them to %s',
            resolution,
            list(facts.image_resolution),
        )
    return merged


def _contradictions(
    config: Mapping[str, Any], facts: HandshakeFacts, profile: Profile | None
) -> list[str]:
    problems = []
    for key, real, what in (
        ('action_horizon', facts.horizon, 'rows'),
        ('action_dim', facts.action_dim, 'columns'),
    ):
        if key in config and not _same_number(config[key], real):
            problems.append(
                f'policy_server_config.{key} is {config[key]!r}, but a reply has {real} {what}; '
                f'write {real}, or change profile.crop_{what} in the robot file'
            )
    space = profile.action_space if profile is not None else ''
    if space and config.get('action_space', space) != space:
        problems.append(
            f'policy_server_config.action_space is {config["action_space"]!r}, but '
            f'profile.action_space is {space!r}; the actions can mean only one'
        )
    rtc = config.get(RTC, False)
    if not isinstance(rtc, bool):
        problems.append(f'policy_server_config.{RTC} is {rtc!r}, expected true or false')
    elif rtc and not facts.supports_rtc:
        problems.append(
            f'policy_server_config.{RTC} is true, but this policy cannot continue a chunk that is '
            'being executed (real-time chunking); remove the line'
        )
    external = config.get('n_external_cameras', 0)
    wrist = config.get('needs_wrist_camera', False)
    if not isinstance(external, int) or isinstance(external, bool) or external < 0:
        problems.append(
            f'policy_server_config.n_external_cameras is {external!r}, expected a number of cameras'
        )
    elif not isinstance(wrist, bool):
        problems.append(
            f'policy_server_config.needs_wrist_camera is {wrist!r}, expected true or false'
        )
    elif external + wrist > facts.camera_slots:
        problems.append(
            f'policy_server_config asks for {external + wrist} cameras (n_external_cameras '
            f'{external}, wrist {int(wrist)}), but the model has {facts.camera_slots} slots '
            f'({", ".join(facts.cameras)})'
        )
    return problems


def _same_number(value: Any, number: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value == number


def _plain(value: Any, name: str, problems: list[str]) -> Any:
    """Return ``value`` as MessagePack and JSON can carry it; tuples become lists."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        problems.append(f'{name} is {value}, expected a number of at most 64 bits')
    elif isinstance(value, str) and any('\ud800' <= letter <= '\udfff' for letter in value):
        problems.append(f'{name} is {value!a}, expected Unicode text')
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item, f'{name}[{index}]', problems) for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f'{name}.{key}', problems) for key, item in value.items()}
    problems.append(
        f'{name} is a {type(value).__name__}, expected a number, text, true, false, list or mapping'
    )
    return None
