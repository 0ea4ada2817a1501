# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""π0 and π0.5: images, state and an instruction to a chunk of actions, by flow matching.

Registering costs no import of torch: the plugin imports what it needs when it is asked to load.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from openpi_policy_ros.policies.base import Policy
from openpi_policy_ros.policies.pi0.config import Family
from openpi_policy_ros.policies.pi0.options import Pi0Options
from openpi_policy_ros.policies.registry import (
    CheckpointMaker,
    CheckpointOptions,
    LoadRequest,
    PolicyPlugin,
)

if TYPE_CHECKING:
    from openpi_policy_ros.policies.checkpoint_view import CheckpointView
    from openpi_policy_ros.policies.report import PolicyReport


def _loader(family: Family) -> Callable[[LoadRequest], Policy]:
    def load_family(request: LoadRequest) -> Policy:
        from openpi_policy_ros.policies.pi0.load import load

        return load(request, family)

    return load_family


def _inspector(family: Family) -> Callable[[LoadRequest, CheckpointView], PolicyReport]:
    def inspect_family(request: LoadRequest, view: CheckpointView) -> PolicyReport:
        from openpi_policy_ros.policies.pi0.report import inspect

        return inspect(request, view, family)

    return inspect_family


def _maker(family: Family) -> CheckpointMaker:
    def make(
        directory: Path, size: str, seed: int, options: CheckpointOptions | None = None
    ) -> None:
        from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint

        make_checkpoint(directory, size, seed, options, family=family)

    return make


def _plugin(family: Family) -> PolicyPlugin:
    return PolicyPlugin(
        load=_loader(family),
        model_types=(family,),
        inspect=_inspector(family),
        make_checkpoint=_maker(family),
        checkpoint_sizes=('small', 'medium'),
        option_names=tuple(Pi0Options.model_fields),
    )


PLUGIN = _plugin('pi0')
PI05 = _plugin('pi05')
