# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A small tokenizer of our own, for checkpoints made here; UMT5's has 256 384 entries.

The special tokens are UMT5's. The fixed texts around an instruction, and the negative prompt, are a
token for each of their phrases, so that a shorter row of tokens than the published one holds them
and a long instruction; no text is unknown.
"""

from __future__ import annotations

import re
from typing import Any

from tokenizers import Tokenizer

from openpi_policy_ros.policies.dreamzero.prompt import END, NEGATIVE_PROMPT, PAD, TEMPLATE
from openpi_policy_ros.policies.pi0.demo_tokenizer import MAX_ENTRIES, make_tokenizer

VOCABULARY = MAX_ENTRIES
SPECIALS = (PAD, END, '<s>', '<unk>')
TOKENIZER_CONFIG: dict[str, Any] = {
    'eos_token': END,
    'pad_token': PAD,
    'padding_side': 'right',
    'tokenizer_class': 'PreTrainedTokenizerFast',
    'unk_token': SPECIALS[3],
}


def build_tokenizer() -> Tokenizer:
    """Return the tokenizer; always the same one."""
    return make_tokenizer(
        SPECIALS, f'$A {END}', f'$A {END} $B {END}', (END, SPECIALS.index(END)), _phrases()
    )


def _phrases() -> list[str]:
    texts = [*TEMPLATE.split('{instruction}'), NEGATIVE_PROMPT]
    pieces = [piece for text in texts for piece in re.split(r'(?<=[,.:]) ', text)]
    return sorted({piece.strip().replace(' ', '▁') for piece in pieces if piece.strip()})
