# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the WebSocket loop sends to servers of any kind, and what it makes of their answers."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from openpi_standin import run, standing_in, turning
from serving import serving

from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.wire import Dialect
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.cli import main

pytest.importorskip('mujoco')
cv2 = pytest.importorskip('cv2')

from openpi_policy_ros_sim import stock_client  # noqa: E402
from openpi_policy_ros_sim.environment import Environment, letterbox  # noqa: E402

DREAMZERO = {
    'image_resolution': [180, 320],
    'n_external_cameras': 2,
    'needs_wrist_camera': True,
    'needs_stereo_camera': False,
    'needs_session_id': True,
    'action_space': 'joint_position',
}
CONFIG = Path(__file__).resolve().parents[2] / 'config'
IMAGES = {
    'observation/exterior_image_0_left': 'exterior_1',
    'observation/exterior_image_1_left': 'exterior_2',
    'observation/wrist_image_left': 'wrist',
}


def test_an_openpi_server_gets_what_droids_client_sends(tmp_path):
    reply = {'actions': turning(10), 'server_timing': {'infer_ms': 1.0}}
    with standing_in({}, lambda _: reply) as server:
        run(server.url, tmp_path / 'r.json', '--episodes', '1', '--max-steps', '9', '--seed', '4')
    first, second = server.sent
    assert set(first) == {
        'observation/exterior_image_1_left',
        'observation/wrist_image_left',
        'observation/joint_position',
        'observation/gripper_position',
        'prompt',
    }
    with Environment() as environment:
        environment.reset(4)
        expected = letterbox(environment.render('exterior_1', 126, 224), 224, 224)
    image = first['observation/exterior_image_1_left']
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, expected)
    assert not image[:49].any()
    assert not image[175:].any()
    assert first['prompt'] == 'lift the red cube'
    joints = first['observation/joint_position']
    assert joints.dtype == np.float32
    np.testing.assert_allclose(joints, c.HOME, atol=0.01)
    assert first['observation/gripper_position'].shape == (1,)
    assert second['observation/joint_position'][0] > 0.05


def as_the_robot_file_says(tmp_path, layout: str, colour_order: str) -> dict[str, Any]:
    """Return what is sent to a server whose robot file has its images like this."""
    text = (CONFIG / 'droid_jointpos.yaml').read_text(encoding='utf-8')
    for key, usual, other in (('layout', 'HWC', layout), ('colour_order', 'RGB', colour_order)):
        assert text.count(f'      {key}: {usual}\n') == 1
        text = text.replace(f'      {key}: {usual}\n', f'      {key}: {other}\n')
    file = tmp_path / f'{layout}_{colour_order}.yaml'.lower()
    file.write_text(text, encoding='utf-8')
    with standing_in({}, lambda _: {'actions': turning(10)}) as server:
        run(
            server.url, tmp_path / 'r.json', '--robot', str(file), '--episodes', '1',
            '--max-steps', '1', '--seed', '4',
        )  # fmt: skip
    return server.sent[0]


def test_images_are_sent_in_the_order_that_the_robot_file_names(tmp_path):
    usual = as_the_robot_file_says(tmp_path, 'HWC', 'RGB')
    blue_first = as_the_robot_file_says(tmp_path, 'HWC', 'BGR')
    planes = as_the_robot_file_says(tmp_path, 'CHW', 'RGB')
    both = as_the_robot_file_says(tmp_path, 'CHW', 'BGR')
    for key in ('observation/exterior_image_1_left', 'observation/wrist_image_left'):
        image = usual[key]
        assert image.shape == (224, 224, 3)
        assert not np.array_equal(image[..., 0], image[..., 2])
        np.testing.assert_array_equal(blue_first[key], image[..., ::-1])
        np.testing.assert_array_equal(planes[key], image.transpose(2, 0, 1))
        np.testing.assert_array_equal(both[key], image[..., ::-1].transpose(2, 0, 1))


@pytest.mark.parametrize('path', ['/', Dialect.OPENPI.value])
def test_dreamzero_gets_single_images_every_eight_steps(path, tmp_path):
    chunk = turning(24)
    reply = chunk if path != '/' else {'actions': chunk}
    with standing_in(DREAMZERO, lambda _: reply, path) as server:
        run(
            server.url, tmp_path / 'r.json', '--robot', 'roboarena', '--episodes', '2',
            '--max-steps', '9',
        )  # fmt: skip
    assert [len(requests) for requests in server.requests] == [2, 2]
    for request in server.sent:
        assert set(request) == {
            *IMAGES, 'observation/joint_position', 'observation/gripper_position',
            'observation/cartesian_position', 'prompt', 'session_id', 'endpoint',
        }  # fmt: skip
        assert request['endpoint'] == 'infer'
        assert {request[key].shape for key in IMAGES} == {(180, 320, 3)}
        np.testing.assert_array_equal(
            request['observation/cartesian_position'], np.zeros(6, np.float32)
        )
    ids = [[request['session_id'] for request in requests] for requests in server.requests]
    assert ids[0][0] == ids[0][1] != ids[1][0] == ids[1][1]


def test_dreamzero_gets_stacks_of_the_images_it_names(tmp_path):
    chunk = turning(24)
    with standing_in(DREAMZERO, lambda _: {'actions': chunk}) as server:
        found = run(
            server.url, tmp_path / 'r.json', '--robot', 'roboarena', '--episodes', '1',
            '--max-steps', '25', '--frames=-23,-16,-8,0',
        )  # fmt: skip
    assert found['settings']['horizon'] == 24
    first, second = server.sent
    assert {first[key].shape for key in IMAGES} == {(1, 180, 320, 3)}
    seen: dict[int, dict[str, np.ndarray]] = {}
    with Environment() as environment:
        environment.reset(0)
        for step in range(25):
            seen[step] = {
                key: environment.render(camera, 180, 320) for key, camera in IMAGES.items()
            }
            environment.step(chunk[step % 24])
    for key in IMAGES:
        np.testing.assert_array_equal(first[key], seen[0][key][None])
        expected = np.stack([seen[step][key] for step in (1, 8, 16, 24)])
        np.testing.assert_array_equal(second[key], expected)


WRONG = {
    'stereo': ({'needs_stereo_camera': True}, 'needs_stereo_camera is true'),
    'cameras': ({'n_external_cameras': 3}, 'n_external_cameras is 3, but the simulator has 2'),
    'keys': ({'n_external_cameras': 2}, "robot file 'droid_jointpos' has keys for 1"),
    'cartesian': ({'action_space': 'cartesian_position'}, "robot file 'droid_jointpos' says"),
    'columns': ({'action_dim': 7}, 'action_dim is 7, but the robot takes 8'),
    'size': ({'image_resolution': [0, 224]}, 'image_resolution is [0, 224]'),
    'truth': ({'privileged_keys': ['sim/cube_pose', 'sim/mind']}, "'sim/mind'; the simulator"),
    'truths': ({'privileged_keys': [['sim/cube_pose']]}, "['sim/cube_pose']; the simulator"),
    'need': ({'needs_depth': True}, 'needs_depth is True, which this simulator knows nothing of'),
    'flag': ({'needs_session_id': 'yes'}, "needs_session_id is 'yes', expected true or false"),
}


@pytest.mark.parametrize(('handshake', 'reason'), WRONG.values(), ids=WRONG)
def test_what_cannot_be_given_is_refused_before_the_first_episode(
    handshake, reason, tmp_path, capsys
):
    with standing_in(handshake, lambda _: {'actions': turning(10)}) as server:
        status = main(['ws', '--url', server.url, '--json', str(tmp_path / 'r.json')])
    assert status == 2
    assert reason in capsys.readouterr().err
    assert server.sent == []
    assert not (tmp_path / 'r.json').exists()


def test_everything_that_is_wrong_is_said_at_once(capsys):
    handshake = {'needs_stereo_camera': True, 'action_dim': 7, 'action_horizon': 4}
    with standing_in(handshake, lambda _: None) as server:
        assert main(['ws', '--url', server.url, '--horizon', '8']) == 2
    assert ': 3 problems' in capsys.readouterr().err


def test_a_short_chunk_is_executed_whole(tmp_path):
    handshake = {'action_horizon': 4}
    with standing_in(handshake, lambda _: turning(4), Dialect.OPENPI.value) as server:
        run(server.url, tmp_path / 'r.json', '--episodes', '1', '--max-steps', '9')
    assert len(server.sent) == 3


BAD = {
    'text': ('Traceback\n  secret\nKeyError: gripper', "'KeyError: gripper'"),
    'map': ({'type': 'error', 'message': 'Internal inference error'}, 'Internal inference error'),
    'rows': ({'actions': turning(5)}, 'chunk of shape (5, 8)'),
    'columns': ({'actions': np.zeros((10, 32), np.float32)}, 'with 32 columns'),
    'nan': ({'actions': np.full((10, 8), np.nan)}, 'that is not finite'),
    'words': ({'actions': [['1'] * 8] * 10}, 'with what are no actions'),
    'flat': ({'actions': np.zeros(8)}, 'shape [8]'),
    'other': ({'action': turning(10)}, 'a mapping of action'),
}


@pytest.mark.parametrize(('answer', 'reason'), BAD.values(), ids=BAD)
def test_a_bad_answer_ends_the_run_and_is_told(answer, reason, tmp_path, capsys):
    with standing_in({}, lambda _: answer) as server:
        found = run(server.url, tmp_path / 'r.json', '--episodes', '2', expect=1)
    (episode,) = found['episodes']
    assert reason in episode['error']
    assert found['summary'][0]['episodes'] == 0
    told = capsys.readouterr()
    assert reason in told.err
    assert 'secret' not in told.err
    assert 'lift, seed 0: broke off after 0 steps, not counted' in told.out


def test_a_server_without_a_policy_is_told(capsys):
    refusal = json.dumps({'type': 'error', 'error': 'Robot policy not available'})
    with standing_in(refusal, lambda _: None, Dialect.OPENPI.value) as server:
        assert main(['ws', '--url', server.url]) == 2
    assert 'on this path it has no policy' in capsys.readouterr().err


def test_a_greeting_that_json_has_no_words_for_is_kept_as_text(tmp_path):
    greeting = {'since': msgpack.Timestamp(3), 'loss': float('nan'), 'name': b'x'}
    with standing_in(greeting, lambda _: {'actions': turning(10)}) as server:
        found = run(server.url, tmp_path / 'r.json', '--episodes', '2', '--max-steps', '1')
    kept = found['server']['handshake']
    assert kept == {'since': 'Timestamp(seconds=3, nanoseconds=0)', 'loss': 'nan', 'name': 'x'}


def test_a_path_on_which_there_is_nothing_is_told_in_one_sentence(capsys):
    with serving(load_policy('', policy='sim_expert')) as served:
        url = f'ws://127.0.0.1:{served.port}/v1'
        assert main(['ws', '--url', url]) == 2
    assert capsys.readouterr().err == (
        f'openpi-policy-sim ws: {url} refused with HTTP status 404 (Nothing here); '
        f'its paths are / and {Dialect.OPENPI.value}\n'
    )


def test_nobody_at_the_address_is_told(capsys):
    with standing_in({}, lambda _: None) as server:
        url = server.url
    assert main(['ws', '--url', url]) == 2
    assert 'cannot be reached' in capsys.readouterr().err


@pytest.mark.parametrize(('listens', 'said'), [(True, 'said nothing'), (False, 'be reached')])
def test_a_client_that_would_wait_for_ever_does_not(listens, said, monkeypatch, capsys):
    monkeypatch.setattr(stock_client, 'GREETING_S', 0.1)
    never = threading.Event()
    monkeypatch.setattr(stock_client, 'WebsocketClientPolicy', lambda *_: never.wait(60))
    with socket.socket() as place:
        place.bind(('127.0.0.1', 0))
        if listens:
            place.listen()
        try:
            assert main(['ws', '--url', f'ws://127.0.0.1:{place.getsockname()[1]}/']) == 2
        finally:
            never.set()
    assert said in capsys.readouterr().err


def test_a_server_that_becomes_another_ends_the_run(tmp_path, capsys):
    greeting = {'image_resolution': [32, 32]}

    def answer(_: object) -> dict[str, Any]:
        greeting['image_resolution'] = [64, 64]
        return {'actions': turning(10)}

    with standing_in(greeting, answer) as server:
        found = run(
            server.url, tmp_path / 'r.json', '--episodes', '3', '--max-steps', '2', expect=1
        )
    assert [episode['error'] is None for episode in found['episodes']] == [True, False]
    assert 'expected one server for all episodes' in capsys.readouterr().err


def test_steps_are_counted_over_chunks(tmp_path):
    numbers = itertools.count()
    with standing_in({}, lambda _: {'actions': turning(10), 'n': next(numbers)}) as server:
        found = run(
            server.url, tmp_path / 'r.json', '--episodes', '1', '--horizon', '3',
            '--max-steps', '7',
        )  # fmt: skip
    assert found['episodes'][0]['inferences'] == len(server.sent) == 3
