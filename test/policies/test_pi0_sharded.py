# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Weights in several files are the weights in one, and an index is believed in nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from policy_checkpoints import served
from safetensors.torch import load_file, save_file
from torch import Tensor

from openpi_policy_ros.errors import CheckpointError
from openpi_policy_ros.policies.pi0.checkpoint import load_weights
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.weight_files import (
    TensorInfo,
    merge_headers,
    read_header,
    read_index,
)

CPU = torch.device('cpu')
WHOLE = 'model.safetensors'
INDEX = f'{WHOLE}.index.json'
SHARDS = tuple(f'model-0000{number}-of-00003.safetensors' for number in (1, 2, 3))
FIRST, SECOND = 'model.action_in_proj.bias', 'model.action_in_proj.weight'


@pytest.fixture
def sharded(copy: Path) -> Path:
    """Return a checkpoint whose tensors are dealt to three shards in turn."""
    weights = load_file(copy / WHOLE)
    (copy / WHOLE).unlink()
    names = sorted(weights)
    weight_map = {name: SHARDS[index % 3] for index, name in enumerate(names)}
    for shard in SHARDS:
        save_file(
            {name: weights[name] for name in names if weight_map[name] == shard}, copy / shard
        )
    size = sum(tensor.nbytes for tensor in weights.values())
    index = {'metadata': {'total_size': size}, 'weight_map': weight_map}
    (copy / INDEX).write_text(json.dumps(index))
    assert (weight_map[FIRST], weight_map[SECOND]) == SHARDS[:2]
    return copy


def loaded(directory: Path) -> tuple[dict[str, Tensor], str]:
    model, digest = load_weights(directory, read_config(directory), CPU)
    return dict(model.named_parameters()), digest


def refused(directory: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        loaded(directory)
    assert caught.value.remedy
    return caught.value


def change_index(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = directory / INDEX
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))


def change_shard(path: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    weights = load_file(path)
    change(weights)
    # Not in place: the loaded tensors are the old file.
    save_file(weights, path.with_suffix('.new'))
    path.with_suffix('.new').replace(path)


def test_shards_hold_the_weights_of_the_one_file(small: Path, sharded: Path) -> None:
    expected, digest = loaded(small)
    found, same = loaded(sharded)
    assert same == digest
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name]), name


def test_a_sharded_checkpoint_is_served(small: Path, sharded: Path) -> None:
    assert served(sharded).spec.weights_hash == served(small).spec.weights_hash


def test_shards_may_be_links_as_in_the_hubs_cache(small: Path, sharded: Path) -> None:
    blobs = sharded / 'blobs'
    blobs.mkdir()
    for shard in SHARDS:
        (sharded / shard).rename(blobs / shard[:11])
        (sharded / shard).symlink_to(f'blobs/{shard[:11]}')
    assert loaded(sharded)[1] == loaded(small)[1]


def test_one_whole_file_counts_more_than_an_index_beside_it(small: Path, sharded: Path) -> None:
    (sharded / WHOLE).write_bytes((small / WHOLE).read_bytes())
    for shard in SHARDS:
        (sharded / shard).unlink()
    assert loaded(sharded)[1] == loaded(small)[1]


def test_what_is_merged_is_what_the_one_file_would_tell(small: Path, sharded: Path) -> None:
    headers = {shard: read_header(sharded / shard) for shard in SHARDS}
    merged = merge_headers(INDEX, read_index(sharded / INDEX), headers)
    assert dict(merged) == dict(read_header(small / WHOLE))


# Shards that are not what they should be


def test_missing_shards_refuse_by_name(sharded: Path) -> None:
    (sharded / SHARDS[0]).unlink()
    (sharded / SHARDS[2]).unlink()
    error = refused(sharded)
    assert f'names 3 shards, 2 of which are missing: {SHARDS[0]}, {SHARDS[2]}' in error.what


def test_a_link_to_a_shard_that_is_gone_refuses_by_name(sharded: Path) -> None:
    (sharded / SHARDS[1]).unlink()
    (sharded / SHARDS[1]).symlink_to('blobs/gone')
    assert f'{SHARDS[1]} (0 bytes) cannot be read' in refused(sharded).what


@pytest.mark.parametrize('kept', [0, 7, 5000, 400_000])
def test_a_truncated_shard_refuses_by_name(sharded: Path, kept: int) -> None:
    path = sharded / SHARDS[1]
    path.write_bytes(path.read_bytes()[:kept])
    error = refused(sharded)
    assert f'{SHARDS[1]} ({kept} bytes) cannot be read' in error.what
    assert 'truncated' in error.remedy


def test_a_shard_that_is_a_git_lfs_pointer_is_called_so(sharded: Path) -> None:
    (sharded / SHARDS[2]).write_bytes(
        b'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 575624\n'
    )
    error = refused(sharded)
    assert SHARDS[2] in error.what
    assert 'git lfs pull' in error.remedy


def test_a_tensor_in_two_shards_refuses_by_name(sharded: Path) -> None:
    change_shard(sharded / SHARDS[1], lambda weights: weights.update({FIRST: torch.zeros(32)}))
    assert f'{FIRST} is in {SHARDS[0]} and in {SHARDS[1]}' in refused(sharded).what


def test_a_tensor_in_two_shards_under_two_names_refuses(sharded: Path) -> None:
    bare = FIRST.removeprefix('model.')
    change_shard(sharded / SHARDS[1], lambda weights: weights.update({bare: torch.zeros(32)}))
    change_index(sharded, lambda index: index['weight_map'].update({bare: SHARDS[1]}))
    assert f'{FIRST}: the same tensor as {bare}' in refused(sharded).what


def test_a_tensor_its_shard_does_not_hold_refuses_by_name(sharded: Path) -> None:
    change_shard(sharded / SHARDS[0], lambda weights: weights.pop(FIRST))
    expected = f'{SHARDS[0]} does not hold {FIRST}, which the index says'
    assert expected in refused(sharded).what


def test_an_index_that_sends_a_tensor_to_another_shard_refuses(sharded: Path) -> None:
    change_index(sharded, lambda index: index['weight_map'].update({FIRST: SHARDS[1]}))
    assert f'{SHARDS[1]} does not hold {FIRST}' in refused(sharded).what


def test_a_tensor_the_index_does_not_name_refuses(sharded: Path) -> None:
    change_index(sharded, lambda index: index['weight_map'].pop(FIRST))
    expected = f'{SHARDS[0]} holds {FIRST}, which the index does not name'
    assert expected in refused(sharded).what


def test_a_tensor_missing_from_shards_and_index_refuses_as_in_one_file(sharded: Path) -> None:
    change_shard(sharded / SHARDS[0], lambda weights: weights.pop(FIRST))
    change_index(sharded, lambda index: index['weight_map'].pop(FIRST))
    error = refused(sharded)
    assert f'{INDEX} does not fit a π0 of these sizes' in error.what
    assert f'1 missing: {FIRST.removeprefix("model.")}' in error.what


def test_contradictions_are_listed_once_each_and_counted() -> None:
    info = TensorInfo('F32', (1,))
    held = {f't{number}': info for number in range(9)}
    with pytest.raises(CheckpointError) as caught:
        merge_headers('index', {'t0': 'a'}, {'a': held, 'b': held})
    assert 't0 is in a and in b' in caught.value.what
    assert 'and 7 more' in caught.value.what


# Indexes that are none


@pytest.mark.parametrize(
    ('text', 'part'),
    [
        ('', 'cannot be read'),
        ('[]', 'holds a list'),
        ('{}', 'weight_map is missing'),
        ('{"weight_map": {}}', 'weight_map is {}'),
        ('{"weight_map": ["a"]}', "weight_map is ['a']"),
        ('{"weight_map": {"a": 3}}', 'names 3 as shards'),
        ('{"weight_map": {"a": null}}', 'names None as shards'),
        ('{"weight_map": {"a": ["x.safetensors"]}}', 'as shards'),
    ],
)
def test_an_index_of_another_form_refuses(sharded: Path, text: str, part: str) -> None:
    (sharded / INDEX).write_text(text)
    error = refused(sharded)
    assert part in error.what
    assert INDEX in error.what


@pytest.mark.parametrize(
    'name',
    [
        '../model-00001-of-00003.safetensors',
        '/etc/passwd',
        'sub/model-00001-of-00003.safetensors',
        'sub\\model-00001-of-00003.safetensors',
        './model-00001-of-00003.safetensors',
        '..',
        '.hidden.safetensors',
        'model-00001-of-00003.bin',
        'model.safetensors\n',
        'model\x00.safetensors',
        '',
    ],
)
def test_an_index_never_leads_out_of_its_folder(sharded: Path, name: str) -> None:
    change_index(sharded, lambda index: index['weight_map'].update({FIRST: name}))
    error = refused(sharded)
    assert f'names {name!r} as shards' in error.what
    assert 'plain names' in error.expected


NAMES = st.sampled_from([*SHARDS, '../a.safetensors']) | st.text(max_size=12) | st.integers()


@given(names=st.lists(NAMES | st.none(), min_size=1, max_size=4))
def test_whatever_an_index_names_only_plain_files_come_out(
    tmp_path_factory: pytest.TempPathFactory, names: list[Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / INDEX
    path.write_text(json.dumps({'weight_map': {f't{i}': name for i, name in enumerate(names)}}))
    if set(names) <= set(SHARDS):
        assert list(read_index(path).values()) == names
    else:
        with pytest.raises(CheckpointError, match='as shards'):
            read_index(path)


def test_who_knows_which_files_there_are_need_not_have_them(sharded: Path) -> None:
    for shard in SHARDS:
        (sharded / shard).unlink()
    assert set(read_index(sharded / INDEX).values()) == set(SHARDS)
    assert set(read_index(sharded / INDEX, SHARDS).values()) == set(SHARDS)
    with pytest.raises(CheckpointError, match=SHARDS[1]):
        read_index(sharded / INDEX, [SHARDS[0], SHARDS[2]])
