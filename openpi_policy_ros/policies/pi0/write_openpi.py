# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Write the files of an openpi checkpoint converted to PyTorch.

Its config.json has five keys and its statistics lie under assets/<asset_id>. Robot, cameras,
differences and crops are in none of its files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import Tensor

from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.demo_statistics import joint_statistics
from openpi_policy_ros.policies.pi0.demo_weights import in_bfloat16, tied
from openpi_policy_ros.policies.pi0.layout import EMBEDDING, PALIGEMMA_HEAD

ASSET_ID = 'demo'
_STATISTICS = ('mean', 'std', 'q01', 'q99')


def write_openpi(directory: Path, config: Pi0Config, seed: int) -> None:
    """Write config.json and the statistics; weights, sizes and tokenizer are the caller's."""
    _write_json(
        directory / 'config.json',
        {
            'action_dim': config.max_action_dim,
            'action_horizon': config.chunk_size,
            'paligemma_variant': config.paligemma_variant,
            'action_expert_variant': config.action_expert_variant,
            'precision': config.dtype,
        },
    )
    statistics = {
        'state': joint_statistics(config.state_dim, seed, 'state'),
        'actions': joint_statistics(config.action_dim, seed, 'action'),
    }
    path = directory / 'assets' / ASSET_ID / 'norm_stats.json'
    path.parent.mkdir(parents=True)
    _write_json(
        path,
        {
            'norm_stats': {
                feature: {name: values[name].tolist() for name in _STATISTICS}
                for feature, values in statistics.items()
            }
        },
    )


def openpi_weights(
    config: Pi0Config, weights: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return (name → tensor, metadata) as the converter stores them: all in one precision."""
    stored = tied(weights)
    if config.dtype == 'bfloat16':
        stored = in_bfloat16(stored, kept=())
    # Which name a table that is stored once stands for, as safetensors notes it.
    return stored, {EMBEDDING: PALIGEMMA_HEAD}


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2), encoding='utf-8')
