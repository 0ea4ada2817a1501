# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Observation keys of those who send them to DreamZero, where no robot file names them."""

from __future__ import annotations

from collections.abc import Mapping

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.policies.dreamzero.metadata import GRIPPER, JOINTS, PARTS
from openpi_policy_ros.policies.dreamzero.transform import FEATURES
from openpi_policy_ros.policies.feature_map import STATE

_EXTERIORS: Mapping[str, tuple[int, int]] = {'roboarena': (0, 1), 'droid': (1, 2)}
"""Who sends → how it numbers its exterior cameras, in the order of the model's views."""

ACTION_SPACE = 'joint_position'
ACTION_NAMES = (*(f'joint_{number}' for number in range(1, PARTS[JOINTS] + 1)), 'gripper')
_UNREAD = 'observation/cartesian_position'


def settle_profile(embodiment: str, profile: Profile | None) -> Profile:
    """Return the conventions that count.

    Args:
        embodiment: ``roboarena`` or ``droid``, whose keys count where ``profile`` has no key map.
        profile: the robot file's.

    """
    if profile is not None and profile.key_map:
        return profile
    keys = [f'observation/exterior_image_{number}_left' for number in _EXTERIORS[embodiment]]
    pairs = zip([*keys, 'observation/wrist_image_left'], FEATURES, strict=True)
    own = {
        'key_map': [
            *(f'{key} -> {feature}' for key, feature in pairs),
            *(f'observation/{part} -> {STATE}' for part in (JOINTS, GRIPPER)),
        ],
        'state_dims': list(PARTS.values()),
        'ignore_keys': [*(profile.ignore_keys if profile else ()), _UNREAD],
    }
    return (profile or Profile()).model_copy(update=own)
