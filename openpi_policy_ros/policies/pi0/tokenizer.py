# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The instruction as tokens: BOS, text, newline; no padding (pi0.md §2.3)."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from tokenizers import Tokenizer

from openpi_policy_ros.errors import CheckpointError, InvalidObservation
from openpi_policy_ros.policies import checkpoint_files
from openpi_policy_ros.policies.checkpoint_files import Located

BOS, BOS_TEXT = 2, '<bos>'
PALIGEMMA = 'google/paligemma-3b-pt-224'
FILE = 'tokenizer.json'
# Far more characters than any token of a vocabulary like Gemma's has: what is longer per token
# need not be encoded to know that it is too long.
_MOST_CHARACTERS_PER_TOKEN = 64
_CACHED_PROMPTS = 64


class PromptTokenizer:
    """Encodes instructions for one model.

    Args:
        tokenizer: the raw vocabulary. Padding and truncation stored in it are switched off.
        source: where it came from, for messages.
        max_length: most tokens, BOS and newline counted.
        vocab_size: rows of the model's text embedding.
        truncate: cut what is longer, instead of refusing it.

    Raises:
        CheckpointError: its BOS is not PaliGemma's.

    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        source: str,
        *,
        max_length: int,
        vocab_size: int,
        truncate: bool = False,
    ) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        bos = tokenizer.token_to_id(BOS_TEXT)
        if bos != BOS:
            raise CheckpointError(
                f'tokenizer {source}: {BOS_TEXT} has id {bos}',
                expected=f"PaliGemma's id {BOS}",
                remedy="name the checkpoint's own tokenizer as tokenizer in the policy file",
            )
        self._tokenizer = tokenizer
        self._source = source
        self._max_length = max_length
        self._vocab_size = vocab_size
        self._truncate = truncate
        # Robots repeat one instruction at every call.
        self._cache: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def encode(self, prompt: str, field: str = 'prompt') -> tuple[int, ...]:
        """Return the token ids of ``prompt``, at most ``max_length``.

        Raises:
            InvalidObservation: names ``field``; too long (with the token count), not text that can
                be encoded, or with a token the model does not have.

        """
        if prompt in self._cache:
            self._cache.move_to_end(prompt)
            return self._cache[prompt]
        tokens = self._encode(prompt, field)
        self._cache[prompt] = tokens
        if len(self._cache) > _CACHED_PROMPTS:
            self._cache.popitem(last=False)
        return tokens

    def _encode(self, prompt: str, field: str) -> tuple[int, ...]:
        text = prompt if prompt.endswith('\n') else f'{prompt}\n'
        most = self._max_length * _MOST_CHARACTERS_PER_TOKEN
        if len(text) > most:
            if not self._truncate:
                raise self._too_long(field, f'{len(prompt)} characters')
            text = text[:most]
        try:
            text.encode('utf-8')
        except UnicodeEncodeError as error:
            raise InvalidObservation(
                field,
                f'cannot be encoded: {error.reason} at character {error.start}',
                expected='Unicode text',
                remedy='send the instruction as UTF-8',
            ) from None
        # No special tokens: a stored template could add an EOS, which π0 never saw.
        tokens = (BOS, *self._tokenizer.encode(text, add_special_tokens=False).ids)
        if len(tokens) > self._max_length:
            if not self._truncate:
                raise self._too_long(field, f'{len(tokens)} tokens (BOS and newline counted)')
            tokens = tokens[: self._max_length]
        if max(tokens) >= self._vocab_size:
            raise InvalidObservation(
                field,
                f'holds token {max(tokens)} of {self._source}',
                expected=f'ids below {self._vocab_size}, the rows of the text embedding',
                remedy='leave special tokens out of the instruction, or name the tokenizer that '
                'belongs to the checkpoint',
            )
        return tokens

    def _too_long(self, field: str, length: str) -> InvalidObservation:
        return InvalidObservation(
            field,
            f'has {length}',
            expected=f'at most {self._max_length} tokens',
            remedy='shorten the instruction, or set truncate_prompt: true in the policy file',
        )


class TokenizerElsewhere(CheckpointError):
    """The tokenizer would have to be fetched from the hub, and must not be now."""


def load_tokenizer(
    named: str | None, checkpoint: Located, *, policy_file: str = '', fetch: bool = True
) -> tuple[Tokenizer, str]:
    """Return (tokenizer, where it came from).

    Args:
        named: the policy file's ``tokenizer``: a file or directory (relative ones also from beside
            the policy file), or a hub id. None = the checkpoint's own, else PaliGemma's.
        checkpoint: where the checkpoint lies. A directory of the user's own never touches the
            network: PaliGemma's tokenizer is then taken from the hub's local cache, or refused.
        policy_file: path of the policy file.
        fetch: whether the hub may be asked, where loading would ask it.

    Raises:
        CheckpointError: none found, or not a tokenizer.
        TokenizerElsewhere: it is on the hub, not in the hub's cache, and ``fetch`` is false.

    """
    path = _find(named, checkpoint, policy_file, fetch)
    try:
        return Tokenizer.from_file(str(path)), str(path)
    # The Rust library raises plain Exception.
    except Exception as error:
        raise CheckpointError(
            f'tokenizer {path} cannot be read: {error}',
            expected='a tokenizer.json of the `tokenizers` library',
            remedy='copy or download it again, or name another as tokenizer in the policy file',
        ) from None


def _find(named: str | None, checkpoint: Located, policy_file: str, fetch: bool) -> Path:
    if named is not None:
        bases = [Path(), *([Path(policy_file).parent] if policy_file else [])]
        for base in bases:
            path = base / Path(named).expanduser()
            for candidate in (path, path / FILE):
                if candidate.is_file():
                    return candidate
        if checkpoint_files.is_hub_id(named) and not Path(named).exists():
            return _from_hub(named, fetch)
        raise CheckpointError(
            f'tokenizer {named!r} is neither a file nor a directory that holds {FILE}',
            expected=f'a path to {FILE}, or a hub id of the form owner/repository',
            remedy='correct tokenizer in the policy file',
        )
    for candidate in (checkpoint.directory / 'tokenizer' / FILE, checkpoint.directory / FILE):
        if candidate.is_file():
            return candidate
    if checkpoint.revision:
        return _from_hub(PALIGEMMA, fetch)
    cached = _cached(PALIGEMMA)
    if cached is None:
        raise _not_found(PALIGEMMA, "this machine's hub cache")
    return cached


def _cached(repository: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    # Not hf_hub_download(local_files_only=True): even that may send a request of its own.
    cached = try_to_load_from_cache(repository, FILE)
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
    # As in checkpoint_files: the client raises whatever its HTTP library does.
    except Exception as error:
        raise _not_found(repository, f'the hub ({type(error).__name__})') from error


def _not_found(repository: str, where: str) -> CheckpointError:
    return CheckpointError(
        f'tokenizer {repository} is not to be had from {where}',
        expected=f'{FILE} in the checkpoint (also in tokenizer/), or a tokenizer that can be '
        'fetched',
        remedy='accept the licence of that repository on the hub, log in (`hf auth login`), then '
        f'`hf download {repository} {FILE}`; or name a local copy as tokenizer in the policy file',
    )
