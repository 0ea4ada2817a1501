# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""BOS, newline, no padding, and nothing cut in silence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from openpi_policy_ros.errors import CheckpointError, InvalidObservation
from openpi_policy_ros.policies.checkpoint_files import Located
from openpi_policy_ros.policies.pi0.demo_tokenizer import build_tokenizer
from openpi_policy_ros.policies.pi0.tokenizer import PromptTokenizer, load_tokenizer


def prompts(tokenizer: Tokenizer, **options: Any) -> PromptTokenizer:
    return PromptTokenizer(tokenizer, 'test', **{'max_length': 48, 'vocab_size': 1024, **options})


@pytest.fixture
def reference(golden: Path) -> PromptTokenizer:
    """One token per character; padding and truncation to 48 stored in the file."""
    tokenizer, _ = load_tokenizer(None, Located(golden))
    return prompts(tokenizer)


def test_bos_comes_first_newline_last_and_stored_padding_is_off(
    reference: PromptTokenizer,
) -> None:
    # ids by the table of that tokenizer: p 84, i 77, c 71, k 79, newline 108.
    assert reference.encode('pick') == (2, 84, 77, 71, 79, 108)


def test_a_newline_that_is_there_is_not_doubled(reference: PromptTokenizer) -> None:
    assert reference.encode('pick\n') == reference.encode('pick')


def test_spaces_are_written_as_the_reference_writes_them(reference: PromptTokenizer) -> None:
    assert reference.encode('a b') == (2, 69, 4, 70, 108)


def test_48_tokens_pass_and_49_are_refused_with_their_count(reference: PromptTokenizer) -> None:
    assert len(reference.encode('x' * 46)) == 48
    with pytest.raises(InvalidObservation) as caught:
        reference.encode('x' * 47, 'instruction')
    assert caught.value.field == 'instruction'
    assert '49 tokens' in caught.value.what
    assert '48' in caught.value.expected
    assert 'truncate_prompt' in caught.value.remedy
    # The count is the text's own, not that of a cut stored in the tokenizer.
    with pytest.raises(InvalidObservation, match='62 tokens'):
        reference.encode('x' * 60)


def test_truncation_is_possible_when_asked_for(golden: Path) -> None:
    tokenizer, _ = load_tokenizer(None, Located(golden))
    cut = prompts(tokenizer, truncate=True).encode('x' * 100)
    assert len(cut) == 48
    # As the reference cuts: the newline is lost.
    assert cut[-1] == cut[1] == 92


def test_a_megabyte_of_text_is_refused_without_encoding_it(reference: PromptTokenizer) -> None:
    with pytest.raises(InvalidObservation, match=r'1000000 characters.*48 tokens'):
        reference.encode('x' * 1_000_000)


def test_a_megabyte_of_text_is_cut_where_cutting_is_allowed() -> None:
    assert len(prompts(build_tokenizer(), truncate=True).encode('x ' * 500_000)) == 48


def test_text_that_is_not_unicode_is_refused(reference: PromptTokenizer) -> None:
    with pytest.raises(InvalidObservation, match='cannot be encoded') as caught:
        reference.encode('pick \ud800 up')
    assert caught.value.remedy


def test_a_token_the_model_has_no_row_for_is_refused() -> None:
    with pytest.raises(InvalidObservation, match=r'holds token \d+ .*ids below 100'):
        prompts(build_tokenizer(), vocab_size=100).encode('pick')


def test_a_repeated_prompt_is_encoded_once(reference: PromptTokenizer) -> None:
    first = reference.encode('pick')
    reference._tokenizer = None  # type: ignore[assignment]
    assert reference.encode('pick') is first


def test_many_prompts_do_not_grow_without_bound(reference: PromptTokenizer) -> None:
    for index in range(500):
        reference.encode(f'pick {index}')
    assert len(reference._cache) <= 64


def test_a_tokenizer_with_another_bos_is_refused() -> None:
    other = Tokenizer(models.WordLevel({'<bos>': 7, '<unk>': 0}, unk_token='<unk>'))
    with pytest.raises(CheckpointError, match=r'<bos> has id 7.*expected PaliGemma'):
        prompts(other)


def test_tokenizer_is_found_by_file_directory_and_beside_the_policy_file(
    golden: Path, tmp_path: Path
) -> None:
    nowhere = Located(tmp_path)
    folder = golden / 'tokenizer'
    for named, policy_file in (
        (str(folder), ''),
        (str(folder / 'tokenizer.json'), ''),
        ('tokenizer', str(golden / 'some_policy.yaml')),
    ):
        tokenizer, source = load_tokenizer(named, nowhere, policy_file=policy_file)
        assert tokenizer.get_vocab_size() == 109
        assert Path(source) == folder / 'tokenizer.json'


def test_a_tokenizer_that_is_not_there_refuses_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'/no/such/place' is neither.*correct tokenizer"):
        load_tokenizer('/no/such/place', Located(tmp_path))


def test_a_damaged_tokenizer_refuses(tmp_path: Path) -> None:
    (tmp_path / 'tokenizer.json').write_text('{"version": "1.0"')
    with pytest.raises(CheckpointError, match=r'tokenizer .* cannot be read'):
        load_tokenizer(None, Located(tmp_path))


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
        assert len(encoder.encode(text)) <= 48


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


def test_a_local_checkpoint_uses_paligemmas_tokenizer_from_the_hub_cache(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / 'models--google--paligemma-3b-pt-224' / 'snapshots' / 'c0ffee'
    shutil.copytree(golden / 'tokenizer', snapshot)
    (snapshot.parent.parent / 'refs').mkdir()
    (snapshot.parent.parent / 'refs' / 'main').write_text('c0ffee')
    monkeypatch.setattr('huggingface_hub.file_download.HF_HUB_CACHE', str(tmp_path), raising=False)
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_CACHE', str(tmp_path))
    (tmp_path / 'checkpoint').mkdir()
    _, source = load_tokenizer(None, Located(tmp_path / 'checkpoint'))
    assert Path(source) == snapshot / 'tokenizer.json'


def test_a_checkpoint_from_the_hub_fetches_paligemmas_tokenizer(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def download(repository: str, file: str) -> str:
        asked.append((repository, file))
        return str(golden / 'tokenizer' / file)

    monkeypatch.setattr('huggingface_hub.hf_hub_download', download)
    load_tokenizer(None, Located(tmp_path, revision='c0ffee'))
    load_tokenizer('someone/tokenizer', Located(tmp_path))
    assert asked == [
        ('google/paligemma-3b-pt-224', 'tokenizer.json'),
        ('someone/tokenizer', 'tokenizer.json'),
    ]


def test_a_gated_tokenizer_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class GatedRepoError(Exception):
        pass

    def gated(repository: str, file: str) -> str:
        raise GatedRepoError('401')

    monkeypatch.setattr('huggingface_hub.hf_hub_download', gated)
    with pytest.raises(CheckpointError, match=r'the hub \(GatedRepoError\)') as caught:
        load_tokenizer(None, Located(tmp_path, revision='c0ffee'))
    assert 'accept the licence' in caught.value.remedy
    assert 'tokenizer in the policy file' in caught.value.remedy
