# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write a network that was trained here as a LeRobot checkpoint, with everything around it."""

from __future__ import annotations

from pathlib import Path

from openpi_policy_ros.policies.pi0.demo_statistics import Statistics
from openpi_policy_ros.policies.pi0.demo_weights import write_weights
from openpi_policy_ros.policies.pi0.export import exported_weights
from openpi_policy_ros.policies.pi0.make_checkpoint import write_sizes_and_tokenizer
from openpi_policy_ros.policies.pi0.model import PiModel
from openpi_policy_ros.policies.pi0.write_lerobot import lerobot_weights, write_lerobot


def write_trained(
    directory: Path, model: PiModel, statistics: dict[str, Statistics], *, relative: bool
) -> None:
    """Write the checkpoint, in the layout of LeRobot 0.6.

    Args:
        directory: created; what it holds already of these files is replaced.
        model: trained; its config tells sizes, features and normalisation.
        statistics: feature → name → values, of the training data; those of the actions are of the
            differences where ``relative``.
        relative: actions are differences from the state, except the gripper's.

    """
    config = model.config
    (directory / 'tokenizer').mkdir(parents=True, exist_ok=True)
    write_sizes_and_tokenizer(directory, config)
    write_lerobot(directory, config, statistics, old=False, relative=relative)
    stored, metadata = lerobot_weights(config, exported_weights(model), old=False)
    # Last: a directory without weights refuses to load, half of one never passes for whole.
    write_weights(directory, stored, metadata, shards=1)
