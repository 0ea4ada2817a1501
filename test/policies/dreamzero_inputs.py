# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The transform of the golden DreamZero checkpoint, and observations for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.policies.dreamzero.metadata import read_metadata
from openpi_policy_ros.policies.dreamzero.profiles import settle_profile
from openpi_policy_ros.policies.dreamzero.state import Units
from openpi_policy_ros.policies.dreamzero.transform import FEATURES, DreamZeroTransform
from openpi_policy_ros.policies.feature_map import build_feature_map

GOLDEN = Path(__file__).parents[1] / 'data' / 'dreamzero_tiny'
HORIZON, STATE_DIM = 6, 12
RESOLUTION, VIEW = (20, 36), (16, 32)

ROBOARENA = (
    'observation/exterior_image_0_left',
    'observation/exterior_image_1_left',
    'observation/wrist_image_left',
)
DROID = (
    'observation/exterior_image_1_left',
    'observation/exterior_image_2_left',
    'observation/wrist_image_left',
)


def golden_transform(
    embodiment: str = 'roboarena',
    *,
    profile: Profile | None = None,
    folder: Path = GOLDEN,
    relative: bool = True,
    optional: tuple[str, ...] = (),
) -> DreamZeroTransform:
    """Return the transform of the golden checkpoint for one of the key profiles."""
    features = build_feature_map(
        image_features=FEATURES,
        state_dim=8,
        state_exact=True,
        time_axis=True,
        profile=settle_profile(embodiment, profile),
        optional_cameras=optional,
    )
    metadata = read_metadata(folder, 'oxe_droid', HORIZON)
    units = Units(metadata, STATE_DIM, relative)
    return DreamZeroTransform(features, units, metadata.resolution, VIEW)


def observation(
    keys: tuple[str, ...] = ROBOARENA,
    shape: tuple[int, ...] = (*RESOLUTION, 3),
    **other: Any,
) -> dict[str, Any]:
    """Return an observation with one image per key, each of its own random pixels."""
    rng = np.random.default_rng(3)
    return {
        **{key: rng.integers(0, 256, shape, np.uint8) for key in keys},
        'observation/joint_position': np.linspace(-1.0, 1.0, 7),
        'observation/gripper_position': np.array([0.25]),
        'prompt': 'Pick up the cup',
        **other,
    }


def edit_metadata(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """Change what a copied checkpoint's metadata.json says of oxe_droid."""
    path = folder / 'experiment_cfg' / 'metadata.json'
    values = json.loads(path.read_text())
    edit(values['oxe_droid'])
    path.write_text(json.dumps(values))
