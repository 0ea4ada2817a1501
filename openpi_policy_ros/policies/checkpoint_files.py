# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find and read a checkpoint's files: a directory as it is, or a snapshot of a hub repository.

A directory never touches the network. What comes from the hub is named by its commit, so that a
robot can be pinned to exactly what it ran yesterday.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import named_models

_HUB_ID = re.compile(r'[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*')


@dataclass(frozen=True)
class Located:
    """Where a checkpoint's files lie.

    Attributes:
        directory: local folder.
        revision: hub commit, or '' for a directory of the user's own.

    """

    directory: Path
    revision: str = ''


def is_hub_id(name: str) -> bool:
    """Return whether ``name`` has the form ``owner/repository``."""
    return _HUB_ID.fullmatch(name) is not None


def find_directory(model: str) -> Path | None:
    """Return the directory that ``model`` names, or None where it is a hub id.

    A directory of that name wins over a model that an installed package brings under it.

    Raises:
        CheckpointError: neither a directory, nor such a model, nor a hub id.

    """
    path = Path(model).expanduser()
    if model and path.is_dir():
        return path
    if path.is_file():
        raise CheckpointError(
            f'model {model!r} is a file',
            expected='the directory of a checkpoint',
            remedy=f'pass {str(path.parent)!r}',
        )
    if not is_hub_id(model):
        shipped = named_models.find(model)
        if shipped is not None:
            return shipped
        raise CheckpointError(
            f'model {model!r} is no directory',
            expected='an existing directory, or a hub id of the form owner/repository'
            + ''.join(f', or {name!r}' for name in named_models.names()),
            remedy='check the path; a directory that does not exist is never created or guessed',
        )
    return None


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a checkpoint's JSON file.

    Raises:
        CheckpointError: no such file, unreadable, not JSON, or not an object.

    """
    try:
        value = json.loads(path.read_text(encoding='utf-8'))
    except FileNotFoundError:
        raise CheckpointError(
            f'{path} does not exist',
            expected=f'a checkpoint directory that holds {path.name}',
            remedy='pass the directory that the training wrote (often …/pretrained_model); '
            '`openpi-policy inspect` says what it is',
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f'{path} cannot be read: {error}',
            expected='a JSON object',
            remedy='copy or download the checkpoint again',
        ) from None
    if not isinstance(value, dict):
        raise CheckpointError(
            f'{path} holds a {type(value).__name__}',
            expected='a JSON object',
            remedy='copy or download the checkpoint again',
        )
    return value
