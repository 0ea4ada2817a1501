# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""π0: images, state and an instruction to a chunk of actions, by flow matching.

Registering costs no import of torch: the plugin imports what it needs when it is asked to load.
"""

from __future__ import annotations

from pathlib import Path

from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin


def _load(request: LoadRequest) -> Policy:
    from openpi_policy_ros.policies.pi0.load import load

    return load(request)


def _make_checkpoint(directory: Path, size: str, seed: int) -> None:
    from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint

    make_checkpoint(directory, size, seed)


PLUGIN = PolicyPlugin(
    load=_load,
    model_types=('pi0',),
    make_checkpoint=_make_checkpoint,
    checkpoint_sizes=('small', 'medium'),
)
