# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""DreamZero: a world model that imagines the next frames and the actions that lead there.

Registering costs no import of torch: the plugin imports what it needs when it is asked to load.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.policies.dreamzero.options import DreamZeroOptions
from openpi_policy_ros.policies.registry import CheckpointOptions, LoadRequest, PolicyPlugin

if TYPE_CHECKING:
    from openpi_policy_ros.policies.checkpoint_view import CheckpointView
    from openpi_policy_ros.policies.report import PolicyReport


def _load(request: LoadRequest) -> Policy:
    from openpi_policy_ros.policies.dreamzero.load import load

    return load(request)


def _inspect(request: LoadRequest, view: CheckpointView) -> PolicyReport:
    from openpi_policy_ros.policies.dreamzero.report import inspect

    return inspect(request, view)


def _make_checkpoint(
    directory: Path, size: str, seed: int, options: CheckpointOptions | None = None
) -> None:
    from openpi_policy_ros.policies.dreamzero.make_checkpoint import make_checkpoint

    make_checkpoint(directory, size, seed, options)


PLUGIN = PolicyPlugin(
    load=_load,
    model_types=('vla',),
    inspect=_inspect,
    make_checkpoint=_make_checkpoint,
    checkpoint_sizes=('tiny', 'small', 'droid'),
    option_names=tuple(DreamZeroOptions.model_fields),
)
