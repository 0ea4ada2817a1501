# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Change a checkpoint on disk, and see whether it is served or refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from torch import Tensor

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.pi0.config import Family
from openpi_policy_ros.policies.pi0.load import load
from openpi_policy_ros.policies.pi0.policy import Pi0Policy
from openpi_policy_ros.policies.registry import LoadRequest


def rewrite_weights(directory: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    path = directory / 'model.safetensors'
    weights = load_file(path)
    change(weights)
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, path)


def rewrite_json(path: Path, **changes: Any) -> None:
    values = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**values, **changes}))


def served(directory: Path, family: Family = 'pi0', **options: Any) -> Pi0Policy:
    return load(LoadRequest(str(directory), options=options), family)


def refused(directory: Path, **options: Any) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        served(directory, **options)
    assert caught.value.remedy
    return caught.value
