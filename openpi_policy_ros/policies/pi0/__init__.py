# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""π0: images, state and an instruction to a chunk of actions, by flow matching.

Registering costs no import of torch: the plugin imports what it needs when it is asked to load.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.policies.pi0.options import Pi0Options
from openpi_policy_ros.policies.registry import LoadRequest, PolicyPlugin

if TYPE_CHECKING:
    from openpi_policy_ros.policies.checkpoint_view import CheckpointView
    from openpi_policy_ros.policies.report import PolicyReport


def _load(request: LoadRequest) -> Policy:
    from openpi_policy_ros.policies.pi0.load import load

    return load(request)


def _inspect(request: LoadRequest, view: CheckpointView) -> PolicyReport:
    from openpi_policy_ros.policies.pi0.report import inspect

    return inspect(request, view)


def _make_checkpoint(directory: Path, size: str, seed: int) -> None:
    from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint

    make_checkpoint(directory, size, seed)


PLUGIN = PolicyPlugin(
    load=_load,
    model_types=('pi0',),
    inspect=_inspect,
    make_checkpoint=_make_checkpoint,
    checkpoint_sizes=('small', 'medium'),
    option_names=tuple(Pi0Options.model_fields),
)
