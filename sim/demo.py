# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find the trained checkpoint that comes with the simulator; the model named ``demo``."""

from __future__ import annotations

from pathlib import Path

from openpi_policy_ros.errors import CheckpointError

FOLDER = Path(__file__).resolve().parent / 'checkpoint'
"""Package data: LeRobot's layout, with the model card as README.md."""


def demo_checkpoint() -> Path:
    """Return the folder of the checkpoint.

    Raises:
        CheckpointError: the package was installed without it.

    """
    for name in ('config.json', 'model.safetensors'):
        if not (FOLDER / name).is_file():
            raise CheckpointError(
                f'the trained demo checkpoint is missing: no {FOLDER / name}',
                expected='a folder that came with the package',
                remedy='install the package again from a whole clone, or train one '
                '(python scripts/train_demo_policy.py FOLDER) and pass FOLDER/checkpoint',
            )
    return FOLDER
