# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The text DreamZero reads around an instruction, and its tokens (DreamZero reference, Wan 2.1)."""

from __future__ import annotations

import html
import re
from collections import OrderedDict
from typing import TypeAlias

import torch
from tokenizers import Tokenizer
from torch import Tensor

from openpi_policy_ros.errors import CheckpointError, ConfigurationError, InvalidObservation

TOKENIZER = 'google/umt5-xxl'
"""Whose vocabulary the text encoder was trained with."""
END, PAD = '</s>', '<pad>'

TEMPLATE = (
    'A multi-view video shows that a robot {instruction} The video is split into three views: The '
    "top view shows the camera view from the robot's wrist, the bottom-left view shows the camera "
    'view from the left exterior camera, and the bottom-right view shows the camera view from the '
    'right exterior camera. During training, one of the two bottom exterior views may be a black '
    'screen (dropped view). The robot {instruction}'
)
NEGATIVE_PROMPT = (
    'Vibrant colors, overexposed, static, blurry details, text, subtitles, style, artwork, '
    'painting, image, still, grayscale, dull, worst quality, low quality, JPEG artifacts, ugly, '
    'mutilated, extra fingers, bad hands, bad face, deformed, disfigured, mutated limbs, fused '
    'fingers, stagnant image, cluttered background, three legs, many people in the background, '
    'walking backwards.'
)
"""What the guidance of the video leads away from: Wan's list, in English."""

Tokens: TypeAlias = tuple[Tensor, Tensor]
"""Ids and mask, both int64 [1, L]: what is behind the text is padding, its mask 0."""

_SPACES = re.compile(r'\s+')
_MOST_CHARACTERS_PER_TOKEN = 64
_CACHED = 64


def prompt_text(instruction: str) -> str:
    """Return the whole text for an instruction, which is lower-cased; no full stop is added."""
    # Not str.format: an instruction may hold braces.
    return clean(TEMPLATE.replace('{instruction}', instruction.lower()))


def clean(text: str) -> str:
    """Return ``text`` with broken characters mended, HTML entities resolved, spaces collapsed.

    Raises:
        ConfigurationError: ftfy is not installed.

    """
    try:
        import ftfy
    except ImportError:
        raise ConfigurationError(
            'policy dreamzero',
            [
                'prompts are cleaned with ftfy, which is not installed; '
                "pip install 'openpi_policy_ros[dreamzero]'"
            ],
        ) from None
    mended = html.unescape(html.unescape(ftfy.fix_text(text)))
    return _SPACES.sub(' ', mended).strip()


class Prompts:
    """Encodes instructions for one model.

    Args:
        tokenizer: the vocabulary; what it says of padding and truncation does not count.
        source: where it came from, for messages.
        max_length: tokens of a text, padding counted.
        vocab_size: rows of the text encoder's embedding.
        negative: what the guidance leads away from; None = ``NEGATIVE_PROMPT``.
        truncate: cut what is longer, instead of refusing it.

    Attributes:
        negative: its tokens.

    Raises:
        CheckpointError: the tokenizer is of another kind.
        ConfigurationError: the negative prompt is too long; ftfy is missing.

    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        source: str,
        *,
        max_length: int,
        vocab_size: int,
        negative: str | None = None,
        truncate: bool = False,
    ) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self._end, self._pad = (
            _special(tokenizer, name, source, vocab_size) for name in (END, PAD)
        )
        self._tokenizer, self._source = tokenizer, source
        self._max_length, self._vocab_size = max_length, vocab_size
        self._truncate = truncate
        self._cache: OrderedDict[str, Tokens] = OrderedDict()
        try:
            self.negative = self._encode(clean(negative or NEGATIVE_PROMPT), 'negative_prompt')
        except InvalidObservation as error:
            raise ConfigurationError('policy dreamzero', [str(error)]) from None

    def encode(self, instruction: str, field: str = 'prompt') -> Tokens:
        """Return the tokens of the text for ``instruction``; not to be written to.

        Raises:
            InvalidObservation: names ``field``; too long (with the number of tokens), not text that
                can be encoded, or with a token the model does not have.

        """
        most = self._max_length * _MOST_CHARACTERS_PER_TOKEN
        if len(instruction) > most:
            if not self._truncate:
                raise self._too_long(field, f'{len(instruction)} characters')
            # Before it is remembered: a client's longest text is not.
            instruction = instruction[:most]
        if instruction in self._cache:
            self._cache.move_to_end(instruction)
            return self._cache[instruction]
        try:
            instruction.encode('utf-8')
        except UnicodeEncodeError as error:
            raise InvalidObservation(
                field,
                f'cannot be encoded: {error.reason} at character {error.start}',
                expected='Unicode text',
                remedy='send the instruction as UTF-8',
            ) from None
        tokens = self._encode(prompt_text(instruction), field)
        self._cache[instruction] = tokens
        if len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
        return tokens

    def _encode(self, text: str, field: str) -> Tokens:
        # The end is added here, whatever template for special tokens the file has.
        tokens = list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        room = self._max_length - 1
        if len(tokens) > room:
            if not self._truncate:
                raise self._too_long(field, f'{len(tokens) + 1} tokens')
            tokens = tokens[:room]
        if max(tokens, default=0) >= self._vocab_size:
            raise InvalidObservation(
                field,
                f'holds token {max(tokens)} of {self._source}',
                expected=f'ids below {self._vocab_size}, the rows of the text embedding',
                remedy='leave special tokens out of it, or name the tokenizer that belongs to the '
                'checkpoint',
            )
        tokens.append(self._end)
        ids = torch.full((1, self._max_length), self._pad, dtype=torch.int64)
        ids[0, : len(tokens)] = torch.tensor(tokens)
        mask = torch.zeros_like(ids)
        mask[0, : len(tokens)] = 1
        return ids, mask

    def _too_long(self, field: str, length: str) -> InvalidObservation:
        return InvalidObservation(
            field,
            f'makes {length} with the text around it',
            expected=f'at most {self._max_length} tokens',
            remedy='shorten it, or set truncate_prompt: true in the policy file',
        )


def _special(tokenizer: Tokenizer, name: str, source: str, vocab_size: int) -> int:
    """Return the id of a special token that the text encoder has to know."""
    token: int | None = tokenizer.token_to_id(name)
    if token is None or token >= vocab_size:
        raise CheckpointError(
            f'tokenizer {source}: {name} has id {token}',
            expected=f'an id below {vocab_size}, the rows of the text embedding',
            remedy=f'name the one of the checkpoint ({TOKENIZER} for the published ones) as '
            'tokenizer in the policy file',
        )
    return token
