# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The text around an instruction, what is cleaned in it, and its tokens."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from openpi_policy_ros.errors import CheckpointError, ConfigurationError, InvalidObservation
from openpi_policy_ros.policies.dreamzero.prompt import (
    NEGATIVE_PROMPT,
    TEMPLATE,
    Prompts,
    clean,
    prompt_text,
)

VOCAB = 300


def tokenizer(**special: int) -> Tokenizer:
    """Return words of the fixed texts as tokens, the rest unknown."""
    ids = {'<pad>': 0, '</s>': 1, '<unk>': 2} | special
    words = dict.fromkeys(word for text in (TEMPLATE, NEGATIVE_PROMPT) for word in text.split())
    free = iter(number for number in range(3, 1000) if number not in ids.values())
    vocabulary = {**ids, **{word: next(free) for word in words}, 'late': VOCAB}
    made = Tokenizer(WordLevel(vocabulary, '<unk>'))
    made.pre_tokenizer = Whitespace()
    # As UMT5's: what a Prompts adds itself must not be there twice.
    made.post_processor = TemplateProcessing(single='$A </s>', special_tokens=[('</s>', 1)])
    made.enable_padding(length=9)
    made.enable_truncation(4)
    return made


def prompts(max_length: int = 200, **options: object) -> Prompts:
    return Prompts(tokenizer(), 'words', max_length=max_length, vocab_size=VOCAB, **options)


def test_the_instruction_stands_twice_in_the_description_of_the_views() -> None:
    assert prompt_text('Pick up the RED cup') == (
        'A multi-view video shows that a robot pick up the red cup The video is split into three '
        "views: The top view shows the camera view from the robot's wrist, the bottom-left view "
        'shows the camera view from the left exterior camera, and the bottom-right view shows the '
        'camera view from the right exterior camera. During training, one of the two bottom '
        'exterior views may be a black screen (dropped view). The robot pick up the red cup'
    )


def test_the_negative_prompt_is_wans() -> None:
    assert NEGATIVE_PROMPT.startswith('Vibrant colors, overexposed, static, ')
    assert NEGATIVE_PROMPT.endswith(', walking backwards.')
    assert len(NEGATIVE_PROMPT.split(', ')) == 30


@pytest.mark.parametrize(
    ('text', 'cleaned'),
    [
        ('  a \n\t b\u3000c  ', 'a b c'),
        ('salt &amp;amp; pepper', 'salt & pepper'),
        ('&lt;left&gt;', '<left>'),
        # Where ftfy sees markup it leaves entities alone.
        ('a < b &amp;amp; c', 'a < b & c'),
        ('theyâ€™re', "they're"),
        ('', ''),
    ],
)
def test_spaces_entities_and_broken_characters_are_mended(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize('text', ["['a', 'b']", '123', 'the {instruction} of {0}', '{'])
def test_an_instruction_is_text_whatever_it_looks_like(text: str) -> None:
    assert prompt_text(text).endswith(f'The robot {text}')


@settings(deadline=None, max_examples=40)
@given(st.text(st.characters(codec='utf-8'), max_size=40))
def test_any_text_is_cleaned_into_one_line(text: str) -> None:
    whole = prompt_text(text)
    assert whole == whole.strip()
    assert '  ' not in whole
    assert '\n' not in whole


def test_tokens_end_with_the_end_and_are_padded_to_the_length() -> None:
    encoder = prompts()
    ids, mask = encoder.encode('take the left view')
    assert (ids.shape, ids.dtype, mask.shape, mask.dtype) == (
        (1, 200),
        torch.int64,
        (1, 200),
        torch.int64,
    )
    count = int(mask.sum())
    assert mask[0].tolist() == [1] * count + [0] * (200 - count)
    assert ids[0, count - 1] == 1
    assert not ids[0, count:].any()
    text = prompt_text('take the left view')
    expected = tokenizer().get_vocab()
    words = [piece for piece, _ in Whitespace().pre_tokenize_str(text)]
    assert ids[0, : count - 1].tolist() == [expected.get(word, 2) for word in words]


def test_the_negative_prompt_is_encoded_without_the_template() -> None:
    _, mask = prompts().negative
    words = [piece for piece, _ in Whitespace().pre_tokenize_str(NEGATIVE_PROMPT)]
    assert int(mask.sum()) == len(words) + 1
    own, _ = prompts(negative='left view').negative
    vocabulary = tokenizer().get_vocab()
    assert own[0, :3].tolist() == [vocabulary['left'], vocabulary['view'], 1]


def test_a_repeated_instruction_is_encoded_once() -> None:
    encoder = prompts()
    assert encoder.encode('left')[0] is encoder.encode('left')[0]
    for number in range(100):
        encoder.encode(f'left {number}')
    assert torch.equal(encoder.encode('left')[0], prompts().encode('left')[0])


def test_what_is_too_long_is_refused_with_its_length_unless_it_may_be_cut() -> None:
    long = 'view ' * 80
    with pytest.raises(InvalidObservation, match=r'instruction: makes \d+ tokens') as caught:
        prompts().encode(long, 'instruction')
    assert 'at most 200' in str(caught.value)
    assert 'truncate_prompt' in str(caught.value)
    with pytest.raises(InvalidObservation, match='characters'):
        prompts().encode('x' * 200_000)
    ids, mask = prompts(truncate=True).encode(long)
    assert int(mask.sum()) == 200
    assert (int(ids[0, 199]), int(ids[0, 198]) > 1) == (1, True)
    assert int(prompts(truncate=True).encode('x' * 200_000)[1].sum()) <= 200


def test_a_negative_prompt_that_is_too_long_refuses_the_start() -> None:
    with pytest.raises(ConfigurationError, match='negative_prompt'):
        prompts(max_length=40)


def test_a_token_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidObservation, match=f'token {VOCAB} of words'):
        prompts().encode('late')


def test_what_is_no_unicode_is_refused() -> None:
    with pytest.raises(InvalidObservation, match='cannot be encoded'):
        prompts().encode('left \ud800')


def test_a_tokenizer_of_another_kind_is_refused() -> None:
    other = Tokenizer(WordLevel({'<pad>': 0, '<unk>': 1}, '<unk>'))
    with pytest.raises(CheckpointError, match=r'</s> has id None.*umt5'):
        Prompts(other, 'other', max_length=200, vocab_size=VOCAB)
    with pytest.raises(CheckpointError, match='<pad> has id 900'):
        Prompts(tokenizer(**{'<pad>': 900}), 'far', max_length=200, vocab_size=VOCAB)


def test_without_ftfy_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__('sys').modules, 'ftfy', None)
    with pytest.raises(ConfigurationError, match=r'openpi_policy_ros\[dreamzero\]'):
        clean('a')


def test_of_a_text_that_is_cut_the_rest_is_not_remembered() -> None:
    encoder = prompts(truncate=True)
    ids, _ = encoder.encode('pick ' * 10**5)
    assert torch.equal(ids, encoder.encode('pick ' * 10**6)[0])
    assert sum(map(len, encoder._cache)) < 10**5
