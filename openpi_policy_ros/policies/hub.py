# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Ask the model hub: what a repository holds, its small files, the headers of its weights.

Everything is asked by commit once the commit is known, so that what was looked at is what is
loaded, and lies in the hub's own cache, where its other tools find it.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.weight_files import Header, TensorInfo

_LOG_IN = '`hf auth login`, or a token in HF_TOKEN'
_BUSY = 429
_COMMIT = re.compile(r'[0-9a-f]{40}')


class HubUnreachable(CheckpointError):
    """The hub did not answer; what was downloaded before may still serve."""


@dataclass(frozen=True)
class Listing:
    """What a repository holds.

    Attributes:
        commit: the one that the revision asked for is today.
        sizes: path → bytes, 0 where the hub does not say.

    """

    commit: str
    sizes: Mapping[str, int]


def offline() -> bool:
    """Return whether the hub's client was told to ask nothing (HF_HUB_OFFLINE)."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def list_files(repository: str, revision: str | None) -> Listing:
    """Return the files of ``repository``.

    Args:
        repository: hub id.
        revision: branch, tag or commit; None = main.

    Raises:
        CheckpointError: no such repository or revision, or not for this user.
        HubUnreachable: no answer.

    """
    from huggingface_hub import HfApi, constants

    with asking_hub(repository, revision):
        info = HfApi().model_info(
            repository,
            revision=revision,
            files_metadata=True,
            timeout=constants.HF_HUB_ETAG_TIMEOUT,
        )
    if not _COMMIT.fullmatch(str(info.sha)):
        raise CheckpointError(
            f'{repository!r}: {constants.ENDPOINT} says that its commit is {info.sha!r}',
            expected='a whole hash, as a model hub answers',
            remedy='check HF_ENDPOINT',
        )
    return Listing(info.sha, {file.rfilename: file.size or 0 for file in info.siblings or ()})


def fetch_small(
    repository: str, listing: Listing, revision: str | None, patterns: Collection[str]
) -> Path:
    """Fetch the files that ``patterns`` name; return the folder they lie in.

    Raises:
        CheckpointError: they cannot be fetched or stored.

    """
    from huggingface_hub import hf_hub_download

    names = [name for name in listing.sizes if any(fnmatch(name, pattern) for pattern in patterns)]
    for name in names:
        with asking_hub(repository, revision, what=name):
            hf_hub_download(repository, name, revision=listing.commit)
    if names and revision != listing.commit:
        # The cache remembers which commit a branch was: offline that is all there is to go by.
        with asking_hub(repository, revision, what=names[0]):
            hf_hub_download(repository, names[0], revision=revision)
    note = _note(repository, listing.commit)
    # A cache that may only be read serves too.
    with suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    return snapshot_folder(repository, listing.commit)


def cached_folder(
    repository: str, revision: str | None, patterns: Sequence[str]
) -> tuple[Path, str] | None:
    """Return (folder, commit) of what was downloaded before, or None. Asks nobody."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    with asking_hub(repository, revision):
        try:
            folder = snapshot_download(
                repository, revision=revision, allow_patterns=list(patterns), local_files_only=True
            )
        except LocalEntryNotFoundError:
            return None
    return Path(folder), Path(folder).name


def has_all_small(repository: str, commit: str) -> bool:
    """Return whether ``fetch_small`` once ended well: no small file is missing in the cache."""
    return _note(repository, commit).is_file()


def repository_folder(repository: str) -> Path:
    """Return where the hub's cache keeps a repository."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).expanduser() / f'models--{repository.replace("/", "--")}'


def snapshot_folder(repository: str, commit: str) -> Path:
    """Return where the hub's cache keeps the files of one commit."""
    return repository_folder(repository) / 'snapshots' / commit


def _note(repository: str, commit: str) -> Path:
    return repository_folder(repository) / '.openpi_policy_ros' / commit


def read_header(repository: str, name: str, commit: str, size: int) -> Header:
    """Return what a safetensors file on the hub holds; only its header is fetched.

    Args:
        repository: hub id.
        name: the file.
        commit: of the repository.
        size: bytes of the file, 0 = unknown.

    Raises:
        CheckpointError: not to be had, damaged, or of another format.

    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import NotASafetensorsRepoError, SafetensorsParsingError

    try:
        with asking_hub(repository, commit, what=f'the header of {name}'):
            metadata = HfApi().parse_safetensors_file_metadata(repository, name, revision=commit)
    except CheckpointError as error:
        if isinstance(error.__cause__, NotASafetensorsRepoError | SafetensorsParsingError):
            raise _damaged(repository, name, first_line(error.__cause__)) from error.__cause__
        raise
    infos = metadata.tensors
    least = max((info.data_offsets[1] for info in infos.values()), default=0)
    if size and size < least:
        raise _damaged(
            repository, name, f'has {size} bytes, but its header speaks of {least} and more'
        )
    return {tensor: TensorInfo(info.dtype, tuple(info.shape)) for tensor, info in infos.items()}


def _damaged(repository: str, name: str, what: str) -> CheckpointError:
    return CheckpointError(
        f'{name} of {repository!r} on the hub cannot be read: {what}',
        expected='a complete safetensors file',
        remedy='it is truncated, damaged or of another format there: ask its owner to upload it '
        'again, or name another revision',
    )


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
    except CheckpointError:
        raise
    # The hub's client raises whatever its HTTP library does (requests, httpx, ssl, socket):
    # no list of types would be complete.
    except Exception as raised:
        error = real_error(raised)
        named = f'{what} of {repository!r}' if what else f'{repository!r} is no directory here and'
        kind = HubUnreachable if _no_answer(error) else CheckpointError
        raise kind(
            f'{named} cannot be fetched from the hub at revision '
            f'{revision or "main"!r}: {type(error).__name__}: {first_line(error)}',
            expected='an existing directory, or a hub repository that this machine may read',
            remedy=remedy(error, repository),
        ) from error


def real_error(error: BaseException) -> BaseException:
    """Return what stands behind an error that only says that nothing was cached either."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    while isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def remedy(error: BaseException, repository: str) -> str:
    """Return what to do about an error of the hub's client."""
    from huggingface_hub import constants, errors

    page = f'{constants.ENDPOINT}/{repository}'
    if isinstance(error, errors.GatedRepoError):
        return f'accept the licence on its page, {page}, and log in there ({_LOG_IN})'
    if isinstance(error, errors.RevisionNotFoundError):
        return 'check revision: a branch, a tag or a commit'
    if isinstance(error, errors.RepositoryNotFoundError):
        return f'check the spelling; for a private repository log in ({_LOG_IN})'
    if isinstance(error, errors.OfflineModeIsEnabled):
        return 'unset HF_HUB_OFFLINE once to download it, or pass a directory'
    if isinstance(error, errors.HFValidationError):
        return 'check the spelling: the hub has no such names'
    status = _status(error)
    if status == 404:
        return 'check the spelling of the repository, the revision and HF_ENDPOINT'
    if status in (401, 403):
        return f'log in with a token that is valid and may read {page} ({_LOG_IN})'
    if status == _BUSY:
        return f'the hub is asked too often from here: wait, or log in ({_LOG_IN})'
    if status >= 500:
        return 'the hub has trouble of its own: try again later'
    if _local(error):
        assert isinstance(error, OSError)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f'make room in {constants.HF_HUB_CACHE}, or set HF_HOME to where there is some'
        return f'see that this user may write to {constants.HF_HUB_CACHE}, or set HF_HOME'
    return 'check the network (and HF_HUB_OFFLINE), or download it and pass its directory'


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text."""
    text = str(error).strip()
    return text.splitlines()[0] if text else 'no further message'


def _no_answer(error: BaseException) -> bool:
    from huggingface_hub import errors

    status = _status(error)
    if status:
        return status == _BUSY or status >= 500
    refused = (errors.HFValidationError, errors.SafetensorsParsingError)
    return not isinstance(error, (*refused, errors.NotASafetensorsRepoError)) and not _local(error)


def _local(error: BaseException) -> bool:
    """Return whether the trouble is this machine's disk, not the network."""
    return isinstance(error, OSError) and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
    )


def _status(error: BaseException) -> int:
    """Return the HTTP status behind an error, 0 where the hub did not answer at all."""
    from huggingface_hub.errors import HfHubHTTPError

    response = error.response if isinstance(error, HfHubHTTPError) else None
    return 0 if response is None else int(response.status_code)
