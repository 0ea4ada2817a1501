# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy client`` as a user runs it, against real servers."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from fakes import EchoPolicy, FailingPolicy, SlowPolicy, make_spec
from serving import serving

from openpi_policy_ros import cli
from openpi_policy_ros.client.trial import build_observation, check_pattern, read_image
from openpi_policy_ros.configuration.robot import Profile, RobotConfig, load_robot
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.wire import Dialect

PI0 = {
    'image_resolution': [60, 80],
    'n_external_cameras': 1,
    'needs_wrist_camera': True,
    'action_horizon': 10,
    'action_dim': 8,
}
both = pytest.mark.parametrize('dialect', list(Dialect))


@pytest.fixture
def run(capsys):
    """Return what runs ``openpi-policy client`` and returns (status, stdout, stderr)."""

    def client(url: str, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.main(['client', '--url', url, *arguments])
        output = capsys.readouterr()
        return status, output.out, output.err

    return client


def served_policy() -> EchoPolicy:
    return EchoPolicy(make_spec(10, 8, handshake=PI0))


@both
def test_it_prints_handshake_observation_chunk_and_latency(run, tmp_path, dialect) -> None:
    policy = served_policy()
    saved = tmp_path / 'chunk.npy'
    with serving(policy) as served:
        status, out, err = run(
            served.url(dialect),
            *('--robot', 'droid', '--prompt', 'pick', '--repeat', '5', '--seed', '7'),
            *('--rows', '2', '--save', str(saved), '--session-id', 's', '--steps', '4'),
        )
    assert (status, err) == (0, '')
    for line in (
        'image_resolution: [60, 80]',
        'observation/exterior_image_1_left  uint8 [60, 80, 3]  (test pattern)',
        'observation/joint_position         float32 [7]  (zeros)',
        'observation/gripper_position       float32 [1]  (zeros)',
        "'pick'  (--prompt)",
        'got actions float32 [10, 8]:',
        '… 8 more rows',
        'round trip',
        '5 chunks, 1 of them began a session',
    ):
        assert line in out
    assert ('policy.infer_ms' in out) is (dialect is Dialect.STOCK)
    assert np.load(saved)[0, 1] == 7.0
    assert len(policy.requests) == 5
    assert {r.session.session_id for r in policy.requests} == {'s'}
    assert {r.num_inference_steps for r in policy.requests} == {4}


def test_without_a_prompt_only_the_handshake_is_printed(run) -> None:
    policy = served_policy()
    with serving(policy) as served:
        status, out, _ = run(served.url(Dialect.OPENPI))
    assert status == 0
    assert 'action_horizon: 10' in out
    assert 'nothing sent' in out
    assert policy.requests == []


def test_images_and_state_reach_the_policy_as_given(run, tmp_path) -> None:
    policy = served_policy()
    image = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    file = tmp_path / 'wrist.png'
    cv2.imwrite(str(file), image[..., ::-1])
    with serving(policy) as served:
        status, out, _ = run(
            served.url(Dialect.OPENPI),
            *('--robot', 'droid', '--prompt', 'x', '--state=-1,2,3,4,5,6,7,0.5'),
            *('--images', f'observation/wrist_image_left={file}'),
        )
    assert status == 0
    assert f'uint8 [6, 9, 3]  ({file})' in out
    seen = policy.requests[0].observation
    np.testing.assert_array_equal(seen['observation/wrist_image_left'], image)
    np.testing.assert_array_equal(seen['observation/joint_position'], [-1, 2, 3, 4, 5, 6, 7])
    np.testing.assert_array_equal(seen['observation/gripper_position'], [0.5])
    np.testing.assert_array_equal(seen['observation/exterior_image_1_left'], check_pattern(60, 80))


def test_a_recorded_observation_is_sent_whole(run, tmp_path) -> None:
    policy = served_policy()
    file = tmp_path / 'obs.npz'
    np.savez(file, **{'a/b': np.arange(3, dtype=np.uint8), 'prompt': np.array('from the file')})
    with serving(policy) as served:
        url = served.url(Dialect.OPENPI)
        assert run(url, '--observation', str(file))[0] == 0
        assert run(url, '--observation', str(file), '--prompt', 'mine')[0] == 0
        assert run(url, '--observation', str(file), '--robot', 'droid')[0] == 2
    assert [r.observation['prompt'] for r in policy.requests] == ['from the file', 'mine']
    np.testing.assert_array_equal(policy.requests[0].observation['a/b'], [0, 1, 2])


@both
def test_reset_begins_a_session_with_every_request(run, dialect) -> None:
    policy = served_policy()
    arguments = ('--robot', 'droid', '--prompt', 'x', '--repeat', '3')
    with serving(policy) as served:
        out = run(served.url(dialect), *arguments, '--reset')[1]
    assert '3 chunks, 3 of them began a session' in out
    assert [r.reset for r in policy.requests] == [True, True, True]


@both
def test_a_failed_request_is_told_and_counted(run, dialect) -> None:
    policy = FailingPolicy(RuntimeError('secret'), spec=make_spec(10, 8, handshake=PI0))
    with serving(policy) as served:
        status, out, err = run(
            served.url(dialect), '--robot', 'droid', '--prompt', 'x', '--repeat', '3'
        )
    assert status == 1
    assert 'request 1: the server answered' in err
    assert '1 of 3 requests failed' in err
    assert '2 chunks' in out


def test_a_timeout_ends_it(run) -> None:
    policy = SlowPolicy(make_spec(10, 8, handshake=PI0))
    with serving(policy) as served:
        status, _, err = run(
            served.url(Dialect.OPENPI),
            *('--robot', 'droid', '--prompt', 'x', '--repeat', '3', '--timeout', '0.1'),
        )
        policy.release(3)
    assert status == 1
    assert 'no answer within 0.1 s' in err
    assert '1 of 1 requests failed' in err


@pytest.mark.parametrize(
    ('url', 'says'),
    [
        ('ws://127.0.0.1:9/', 'nothing listens there'),
        ('http://127.0.0.1:9/', 'write ws://127.0.0.1:9/'),
        ('ws://127.0.0.1/', 'names no port'),
    ],
)
def test_no_connection_is_one_message_and_status_2(run, url, says) -> None:
    status, out, err = run(url, '--prompt', 'x')
    assert (status, out) == (2, '')
    assert says in err
    assert 'Traceback' not in err


def test_the_key_is_read_from_the_environment_and_not_shown(run, tmp_path, monkeypatch) -> None:
    key = 'geheim-0123456789abcdef'
    file = tmp_path / 'keys'
    file.write_text(key)
    monkeypatch.setenv('OPENPI_API_KEY', key)
    with serving(served_policy(), api_key_file=str(file)) as served:
        url = served.url(Dialect.OPENPI)
        status, out, err = run(url, '--log-level', 'debug')
        assert status == 0
        assert key not in out + err
        monkeypatch.delenv('OPENPI_API_KEY')
        status, _, err = run(url)
        assert status == 2
        assert 'HTTP 401' in err
        assert run(url, '--api-key-file', str(file))[0] == 0


def observe(handshake=PI0, robot=None, **given):
    parts = build_observation(handshake, robot, prompt='x', **given)
    return {part.key: part.value for part in parts}


def test_without_a_robot_file_the_base_models_names_are_used() -> None:
    assert observe().keys() == {
        'observation.images.base_0_rgb',
        'observation.images.left_wrist_0_rgb',
        'state',
        'prompt',
    }
    assert observe()['state'].shape == (8,)


def test_layout_and_colour_order_are_the_robots(tmp_path) -> None:
    file = tmp_path / 'x.png'
    cv2.imwrite(str(file), np.array([[[255, 0, 0]]], np.uint8))  # Blue, in OpenCV's order.
    np.testing.assert_array_equal(read_image(str(file)), [[[0, 0, 255]]])
    robot = RobotConfig(
        profile=Profile(
            key_map=['cam -> observation.images.base_0_rgb', 'q -> observation.state'],
            layout='CHW',
            colour_order='BGR',
        )
    )
    seen = observe(robot=robot, images=[str(file)], state=['1'])
    np.testing.assert_array_equal(seen['cam'], [[[255]], [[0]], [[0]]])
    assert seen['cam'].flags.c_contiguous


SHIPPED = [
    *('droid', 'droid_jointpos', 'droid_jointpos_delta', 'roboarena'),
    *('aloha', 'libero', 'so101', 'fr3'),
]


@pytest.mark.parametrize('name', SHIPPED)
def test_every_shipped_robot_has_all_that_is_needed(name: str) -> None:
    robot = load_robot(name)
    seen = observe(robot=robot)
    assert seen.keys() == {wire for wire, _ in robot.profile.pairs()} | {'prompt'}


def test_what_nobody_says_is_asked_for() -> None:
    keys = ['cam -> observation.images.base_0_rgb', 'q -> observation.state']
    unsized = RobotConfig(profile=Profile(key_map=keys))
    with pytest.raises(ConfigurationError, match='--state=0,0'):
        observe(robot=unsized)
    assert observe(robot=unsized, state=['1,2,3'])['q'].shape == (3,)
    sized = RobotConfig(profile=Profile(key_map=keys, state_dims=[4]))
    assert observe(robot=sized)['q'].shape == (4,)
    with pytest.raises(ConfigurationError, match='does not say which cameras'):
        observe({})
    with pytest.raises(ConfigurationError, match='asks for 2 cameras'):
        observe({**PI0, 'n_external_cameras': 2})


@pytest.mark.parametrize(
    ('given', 'says'),
    [
        (('--repeat', '0'), '0: expected a whole number, at least 1'),
        (('--steps', 'ten'), 'ten: expected a whole number, at least 1'),
        (('--timeout', '-1'), '-1: expected seconds, 0 or more'),
        (('--wait', 'nan'), 'nan: expected seconds, 0 or more'),
        (('--wait', 'long'), 'long: expected seconds, 0 or more'),
    ],
)
def test_a_number_out_of_range_is_told_with_what_was_expected(capsys, given, says) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(['client', '--url', 'ws://127.0.0.1:9/', *given])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ('given', 'says'),
    [
        ({'images': ['nose=x.png']}, "'nose' is no camera"),
        ({'images': ['a.png', 'b.png', 'c.png']}, '3 files for 2 cameras'),
        ({'images': ['/no/such.png']}, 'No such file'),
        ({'images': [__file__]}, 'is no image'),
        ({'state': ['1,2']}, '2 numbers for'),
        ({'state': ['1,x']}, 'expected numbers'),
        ({'state': ['nan']}, 'expected numbers'),
        ({'state': ['1', '2']}, 'more than one list'),
        ({'state': ['speed=1']}, "'speed' is no state key"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(given, says) -> None:
    with pytest.raises(ConfigurationError, match=says):
        observe(robot=load_robot('droid'), **given)


def test_the_test_pattern_tells_colours_and_orientation() -> None:
    image = check_pattern(60, 80)
    assert (image.shape, image.dtype) == ((60, 80, 3), np.uint8)
    assert len(np.unique(image[0], axis=0)) == 8
    assert image[0].max() > image[-1].max()
