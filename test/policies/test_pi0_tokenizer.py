# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""BOS, newline, no padding, and nothing cut in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from openpi_policy_ros.errors import CheckpointError, InvalidObservation
from openpi_policy_ros.policies.checkpoint_files import Located
from openpi_policy_ros.policies.pi0.demo_tokenizer import build_tokenizer
from openpi_policy_ros.policies.pi0.prompt import Prompt
from openpi_policy_ros.policies.pi0.tokenizer import PromptTokenizer
from openpi_policy_ros.policies.tokenizer_files import load_tokenizer


def prompts(tokenizer: Tokenizer, **options: Any) -> PromptTokenizer:
    return PromptTokenizer(tokenizer, 'test', **{'max_length': 48, 'vocab_size': 1024, **options})


def line(text: str) -> Prompt:
    return Prompt((f'{text}\n',))


@pytest.fixture
def reference(golden: Path) -> PromptTokenizer:
    """One token per character; padding and truncation to 48 stored in the file."""
    tokenizer, _ = load_tokenizer(None, Located(golden))
    return prompts(tokenizer)


def test_bos_comes_first_newline_last_and_stored_padding_is_off(
    reference: PromptTokenizer,
) -> None:
    # ids by the table of that tokenizer: p 84, i 77, c 71, k 79, newline 108.
    assert reference.encode(line('pick')) == (2, 84, 77, 71, 79, 108)


def test_parts_are_encoded_one_by_one() -> None:
    tokenizer = build_tokenizer()
    # A vocabulary that has the two together would join them.
    tokenizer.add_tokens(['k\n'])
    joined, apart = (
        prompts(tokenizer, vocab_size=2048).encode(Prompt(parts))
        for parts in (('k\n',), ('k', '\n'))
    )
    assert len(joined) == 2
    assert len(apart) == 3
    assert apart[-1] == 108


def test_spaces_are_written_as_the_reference_writes_them(reference: PromptTokenizer) -> None:
    assert reference.encode(line('a b')) == (2, 69, 4, 70, 108)


def test_48_tokens_pass_and_49_are_refused_with_their_count(reference: PromptTokenizer) -> None:
    assert len(reference.encode(line('x' * 46))) == 48
    with pytest.raises(InvalidObservation) as caught:
        reference.encode(line('x' * 47), 'instruction')
    assert caught.value.field == 'instruction'
    assert '49 tokens' in caught.value.what
    assert '48' in caught.value.expected
    assert 'truncate_prompt' in caught.value.remedy
    # The count is the text's own, not that of a cut stored in the tokenizer.
    with pytest.raises(InvalidObservation, match='62 tokens'):
        reference.encode(line('x' * 60))


def test_truncation_is_possible_when_asked_for(golden: Path) -> None:
    tokenizer, _ = load_tokenizer(None, Located(golden))
    cut = prompts(tokenizer, truncate=True).encode(line('x' * 100))
    assert len(cut) == 48
    # As the reference cuts: the newline is lost.
    assert cut[-1] == cut[1] == 92


def test_a_megabyte_of_text_is_refused_without_encoding_it(reference: PromptTokenizer) -> None:
    with pytest.raises(InvalidObservation, match=r'1000001 characters.*48 tokens'):
        reference.encode(line('x' * 1_000_000))


def test_a_megabyte_of_text_is_cut_where_cutting_is_allowed() -> None:
    assert len(prompts(build_tokenizer(), truncate=True).encode(line('x ' * 500_000))) == 48


def test_text_that_is_not_unicode_is_refused(reference: PromptTokenizer) -> None:
    with pytest.raises(InvalidObservation, match='cannot be encoded') as caught:
        reference.encode(line('pick \ud800 up'))
    assert caught.value.remedy


def test_a_token_the_model_has_no_row_for_is_refused() -> None:
    with pytest.raises(InvalidObservation, match=r'holds token \d+ .*ids below 100'):
        prompts(build_tokenizer(), vocab_size=100).encode(line('pick'))


def test_a_repeated_prompt_is_encoded_once(reference: PromptTokenizer) -> None:
    first = reference.encode(line('pick'))
    reference._tokenizer = None  # type: ignore[assignment]
    assert reference.encode(line('pick')) is first


def test_many_prompts_do_not_grow_without_bound(reference: PromptTokenizer) -> None:
    for index in range(500):
        reference.encode(line(f'pick {index}'))
    assert len(reference._cache) <= 64


def test_text_with_the_state_is_never_cut(golden: Path) -> None:
    tokenizer, _ = load_tokenizer(None, Located(golden))
    for truncate in (False, True):
        encoder = prompts(tokenizer, truncate=truncate)
        assert len(encoder.encode(Prompt(('x' * 47,), holds_state=True))) == 48
        with pytest.raises(InvalidObservation) as caught:
            encoder.encode(Prompt(('x' * 48,), holds_state=True), 'instruction')
        assert caught.value.field == 'instruction'
        assert 'instruction and state together have 49 tokens' in caught.value.what
        assert caught.value.expected == 'at most 48 tokens'
        assert 'lose the state' in caught.value.remedy
        assert 'truncate_prompt' not in caught.value.remedy
        with pytest.raises(InvalidObservation, match='1000000 characters'):
            encoder.encode(Prompt(('x' * 1_000_000,), holds_state=True))


def test_a_tokenizer_with_another_bos_is_refused() -> None:
    other = Tokenizer(models.WordLevel({'<bos>': 7, '<unk>': 0}, unk_token='<unk>'))
    with pytest.raises(CheckpointError, match=r'<bos> has id 7.*expected PaliGemma'):
        prompts(other)


def test_the_demo_tokenizer_keeps_paligemmas_special_ids() -> None:
    tokenizer = build_tokenizer()
    assert [tokenizer.token_to_id(text) for text in ('<pad>', '<eos>', '<bos>')] == [0, 1, 2]
    assert tokenizer.token_to_id('\n') == 108
    assert tokenizer.get_vocab_size() <= 1024


def test_the_demo_tokenizer_fits_ordinary_instructions_into_48_tokens() -> None:
    encoder = prompts(build_tokenizer())
    for text in (
        'pick up the red block and place it in the blue bowl on the left of the plate',
        'Carefully open the top drawer, take the spoon out and put it next to the mug.',
        'fold the towel twice',
    ):
        assert len(encoder.encode(line(text))) <= 48


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=40))
def test_the_demo_tokenizer_loses_nothing_of_ascii_text(text: str) -> None:
    tokenizer = build_tokenizer_once()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert 3 not in ids
    if not any(special in text for special in ('<pad>', '<eos>', '<bos>', '<unk>')):
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


_TOKENIZERS: list[Tokenizer] = []


def build_tokenizer_once() -> Tokenizer:
    if not _TOKENIZERS:
        _TOKENIZERS.append(build_tokenizer())
    return _TOKENIZERS[0]
