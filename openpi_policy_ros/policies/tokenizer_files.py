# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Find a tokenizer's file: named, in the checkpoint, or on the hub (pi0.md §2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies import checkpoint_files, hub
from openpi_policy_ros.policies.checkpoint_files import Located

PALIGEMMA = 'google/paligemma-3b-pt-224'
FILE = 'tokenizer.json'
_SENTENCEPIECE = '.model'
_NAME_IT = 'as tokenizer in the policy file'


class TokenizerElsewhere(CheckpointError):
    """The tokenizer would have to be fetched from the hub, and must not be now."""


def load_tokenizer(
    named: str | None,
    checkpoint: Located,
    *,
    fallback: str | None = None,
    policy_file: str = '',
    fetch: bool = True,
) -> tuple[Tokenizer, str]:
    """Return (tokenizer, where it came from).

    Args:
        named: the policy file's ``tokenizer``: a file or directory (relative ones also from beside
            the policy file), or a hub id. None = the checkpoint's own, else ``fallback``.
        checkpoint: where the checkpoint lies. A directory of the user's own never touches the
            network by itself: a tokenizer of the hub that nobody named in the policy file is then
            taken from the hub's local cache, or refused.
        fallback: what the checkpoint's processors name; None = PaliGemma's.
        policy_file: path of the policy file.
        fetch: whether the hub may be asked, where loading would ask it.

    Raises:
        CheckpointError: none found, or not a tokenizer.
        TokenizerElsewhere: it is on the hub, not in the hub's cache, and ``fetch`` is false.

    """
    path = _find(named, checkpoint, fallback, policy_file, fetch)
    try:
        return Tokenizer.from_file(str(path)), str(path)
    # The Rust library raises plain Exception.
    except Exception as error:
        raise CheckpointError(
            f'tokenizer {path} cannot be read: {error}',
            expected='a tokenizer.json of the `tokenizers` library',
            remedy=f'copy or download it again, or name another {_NAME_IT}',
        ) from None


def _find(
    named: str | None,
    checkpoint: Located,
    fallback: str | None,
    policy_file: str,
    fetch: bool,
) -> Path:
    if named is not None:
        return _find_named(named, policy_file, fetch)
    folders = (checkpoint.directory / 'tokenizer', checkpoint.directory)
    found = _in_folders(folders)
    if found is not None:
        return found
    repository = fallback or PALIGEMMA
    if not checkpoint_files.is_hub_id(repository):
        return _find_on_disk(repository, checkpoint)
    if checkpoint.revision:
        return _from_hub(repository, fetch)
    cached = _cached(repository)
    if cached is None:
        raise _not_found(
            repository,
            "from this machine's hub cache, and a checkpoint in a directory never asks the network",
            f'accept the licence on its page, {_page(repository)}, and log in (`hf auth login`)'
            if repository == PALIGEMMA
            else 'once, on a machine with a network',
        )
    return cached


def _find_named(named: str, policy_file: str, fetch: bool) -> Path:
    bases = [Path(), *([Path(policy_file).parent] if policy_file else [])]
    paths = [base / Path(named).expanduser() for base in bases]
    for path in paths:
        if path.is_file():
            if path.suffix == _SENTENCEPIECE:
                raise _sentencepiece(path)
            return path
    found = _in_folders(paths)
    if found is not None:
        return found
    if checkpoint_files.is_hub_id(named) and not any(path.exists() for path in paths):
        return _from_hub(named, fetch)
    raise CheckpointError(
        f'tokenizer {named!r} is neither a file nor a directory that holds {FILE}',
        expected=f'a path to {FILE}, or a hub id of the form owner/repository',
        remedy='correct tokenizer in the policy file',
    )


def _find_on_disk(named: str, checkpoint: Located) -> Path:
    """Return the tokenizer that a checkpoint names by a path, as training on this machine does."""
    path = Path(named).expanduser()
    # A path that a stranger wrote is none of this machine's.
    if not checkpoint.revision and path.is_absolute():
        if path.suffix == _SENTENCEPIECE and path.is_file():
            raise _sentencepiece(path)
        found = path if path.is_file() else _in_folders([path])
        if found is not None:
            return found
    raise CheckpointError(
        f'the checkpoint holds no tokenizer, and the one it names, {named!r}, is not here',
        expected=f'{FILE} in the checkpoint (also in tokenizer/)',
        remedy=f'copy it there, or name the one that the model was trained with {_NAME_IT} '
        f'({PALIGEMMA} for the base models)',
    )


def _in_folders(folders: Iterable[Path]) -> Path | None:
    """Return the first tokenizer in ``folders``; refuse one of a kind that cannot be read."""
    known = list(folders)
    for folder in known:
        if (folder / FILE).is_file():
            return folder / FILE
    for folder in known:
        for path in sorted(folder.glob(f'*tokenizer{_SENTENCEPIECE}')):
            raise _sentencepiece(path)
    return None


def _cached(repository: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    # Not hf_hub_download(local_files_only=True): even that may send a request of its own.
    try:
        cached = try_to_load_from_cache(repository, FILE)
    except HFValidationError as error:
        raise _not_found(
            repository, f'from the hub ({hub.first_line(error)})', hub.remedy(error, repository)
        ) from error
    return Path(cached) if isinstance(cached, str) else None


def _from_hub(repository: str, fetch: bool) -> Path:
    from huggingface_hub import hf_hub_download

    if not fetch:
        cached = _cached(repository)
        if cached is None:
            raise TokenizerElsewhere(repository)
        return cached
    try:
        return Path(hf_hub_download(repository, FILE))
    # As in hub: the client raises whatever its HTTP library does.
    except Exception as raised:
        error = hub.real_error(raised)
        raise _not_found(
            repository,
            f'from the hub ({type(error).__name__}: {hub.first_line(error)})',
            hub.remedy(error, repository),
        ) from error


def _page(repository: str) -> str:
    from huggingface_hub import constants

    return f'{constants.ENDPOINT}/{repository}'


def _not_found(repository: str, where: str, first: str) -> CheckpointError:
    return CheckpointError(
        f'tokenizer {repository} is not to be had {where}',
        expected=f'{FILE} in the checkpoint (also in tokenizer/), or a tokenizer that can be '
        'fetched',
        remedy=f'{first}: `hf download {repository} {FILE}`; or name a local copy {_NAME_IT}'
        if repository != PALIGEMMA
        else f'{first}; then `hf download {repository} {FILE}`; or name a local copy {_NAME_IT}',
    )


def _sentencepiece(path: Path) -> CheckpointError:
    return CheckpointError(
        f'tokenizer {path} is a SentencePiece model',
        expected=f'a {FILE} of the `tokenizers` library',
        remedy='where it is the one of PaliGemma (as paligemma_tokenizer.model of openpi is), name '
        f'{PALIGEMMA} {_NAME_IT}: that repository holds the same vocabulary as {FILE} '
        f'(`hf download {PALIGEMMA} {FILE}`, once its licence is accepted); another one is written '
        f'as {FILE} by the transformers library: '
        'AutoTokenizer.from_pretrained(folder).save_pretrained(folder)',
    )
