# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy client --video-dir`` as a user runs it, against real servers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dreaming_policy import DRIFT, GRIPPER, HORIZON, JOINTS, DreamingPolicy
from serving import eventually, serving
from video_files import write_episode, write_video

from openpi_policy_ros import cli
from openpi_policy_ros.client.videos import ROBOARENA, frame_numbers
from openpi_policy_ros.wire import Dialect

STEMS = tuple(key.rpartition('/')[2] for key in ROBOARENA)
both = pytest.mark.parametrize('dialect', list(Dialect))
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return what runs ``openpi-policy client`` and returns (status, stdout, stderr)."""

    def client(url: str, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = cli.main(['client', '--url', url, *arguments])
        output = capsys.readouterr()
        return status, output.out, output.err

    return client


@both
def test_an_episode_is_asked_about_as_dreamzeros_client_does(
    run: Run, tmp_path: Path, dialect: Dialect
) -> None:
    policy = DreamingPolicy()
    episode = write_episode(tmp_path / 'episode', 75, STEMS)
    saved = tmp_path / 'last.npy'
    with serving(policy) as served:
        status, out, err = run(
            served.url(dialect),
            *('--prompt', 'pick', '--video-dir', str(episode), '--save', str(saved)),
            *('--state', f'{JOINTS}=1,2,3,4,5,6,7', '--state', f'{GRIPPER}=0.5'),
        )
        eventually(lambda: not policy.live, 'the session is freed')
    assert (status, err) == (0, '')
    assert [reset for _, reset, _ in policy.seen] == [True, False, False, False]
    assert [marks for _, _, marks in policy.seen] == [
        [[10 * camera + n for n in frame_numbers(call)] for camera in range(3)] for call in range(4)
    ]
    (session,) = {key.session_id for key, _, _ in policy.seen}
    assert re.fullmatch('[0-9a-f]{32}', session)
    for line in (
        'observation/wrist_image_left       uint8 [16, 32, 3]  '
        '(wrist_image_left.avi, 75 frames at 15 per second)',
        'observation/joint_position    float32 [7]  (--state)',
        f'session {session}, 4 calls, 24 actions from one to the next',
        '   1  0                  float32 [24, 8] ',
        '   4  48 55 63 71        float32 [24, 8] ',
        'session reset',
        'round trip',
        '4 chunks, 1 of them began a session',
    ):
        assert line in out
    expected = np.array([1, 2, 3, 4, 5, 6, 7]) - DRIFT
    np.testing.assert_allclose(np.load(saved)[HORIZON - 1, :7], expected, atol=1e-6)


def test_fewer_calls_another_step_and_a_session_of_ones_own(run: Run, tmp_path: Path) -> None:
    policy = DreamingPolicy()
    episode = write_episode(tmp_path, 24, STEMS)
    arguments = ('--prompt', 'x', '--video-dir', str(episode), '--session-id', 'mine')
    with serving(policy) as served:
        url = served.url(Dialect.STOCK)
        assert run(url, *arguments, '--repeat', '3', '--video-steps', '6')[0] == 0
        assert run(url, *arguments, '--repeat', '3')[0] == 2
    assert [marks[0] for _, _, marks in policy.seen] == [[0], [0, 1, 3, 5], [6, 7, 9, 11]]
    assert {key.session_id for key, _, _ in policy.seen} == {'mine'}


def test_a_robot_files_keys_and_state_are_used(run: Run, tmp_path: Path) -> None:
    policy = DreamingPolicy()
    robot = tmp_path / 'robot.yaml'
    robot.write_text(
        '/**: {ros__parameters: {profile: {key_map: ["observation/wrist_image_left -> a", '
        '"observation/exterior_image_0_left -> b", "observation/exterior_image_1_left -> c", '
        '"observation/joint_position -> state"], state_dims: [7]}}}'
    )
    episode = write_episode(tmp_path / 'v', 3, STEMS)
    with serving(policy) as served:
        status, out, _ = run(
            served.url(Dialect.OPENPI),
            *('--robot', str(robot), '--prompt', 'x', '--video-dir', str(episode)),
        )
    assert status == 0
    assert GRIPPER not in out


def test_a_session_that_is_refused_is_told_and_nothing_follows(run: Run, tmp_path: Path) -> None:
    policy = DreamingPolicy(sessions=0)
    episode = write_episode(tmp_path, 48, STEMS)
    with serving(policy) as served:
        status, out, err = run(
            served.url(Dialect.OPENPI), '--prompt', 'x', '--video-dir', str(episode)
        )
    assert status == 1
    assert 'call 1: the server answered' in err
    assert '1 of 1 requests failed' in err
    assert 'session reset' not in out


@pytest.mark.parametrize(
    ('given', 'says'),
    [
        (('--video-dir', 'v'), 'needs --prompt'),
        (('--video-dir', 'v', '--prompt', 'x', '--images', 'a.png'), 'leave out --images'),
        (('--video-dir', 'v', '--prompt', 'x', '--reset'), 'leave out --reset'),
        (('--videos', 'a=b', '--prompt', 'x'), '--videos: only with --video-dir'),
        (('--video-steps', '8', '--prompt', 'x'), '--video-steps: only with --video-dir'),
    ],
)
def test_options_that_do_not_go_together_are_told(
    run: Run, given: tuple[str, ...], says: str
) -> None:
    status, _, err = run('ws://127.0.0.1:9/', *given)
    assert status == 2
    assert says in err


@pytest.mark.parametrize(
    ('lengths', 'says'),
    [((30, 30, 29), 'differ in their number of frames'), ((30, 30), 'no wrist_image_left.mp4')],
)
def test_videos_that_do_not_fit_are_one_message_and_status_2(
    run: Run, tmp_path: Path, lengths: tuple[int, ...], says: str
) -> None:
    for stem, frames in zip(STEMS, lengths, strict=False):
        write_video(tmp_path / f'{stem}.avi', frames)
    policy = DreamingPolicy()
    with serving(policy) as served:
        status, _, err = run(
            served.url(Dialect.STOCK), '--prompt', 'x', '--video-dir', str(tmp_path)
        )
    assert status == 2
    assert says in err
    assert 'Traceback' not in err
    assert policy.seen == []
