# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Made DreamZero checkpoints are complete, in the published layout, and the same every time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dreamzero_tiny import CPU, DREAMZERO_TINY
from safetensors.torch import load_file
from tokenizers import Tokenizer

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.dreamzero.checkpoint import load_weights
from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig, parse_config
from openpi_policy_ros.policies.dreamzero.demo_tokenizer import build_tokenizer
from openpi_policy_ros.policies.dreamzero.make_checkpoint import (
    SIZES,
    checkpoint_config,
    make_checkpoint,
)
from openpi_policy_ros.policies.dreamzero.metadata import read_metadata
from openpi_policy_ros.policies.dreamzero.networks import build
from openpi_policy_ros.policies.dreamzero.prompt import NEGATIVE_PROMPT, Prompts, clean, prompt_text
from openpi_policy_ros.policies.dreamzero.remap import slots
from openpi_policy_ros.policies.registry import CheckpointOptions

pytest.importorskip('diffusers')
pytest.importorskip('ftfy')
pytest.importorskip('transformers')

INSTRUCTION = 'pick up the red block and put it into the blue bowl, then close the drawer'


@pytest.fixture(scope='module')
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp('dreamzero') / 'tiny'
    make_checkpoint(directory, 'tiny', 0)
    return directory


def read(directory: Path) -> DreamZeroConfig:
    source = directory / 'config.json'
    return parse_config(json.loads(source.read_text()), str(source))


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob('*'))
        if path.is_file()
    }


def test_equal_seeds_give_equal_files_and_others_do_not(tiny: Path, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / 'again', 'tiny', 0)
    make_checkpoint(tmp_path / 'other', 'tiny', 1)
    first, other = files(tiny), files(tmp_path / 'other')
    assert files(tmp_path / 'again') == first
    assert other.keys() == first.keys()
    assert {name for name in first if first[name] != other[name]} == {
        'experiment_cfg/metadata.json',
        'model.safetensors',
    }


def test_the_files_are_those_of_a_published_checkpoint_and_a_tokenizer(tiny: Path) -> None:
    assert set(files(tiny)) == {
        'config.json',
        'experiment_cfg/metadata.json',
        'model.safetensors',
        'tokenizer/tokenizer.json',
        'tokenizer/tokenizer_config.json',
    }


def structure(value: Any) -> Any:
    """Return an object with its numbers left out."""
    if isinstance(value, dict):
        return {name: structure(inner) for name, inner in value.items()}
    return value if isinstance(value, (str, bool)) or value is None else type(value)


def test_the_files_have_the_structure_of_the_references(tiny: Path) -> None:
    for name in ('config.json', 'experiment_cfg/metadata.json'):
        ours, theirs = (json.loads((d / name).read_text()) for d in (tiny, DREAMZERO_TINY))
        assert structure(ours) == structure(theirs)
    ours, theirs = (set(load_file(d / 'model.safetensors')) for d in (tiny, DREAMZERO_TINY))
    assert ours == theirs


def test_tiny_has_the_sizes_of_the_reference_but_for_its_texts(tiny: Path) -> None:
    ours, theirs = (json.loads((d / 'config.json').read_text()) for d in (tiny, DREAMZERO_TINY))
    for values in (ours, theirs):
        head = values['action_head_cfg']['config']
        del head['diffusion_model_cfg']['text_len'], head['text_encoder_cfg']['vocab']
    assert ours == theirs


def test_it_loads_strictly_and_every_output_is_finite(tiny: Path) -> None:
    config = read(tiny)
    _, encoders, digest = load_weights(tiny, config, CPU, torch.float32)
    assert len(digest) == 12
    frame = torch.rand(1, 3, 32, 64, generator=torch.Generator().manual_seed(0)) * 2 - 1
    kept = encoders.condition(frame, config.num_frames)
    video = encoders.decode(kept.first)
    for tensor in (kept.clip, kept.y, video):
        assert torch.isfinite(tensor).all()
        assert tensor.std() > 0.05
        assert tensor.abs().max() < 50


def test_shards_hold_the_same_network(tiny: Path, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / 'shards', 'tiny', 0, CheckpointOptions(shards=3))
    names = files(tmp_path / 'shards')
    assert 'model.safetensors' not in names
    assert 'model-00002-of-00003.safetensors' in names
    config = read(tiny)
    digests = [load_weights(d, config, CPU, torch.float32)[2] for d in (tiny, tmp_path / 'shards')]
    assert digests[0] == digests[1]


def test_bfloat16_is_stored_as_such(tiny: Path, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / 'narrow', 'tiny', 0, CheckpointOptions(dtype='bfloat16'))
    wide, narrow = (load_file(d / 'model.safetensors') for d in (tiny, tmp_path / 'narrow'))
    assert all(torch.equal(narrow[name], wide[name].to(torch.bfloat16)) for name in wide)
    load_weights(tmp_path / 'narrow', read(tiny), CPU, torch.bfloat16)


# Sizes


@pytest.mark.parametrize(('size', 'megabytes'), [('tiny', 5), ('small', 60), ('droid', 1)])
def test_no_size_is_larger_than_it_says(size: str, megabytes: int) -> None:
    config = parse_config(checkpoint_config(SIZES[size]), size)
    values = sum(math.prod(slot.shape) for slot in slots(build(config), config).values())
    assert 0.4 * megabytes * 1e6 < 4 * values < megabytes * 1e6


def test_droid_has_every_shape_of_the_published_checkpoint() -> None:
    config = parse_config(checkpoint_config(SIZES['droid']), 'droid')
    dit = config.dit
    assert SIZES['droid'].resolution == (320, 180)
    assert (dit.frame_seqlen, dit.local_attn_size, dit.num_frame_per_block) == (880, 9, 2)
    assert (config.action_horizon, dit.action_dim, dit.max_state_dim) == (24, 32, 64)
    assert config.num_frames == 33


# Tokenizer


@pytest.fixture(scope='module')
def tokenizer(tiny: Path) -> Tokenizer:
    return Tokenizer.from_file(str(tiny / 'tokenizer' / 'tokenizer.json'))


def test_the_special_tokens_are_umt5s(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_to_id('<pad>') == 0
    assert tokenizer.token_to_id('</s>') == 1
    assert tokenizer.encode('open the drawer').ids[-1] == 1
    assert tokenizer.to_str() == build_tokenizer().to_str()


def test_every_text_around_an_instruction_fits_into_a_row(tiny: Path, tokenizer: Tokenizer) -> None:
    config = read(tiny)
    prompts = Prompts(
        tokenizer,
        'tokenizer.json',
        max_length=config.dit.text_len,
        vocab_size=config.text.vocab,
    )
    ordinary = (
        'carefully pick up the small blue cup beside the plate, put it into the left drawer of the '
        'cabinet, and close that drawer without touching the bowl'
    )
    for instruction in (INSTRUCTION, '', 'an unknown word: xyzzy', ordinary):
        ids, mask = prompts.encode(instruction)
        assert ids.shape == (1, config.dit.text_len)
        assert int(mask.sum()) < config.dit.text_len
    different = [prompts.encode(text)[0] for text in (INSTRUCTION, 'open the drawer')]
    assert not torch.equal(*different)
    assert int(prompts.negative[1].sum()) <= config.dit.text_len


@pytest.mark.parametrize('text', [prompt_text(INSTRUCTION), clean(NEGATIVE_PROMPT), 'à 日本 \n{}'])
def test_no_text_is_lost(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.get_vocab_size() == 1024
    assert 3 not in ids


# Statistics


@pytest.mark.parametrize('size', list(SIZES))
def test_the_statistics_are_an_arms_and_none_equal_another(size: str, tmp_path: Path) -> None:
    directory = tmp_path / size
    make_checkpoint(directory, size, 3)
    values = json.loads((directory / 'experiment_cfg' / 'metadata.json').read_text())
    statistics = values['oxe_droid']['statistics']
    seen = []
    for group in statistics.values():
        for part in group.values():
            rows = {name: np.array(part[name]) for name in part}
            assert np.all(rows['min'] < rows['q01'])
            assert np.all(rows['q01'] < rows['mean'])
            assert np.all(rows['mean'] < rows['q99'])
            assert np.all(rows['q99'] < rows['max'])
            assert np.all(rows['std'] > 0)
            seen += [*part['q01'], *part['q99']]
    assert len(set(seen)) == len(seen)
    width, height = SIZES[size].resolution
    metadata = read_metadata(directory, 'oxe_droid', SIZES[size].horizon)
    assert metadata.resolution == (height, width)
    assert metadata.relative
    joints, gripper = metadata.action['joint_position'], metadata.action['gripper_position']
    # Noise of size three is what a chunk of an untrained network may hold.
    for noise in (-3.0, 3.0):
        moved = (noise + 1) / 2 * (joints.high - joints.low) + joints.low
        assert np.all(np.abs(moved) < 0.1)
        grip = (noise + 1) / 2 * (gripper.high - gripper.low) + gripper.low
        assert 0.0 < grip[0] < 1.0


# Refusals


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / 'something').write_text('')
    options = CheckpointOptions(
        layout='lerobot',
        normalization='mean_std',
        relative=True,
        shards=0,
        state_dim=8,
        action_dim=8,
        dtype='float64',
        cameras=('wrist',),
    )
    with pytest.raises(ConfigurationError) as caught:
        make_checkpoint(tmp_path, 'huge', -1, options)
    text = str(caught.value)
    assert len(caught.value.problems) == 11
    for part in (
        "size is 'huge'; expected one of tiny, small, droid",
        'seed is -1',
        'is not empty',
        "dtype is 'float64'",
        'shards is 0',
        *(f'{name} is ' for name in ('layout', 'normalization', 'relative', 'state_dim')),
        *(f'{name} is ' for name in ('action_dim', 'cameras')),
    ):
        assert part in text
    assert [path.name for path in tmp_path.iterdir()] == ['something']


def test_more_shards_than_tensors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match='expected at most 362, one per tensor'):
        make_checkpoint(tmp_path / 'many', 'tiny', 0, CheckpointOptions(shards=363))
    assert not (tmp_path / 'many').exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    with pytest.raises(ConfigurationError, match='cannot be written'):
        make_checkpoint(tmp_path / 'file' / 'inside', 'tiny', 0)
