# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A DreamZero checkpoint behind the server, and the habits of every client it was made for."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

pytest.importorskip('diffusers')
pytest.importorskip('transformers')

import cv2
import torch
from dreamzero_door import (
    COLUMNS,
    HANDSHAKE,
    JOINTS,
    LONGEST,
    PROMPT,
    QUICK,
    ROBOT,
    ROWS,
    SHIPPED,
    VIEW,
    frames,
    load,
    observed,
    play,
    session,
    stack,
)
from serving import FAILED, Client, Served, actions_of, eventually, serving
from video_files import write_episode
from websockets.exceptions import ConnectionClosed

from openpi_policy_ros import cli
from openpi_policy_ros.bench.dreamzero import tensor_bytes
from openpi_policy_ros.client.videos import ROBOARENA, offsets
from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.base import SessionKey
from openpi_policy_ros.policies.dreamzero.memory import GIB, size
from openpi_policy_ros.policies.dreamzero.policy import DreamZeroPolicy
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.recording.imagined import ImaginedFiles
from openpi_policy_ros.wire import Dialect

both = pytest.mark.parametrize('dialect', list(Dialect))


@dataclass
class PolicyServerConfig:
    """What RoboArena's client makes of the handshake: six keys, and no other."""

    image_resolution: tuple[int, int] | None = (224, 224)
    needs_wrist_camera: bool = True
    n_external_cameras: int = 1
    needs_stereo_camera: bool = False
    needs_session_id: bool = False
    action_space: str = 'joint_position'


@pytest.fixture(scope='module', autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope='module')
def quick(
    tiny_dreamzero: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, DreamZeroPolicy]]:
    """Yield a server and its policy, which nobody has closed."""
    policy = load(tiny_dreamzero, tmp_path_factory.mktemp('quick'), **QUICK)
    with serving(policy) as served:
        yield served, policy


@pytest.fixture(scope='module')
def served(quick: tuple[Served, DreamZeroPolicy]) -> Served:
    return quick[0]


@contextlib.contextmanager
def command(scratch: Path, *arguments: str) -> Iterator[tuple[Served, int, Path]]:
    """Run ``openpi-policy serve``; yield its address, its process id and its log."""
    log = scratch / 'serve.log'
    with log.open('w') as output:
        process = subprocess.Popen(
            [sys.executable, '-m', 'openpi_policy_ros.cli', 'serve', '--port', '0', *arguments],
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            cwd=scratch,
        )
    try:
        assert process.stdout is not None
        # An empty line where it has ended.
        line = process.stdout.readline()
        assert line.startswith('listening on ws://127.0.0.1:'), log.read_text()
        there: Any = Served(int(line.rpartition(':')[2]), None, None)  # type: ignore[arg-type]
        yield there, process.pid, log
        process.terminate()
        assert process.wait(LONGEST) == 0, log.read_text()
    finally:
        process.kill()
        process.wait(LONGEST)
        process.stdout.close()


# The command as users run it


def test_the_command_serves_every_client_and_keeps_what_was_imagined(
    tiny_dreamzero: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'policy.yaml').write_text(yaml.safe_dump({**SHIPPED, 'imagined': True}))
    dreams = tmp_path / 'dreams'
    arguments = ('--model', str(tiny_dreamzero), '--robot', ROBOT, '--policy', './policy.yaml')
    with command(tmp_path, *arguments, '--imagined-dir', str(dreams)) as (served, _, log):
        with Client(served, Dialect.STOCK) as client:
            assert PolicyServerConfig(**client.handshake) == PolicyServerConfig(**HANDSHAKE)
            assert len(client.handshake) == 6
            for call in range(3):
                reply = client.infer(
                    endpoint='infer', session_id='arena', **observed(frames(call), call)
                )
                assert (reply['actions'].shape, reply['actions'].dtype) == ((ROWS, COLUMNS), 'f4')
            assert client.reset() == 'reset successful'
        with Client(served, Dialect.OPENPI) as client:
            assert client.handshake == HANDSHAKE
            for call in range(3):
                chunk = client.infer(endpoint='infer', session_id='omni', **session(0, call))
                assert (chunk.shape, chunk.dtype) == ((ROWS, COLUMNS), np.float32)
                assert np.isfinite(chunk).all()
            assert client.reset() == {'status': 'reset successful'}
        episode = write_episode(
            tmp_path / 'episode', 18, tuple(key.rpartition('/')[2] for key in ROBOARENA)
        )
        for dialect in Dialect:
            asked = ('--url', served.url(dialect), '--prompt', PROMPT, '--video-dir', str(episode))
            status = cli.main(
                ['client', *asked, '--video-steps', str(ROWS), '--session-id', 'film']
            )
            told = capsys.readouterr()
            assert (status, told.err) == (0, ''), log.read_text()
            assert 'session film, 4 calls' in told.out
            assert '   4  12 13 15 17        float32 [6, 8]' in told.out
            assert 'session reset' in told.out
    # Each call imagines one block of two latent frames, of four images each.
    found = sorted((one.name.rpartition('-')[2], decoded(one)) for one in dreams.iterdir())
    assert found == [
        ('arena.mp4', [(32, 64)] * 8 * 3),
        *(('film.mp4', [(32, 64)] * 8 * 4),) * 2,
        ('omni.mp4', [(32, 64)] * 8 * 3),
    ]
    assert 'Traceback' not in log.read_text()


def decoded(video: Path) -> list[tuple[int, int]]:
    """Return the size of every frame of a video."""
    capture = cv2.VideoCapture(str(video))
    found = []
    while True:
        there, pixels = capture.read()
        if not there:
            capture.release()
            return found
        found.append(pixels.shape[:2])


DEPLOY = {
    'pipeline': 'dreamzero',
    'stages': [
        {
            'stage_id': 0,
            'model_class_name': 'DreamZeroPipeline',
            'model_config': {
                'default_robot_embodiment': 'roboarena',
                'num_inference_steps': 2,
                'max_sessions': 1,
                'policy_server_config': HANDSHAKE,
            },
            'parallel_config': {'cfg_parallel_size': 1, 'tensor_parallel_size': 1},
            'cache_backend': 'step_cache',
            'cache_config': {'step_cache_dit_enabled': False},
            'engine_extras': {'max_num_seqs': 1},
        }
    ],
}


@pytest.mark.timeout(240)
def test_a_deploy_file_serves_two_hundred_connections_one_after_the_other_in_one_place(
    tiny_dreamzero: Path, tmp_path: Path
) -> None:
    (tmp_path / 'deploy.yaml').write_text(yaml.safe_dump(DEPLOY))
    sent = session(0, 0)
    chunks = []
    memory = []
    arguments = ('--model', str(tiny_dreamzero), '--policy', './deploy.yaml')
    with command(tmp_path, *arguments) as (served, process, log):
        for number in range(200):
            # There is room for one session only: the one before must be gone.
            with Client(served, Dialect.OPENPI if number % 2 else Dialect.STOCK) as client:
                chunks.append(client.actions(session_id='same', **sent))
                if number % 4 == 0:
                    client.reset()
            memory.append(resident(process))
        with Client(served, Dialect.OPENPI) as client:
            # Whoever begins another session ends the one before.
            chunks += [client.actions(session_id=name, **sent) for name in 'abc']
        said = log.read_text()
    assert all((chunk == chunks[0]).all() for chunk in chunks)
    # 180 sessions of 0.35 MiB would be 63 MiB; an allocator keeps a work space or two more.
    assert max(memory[20:]) - memory[19] < 40 * 2**20, memory[::20]
    assert 'parallel_config.tensor_parallel_size' in said
    assert 'cache_config' not in said


def resident(process: int) -> int:
    """Return the bytes of a process that are in memory."""
    pages = int(Path(f'/proc/{process}/statm').read_text().split()[1])
    return pages * 4096


# What a session is


def test_a_checkpoint_alone_tells_roboarenas_client_its_own_sizes(tiny_dreamzero: Path) -> None:
    policy = load_policy(str(tiny_dreamzero), profile=load_robot(ROBOT).profile)
    with serving(policy) as served:
        with Client(served, Dialect.STOCK) as client:
            told = PolicyServerConfig(**client.handshake)
            assert (told.image_resolution, told.n_external_cameras) == ([*VIEW], 2)
            assert told.needs_session_id
            reference = client.actions(endpoint='infer', session_id='x', **session(0, 0))
        with Client(served, Dialect.OPENPI) as client:
            assert (client.handshake['action_horizon'], client.handshake['action_dim']) == (6, 8)
            np.testing.assert_array_equal(client.actions(**session(0, 0)), reference)


def test_interleaved_sessions_equal_separate_ones_bit_for_bit(served: Served) -> None:
    starts = (100, 200, 300)
    # Over the end of a window, which holds two calls here.
    apart = [play(served, Dialect.OPENPI, start) for start in starts]
    assert not np.array_equal(apart[0], apart[1])
    paths = (Dialect.OPENPI, Dialect.STOCK, Dialect.OPENPI)
    clients = [Client(served, path) for path in paths]
    mixed: list[list[np.ndarray]] = [[] for _ in starts]
    try:
        for call in range(4):
            # All ask before any is answered.
            for client, start in zip(clients, starts, strict=True):
                client.send(session_id='same', **session(start, call))
            for client, chunks in zip(clients, mixed, strict=True):
                chunks.append(actions_of(client.answer()))
    finally:
        for client in clients:
            client.close()
    for alone, among_others in zip(apart, mixed, strict=True):
        np.testing.assert_array_equal(alone, among_others)


def test_another_session_on_the_same_connection_begins_anew_each_time(
    quick: tuple[Served, DreamZeroPolicy],
) -> None:
    served, policy = quick
    eventually(lambda: not policy.live_sessions, 'the sessions of others are gone')
    first = [play(served, Dialect.OPENPI, start, 1)[0] for start in (100, 200)]
    with Client(served, Dialect.OPENPI) as client:
        for _ in range(2):
            for name, start, expected in zip('ab', (100, 200), first, strict=True):
                found = client.actions(session_id=name, **session(start, 0))
                np.testing.assert_array_equal(found, expected)
                assert policy.live_sessions == 1


@both
def test_one_frame_a_call_is_what_a_stack_of_the_last_four_is(
    served: Served, dialect: Dialect
) -> None:
    with Client(served, dialect) as client:
        single = [client.actions(**observed(frames(number), number)) for number in range(4)]
    stacks = [(0,), (0, 0, 0, 1), (0, 0, 1, 2), (0, 1, 2, 3)]
    with Client(served, dialect) as client:
        stacked = [
            client.actions(**observed(stack(*seeds), number)) for number, seeds in enumerate(stacks)
        ]
    np.testing.assert_array_equal(single, stacked)


@both
def test_a_changed_instruction_starts_a_window_from_the_newest_image(
    served: Served, dialect: Dialect
) -> None:
    other = 'open the drawer'
    with Client(served, dialect) as client:
        client.actions(session_id='s', **session(0, 0))
        found = [
            client.actions(session_id='s', **observed(stack(1, 2, 3, 4), prompt=other)),
            client.actions(session_id='s', **observed(stack(5, 6, 7, 8), prompt=other)),
        ]
    with Client(served, dialect) as client:
        expected = [
            client.actions(session_id='s', **observed(stack(4), prompt=other)),
            client.actions(session_id='s', **observed(stack(5, 6, 7, 8), prompt=other)),
        ]
    np.testing.assert_array_equal(found, expected)


@both
def test_a_reset_forgets_everything(served: Served, dialect: Dialect) -> None:
    expected = play(served, dialect, 100, 2)
    with Client(served, dialect) as client:
        client.actions(session_id='same', **session(400, 0))
        client.reset()
        found = [client.actions(session_id='same', **session(100, call)) for call in range(2)]
    np.testing.assert_array_equal(found, expected)


def test_nothing_is_kept_of_a_client_that_vanishes(quick: tuple[Served, DreamZeroPolicy]) -> None:
    served, policy = quick
    eventually(lambda: not policy.live_sessions, 'the sessions of others are gone')
    before = tensor_bytes()
    clients = [Client(served, dialect) for dialect in (*Dialect, *Dialect)]
    for number, client in enumerate(clients):
        client.actions(session_id='s', **session(number, 0))
    assert policy.live_sessions == 4
    assert tensor_bytes() - before >= 4 * policy.model.bytes_per_session * 0.9
    # The last in the middle of a call.
    clients[3].send(session_id='s', **session(3, 1))
    for client in clients:
        client.vanish()
    eventually(lambda: not policy.live_sessions, 'all is freed')
    eventually(lambda: tensor_bytes() <= before, 'all memory is given back')


def test_a_wrong_observation_costs_a_session_nothing(served: Served) -> None:
    expected = play(served, Dialect.OPENPI, 100, 3)
    with Client(served, Dialect.OPENPI) as client:
        found = [client.actions(session_id='same', **session(100, 0))]
        for broken in ({ROBOARENA[2]: frames(0)[ROBOARENA[2]]}, {JOINTS: np.full(7, np.nan)}):
            answer = client.infer(session_id='same', **{**session(100, 1), **broken})
            assert answer == client.error(FAILED)
        found += [client.actions(session_id='same', **session(100, call)) for call in (1, 2)]
    np.testing.assert_array_equal(found, expected)


# How many


@both
def test_a_session_that_does_not_fit_is_sent_away_and_those_that_live_go_on(
    quick: tuple[Served, DreamZeroPolicy],
    tiny_dreamzero: Path,
    tmp_path: Path,
    dialect: Dialect,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    other, known = quick
    expected = play(other, dialect, 100, 3)
    needed = known.model.bytes_per_session
    policy = load(tiny_dreamzero, tmp_path, session_memory=2.5 * needed / GIB, **QUICK)
    with serving(policy) as served:
        with Client(served, dialect) as first:
            got = [first.actions(session_id='same', **session(100, 0))]
            with Client(served, dialect) as second:
                second.actions(**session(200, 0))
                got.append(first.actions(session_id='same', **session(100, 1)))
                with Client(served, dialect) as third:
                    assert third.infer(**session(300, 0)) == third.error(FAILED)
                    with pytest.raises(ConnectionClosed) as closed:
                        third.receive()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1013
                got.append(first.actions(session_id='same', **session(100, 2)))
            eventually(lambda: policy.live_sessions == 1, 'the second is freed')
            with Client(served, dialect) as fourth:
                fourth.actions(**session(300, 0))
        np.testing.assert_array_equal(got, expected)
    told = (
        f'no capacity: no memory for another session: it takes {size(needed)}, 2 live ones hold '
        f'{size(2 * needed)} of the {size(int(2.5 * needed))} for sessions'
    )
    assert caplog.text.count(told) == 1, caplog.text
    assert 'Traceback' not in caplog.text


# What is imagined


def test_each_session_has_its_video_and_nothing_is_kept_where_nothing_is_imagined(
    tiny_dreamzero: Path, tmp_path: Path
) -> None:
    for imagined in (True, False):
        folder = tmp_path / str(imagined)
        folder.mkdir()
        policy = load(tiny_dreamzero, tmp_path, imagined=imagined, **QUICK)
        with serving(policy) as served, contextlib.closing(ImaginedFiles(folder)) as files:
            served.engine.add_tap(files)
            with Client(served, Dialect.OPENPI) as client:
                for name, calls in (('one', 1), ('two', 3)):
                    for call in range(calls):
                        client.actions(session_id=name, **session(0, call))
            eventually(lambda p=policy: not p.live_sessions, 'the sessions are closed')
        counts = {one.name.rpartition('-')[2]: len(decoded(one)) for one in folder.iterdir()}
        assert counts == ({'one.mp4': 8, 'two.mp4': 24} if imagined else {})


def test_sessions_are_those_of_the_policy(quick: tuple[Served, DreamZeroPolicy]) -> None:
    served, policy = quick
    engine: Engine = served.engine
    eventually(lambda: not policy.live_sessions, 'the sessions of others are gone')
    assert policy.session(SessionKey('nobody', 'x')) is None
    assert engine.spec.stateful
    assert engine.spec.history_offsets == offsets(ROWS)
