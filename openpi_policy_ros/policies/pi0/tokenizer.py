# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A prompt as tokens: BOS and text; no padding, no EOS, nothing cut in silence (pi0.md §2.3)."""

from __future__ import annotations

from collections import OrderedDict

from tokenizers import Tokenizer

from openpi_policy_ros.errors import CheckpointError, InvalidObservation
from openpi_policy_ros.policies.pi0.prompt import Prompt

BOS, BOS_TEXT = 2, '<bos>'
# Far more characters than any token of a vocabulary like Gemma's has: what is longer per token
# need not be encoded to know that it is too long.
_MOST_CHARACTERS_PER_TOKEN = 64
_CACHED_PROMPTS = 64


class PromptTokenizer:
    """Encodes prompts for one model.

    Args:
        tokenizer: the raw vocabulary. Padding and truncation stored in it are switched off.
        source: where it came from, for messages.
        max_length: most tokens, BOS counted.
        vocab_size: rows of the model's text embedding.
        truncate: cut what is longer, instead of refusing it; never a prompt that holds the state.

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
        # Robots repeat one instruction at every call, and a robot that stands still its state.
        self._cache: OrderedDict[Prompt, tuple[int, ...]] = OrderedDict()

    def encode(self, prompt: Prompt, field: str = 'prompt') -> tuple[int, ...]:
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

    def _encode(self, prompt: Prompt, field: str) -> tuple[int, ...]:
        parts, most = prompt.parts, self._max_length * _MOST_CHARACTERS_PER_TOKEN
        characters = sum(map(len, parts))
        if characters > most:
            if not self._may_cut(prompt):
                raise self._too_long(prompt, field, f'{characters} characters')
            parts = tuple(part[:most] for part in parts)
        tokens = [BOS]
        for part in parts:
            try:
                part.encode('utf-8')
            except UnicodeEncodeError as error:
                raise InvalidObservation(
                    field,
                    f'cannot be encoded: {error.reason} at character {error.start}',
                    expected='Unicode text',
                    remedy='send the instruction as UTF-8',
                ) from None
            # No special tokens: a stored template could add an EOS, which the model never saw.
            tokens += self._tokenizer.encode(part, add_special_tokens=False).ids
        if len(tokens) > self._max_length:
            if not self._may_cut(prompt):
                raise self._too_long(
                    prompt, field, f'{len(tokens)} tokens (BOS and what the model adds counted)'
                )
            tokens = tokens[: self._max_length]
        if max(tokens) >= self._vocab_size:
            raise InvalidObservation(
                field,
                f'holds token {max(tokens)} of {self._source}',
                expected=f'ids below {self._vocab_size}, the rows of the text embedding',
                remedy='leave special tokens out of the instruction, or name the tokenizer that '
                'belongs to the checkpoint',
            )
        return tuple(tokens)

    def _may_cut(self, prompt: Prompt) -> bool:
        return self._truncate and not prompt.holds_state

    def _too_long(self, prompt: Prompt, field: str, length: str) -> InvalidObservation:
        if prompt.holds_state:
            return InvalidObservation(
                field,
                f'instruction and state together have {length}',
                expected=f'at most {self._max_length} tokens',
                remedy='shorten the instruction; a cut would lose the state behind it',
            )
        return InvalidObservation(
            field,
            f'has {length}',
            expected=f'at most {self._max_length} tokens',
            remedy='shorten the instruction, or set truncate_prompt: true in the policy file',
        )
