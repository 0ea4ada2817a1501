# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Readers of observations, and observations for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.feature_map import build_feature_map
from openpi_policy_ros.policies.observation import ObservationReader

BASE = 'observation.images.base_0_rgb'
LEFT = 'observation.images.left_wrist_0_rgb'
RIGHT = 'observation.images.right_wrist_0_rgb'
STATE = 'observation.state'
DROID = [
    f'observation/exterior_image_1_left -> {BASE}',
    f'observation/wrist_image_left -> {LEFT}',
    f'observation/joint_position -> {STATE}',
    f'observation/gripper_position -> {STATE}',
]


def reader(**options: Any) -> ObservationReader:
    profile = options.pop('profile', None)
    if profile is not None:
        profile = Profile(**profile)
    defaults: dict[str, Any] = {'image_features': (BASE, LEFT, RIGHT), 'state_dim': 32}
    return ObservationReader(build_feature_map(profile=profile, **{**defaults, **options}))


def image(value: int = 7, size: tuple[int, int] = (6, 8)) -> np.ndarray:
    return np.full((*size, 3), value, np.uint8)


def droid(**changes: Any) -> dict[str, Any]:
    return {
        'observation/exterior_image_1_left': image(1),
        'observation/wrist_image_left': image(2),
        'observation/joint_position': np.arange(7.0),
        'observation/gripper_position': np.array([0.5]),
        'prompt': 'fold',
        **changes,
    }


def droid_reader(**profile: Any) -> ObservationReader:
    return reader(profile={'key_map': DROID, 'optional_cameras': [RIGHT], **profile})


def refused(reader_: ObservationReader, observation: Any) -> InvalidObservation:
    with pytest.raises(InvalidObservation) as caught:
        reader_.read(observation)
    error = caught.value
    assert error.expected
    assert error.remedy
    assert error.field
    return error
