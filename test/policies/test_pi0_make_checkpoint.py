# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A made checkpoint is complete, the same for a seed, and a stand-in for the real thing."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from openpi_policy_ros.errors import ConfigurationError, PolicyRosError
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0 import PLUGIN
from openpi_policy_ros.policies.pi0.config import Family
from openpi_policy_ros.policies.pi0.demo_statistics import joint_statistics
from openpi_policy_ros.policies.pi0.demo_tokenizer import build_tokenizer
from openpi_policy_ros.policies.pi0.demo_weights import parameter_count
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.make_checkpoint import (
    SIZES,
    checkpoint_config,
    make_checkpoint,
)
from openpi_policy_ros.policies.registry import CheckpointOptions

DATA = Path(__file__).resolve().parents[1] / 'data'
WEIGHTS = 'model.safetensors'
HEAD = 'paligemma_with_expert.paligemma.lm_head.weight'
TABLE = 'paligemma_with_expert.paligemma.model.language_model.embed_tokens.weight'


def make(directory: Path, family: Family = 'pi0', seed: int = 0, **options: Any) -> Path:
    """Write a small checkpoint and return its directory."""
    make_checkpoint(directory, 'small', seed, CheckpointOptions(**options), family=family)
    return directory


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding='utf-8'))


def header(path: Path) -> dict[str, tuple[list[int], str]]:
    """Return name → (shape, dtype) of a safetensors file."""
    with safe_open(str(path), 'pt') as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {name: (one.get_shape(), one.get_dtype()) for name, one in slices.items()}


def with_small_images(value: Any) -> Any:
    """Return JSON with the cameras of the reference checkpoints in the size of ours."""
    return json.loads(json.dumps(value).replace('480, 640', '224, 224'))


def test_equal_seeds_give_equal_files_and_others_do_not(small: Path, tmp_path: Path) -> None:
    make_checkpoint(tmp_path / 'again', 'small', 0)
    make_checkpoint(tmp_path / 'other', 'small', 1)
    for path in sorted(p for p in small.rglob('*') if p.is_file()):
        name = path.relative_to(small)
        assert (tmp_path / 'again' / name).read_bytes() == path.read_bytes(), name
        same = (tmp_path / 'other' / name).read_bytes() == path.read_bytes()
        assert same == (name.name != 'model.safetensors'), name


def test_it_loads_by_itself_and_warms_up(small: Path) -> None:
    policy = load_policy(str(small))
    policy.warm_up()
    assert policy.spec.name == 'pi0'
    assert policy.spec.output_shapes == {'actions': (50, 32)}


def test_small_has_the_sizes_of_the_reference_checkpoint(small: Path, golden: Path) -> None:
    for name in ('arch_overrides.json',):
        ours, theirs = (json.loads((d / name).read_text()) for d in (small, golden))
        assert ours == theirs
    made, reference = read_config(small), read_config(golden)
    assert made == reference
    assert made == SIZES['small']


def test_what_is_written_reads_back_as_it_was_meant(tmp_path: Path, monkeypatch: Any) -> None:
    # The weights of the larger size are not needed to read its configuration.
    monkeypatch.setattr(
        'openpi_policy_ros.policies.pi0.make_checkpoint.random_weights', lambda config, seed: {}
    )
    make_checkpoint(tmp_path / 'medium', 'medium', 0)
    assert read_config(tmp_path / 'medium') == SIZES['medium']


def test_medium_is_about_200_megabytes_in_float32() -> None:
    assert 190e6 < 4 * parameter_count(SIZES['medium']) < 215e6


def test_the_plugin_offers_every_size_the_default_first() -> None:
    assert PLUGIN.checkpoint_sizes == ('small', 'medium')
    assert set(PLUGIN.checkpoint_sizes) == set(SIZES)
    assert PLUGIN.make_checkpoint is not None


def test_the_config_looks_like_lerobots(small: Path, golden: Path) -> None:
    ours, theirs = (json.loads((d / 'config.json').read_text()) for d in (small, golden))
    assert ours.keys() <= theirs.keys()
    assert {key: theirs[key] for key in ours} == ours


def test_the_files_can_be_read_by_others(small: Path) -> None:
    modes = {stat.S_IMODE(path.stat().st_mode) for path in small.iterdir() if path.is_file()}
    assert len(modes) == 1


@pytest.mark.parametrize(
    'change',
    [
        {'observation.images.base_0_rgb': np.zeros((60, 80, 3), np.uint8)},
        {'observation.images.left_wrist_0_rgb': np.zeros((60, 80, 3), np.uint8)},
        {'observation.images.right_wrist_0_rgb': np.zeros((60, 80, 3), np.uint8)},
        {'state': np.ones(8, np.float32)},
        {'prompt': 'put the cup down'},
    ],
)
def test_every_input_moves_the_chunk(
    small: Path, observe: Callable[..., dict[str, Any]], change: dict[str, Any]
) -> None:
    policy = load_policy(str(small))
    chunks = policy.infer(
        [
            InferenceRequest(observation, SessionKey('test', 'x'), seed=1, num_inference_steps=2)
            for observation in (observe(), observe(**change))
        ]
    )
    assert np.abs(chunks[0].actions - chunks[1].actions).max() > 1e-3


REFERENCES = [('pi0', 'mean_std', 'pi0_tiny_ft_meanstd'), ('pi05', 'quantiles', 'pi05_tiny')]


@pytest.mark.parametrize(('family', 'mode', 'reference'), REFERENCES)
def test_a_fine_tune_has_the_files_that_lerobot_writes(
    tmp_path: Path, family: Family, mode: str, reference: str
) -> None:
    theirs = DATA / reference
    ours = make(tmp_path / 'x', family, normalization=mode, state_dim=14, action_dim=7)
    files = {str(path.relative_to(ours)) for path in ours.rglob('*') if path.is_file()}
    assert files == {
        str(path.relative_to(theirs))
        for path in theirs.rglob('*')
        if path.is_file() and 'cases' not in path.parts and path.suffix != '.md'
    }
    for name in ('policy_preprocessor.json', 'policy_postprocessor.json', 'arch_overrides.json'):
        assert read(ours / name) == with_small_images(read(theirs / name)), name
    config, reference_config = read(ours / 'config.json'), read(theirs / 'config.json')
    expected = with_small_images({key: reference_config[key] for key in config})
    assert config == {**expected, 'n_action_steps': 50}
    assert header(ours / WEIGHTS) == header(theirs / WEIGHTS)
    for name in (name for name in files if name.endswith('normalizer_processor.safetensors')):
        mine, known = header(ours / name), header(theirs / name)
        assert known.items() <= mine.items()
        # What recordings have besides: a middle quantile, a count, and the cameras.
        more = {key for key in mine.keys() - known.keys() if 'images' not in key}
        assert {key.rsplit('.', 1)[1] for key in more} <= {'q50', 'q10', 'q90', 'count'}


STEPS_04 = {
    'pi0': [
        'rename_observations_processor',
        'to_batch_processor',
        'pi0_new_line_processor',
        'tokenizer_processor',
        'device_processor',
        'normalizer_processor',
    ],
    'pi05': [
        'rename_observations_processor',
        'to_batch_processor',
        'normalizer_processor',
        'pi05_prepare_state_tokenizer_processor_step',
        'tokenizer_processor',
        'device_processor',
    ],
}


@pytest.mark.parametrize(('family', 'number'), [('pi0', 5), ('pi05', 2)])
def test_the_older_lerobot_has_shorter_lists_and_unprefixed_names(
    tmp_path: Path, family: Family, number: int
) -> None:
    old = make(tmp_path / 'old', family, layout='lerobot-0.4', normalization='mean_std')
    new = make(tmp_path / 'new', family, normalization='mean_std')
    before = read(old / 'policy_preprocessor.json')['steps']
    after = read(old / 'policy_postprocessor.json')['steps']
    assert [step['registry_name'] for step in before] == STEPS_04[family]
    assert [step['registry_name'] for step in after] == [
        'unnormalizer_processor',
        'device_processor',
    ]
    file = f'policy_preprocessor_step_{number}_normalizer_processor.safetensors'
    assert before[number]['state_file'] == file
    assert (old / file).is_file()
    (tokenizer,) = (step for step in before if step['registry_name'] == 'tokenizer_processor')
    assert tokenizer['config']['tokenizer_name'] == 'google/paligemma-3b-pt-224'
    assert 'artifacts' not in tokenizer
    assert not {key for key in read(old / 'config.json') if 'relative' in key or 'memory' in key}
    stored, prefixed = load_file(old / WEIGHTS), load_file(new / WEIGHTS)
    assert stored.keys() == {name.removeprefix('model.') for name in prefixed} - {TABLE}
    # One network: the head of the older file is the table of the newer.
    assert torch.equal(stored[HEAD], prefixed[f'model.{TABLE}'])
    rest = stored.keys() - {HEAD}
    assert all(torch.equal(stored[name], prefixed[f'model.{name}']) for name in rest)


@pytest.mark.parametrize(('family', 'tensors'), [('pi0', 107), ('pi05', 112)])
def test_an_openpi_checkpoint_has_five_keys_assets_and_one_table(
    tmp_path: Path, family: Family, tensors: int
) -> None:
    ours = make(tmp_path / 'x', family, layout='openpi', state_dim=14, action_dim=7)
    assert {str(path.relative_to(ours)) for path in ours.rglob('*') if path.is_file()} == {
        'arch_overrides.json',
        'assets/demo/norm_stats.json',
        'config.json',
        WEIGHTS,
        'tokenizer/tokenizer.json',
        'tokenizer/tokenizer_config.json',
    }
    assert read(ours / 'config.json') == {
        'action_dim': 32,
        'action_horizon': 50,
        'paligemma_variant': 'gemma_2b',
        'action_expert_variant': 'gemma_300m',
        'precision': 'float32',
    }
    statistics = read(ours / 'assets' / 'demo' / 'norm_stats.json')
    assert statistics.keys() == {'norm_stats'}
    widths = {
        (feature, name): len(values)
        for feature, named in statistics['norm_stats'].items()
        for name, values in named.items()
    }
    assert widths == {
        (feature, name): width
        for feature, width in (('state', 14), ('actions', 7))
        for name in ('mean', 'std', 'q01', 'q99')
    }
    names = header(ours / WEIGHTS).keys()
    assert len(names) == tensors
    assert HEAD in names
    assert TABLE not in names
    assert not any(name.startswith('model.') for name in names)
    assert ('state_proj.weight' in names) == (family == 'pi0')
    assert ('time_mlp_in.weight' in names) == (family == 'pi05')


def test_a_relative_checkpoint_names_its_columns_and_keeps_the_gripper_absolute(
    tmp_path: Path,
) -> None:
    ours = make(tmp_path / 'x', relative=True, normalization='mean_std', action_dim=4)
    names = ['joint_1', 'joint_2', 'joint_3', 'gripper']
    said = {'exclude_joints': ['gripper'], 'action_names': names, 'enabled': True}
    before = read(ours / 'policy_preprocessor.json')['steps']
    after = read(ours / 'policy_postprocessor.json')['steps']
    assert before[5] == {'registry_name': 'relative_actions_processor', 'config': said}
    assert after[1] == {'registry_name': 'absolute_actions_processor', 'config': {'enabled': True}}
    config = read(ours / 'config.json')
    assert config['use_relative_actions'] is True
    assert config['action_feature_names'] == names


@pytest.mark.parametrize('layout', ['lerobot', 'lerobot-0.4'])
def test_shards_hold_the_same_tensors_and_an_index_of_them(tmp_path: Path, layout: str) -> None:
    one = load_file(make(tmp_path / 'one', layout=layout) / WEIGHTS)
    ours = make(tmp_path / 'three', layout=layout, shards=3)
    files = sorted(path.name for path in ours.glob('*.safetensors'))
    assert files == [f'model-0000{number}-of-00003.safetensors' for number in (1, 2, 3)]
    index = read(ours / 'model.safetensors.index.json')
    total = sum(tensor.nbytes for tensor in one.values())
    assert index['metadata'] == {'total_size': total}
    found = {
        name: (file, tensor) for file in files for name, tensor in load_file(ours / file).items()
    }
    assert index['weight_map'] == {name: file for name, (file, _) in found.items()}
    assert found.keys() == one.keys()
    assert all(torch.equal(found[name][1], tensor) for name, tensor in one.items())
    sizes = [(ours / file).stat().st_size for file in files]
    assert min(sizes) > total / 6


def test_as_many_shards_as_tensors_hold_one_each(tmp_path: Path) -> None:
    ours = make(tmp_path / 'x', shards=108)
    shards = [header(path) for path in ours.glob('*.safetensors')]
    assert [len(shard) for shard in shards] == [1] * 108
    with pytest.raises(ConfigurationError, match='shards is 109; expected at most 108'):
        make(tmp_path / 'y', shards=109)
    assert not (tmp_path / 'y').exists()


@pytest.mark.parametrize(
    ('layout', 'kept'),
    [
        ('lerobot', ('vision', 'multi_modal', 'norm.weight', 'layernorm', 'proj.', 'mlp_in')),
        ('openpi', ()),
    ],
)
def test_bfloat16_is_stored_as_each_writer_does(
    tmp_path: Path, layout: str, kept: tuple[str, ...]
) -> None:
    ours = make(tmp_path / 'x', layout=layout, dtype='bfloat16')
    config = read(ours / 'config.json')
    assert config['dtype' if layout == 'lerobot' else 'precision'] == 'bfloat16'
    dtypes = {name: dtype for name, (_, dtype) in header(ours / WEIGHTS).items()}
    whole = {name for name, dtype in dtypes.items() if dtype == 'F32'}
    assert {dtypes[name] for name in dtypes.keys() - whole} == {'BF16'}
    if not kept:
        assert not whole
    else:
        head, layer = (
            f'model.{HEAD}',
            f'model.{TABLE}'.replace('embed_tokens', 'layers.0.mlp.gate_proj'),
        )
        assert {head, layer}.isdisjoint(whole)
        assert any('vision_tower.vision_model.encoder' in name for name in whole)
        assert {'model.state_proj.weight', 'model.action_out_proj.bias'} <= whole
        assert {name for name in dtypes if 'layernorm' in name} <= whole


def test_every_statistic_is_one_of_its_own_and_they_fit_together() -> None:
    state, action = (joint_statistics(8, 0, feature) for feature in ('state', 'action'))
    order = ('min', 'q01', 'q10', 'q50', 'q90', 'q99', 'max')
    for statistics in (state, action):
        rows = np.stack([statistics[name] for name in order])
        assert (np.diff(rows, axis=0) > 1e-3).all()
        assert (statistics['std'] > 0.05).all()
        assert np.abs(rows).max() < 10.0
        for name in ('mean', 'std', 'q01', 'q99'):
            assert len(set(statistics[name].round(3))) == 8, name
        # As in a lopsided recording, the mean is not the middle of the range.
        assert (np.abs(statistics['mean'] - (rows[1] + rows[5]) / 2)[:7] > 1e-3).all()
        assert 0.0 < rows[0, -1] < rows[-1, -1] < 1.0
    assert (np.abs(state['mean'] - action['mean']) > 1e-3).all()
    other = joint_statistics(8, 1, 'state')
    assert (np.abs(state['mean'] - other['mean']) > 1e-4).all()


@pytest.mark.parametrize(
    ('family', 'options'),
    [
        ('pi0', {'normalization': 'quantile10', 'relative': True, 'shards': 2}),
        ('pi05', {'layout': 'lerobot-0.4', 'normalization': 'min_max'}),
        ('pi0', {'layout': 'openpi', 'dtype': 'bfloat16'}),
    ],
)
def test_equal_arguments_give_equal_files_in_every_layout(
    tmp_path: Path, family: Family, options: dict[str, Any]
) -> None:
    one, again, other = (
        make(tmp_path / name, family, seed, **options)
        for name, seed in (('one', 2**64 - 1), ('again', 2**64 - 1), ('other', 1))
    )
    changed = set()
    for path in sorted(p for p in one.rglob('*') if p.is_file()):
        name = path.relative_to(one)
        assert (again / name).read_bytes() == path.read_bytes(), name
        if (other / name).read_bytes() != path.read_bytes():
            changed.add(path.name.split('.')[0].split('-')[0].split('_step')[0])
    assert 'model' in changed
    assert changed & {'policy_preprocessor', 'norm_stats'}


def test_the_tokenizer_leaves_room_for_an_instruction_beside_the_widest_state() -> None:
    # Every digit is a token, as in PaliGemma's.
    numbers = ' '.join(['255'] * 32)
    encoded = build_tokenizer().encode(f'Task: , State: {numbers};\nAction: ')
    assert 200 - len(encoded.ids) >= 48
    assert 3 not in encoded.ids
    assert encoded.ids[0] == 2


@pytest.mark.parametrize(
    ('family', 'options'),
    [
        ('pi0', {'normalization': 'min_max', 'state_dim': 14, 'relative': True}),
        ('pi05', {'cameras': ('front', 'wrist'), 'dtype': 'bfloat16'}),
        ('pi05', {'layout': 'lerobot-0.4', 'normalization': 'identity'}),
    ],
)
def test_every_option_reads_back_as_it_was_meant(
    tmp_path: Path, family: Family, options: dict[str, Any]
) -> None:
    ours = make(tmp_path / 'x', family, **options)
    expected = checkpoint_config('small', CheckpointOptions(**options), family)
    assert read_config(ours) == expected
    assert expected.family == family


@pytest.mark.parametrize(
    ('family', 'options', 'says'),
    [
        ('pi0', {'layout': 'jax'}, "layout is 'jax'; expected one of lerobot, lerobot-0.4, openpi"),
        ('pi0', {'normalization': 'z'}, "normalization is 'z'; expected one of identity, mean_std"),
        ('pi0', {'dtype': 'float16'}, "dtype is 'float16'; expected one of float32, bfloat16"),
        ('pi0', {'shards': 0}, 'shards is 0; expected at least 1'),
        ('pi0', {'state_dim': 33}, 'state_dim is 33; expected 1 to 32'),
        ('pi0', {'action_dim': 0}, 'action_dim is 0; expected 1 to 32'),
        ('pi0', {'cameras': ('a/b',)}, 'expected names of letters'),
        ('pi0', {'cameras': ('a', 'a')}, 'names one twice'),
        ('pi0', {'cameras': ('empty_camera_0',)}, 'a camera that has no image'),
        (
            'pi0',
            {'layout': 'openpi', 'normalization': 'quantiles'},
            'openpi normalises pi0 by mean',
        ),
        ('pi05', {'layout': 'openpi', 'normalization': 'identity'}, 'normalises pi05 by quantiles'),
        ('pi0', {'layout': 'openpi', 'shards': 2}, "openpi's converter writes one file"),
        ('pi0', {'layout': 'openpi', 'cameras': ('a',)}, 'its files name none'),
        ('pi0', {'layout': 'openpi', 'relative': True}, 'profile.delta_mask'),
        ('pi0', {'layout': 'lerobot-0.4', 'relative': True}, 'LeRobot 0.4 knew no relative'),
        (
            'pi0',
            {'relative': True, 'state_dim': 7},
            '8 actions cannot be differences from a state of 7',
        ),
    ],
)
def test_a_checkpoint_that_no_training_writes_refuses_with_the_reason(
    tmp_path: Path, family: Family, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says.replace('.', r'\.')):
        make(tmp_path / 'x', family, **options)
    assert not (tmp_path / 'x').exists()


@pytest.mark.parametrize('options', [{'shards': 3}, {'layout': 'openpi'}])
def test_a_write_that_breaks_off_leaves_nothing_that_passes_for_whole(
    tmp_path: Path, monkeypatch: Any, options: dict[str, Any]
) -> None:
    real = Path.write_bytes
    written = []

    def full_disk(path: Path, data: bytes) -> int:
        if path.name.startswith('model'):
            if len(written) == 2 or options.get('shards') is None:
                raise OSError(28, 'No space left on device')
            written.append(path.name)
        return real(path, data)

    monkeypatch.setattr(Path, 'write_bytes', full_disk)
    with pytest.raises(ConfigurationError, match=r'cannot be written.*No space left'):
        make(tmp_path / 'x', **options)
    assert not (tmp_path / 'x' / 'model.safetensors.index.json').exists()
    assert not (tmp_path / 'x' / WEIGHTS).exists()
    with pytest.raises(PolicyRosError, match='holds no weights'):
        load_policy(str(tmp_path / 'x'))


@pytest.mark.parametrize(
    ('size', 'seed', 'says'),
    [('huge', 0, "size is 'huge'"), ('small', -1, 'seed is -1'), ('small', 2**64, 'seed is')],
)
def test_a_wrong_argument_refuses(tmp_path: Path, size: str, seed: int, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        make_checkpoint(tmp_path / 'x', size, seed)
    assert not (tmp_path / 'x').exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / 'mine.txt').write_text('keep')
    with pytest.raises(ConfigurationError, match='is not empty'):
        make_checkpoint(tmp_path, 'small', 0)
    assert [path.name for path in tmp_path.iterdir()] == ['mine.txt']


def test_a_place_that_cannot_be_written_refuses(tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    with pytest.raises(ConfigurationError, match='cannot be written'):
        make_checkpoint(tmp_path / 'file' / 'x', 'small', 0)
