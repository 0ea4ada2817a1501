# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""DreamZero's images, state and actions: the reference's numbers, and every refusal by name."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dreamzero_inputs import (
    DROID,
    GOLDEN,
    RESOLUTION,
    ROBOARENA,
    edit_metadata,
    golden_transform,
    observation,
)
from safetensors.numpy import load_file

from openpi_policy_ros.configuration.robot import Profile
from openpi_policy_ros.errors import (
    CheckpointError,
    ConfigurationError,
    InvalidObservation,
    SeveralErrors,
)
from openpi_policy_ros.policies.checkpoint_files import read_json
from openpi_policy_ros.policies.dreamzero.config import parse_config
from openpi_policy_ros.policies.dreamzero.metadata import PartStatistics, read_conf, read_metadata
from openpi_policy_ros.policies.dreamzero.state import denormalised, normalised
from openpi_policy_ros.policies.dreamzero.transform import settle_view_size, to_model
from openpi_policy_ros.policies.letterbox import resize_with_pad

CALLS = (1, 2, 3, 4)


@pytest.fixture(scope='module')
def inputs() -> dict[str, np.ndarray]:
    return load_file(GOLDEN / 'inputs.safetensors')


@pytest.fixture(scope='module')
def post() -> dict[str, np.ndarray]:
    with np.load(GOLDEN / 'post.npz') as file:
        return dict(file)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return a copy of the golden checkpoint's small files."""
    shutil.copytree(GOLDEN / 'experiment_cfg', tmp_path / 'experiment_cfg')
    return tmp_path


def golden_observation(views: np.ndarray, keys: tuple[str, ...] = ROBOARENA) -> dict[str, Any]:
    frames = views if len(views) > 1 else views[0][None]
    return observation(keys) | {key: frames[:, index] for index, key in enumerate(keys)}


@pytest.mark.parametrize('call', CALLS)
@pytest.mark.parametrize(('embodiment', 'keys'), [('roboarena', ROBOARENA), ('droid', DROID)])
def test_observed_images_become_the_reference_canvas_bit_for_bit(
    inputs: dict[str, np.ndarray], call: int, embodiment: str, keys: tuple[str, ...]
) -> None:
    raw = inputs[f'call{call}.raw_views']
    transform = golden_transform(embodiment)
    views = transform.read(golden_observation(raw, keys)).views
    np.testing.assert_array_equal(views, raw)
    np.testing.assert_array_equal(transform.tile(views), inputs[f'call{call}.tiled_u8'])


def test_a_frame_without_a_time_axis_is_one_frame(inputs: dict[str, np.ndarray]) -> None:
    raw = inputs['call1.raw_views']
    single = observation() | {key: raw[0, index] for index, key in enumerate(ROBOARENA)}
    np.testing.assert_array_equal(golden_transform().read(single).views, raw)


def test_chw_and_bgr_clients_make_the_same_views(inputs: dict[str, np.ndarray]) -> None:
    raw = inputs['call2.raw_views']
    profile = Profile(layout='CHW', colour_order='BGR')
    sent = {
        key: raw[:, index, ..., ::-1].transpose(0, 3, 1, 2) for index, key in enumerate(ROBOARENA)
    }
    views = golden_transform(profile=profile).read(observation() | sent).views
    np.testing.assert_array_equal(views, raw)


def test_float_images_make_the_same_views(inputs: dict[str, np.ndarray]) -> None:
    raw = inputs['call1.raw_views']
    sent = {key: np.float32(raw[:, i] / 255.0) for i, key in enumerate(ROBOARENA)}
    np.testing.assert_array_equal(golden_transform().read(observation() | sent).views, raw)


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16])
def test_a_canvas_is_rounded_before_it_is_shifted(dtype: torch.dtype) -> None:
    tiled = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1).repeat(3, axis=3)
    video = to_model(tiled, dtype, torch.device('cpu'))
    assert (video.shape, video.dtype) == ((1, 3, 1, 16, 16), dtype)
    levels = (torch.arange(256) / 255.0).to(dtype)
    torch.testing.assert_close(video[0, 1, 0].flatten(), (levels - 0.5) / 0.5, rtol=0, atol=0)
    assert (float(video.min()), float(video.max())) == (-1.0, 1.0)


def test_images_of_another_size_are_letterboxed_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transform = golden_transform()
    sent = observation(shape=(48, 64, 3))
    with caplog.at_level(logging.WARNING):
        views = [transform.read(sent).views for _ in range(3)][-1]
    told = [text for text in caplog.messages if '48x64' in text]
    assert [text.split()[0] for text in told] == list(ROBOARENA)
    assert '20x36' in told[0]
    for index, key in enumerate(ROBOARENA):
        np.testing.assert_array_equal(views[0, index], resize_with_pad(key, sent[key], RESOLUTION))
    # 48x64 fits as 20x26, with five black columns to either side.
    assert not views[0, :, :, :5].any()
    assert not views[0, :, :, -5:].any()
    assert views[0, :, :, 5:-5].any(axis=-1).mean() > 0.99


def test_a_size_that_leaves_nothing_is_refused() -> None:
    sent = observation() | {ROBOARENA[1]: np.zeros((1, 4000, 3), np.uint8)}
    with pytest.raises(InvalidObservation, match='exterior_image_1_left: is 1x4000'):
        golden_transform().read(sent)


def test_a_missing_exterior_camera_is_black_where_it_is_optional_and_else_refused() -> None:
    sent = observation()
    del sent[ROBOARENA[1]]
    with pytest.raises(InvalidObservation, match='exterior_image_2_left is missing') as caught:
        golden_transform().read(sent)
    assert caught.value.field == ROBOARENA[1]
    transform = golden_transform(optional=('observation.images.exterior_image_2_left',))
    views = transform.read(sent).views
    assert not views[:, 1].any()
    assert views[:, 0].any()
    assert not transform.tile(views)[:, 16:, 32:].any()


@pytest.mark.parametrize(
    ('edit', 'field', 'text'),
    [
        (
            {ROBOARENA[2]: np.zeros((2, *RESOLUTION, 3), np.uint8)},
            ROBOARENA[0],
            'numbers of frames',
        ),
        ({ROBOARENA[0]: np.zeros((65, *RESOLUTION, 3), np.uint8)}, ROBOARENA[0], '65 frames'),
        ({ROBOARENA[0]: np.zeros((0, *RESOLUTION, 3), np.uint8)}, ROBOARENA[0], '0 frames'),
        ({ROBOARENA[0]: np.zeros((1, 1, 20, 36, 3), np.uint8)}, ROBOARENA[0], '5 axes'),
        ({ROBOARENA[0]: np.zeros((3, 20, 36), np.uint8)}, ROBOARENA[0], 'layout: CHW'),
        ({ROBOARENA[0]: np.zeros((4, 3, 20, 36), np.uint8)}, ROBOARENA[0], 'layout: CHW'),
        ({ROBOARENA[0]: np.zeros((20, 36, 3), np.uint16)}, ROBOARENA[0], 'uint16'),
        (
            {'observation/exterior_image_2_left': np.zeros((20, 36, 3), np.uint8)},
            'observation/exterior_image_2_left',
            'nobody reads',
        ),
        (
            {'observation/joint_position': np.zeros(6)},
            'observation/joint_position',
            'holds 6 numbers',
        ),
        ({'observation/joint_position': None}, 'observation/joint_position', 'NoneType'),
        (
            {'observation/gripper_position': np.array([np.nan])},
            'observation/gripper_position',
            'not finite',
        ),
        ({'prompt': '  '}, 'prompt', 'empty'),
        ({'prompt': 3}, 'prompt', 'int'),
    ],
)
def test_what_is_wrong_with_an_observation_is_said_by_name(
    edit: dict[str, Any], field: str, text: str
) -> None:
    with pytest.raises(InvalidObservation, match=text) as caught:
        golden_transform().read(observation() | edit)
    assert caught.value.field == field


@pytest.mark.parametrize(
    'key', ['observation/joint_position', 'observation/gripper_position', 'prompt', ROBOARENA[2]]
)
def test_a_missing_key_is_an_error_with_its_name(key: str) -> None:
    sent = observation()
    del sent[key]
    with pytest.raises(InvalidObservation) as caught:
        golden_transform().read(sent)
    assert caught.value.field == key


def test_the_cartesian_position_is_ignored_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    sent = observation() | {'observation/cartesian_position': np.zeros(6)}
    golden_transform().read(sent)
    assert not caplog.messages
    golden_transform().read(sent | {'observation/torque': np.zeros(6)})
    assert 'observation/torque' in caplog.text


@pytest.mark.parametrize('layout', ['HWC', 'CHW'])
@pytest.mark.parametrize('frames', [1, 4])
def test_the_example_observation_is_accepted(layout: Any, frames: int) -> None:
    transform = golden_transform(profile=Profile(layout=layout))
    read = transform.read(transform.example(frames))
    assert read.views.shape == (frames, 3, *RESOLUTION, 3)
    state = transform.normalise_state(read.joint, read.gripper)[0, 0]
    # In the middle of the statistics, but for the joint that has no range.
    np.testing.assert_allclose(np.delete(state[:8], 6), 0.0, atol=1e-6)


def test_the_state_is_the_references(post: dict[str, np.ndarray]) -> None:
    state = golden_transform().normalise_state(post['joint'][0], post['gripper'][0])
    assert (state.shape, state.dtype) == ((1, 1, 12), np.float32)
    # The reference computes it in float32.
    np.testing.assert_allclose(state[0], post['state_norm_padded'], rtol=0, atol=1e-7)
    # The last joint has no range: its raw angle, cut to -1..1.
    assert (float(post['joint'][0, 6]) < -1.9, float(state[0, 0, 6])) == (True, -1.0)
    assert not state[0, 0, 8:].any()


def test_the_actions_are_the_references(post: dict[str, np.ndarray]) -> None:
    action, joint = post['action_norm'][0], post['joint'][0]
    actions = golden_transform().robot_actions(action, joint)
    assert (actions.shape, actions.dtype) == ((6, 8), np.float32)
    np.testing.assert_allclose(actions, post['action_final'], rtol=0, atol=1e-6)
    differences = golden_transform(relative=False).robot_actions(action, joint)
    np.testing.assert_allclose(differences[:, :7], post['action_rel_denorm'][0], rtol=0, atol=1e-6)
    # As a client sends it.
    narrow = golden_transform().robot_actions(action, joint.astype(np.float32))
    np.testing.assert_allclose(narrow, post['action_final'], rtol=0, atol=1e-6)


def test_actions_beyond_the_statistics_are_not_clipped() -> None:
    prediction = np.full((6, 10), 3.0, np.float32)
    actions = golden_transform().robot_actions(prediction, np.zeros(7))
    q01, q99 = 0.0374, 0.9909
    np.testing.assert_allclose(actions[:, 7], 2.0 * (q99 - q01) + q01, rtol=1e-6)


def test_statistics_may_have_a_row_for_each_step(checkpoint: Path) -> None:
    low, high = np.arange(42.0).reshape(6, 7), np.arange(42.0).reshape(6, 7) + 2.0

    def per_step(values: dict[str, Any]) -> None:
        values['statistics']['action']['joint_position'] |= {
            'q01': low.tolist(),
            'q99': high.tolist(),
        }

    edit_metadata(checkpoint, per_step)
    transform = golden_transform(folder=checkpoint, relative=False)
    actions = transform.robot_actions(np.zeros((6, 10), np.float32), np.zeros(7))
    np.testing.assert_allclose(actions[:, :7], low + 1.0)
    with pytest.raises(CheckpointError, match=r'shape \[6, 7\].*24 rows of 7'):
        read_metadata(checkpoint, 'oxe_droid', 24)


def test_modes_differ_in_what_they_do_with_a_column_without_range() -> None:
    low, high = np.array([0.0, 1.0]), np.array([2.0, 1.0])
    values = np.array([5.0, 0.5])
    q99, min_max = (normalised(values, PartStatistics(m, low, high)) for m in ('q99', 'min_max'))
    mean_std = normalised(values, PartStatistics('mean_std', low, np.array([2.0, 0.0])))
    np.testing.assert_array_equal(q99, [1.0, 0.5])
    np.testing.assert_array_equal(min_max, [4.0, 0.0])
    np.testing.assert_array_equal(mean_std, [2.5, 0.5])
    back = denormalised(
        np.array([[2.5, 0.5]], np.float32), PartStatistics('mean_std', low, np.array([2.0, 0.0]))
    )
    np.testing.assert_array_equal(back, [[5.0, 1.0]])


CONF = """\
relative_action: {relative}
relative_action_per_horizon: false
relative_action_keys: ['joint_position']
mode: min_max
transforms:
  agibot:
    transforms:
      - normalization_modes: {{state.joint_position: mean_std}}
  oxe_droid:
    transforms:
      - {{_target_: groot.vla.data.transform.VideoCrop, scale: 0.95}}
      - normalization_modes: {{state.joint_position: '${{mode}}', state.gripper_position: q99}}
      - normalization_modes: {{action.joint_position: {action}, action.gripper_position: q99}}
"""


@pytest.mark.parametrize('relative', [True, False])
def test_conf_yaml_is_honoured(checkpoint: Path, relative: bool) -> None:
    text = CONF.format(relative=str(relative).lower(), action='mean_std')
    (checkpoint / 'experiment_cfg' / 'conf.yaml').write_text(text)
    metadata = read_metadata(checkpoint, 'oxe_droid', 6)
    assert metadata.relative is relative
    assert [part.mode for part in metadata.state.values()] == ['min_max', 'q99']
    assert [part.mode for part in metadata.action.values()] == ['mean_std', 'q99']
    assert metadata.sources == ('experiment_cfg/metadata.json', 'experiment_cfg/conf.yaml')
    np.testing.assert_array_equal(metadata.state['joint_position'].low, np.full(7, -2.5))


def test_without_conf_yaml_all_is_q99_and_relative(checkpoint: Path) -> None:
    metadata = read_metadata(checkpoint, 'oxe_droid', 6)
    assert metadata.relative
    modes = {part.mode for parts in (metadata.state, metadata.action) for part in parts.values()}
    assert modes == {'q99'}


@pytest.mark.parametrize(
    ('text', 'match'),
    [
        ('- a', 'holds a list'),
        ('a: [', 'cannot be read'),
        ('relative_action: maybe', 'relative_action is'),
        ('relative_action: true\nrelative_action_keys: [joint_position, gripper_position]', 'keys'),
        (CONF.format(relative='true', action='binary'), "is 'binary'"),
        (CONF.format(relative='true', action='[q99]'), r"is \['q99'\]"),
        ('relative_action: ${nowhere.at_all}', 'leads nowhere'),
        ('relative_action: ${a}\na: ${b}\nb: ${a}', 'leads nowhere'),
    ],
)
def test_a_conf_yaml_that_asks_for_something_else_is_refused(
    tmp_path: Path, text: str, match: str
) -> None:
    path = tmp_path / 'conf.yaml'
    path.write_text(text)
    with pytest.raises(CheckpointError, match=match):
        read_conf(path, 'oxe_droid')


def test_a_message_about_a_conf_yaml_is_short_whatever_its_anchors_make_of_a_value(
    tmp_path: Path,
) -> None:
    lines = [f'v0: &v0 [{", ".join("x" * 9)}]']
    lines += [f'v{n}: &v{n} [{", ".join([f"*v{n - 1}"] * 9)}]' for n in range(1, 5)]
    path = tmp_path / 'conf.yaml'
    path.write_text('\n'.join([*lines, 'relative_action: *v4']))
    with pytest.raises(CheckpointError, match='relative_action is') as caught:
        read_conf(path, 'oxe_droid')
    assert len(str(caught.value)) < 2000


def statistics(values: dict[str, Any], group: str = 'state') -> dict[str, Any]:
    return values['statistics'][group]['joint_position']


@pytest.mark.parametrize(
    ('edit', 'match'),
    [
        (lambda v: statistics(v).pop('q01'), r'state\.joint_position\.q01 is missing'),
        (lambda v: statistics(v)['q99'].pop(), r'shape \[6\]'),
        (lambda v: statistics(v).update(q99=[['a'] * 7]), 'has shape list'),
        (lambda v: statistics(v)['q99'].__setitem__(2, float('nan')), r'q99\[2\] is nan'),
        (lambda v: statistics(v, 'action')['q99'].__setitem__(2, float('inf')), r'\[2\] is inf'),
        (lambda v: statistics(v)['q99'].__setitem__(0, -9.0), 'below q01'),
        (lambda v: statistics(v)['q99'].__setitem__(0, 10**400), 'has shape list'),
        (lambda v: statistics(v, 'action').update(q99=['1'] * 7), 'has shape list'),
        (lambda v: statistics(v, 'action').update(q99=[True] * 7), 'has shape list'),
        (lambda v: statistics(v, 'action')['q99'].__setitem__(0, 1e300), r'holds 1e\+300'),
        (lambda v: v.pop('modalities'), 'resolution is None'),
        (
            lambda v: v['modalities']['video']['wrist_image_left'].update(resolution=[64, 48]),
            'different resolutions',
        ),
    ],
)
def test_statistics_that_cannot_be_used_are_refused(
    checkpoint: Path, edit: Any, match: str
) -> None:
    edit_metadata(checkpoint, edit)
    with pytest.raises(CheckpointError, match=match):
        read_metadata(checkpoint, 'oxe_droid', 6)


def test_all_that_is_wrong_with_the_statistics_is_told_at_once(checkpoint: Path) -> None:
    def several(values: dict[str, Any]) -> None:
        statistics(values).pop('q01')
        statistics(values, 'action')['q99'].pop()

    edit_metadata(checkpoint, several)
    with pytest.raises(SeveralErrors, match='2 errors'):
        read_metadata(checkpoint, 'oxe_droid', 6)


def test_another_embodiment_is_not_there(checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match=r"'agibot'.*there is: oxe_droid"):
        read_metadata(checkpoint, 'agibot', 6)


def test_the_view_size_has_to_make_the_tokens_of_the_network() -> None:
    config = parse_config(read_json(GOLDEN / 'config.json'), 'config.json')
    assert settle_view_size(config, (20, 36), None, 'file') == (16, 32)
    assert settle_view_size(config, (480, 640), [32, 16], 'file') == (32, 16)
    with pytest.raises(ConfigurationError, match=r'make 1200 tokens.*trained with 8.*view_size'):
        settle_view_size(config, (240, 320), None, 'file')
