# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The small network behind any pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.policies.feature_map import build_feature_map
from openpi_policy_ros.policies.normalization import Normalizer, lerobot_normalizer
from openpi_policy_ros.policies.pi0.pipeline import Pipeline
from openpi_policy_ros.policies.pi0.policy import Pi0Policy

WRISTS = ['observation.images.left_wrist_0_rgb', 'observation.images.right_wrist_0_rgb']


def z_score(mean: list[float], std: list[float]) -> Normalizer:
    """Return (x − mean) / std, inverse x · std + mean."""
    statistics = {'mean': np.array(mean), 'std': np.array(std)}
    return lerobot_normalizer('MEAN_STD', statistics, 0.0)


def around(
    policy: Pi0Policy,
    pipeline: Pipeline,
    *,
    profile: Profile | None = None,
    rows: int | None = None,
    columns: int | None = None,
    **config_changes: Any,
) -> Pi0Policy:
    """Return a policy with the network of ``policy`` and another pipeline around it."""
    config = replace(policy._config, action_dim=pipeline.action_dim, **config_changes)
    width = pipeline.state_width
    features = build_feature_map(
        image_features=config.image_features,
        state_dim=config.state_dim if width is None else width,
        state_exact=width is not None,
        least_state=pipeline.least_state,
        profile=profile,
        optional_cameras=WRISTS,
    )
    shape = (rows or config.chunk_size, columns or pipeline.action_dim)
    spec = replace(
        policy.spec,
        horizon=shape[0],
        action_dim=shape[1],
        action_names=tuple(map(str, range(shape[1]))),
        output_shapes={'actions': shape},
    )
    return Pi0Policy(spec, config, policy.model, policy.prompts, features, pipeline)
