# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What DreamZero's files, policy file and robot file settle, and all that is refused at once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from dreamzero_inputs import edit_metadata
from hub_standin import serve_hub, use_hub, use_own_cache
from safetensors.torch import load_file, save_file

from openpi_policy_ros.cli.inspect_text import as_text
from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies.checkpoint_view import view_model
from openpi_policy_ros.policies.dreamzero.guidance import OneBatch, TwoPasses
from openpi_policy_ros.policies.dreamzero.load import load
from openpi_policy_ros.policies.dreamzero.make_checkpoint import make_checkpoint
from openpi_policy_ros.policies.dreamzero.plan import Plan, make_plan
from openpi_policy_ros.policies.inspection import inspect_model
from openpi_policy_ros.policies.inspection_json import as_json
from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.problems import Problems
from openpi_policy_ros.policies.registry import LoadRequest

EXTERIOR = 'observation.images.exterior_image_{}_left'


@pytest.fixture(scope='module')
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a made checkpoint. Tests must not change it."""
    directory = tmp_path_factory.mktemp('dreamzero') / 'tiny'
    make_checkpoint(directory, 'tiny', 0)
    return directory


@pytest.fixture
def checkpoint(tiny: Path, tmp_path: Path) -> Path:
    """Return a copy that a test may damage."""
    directory = tmp_path / 'checkpoint'
    shutil.copytree(tiny, directory)
    return directory


def plan(model: Path, **request: Any) -> tuple[Plan, Problems]:
    problems = Problems()
    made = make_plan(LoadRequest(str(model), **request), view_model(str(model)), problems)
    return made, problems


def settled(model: Path, **request: Any) -> Plan:
    made, problems = plan(model, **request)
    assert not problems.errors
    return made


def refused(model: Path, **request: Any) -> str:
    _, problems = plan(model, **request)
    assert problems.errors
    return '\n'.join(map(str, problems.errors))


def edit_config(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / 'config.json'
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values))


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(folder / WEIGHTS)
    edit(tensors)
    save_file(tensors, folder / WEIGHTS)


def test_a_model_alone_is_served_by_its_model_type(tiny: Path) -> None:
    policy = load_policy(str(tiny))
    spec = policy.spec
    assert (spec.name, spec.stateful, len(spec.weights_hash)) == ('dreamzero', True, 12)
    assert (spec.horizon, spec.action_dim, spec.action_space) == (6, 8, 'joint_position')
    assert spec.action_names == (*(f'joint_{n}' for n in range(1, 8)), 'gripper')
    assert spec.history_offsets == (-5, -4, -2, 0)
    assert (spec.default_seed, spec.imagines) == (1140, False)
    assert [camera.wire_keys for camera in spec.cameras] == [
        ('observation/exterior_image_0_left',),
        ('observation/exterior_image_1_left',),
        ('observation/wrist_image_left',),
    ]
    assert spec.handshake == {
        'image_resolution': [20, 36],
        'n_external_cameras': 2,
        'needs_wrist_camera': True,
        'needs_stereo_camera': False,
        'needs_session_id': True,
        'action_space': 'joint_position',
        'action_horizon': 6,
        'action_dim': 8,
        'max_cameras': 3,
    }
    policy.close()


def test_the_droid_file_counts_exterior_cameras_from_one(tiny: Path) -> None:
    options = {'default_robot_embodiment': 'droid', 'policy_server_config': {}}
    spec = settled(tiny, options=options).spec
    assert spec is not None
    assert [camera.wire_keys[0] for camera in spec.cameras] == [
        'observation/exterior_image_1_left',
        'observation/exterior_image_2_left',
        'observation/wrist_image_left',
    ]
    assert spec.handshake == {}


def test_a_robot_file_may_cut_rows_and_name_columns(tiny: Path) -> None:
    names = [f'panda_joint{n}' for n in range(1, 8)]
    profile = Profile(crop_rows=4, crop_columns=7, action_names=names)
    spec = settled(tiny, profile=profile).spec
    assert spec is not None
    assert (spec.horizon, spec.action_dim, spec.action_names) == (4, 7, tuple(names))
    # What the model sees is as far apart as its own chunk is long.
    assert spec.history_offsets == (-5, -4, -2, 0)


@pytest.mark.parametrize(
    ('profile', 'text'),
    [
        (Profile(crop_rows=7), 'only 6 rows'),
        (Profile(crop_columns=9), 'only 8 columns'),
        (Profile(action_names=['a']), 'a reply has 8 columns'),
        (Profile(action_space='joint_velocity'), 'write joint_position'),
        (Profile(delta_mask=[True] * 7), 'delta_mask'),
        (
            Profile(key_map=['cam -> observation.images.base_0_rgb', 'q -> observation.state']),
            'no input of this checkpoint',
        ),
        (
            Profile(
                key_map=[
                    f'cam -> {EXTERIOR.format(1)}',
                    'wrist -> observation.images.wrist_image_left',
                    'q -> observation.state',
                ]
            ),
            f'leads nothing to camera {EXTERIOR.format(2)!r}',
        ),
        (
            Profile(
                key_map=[
                    f'a -> {EXTERIOR.format(1)}',
                    f'b -> {EXTERIOR.format(2)}',
                    'c -> observation.images.wrist_image_left',
                    'q -> observation.state',
                ],
                state_dims=[9],
            ),
            'wider than the checkpoint',
        ),
    ],
)
def test_a_robot_file_that_does_not_fit_is_refused(tiny: Path, profile: Profile, text: str) -> None:
    assert text in refused(tiny, profile=profile)


@pytest.mark.parametrize('robot', ['roboarena', 'droid_jointpos'])
def test_the_robot_files_of_pi0_are_refused_by_the_camera_they_name(tiny: Path, robot: str) -> None:
    inspection = inspect_model(str(tiny), robot=robot)
    assert 'base_0_rgb' in '\n'.join(map(str, inspection.errors))


def test_options_reach_what_they_are_about(tiny: Path) -> None:
    options = {
        'num_inference_steps': 5,
        'step_cache_dit_enabled': True,
        'sigma_shift': 3.0,
        'velocity_sim_thresholds': [0.9],
        'velocity_skip_countdowns': [3],
        'decouple_inference_noise': True,
        'video_inference_final_noise': 0.5,
        'dtype': 'bfloat16',
        'relative_action': False,
        'default_prompt': 'wave',
        'optional_cameras': [EXTERIOR.format(2)],
    }
    made = settled(tiny, options=options)
    sampling, config, transform = made.sampling, made.config, made.transform
    assert sampling is not None
    assert (sampling.num_inference_steps, sampling.sigma_shift) == (5, 3.0)
    assert (sampling.step_cache, sampling.video_final_noise) == ('dynamic', 0.5)
    assert (sampling.sim_thresholds, sampling.skip_countdowns) == ((0.9,), (3,))
    assert config is not None
    assert config.dtype == 'bfloat16'
    assert transform is not None
    assert not transform.relative
    assert made.spec is not None
    assert made.spec.default_prompt == 'wave'
    assert [camera.required for camera in made.spec.cameras] == [True, False, True]


def test_the_checkpoint_decides_where_no_option_does(checkpoint: Path) -> None:
    def decoupled(values: dict[str, Any]) -> None:
        values['action_head_cfg']['config'] |= {
            'decouple_inference_noise': True,
            'video_inference_final_noise': 0.25,
        }

    edit_config(checkpoint, decoupled)
    (checkpoint / 'experiment_cfg' / 'conf.yaml').write_text('relative_action: false\n')
    made = settled(checkpoint)
    assert made.sampling is not None
    assert made.sampling.video_final_noise == 0.25
    assert made.transform is not None
    assert not made.transform.relative
    made = settled(checkpoint, options={'relative_action': True, 'decouple_inference_noise': False})
    assert made.sampling is not None
    assert made.sampling.video_final_noise is None
    assert made.transform is not None
    assert made.transform.relative


@pytest.mark.parametrize(('stored', 'served'), [('bfloat16', 'bfloat16'), ('float32', 'float32')])
def test_what_is_stored_is_computed_in(checkpoint: Path, stored: str, served: str) -> None:
    dtype = getattr(torch, stored)
    edit_weights(checkpoint, lambda t: t.update({n: x.to(dtype) for n, x in t.items()}))
    config = settled(checkpoint).config
    assert config is not None
    assert config.dtype == served


def test_statistics_may_come_from_a_file_beside_the_policy_file(
    checkpoint: Path, tmp_path: Path
) -> None:
    (checkpoint / 'experiment_cfg' / 'metadata.json').rename(tmp_path / 'mine.json')
    missing = refused(checkpoint)
    assert 'holds no experiment_cfg/metadata.json' in missing
    assert 'action_norm_stats_path' in missing
    source = str(tmp_path / 'policy.yaml')
    options = {'action_norm_stats_path': 'mine.json'}
    made = settled(checkpoint, options=options, options_source=source)
    assert made.metadata is not None
    assert made.metadata.sources == (str(tmp_path / 'mine.json'),)
    other = {'action_norm_stats_path': 'others.json'}
    assert "'others.json' is no file" in refused(checkpoint, options=other, options_source=source)


def test_a_view_size_that_does_not_fit_names_the_option(checkpoint: Path) -> None:
    for size, text in (([16, 16], 'view_size'), ([32, 32], '16 tokens')):
        assert text in refused(checkpoint, options={'view_size': size})

    def larger(values: dict[str, Any]) -> None:
        for camera in values['modalities']['video'].values():
            camera['resolution'] = [320, 180]

    edit_metadata(checkpoint, larger)
    assert 'make 880 tokens a frame' in refused(checkpoint)
    made = settled(checkpoint, options={'view_size': [16, 32]})
    assert made.transform is not None
    assert made.transform.view_size == (16, 32)


def test_policies_do_not_serve_one_anothers_checkpoints(tiny: Path, small: Path) -> None:
    assert 'asked for as dreamzero' in refused(small)
    inspection = inspect_model(str(tiny), policy='pi0')
    assert 'use policy dreamzero' in str(inspection.errors[0])


def test_two_devices_need_a_second_one(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 2)
    options = {'cfg_parallel_size': 2}
    with pytest.raises(ConfigurationError, match=r'would run on cuda:2.*sees 2 CUDA devices'):
        load(LoadRequest(str(tiny), 'cuda:1', options))


@pytest.mark.parametrize(('batched', 'kind'), [('auto', OneBatch), (True, OneBatch)])
def test_both_branches_run_as_one_batch_unless_told_otherwise(
    tiny: Path, batched: Any, kind: type
) -> None:
    policy = load(LoadRequest(str(tiny), options={'batch_guidance': batched}))
    assert type(policy.model.guidance) is kind
    policy = load(LoadRequest(str(tiny), options={'batch_guidance': False}))
    assert type(policy.model.guidance) is TwoPasses


# Inspecting


def test_inspecting_tells_what_would_be_served(tiny: Path) -> None:
    inspection = inspect_model(str(tiny))
    assert (inspection.served, inspection.model_type) == (True, 'vla')
    text = as_text(inspection)
    for piece in (
        'a DreamZero checkpoint, type vla',
        'observation.images.exterior_image_2_left <-',
        'resized to 16x32 with antialiasing',
        'also with an axis of frames in front',
        'exactly 8 values',
        '6 rows x 8 columns, joint_position',
        'differences from the state in columns 0, 1, 2, 3, 4, 5, 6',
        'action.gripper_position q99 (experiment_cfg/metadata.json)',
        'static8: the network is asked at 8 of 16 steps, by a fixed mask',
        'a new window every 2 calls',
        'It would be served.',
    ):
        assert piece in ' '.join(text.split()), text
    values = as_json(inspection)
    assert json.loads(json.dumps(values))['policy']['chunk'] == [6, 8]
    assert values['policy']['facts'].keys() == {'step cache', 'session'}


def test_inspecting_tells_all_that_is_wrong_at_once(checkpoint: Path, tmp_path: Path) -> None:
    def damage(tensors: dict[str, torch.Tensor]) -> None:
        del tensors['action_head.model.head.modulation']
        tensors['action_head.model.stranger'] = torch.zeros(1)

    edit_weights(checkpoint, damage)
    edit_metadata(
        checkpoint, lambda v: v['statistics']['state']['joint_position'].update(q01=[0.0])
    )
    shutil.rmtree(checkpoint / 'tokenizer')
    (checkpoint / 'tokenizer.json').write_text('{}')
    policy = tmp_path / 'dreamzero.yaml'
    policy.write_text('policy_server_config: {n_external_cameras: 7}\n')
    inspection = inspect_model(str(checkpoint), policy=str(policy))
    text = as_text(inspection)
    assert not inspection.served
    assert len(inspection.errors) == 3, text
    for piece in ('head.modulation', 'stranger', 'q01 has shape [1]', 'tokenizer.json'):
        assert piece in text
    assert 'Not checked because of that: handshake' in text


def test_a_config_without_its_networks_is_refused(checkpoint: Path) -> None:
    edit_config(checkpoint, lambda values: values.pop('action_head_cfg'))
    with pytest.raises(CheckpointError, match='action_head_cfg'):
        load_policy(str(checkpoint))


def test_a_network_too_narrow_for_the_robot_is_refused(checkpoint: Path) -> None:
    def narrow(values: dict[str, Any]) -> None:
        head = values['action_head_cfg']['config']
        head['max_state_dim'] = head['diffusion_model_cfg']['max_state_dim'] = 7

    edit_config(checkpoint, narrow)
    assert 'max_state_dim 7; expected at least 8' in refused(checkpoint)


def test_of_the_hub_the_tensorrt_engines_are_never_fetched(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkpoint / 'experiment_cfg' / 'conf.yaml').write_text('relative_action: true\n')
    never = ('tensorrt/wan/WanModel_nvfp4.trt', 'tensorrt/wan/model.onnx', 'README.md')
    for name in never:
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_bytes(b'0' * 64)
    use_own_cache(monkeypatch, tmp_path)
    with serve_hub('someone/dream', checkpoint) as hub:
        use_hub(monkeypatch, hub.url)
        inspection = inspect_model('someone/dream')
        assert inspection.served, inspection.errors
        policy = load_policy('someone/dream')
        assert policy.spec.weights_hash
        policy.close()
        asked = [path for _, path, _ in hub.requests]
        for name in never:
            assert not any(name in path for path in asked)
        for name in ('experiment_cfg/conf.yaml', 'experiment_cfg/metadata.json', WEIGHTS):
            assert any(name in path for path in asked)


def test_a_default_prompt_that_is_too_long_is_refused_before_the_weights_are_read(
    tiny: Path,
) -> None:
    text = refused(tiny, options={'default_prompt': 'wave ' * 100}, options_source='mine.yaml')
    assert text.startswith('mine.yaml')
    assert 'default_prompt' in text
    assert 'truncate_prompt' in text
