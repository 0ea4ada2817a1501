# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find and read a checkpoint's files: a directory as it is, or a snapshot of a hub repository.

A directory never touches the network. A hub id is fetched once into the hub's own cache and then
named by its commit, so that a robot can be pinned to exactly what it ran yesterday.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openpi_policy_ros.errors import CheckpointError

logger = logging.getLogger('openpi_policy_ros.policies')

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


def locate(model: str, revision: str | None, patterns: Sequence[str]) -> Located:
    """Return the folder that holds ``model``, downloading it first where it is a hub id.

    Args:
        model: directory, or hub id where no such directory exists.
        revision: branch, tag or commit of the hub; None = its main branch. Ignored for a directory.
        patterns: names of the files wanted from the hub (``*`` matches anything).

    Raises:
        CheckpointError: neither a directory nor a hub id, or the hub cannot be asked.

    """
    path = Path(model).expanduser()
    if model and path.is_dir():
        return Located(path)
    if path.is_file():
        raise CheckpointError(
            f'model {model!r} is a file',
            expected='the directory of a checkpoint',
            remedy=f'pass {str(path.parent)!r}',
        )
    if not is_hub_id(model):
        raise CheckpointError(
            f'model {model!r} is no directory',
            expected='an existing directory, or a hub id of the form owner/repository',
            remedy='check the path; a directory that does not exist is never created or guessed',
        )
    return _download(model, revision, patterns)


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


@contextmanager
def asking_hub(repository: str, revision: str | None, *, what: str = '') -> Iterator[None]:
    """Turn whatever the hub's client raises in the block into a ``CheckpointError``.

    Args:
        repository: hub id.
        revision: branch, tag or commit; None = main.
        what: what is asked for, where it is not the repository itself.

    """
    try:
        yield
    # The hub's client raises whatever its HTTP library does (requests, httpx, ssl, socket):
    # no list of types would be complete.
    except Exception as error:
        named = f'{what} of {repository!r}' if what else f'{repository!r} is no directory here and'
        raise CheckpointError(
            f'{named} cannot be fetched from the hub at revision '
            f'{revision or "main"!r}: {type(error).__name__}: {_first_line(error)}',
            expected='an existing directory, or a hub repository that this machine may read',
            remedy=_remedy(error),
        ) from error


def _download(repository: str, revision: str | None, patterns: Sequence[str]) -> Located:
    from huggingface_hub import snapshot_download

    with asking_hub(repository, revision):
        folder = Path(
            snapshot_download(repository, revision=revision, allow_patterns=list(patterns))
        )
    # The hub's cache names a snapshot's folder by its commit.
    commit = folder.name
    if revision != commit:
        logger.warning(
            '%s: revision %s is commit %s today; pass that commit as revision to pin it',
            repository,
            revision or 'main',
            commit,
        )
    return Located(folder, commit)


def _remedy(error: Exception) -> str:
    name = type(error).__name__
    if name == 'GatedRepoError':
        return 'accept its licence on the hub and log in (`hf auth login` or HF_TOKEN)'
    if name == 'RevisionNotFoundError':
        return 'check revision: a branch, a tag or a commit'
    if name == 'RepositoryNotFoundError':
        return 'check the spelling; for a private repository log in (`hf auth login` or HF_TOKEN)'
    return 'check the network (and HF_HUB_OFFLINE), or download it and pass its directory'


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else 'no further message'
