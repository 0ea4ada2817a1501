# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Download weights from the hub, going on where an earlier try was cut off.

Weights are gigabytes, and robots hang on a radio link. The hub's client of today throws away what
it has of a file when a connection is reset or its process ends, so the weights are fetched here,
and handed to its cache once they are whole.
"""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.hub import (
    asking_hub,
    first_line,
    repository_folder,
    snapshot_folder,
)

logger = logging.getLogger('openpi_policy_ros.policies')

_SHA256 = re.compile(r'[0-9a-f]{64}')
_BLOCK = 1 << 20


@dataclass(frozen=True)
class _File:
    """A file to be fetched.

    Attributes:
        name: inside the repository.
        url: where it is.
        size: bytes.
        digest: what its content is known by: SHA-256 of a large file.
        blob: where the cache keeps that content.

    """

    name: str
    url: str
    size: int
    digest: str
    blob: Path

    @property
    def part(self) -> Path:
        """Return what has arrived so far; older versions of the hub's client use it too."""
        return self.blob.with_name(f'{self.blob.name}.incomplete')

    @property
    def missing(self) -> int:
        """Return how many bytes have yet to come."""
        return 0 if self.blob.exists() else self.size - min(_size(self.part), self.size)


def fetch_weights(repository: str, commit: str, names: Sequence[str]) -> None:
    """Bring ``names`` into the hub's cache, where ``snapshot_folder`` has them.

    Args:
        repository: hub id.
        commit: of the repository.
        names: files of weights.

    Raises:
        CheckpointError: they cannot be fetched, there is no room for them, or what came is not
            what the hub has.

    """
    folder = snapshot_folder(repository, commit)
    absent = [name for name in names if not (folder / name).is_file()]
    if not absent:
        return
    files = [_look_up(repository, commit, name) for name in absent]
    _refuse_little_room(repository, files)
    missing = sum(file.missing for file in files)
    logger.info(
        '%s: downloading %d %s of weights, %s, to %s',
        repository,
        len(files),
        'file' if len(files) == 1 else 'files',
        _gigabytes(missing),
        repository_folder(repository),
    )
    for file in files:
        with asking_hub(repository, commit, what=file.name):
            _fetch(file)
            _link(repository, commit, file)


def _look_up(repository: str, commit: str, name: str) -> _File:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(repository, name, revision=commit)
    with asking_hub(repository, commit, what=name):
        metadata = get_hf_file_metadata(url)
    if metadata.etag is None or metadata.size is None:
        raise CheckpointError(
            f'{name} of {repository!r}: {url} tells no ETag, or no size',
            expected='the answer of a model hub',
            remedy='check HF_ENDPOINT and the proxies between here and there',
        )
    blob = repository_folder(repository) / 'blobs' / metadata.etag
    return _File(name, url, metadata.size, metadata.etag, blob)


def _refuse_little_room(repository: str, files: Sequence[_File]) -> None:
    missing = sum(file.missing for file in files)
    place = repository_folder(repository)
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < missing:
        raise CheckpointError(
            f'{repository}: its weights need {_gigabytes(missing)} more, but only '
            f'{_gigabytes(free)} are free in {place}',
            expected='room for the whole download',
            remedy='make room there (`hf cache` tells what is cached), or set HF_HOME to where '
            'there is some',
        )


def _fetch(file: _File) -> None:
    """Complete a file's content in the cache."""
    from huggingface_hub.utils import WeakFileLock

    locks = file.blob.parents[2] / '.locks' / file.blob.parents[1].name
    for folder in (locks, file.blob.parent):
        folder.mkdir(parents=True, exist_ok=True)
    # The lock of the hub's client: neither it nor another process of ours writes beside us.
    with WeakFileLock(locks / f'{file.blob.name}.lock'):
        if file.blob.exists():
            return
        if _size(file.part) > file.size:
            file.part.unlink()
        if _size(file.part):
            logger.info(
                '%s: %s of %s are here from before', file.name, *map(_gigabytes, _progress(file))
            )
        file.part.touch()
        while _size(file.part) < file.size:
            _fetch_on(file)
        _refuse_other_content(file)
        file.part.replace(file.blob)


def _fetch_on(file: _File) -> None:
    """Fetch what is missing, or as much of it as comes before the connection breaks.

    Raises:
        Exception: whatever the hub's client raises, where nothing at all came.

    """
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    before = _size(file.part)
    try:
        with file.part.open('ab') as part:
            http_get(
                file.url,
                part,
                resume_size=before,
                headers=build_hf_headers(),
                expected_size=file.size,
                displayed_filename=file.name,
            )
    # As in asking_hub: no list of types would be complete.
    except Exception as error:
        if _size(file.part) <= before:
            raise
        logger.warning(
            '%s: %s: %s; going on after %s of %s',
            file.name,
            type(error).__name__,
            first_line(error),
            *map(_gigabytes, _progress(file)),
        )


def _refuse_other_content(file: _File) -> None:
    if _SHA256.fullmatch(file.digest) is None:
        return
    digest = hashlib.sha256()
    with file.part.open('rb') as part:
        while block := part.read(_BLOCK):
            digest.update(block)
    if digest.hexdigest() != file.digest:
        file.part.unlink()
        raise CheckpointError(
            f'{file.name}: what was downloaded has the SHA-256 {digest.hexdigest()}',
            expected=file.digest,
            remedy='start again: it is downloaded anew; if that happens twice, something between '
            'here and the hub damages it',
        )


def _link(repository: str, commit: str, file: _File) -> None:
    """Let the hub's client enter the content into the snapshot."""
    from huggingface_hub import hf_hub_download

    hf_hub_download(repository, file.name, revision=commit)


def _progress(file: _File) -> tuple[int, int]:
    return _size(file.part), file.size


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _gigabytes(size: int) -> str:
    return f'{size / 1e9:.2f} GB' if size >= 10_000_000 else f'{size / 1e6:.2f} MB'
