# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Labelled states in memory, in robot units, and batches of them in a network's units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from openpi_policy_ros_sim.cloning import Batch
from openpi_policy_ros_sim.dataset import CAMERAS, Sample, Settings, shards
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.tasks import TASKS

GRIPPER: Final = 7
"""The column that stays absolute."""
_QUANTILES: Final = {'q01': 0.01, 'q10': 0.10, 'q50': 0.50, 'q90': 0.90, 'q99': 0.99}
# An action that never differs would be divided by nothing.
_LEAST_SPREAD: Final = 1e-3

Statistics = dict[str, npt.NDArray[np.float64]]


@dataclass
class Examples:
    """What was labelled for one prompt.

    Attributes:
        images: uint8 RGB [N, cameras, size, size, 3].
        state: float32 [N, 8].
        actions: absolute targets, float32 [N, rows, 8].
        places: cube and bowl, float32 [N, 6].

    """

    images: npt.NDArray[np.uint8]
    state: npt.NDArray[np.float32]
    actions: npt.NDArray[np.float32]
    places: npt.NDArray[np.float32]

    def __len__(self) -> int:
        """Return the number of labelled states."""
        return len(self.state)

    def differences(self) -> npt.NDArray[np.float32]:
        """Return the actions as differences from the state, except the gripper's."""
        base = self.state[:, None].copy()
        base[..., GRIPPER] = 0.0
        return self.actions - base

    def save(self, path: Path) -> None:
        """Write one file, whole or not at all."""
        partial = path.with_suffix('.partial')
        with partial.open('wb') as file:
            np.savez_compressed(file, **vars(self))
        partial.replace(path)

    @staticmethod
    def read(path: Path) -> Examples:
        """Return what ``save`` wrote."""
        with np.load(path) as file:
            return Examples(**{name: file[name] for name in file.files})

    @staticmethod
    def of(samples: Sequence[Sample]) -> Examples:
        """Return labelled states as one."""
        return Examples(
            np.stack([np.stack([s.images[camera] for camera in CAMERAS]) for s in samples]),
            np.stack([s.state for s in samples]),
            np.stack([s.actions for s in samples]),
            np.stack([np.concatenate([s.cube, s.bowl]) for s in samples]),
        )

    @staticmethod
    def joined(parts: Sequence[Examples]) -> Examples:
        """Return several as one."""
        return Examples(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ('images', 'state', 'actions', 'places')
            )
        )


def read_demonstrations(folder: Path, settings: Settings) -> dict[str, Examples]:
    """Return prompt → everything that ``dataset.write`` wrote for it with these settings.

    Files that are not of this dataset are left alone.

    Raises:
        SimulationError: there is nothing of a task.

    """
    parts: dict[str, list[Examples]] = {}
    # A file is missing where the expert failed in each of its episodes.
    there = [path for name, _, _ in shards(settings) if (path := folder / name).exists()]
    for path in sorted(there):
        with np.load(path) as file:
            images = np.stack([file[f'image_{camera}'] for camera in CAMERAS], axis=1)
            places = np.concatenate([file['cube'], file['bowl']], axis=1)
            one = Examples(images, file['state'], file['actions'], places)
            parts.setdefault(str(file['prompt']), []).append(one)
    for task in settings.tasks:
        if TASKS[task].prompt not in parts:
            raise SimulationError(
                f'{folder} has no demonstration of {task}',
                remedy='make more episodes: the expert fails now and then',
            )
    return {prompt: Examples.joined(found) for prompt, found in parts.items()}


def statistics(examples: Sequence[Examples], features: Sequence[str]) -> dict[str, Statistics]:
    """Return what the files of a checkpoint say of its training data: feature → name → values.

    Args:
        examples: all of them.
        features: names of the cameras, in the order of the images.

    """
    rows = np.concatenate([one.differences().reshape(-1, 8) for one in examples])
    states = np.concatenate([one.state for one in examples])
    found = {'observation.state': _describe(states), 'action': _describe(rows)}
    for number, feature in enumerate(features):
        pixels = np.concatenate([one.images[::50, number].reshape(-1, 3) for one in examples])
        described = _describe(pixels / 255.0)
        found[feature] = {
            name: values if name == 'count' else values.reshape(3, 1, 1)
            for name, values in described.items()
        }
    return found


def _describe(rows: npt.NDArray[Any]) -> Statistics:
    wide = rows.astype(np.float64)
    return {
        'min': wide.min(axis=0),
        'max': wide.max(axis=0),
        'mean': wide.mean(axis=0),
        'std': np.maximum(wide.std(axis=0), _LEAST_SPREAD),
        'count': np.array([float(len(wide))]),
        **{name: np.quantile(wide, level, axis=0) for name, level in _QUANTILES.items()},
    }


def batch_of(
    examples: Examples,
    chosen: npt.NDArray[np.int64],
    tokens: torch.Tensor,
    known: Mapping[str, Statistics],
    light: npt.NDArray[np.float32],
) -> Batch:
    """Return the chosen examples in the network's units.

    Args:
        examples: of one prompt.
        chosen: indices [B].
        tokens: of the prompt, int64 [T].
        known: statistics, whose mean and std normalise.
        light: factor on the brightness of each, [B, 2]: contrast and offset.

    """
    pixels = examples.images[chosen].astype(np.float32) / 127.5 - 1.0
    contrast, offset = light[:, :1], light[:, 1:]
    shape = (-1, 1, 1, 1, 1)
    pixels = np.clip(pixels * contrast.reshape(shape) + offset.reshape(shape), -1.0, 1.0)
    part = Examples(
        examples.images[:0], examples.state[chosen], examples.actions[chosen], examples.places[:0]
    )
    state, action = known['observation.state'], known['action']
    return Batch(
        torch.from_numpy(pixels).permute(0, 1, 4, 2, 3).contiguous(),
        tokens,
        torch.from_numpy(_normal(part.state, state)),
        torch.from_numpy(_normal(part.differences(), action)),
        torch.from_numpy(10.0 * examples.places[chosen]),
    )


def _normal(values: npt.NDArray[np.float32], known: Statistics) -> npt.NDArray[np.float32]:
    normal: npt.NDArray[np.float32] = ((values - known['mean']) / known['std']).astype(np.float32)
    return normal
