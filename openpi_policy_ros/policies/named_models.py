# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find a checkpoint that an installed package brings, by name: an entry-point group.

A package that ships a checkpoint adds

    [options.entry_points]
    openpi_policy_ros.models =
        my_model = my_package.my_module:folder

where ``folder()`` returns the checkpoint's folder as a ``Path``, or raises ``CheckpointError``.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from openpi_policy_ros.errors import CheckpointError

GROUP = 'openpi_policy_ros.models'
DEMO = 'demo'
"""What is served where nothing has to be named; comes with the simulator."""


def names() -> tuple[str, ...]:
    """Return the names of all models that installed packages bring, sorted."""
    return tuple(sorted({entry.name for entry in metadata.entry_points(group=GROUP)}))


def find(name: str) -> Path | None:
    """Return the folder of the checkpoint of that name; None = no package brings one.

    Raises:
        CheckpointError: its package says that it has no checkpoint, or cannot be imported.

    """
    for entry in metadata.entry_points(group=GROUP):
        if entry.name == name:
            try:
                folder: Path = entry.load()()
            except ImportError as error:
                raise CheckpointError(
                    f'model {name!r}: {entry.value} cannot be imported ({error})',
                    expected='the package that brings this model installed whole',
                    remedy='install it again, or pass the directory of a checkpoint',
                ) from error
            return folder
    return None


def has(name: str) -> bool:
    """Return whether a checkpoint of that name is there."""
    try:
        return find(name) is not None
    except CheckpointError:
        return False
