# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A checkpoint is served whole and as it is, or refused with what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from policy_checkpoints import refused, rewrite_weights, served
from torch import Tensor

from openpi_policy_ros.policies.pi0.checkpoint import load_weights
from openpi_policy_ros.policies.pi0.config import VARIANTS, VisionSize
from openpi_policy_ros.policies.pi0.layout import EMBEDDING, EXPERT_HEAD, PALIGEMMA_HEAD, tensors
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.model import PiModel, make_model

CPU = torch.device('cpu')
STATE_PROJ = 'model.state_proj.weight'


def parameters(directory: Path) -> tuple[dict[str, Tensor], str]:
    model, digest = load_weights(directory, read_config(directory), CPU)
    return dict(model.named_parameters()), digest


# The table of tensors


def test_the_table_is_the_published_checkpoints(golden: Path) -> None:
    published: dict[str, tuple[int, ...]] = {}
    for name, entry in json.loads((golden / 'full_size_tensors.json').read_text()).items():
        for layer in range(entry['layers'] or 1):
            published[name.replace('*', str(layer))] = tuple(entry['shape'])
    config = replace(
        read_config(golden),
        vision=VisionSize(),
        language=VARIANTS['gemma_2b'],
        expert=VARIANTS['gemma_300m'],
        vocab_size=257152,
    )
    ours = {f'model.{name}': slot.shape for name, slot in tensors(config).items()}
    assert len(published) == 778
    assert ours == published


def test_config_json_alone_means_the_published_sizes(copy: Path) -> None:
    (copy / 'arch_overrides.json').unlink()
    config = read_config(copy)
    assert config.language == VARIANTS['gemma_2b']
    assert config.expert == VARIANTS['gemma_300m']
    assert config.vision == VisionSize()
    assert config.vocab_size == 257152
    assert config.patches == 256
    # 3 cameras and 48 text tokens.
    assert config.max_prefix == 816


# Names


def old_names(weights: dict[str, Tensor]) -> None:
    """Rename as older files have it: no prefix, no inner ``model``, no ``vision_model``."""
    for name in list(weights):
        new = name.removeprefix('model.').replace('paligemma.model.', 'paligemma.')
        new = new.replace('vision_tower.vision_model.', 'vision_tower.')
        weights[new.replace('action_time_mlp_', 'time_mlp_')] = weights.pop(name)


def published_names(weights: dict[str, Tensor]) -> None:
    """Rename as the published file has it: no prefix, the table only as language head."""
    for name in list(weights):
        weights[name.removeprefix('model.')] = weights.pop(name)
    weights[PALIGEMMA_HEAD] = weights.pop(EMBEDDING)


@pytest.mark.parametrize('rename', [old_names, published_names])
def test_older_and_published_names_load_the_same_weights(
    small: Path, copy: Path, rename: Callable[[dict[str, Tensor]], None]
) -> None:
    rewrite_weights(copy, rename)
    expected, digest = parameters(small)
    loaded, same_digest = parameters(copy)
    assert loaded.keys() == expected.keys()
    for name, tensor in loaded.items():
        assert torch.equal(tensor, expected[name]), name
    assert same_digest == digest


def test_with_both_tables_the_embedding_counts_not_the_head(small: Path, copy: Path) -> None:
    rewrite_weights(copy, lambda w: w[f'model.{PALIGEMMA_HEAD}'].zero_())
    assert torch.equal(parameters(copy)[0]['embedding'], parameters(small)[0]['embedding'])


def test_a_file_without_the_unused_heads_is_complete(small: Path, copy: Path) -> None:
    def drop(weights: dict[str, Tensor]) -> None:
        del weights[f'model.{PALIGEMMA_HEAD}'], weights[f'model.{EXPERT_HEAD}']

    rewrite_weights(copy, drop)
    assert parameters(copy)[1] == parameters(small)[1]


def test_the_digest_tells_weights_apart(small: Path, copy: Path) -> None:
    def nudge(weights: dict[str, Tensor]) -> None:
        weights[STATE_PROJ][0, 0] += 1e-3

    rewrite_weights(copy, nudge)
    digests = served(small).spec.weights_hash, served(copy).spec.weights_hash
    assert digests[0] != digests[1]
    assert all(re.fullmatch('[0-9a-f]{12}', digest) for digest in digests)


def test_bfloat16_weights_are_served_in_float32_where_it_is_asked_for(
    small: Path, copy: Path
) -> None:
    def narrow(weights: dict[str, Tensor]) -> None:
        for name in weights:
            weights[name] = weights[name].bfloat16()

    rewrite_weights(copy, narrow)
    loaded = parameters(copy)[0]['state_proj.weight']
    assert loaded.dtype == torch.float32
    assert torch.equal(loaded, parameters(small)[0]['state_proj.weight'].bfloat16().float())


# What is refused: weights


@pytest.mark.parametrize(
    'name',
    [
        STATE_PROJ,
        f'model.{EMBEDDING.replace("embed_tokens", "layers.0.mlp.up_proj")}',
        # Never read, but a file without it is not the file that was saved.
        f'model.{EMBEDDING.replace("embed_tokens", "norm")}',
    ],
)
def test_a_missing_tensor_refuses_by_name(copy: Path, name: str) -> None:
    rewrite_weights(copy, lambda w: w.pop(name))
    error = refused(copy)
    assert '1 missing' in error.what
    assert name.removeprefix('model.') in error.what


def test_a_missing_table_refuses_although_each_name_for_it_is_optional(copy: Path) -> None:
    def drop(weights: dict[str, Tensor]) -> None:
        del weights[f'model.{PALIGEMMA_HEAD}'], weights[f'model.{EMBEDDING}']

    rewrite_weights(copy, drop)
    assert EMBEDDING in refused(copy).what


def test_an_unexpected_tensor_refuses_by_name(copy: Path) -> None:
    rewrite_weights(copy, lambda w: w.update({'model.extra.weight': torch.zeros(2)}))
    error = refused(copy)
    assert '1 unexpected: model.extra.weight' in error.what


def test_a_wrongly_shaped_tensor_refuses_with_both_shapes(copy: Path) -> None:
    rewrite_weights(copy, lambda w: w.update({STATE_PROJ: torch.zeros(32, 31)}))
    error = refused(copy)
    assert f'{STATE_PROJ} is [32, 31], expected [32, 32]' in error.what


def test_a_quantised_tensor_refuses_by_type(copy: Path) -> None:
    rewrite_weights(copy, lambda w: w.update({STATE_PROJ: torch.zeros(32, 32, dtype=torch.int8)}))
    assert f'{STATE_PROJ} is I8, expected one of F32, BF16, F16' in refused(copy).what


def test_the_same_tensor_under_two_names_refuses(copy: Path) -> None:
    rewrite_weights(copy, lambda w: w.update({'state_proj.weight': w[STATE_PROJ].clone()}))
    assert 'the same tensor as' in refused(copy).what


def test_every_problem_comes_in_one_message(copy: Path) -> None:
    def damage(weights: dict[str, Tensor]) -> None:
        del weights['model.state_proj.bias']
        weights['model.extra'] = torch.zeros(1)
        weights[STATE_PROJ] = torch.zeros(1, 1)

    rewrite_weights(copy, damage)
    text = refused(copy).what
    for part in ('state_proj.bias', 'model.extra', '[1, 1]'):
        assert part in text


def test_a_checkpoint_of_other_sizes_lists_some_and_counts_the_rest(copy: Path) -> None:
    (copy / 'arch_overrides.json').unlink()
    assert re.search(r'\d+ missing: .*, and \d+ more', refused(copy).what)


def test_no_weights_refuse_and_list_what_is_there(copy: Path) -> None:
    (copy / 'model.safetensors').unlink()
    error = refused(copy)
    assert 'no weights' in error.what
    assert 'config.json' in error.expected
    assert 'random weights are never served' in error.remedy


@pytest.mark.parametrize('kept', [0, 5, 100, 1_000_000])
def test_a_truncated_file_refuses(copy: Path, kept: int) -> None:
    path = copy / 'model.safetensors'
    path.write_bytes(path.read_bytes()[:kept])
    error = refused(copy)
    assert f'({kept} bytes) cannot be read' in error.what
    assert 'truncated' in error.remedy


def test_a_file_of_another_format_refuses(copy: Path) -> None:
    (copy / 'model.safetensors').write_bytes(b'PK\x03\x04' + bytes(1000))
    assert 'another format' in refused(copy).remedy


def test_a_git_lfs_pointer_is_called_by_its_name(copy: Path) -> None:
    (copy / 'model.safetensors').write_bytes(
        b'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1726872\n'
    )
    assert 'git lfs pull' in refused(copy).remedy


def test_weights_that_are_not_finite_fail_the_warm_up(copy: Path) -> None:
    rewrite_weights(copy, lambda w: w[STATE_PROJ].fill_(float('nan')))
    policy = served(copy)
    with pytest.raises(Exception, match=r'NaN or infinity.*weights are damaged'):
        policy.warm_up()


def test_a_parameter_the_table_forgets_is_a_bug_that_shows(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_larger(*args: Any) -> PiModel:
        model = make_model(*args)
        model.forgotten = torch.nn.Parameter(torch.zeros(3), requires_grad=False)
        return model

    monkeypatch.setattr('openpi_policy_ros.policies.pi0.checkpoint.make_model', make_larger)
    with pytest.raises(AssertionError, match='forgotten'):
        load_weights(small, read_config(small), CPU)
