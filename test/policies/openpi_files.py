# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints as openpi converts them to PyTorch, made of LeRobot's of the same network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies import registry
from openpi_policy_ros.policies.base import InferenceRequest, Policy, SessionKey
from openpi_policy_ros.policies.pi0.config import Family

WIDTH = 8
CONFIG = {
    'action_dim': 32,
    'action_horizon': 50,
    'paligemma_variant': 'gemma_2b',
    'action_expert_variant': 'gemma_300m',
    'precision': 'float32',
}
# Exact in binary, so that sums worked by hand are, too.
STATE = {
    'mean': [0.5, -0.5, 0.25, 0.0, 1.0, -1.0, 0.125, 0.5],
    'std': [0.5, 0.25, 2.0, 1.0, 0.5, 0.5, 0.25, 0.125],
    'q01': [-0.5, -1.0, -2.0, -1.0, 0.0, -2.0, -0.25, 0.0],
    'q99': [1.5, 0.0, 2.0, 1.0, 2.0, 0.0, 0.75, 1.0],
}
ACTIONS = {
    'mean': [0.25, 0.5, -0.25, -0.5, 0.0, 1.0, 2.0, 0.5],
    'std': [2.0, 0.5, 0.25, 1.0, 0.5, 4.0, 0.125, 0.25],
    'q01': [-1.0, 0.0, -1.0, -2.0, -0.5, -4.0, 1.5, 0.0],
    'q99': [1.0, 1.0, 0.0, 0.0, 0.5, 4.0, 2.5, 1.0],
}
ABSOLUTE = Profile(delta_mask=[False])
DELTA = [True, True, False, True]
RAW_STATE = np.array([0.75, -0.25, 1.25, 0.5, 1.5, -0.75, 0.25, 0.75], np.float32)


def statistics(**changes: Any) -> dict[str, Any]:
    """Return a norm_stats.json; ``state__mean=…`` replaces one list, ``state=…`` a feature."""
    features: dict[str, Any] = {'state': dict(STATE), 'actions': dict(ACTIONS)}
    for name, value in changes.items():
        feature, _, statistic = name.partition('__')
        if statistic:
            features[feature][statistic] = value
        else:
            features[feature] = value
    return {'norm_stats': features}


def put(directory: Path, values: Any, asset: str = 'droid') -> None:
    path = directory / 'assets' / asset / 'norm_stats.json'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(values if isinstance(values, str) else json.dumps(values))


def make_bare(directory: Path, family: Family) -> Path:
    """Write a LeRobot checkpoint that normalises nothing."""
    make = registry.find(family).make_checkpoint
    assert make is not None
    make(directory, 'small', 0, registry.CheckpointOptions(normalization='identity'))
    return directory


def convert(bare: Path, directory: Path) -> Path:
    """Write the network of a LeRobot checkpoint as openpi's conversion would."""
    shutil.copytree(bare / 'tokenizer', directory / 'tokenizer')
    shutil.copy(bare / 'arch_overrides.json', directory)
    weights = load_file(bare / 'model.safetensors')
    renamed = {name.removeprefix('model.'): tensor for name, tensor in weights.items()}
    save_file(renamed, directory / 'model.safetensors')
    (directory / 'config.json').write_text(json.dumps(CONFIG))
    put(directory, statistics())
    return directory


def chunk(policy: Policy, observation: dict[str, Any]) -> np.ndarray:
    request = InferenceRequest(observation, SessionKey('test', 'test'), seed=3)
    (result,) = policy.infer([request])
    if isinstance(result, InvalidObservation):
        raise result
    return np.asarray(result.outputs['actions'])


def observation(state: np.ndarray, prompt: str, side: tuple[int, int] = (480, 640)) -> Any:
    pixels = np.random.default_rng(4).integers(0, 256, (2, *side, 3), dtype=np.uint8)
    return {
        'observation.images.base_0_rgb': pixels[0],
        'observation.images.left_wrist_0_rgb': pixels[1],
        'state': state,
        'prompt': prompt,
    }
