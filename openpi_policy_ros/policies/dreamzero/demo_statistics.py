# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ``experiment_cfg/metadata.json`` of checkpoints made here: an arm like DROID's.

No two statistics are equal, so a normalisation that is swapped or shifted by a column cannot come
out right by chance. The actions' ranges are narrow: what an untrained network predicts is noise of
about size one, and becomes motions of a hundredth of a radian around where the arm is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openpi_policy_ros.policies.dreamzero.metadata import GRIPPER, JOINTS, VIEWS

_HOME = (0.0, -0.4, 0.0, -2.2, 0.0, 2.0, 0.3)
"""Middle of the joints' positions, rad."""
_REACH = (0.8, 0.9, 0.8, 0.7, 0.9, 0.9, 1.6)
"""Half of the range between their quantiles, rad."""
_MOTION = 0.02
"""The same of the differences that a chunk holds, rad."""
_GRIP = 0.1
"""The same of the gripper's command: noise of size four stays within 0 to 1."""
_FPS = 15.0


def demo_metadata(resolution: tuple[int, int], seed: int) -> dict[str, Any]:
    """Return the object of a metadata.json.

    Args:
        resolution: (width, height) of the cameras' images.
        seed: equal seeds give equal statistics.

    """
    generator = np.random.default_rng([seed, 7])

    def part(middle: Sequence[float], half: Sequence[float]) -> dict[str, list[float]]:
        centre = np.asarray(middle) + np.asarray(half) * generator.uniform(-0.1, 0.1, len(half))
        width = np.asarray(half) * generator.uniform(0.8, 1.2, len(half))
        values = {
            'max': centre + 1.3 * width,
            'min': centre - 1.3 * width,
            'mean': centre + 0.05 * width,
            # The 1 % quantiles of a normal distribution are 2.33 deviations from its middle.
            'std': width / 2.33,
            'q01': centre - width,
            'q99': centre + width,
        }
        return {name: [round(float(v), 6) for v in row] for name, row in values.items()}

    statistics = {
        'state': {JOINTS: part(_HOME, _REACH), GRIPPER: part([0.5], [0.45])},
        'action': {JOINTS: part([0.0] * 7, [_MOTION] * 7), GRIPPER: part([0.5], [_GRIP])},
    }
    columns = {JOINTS: 7, GRIPPER: 1}
    described = {
        name: {'absolute': True, 'rotation_type': None, 'shape': [width], 'continuous': True}
        for name, width in columns.items()
    }
    video = {view: {'resolution': list(resolution), 'channels': 3, 'fps': _FPS} for view in VIEWS}
    return {
        'oxe_droid': {
            'statistics': statistics,
            'modalities': {'video': video, 'state': described, 'action': described},
            'embodiment_tag': 'oxe_droid',
        }
    }
