# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The WebSocket loop, with openpi's own client, against our server; and its command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openpi_standin import run, standing_in, turning
from serving import Served, serving

from openpi_policy_ros.configuration.robot import load_robot
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint
from openpi_policy_ros.wire import Dialect
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.cli import main
from openpi_policy_ros_sim.privileged import POSES

pytest.importorskip('mujoco')
cv2 = pytest.importorskip('cv2')

from openpi_policy_ros_sim import extras  # noqa: E402
from openpi_policy_ros_sim.dataset import views  # noqa: E402
from openpi_policy_ros_sim.environment import Environment  # noqa: E402
from openpi_policy_ros_sim.episodes import Observation, run_episode  # noqa: E402
from openpi_policy_ros_sim.served import ServedPolicy  # noqa: E402
from openpi_policy_ros_sim.video import SIZE, count_frames  # noqa: E402

BOTH_PATHS = pytest.mark.parametrize('dialect', Dialect, ids=lambda dialect: dialect.name.lower())


@pytest.fixture(scope='module')
def expert() -> Any:
    with serving(load_policy('', policy='sim_expert')) as served:
        yield served


def test_the_expert_behind_a_server_does_both_tasks_on_three_tables(
    expert: Served, tmp_path, capsys
):
    file = tmp_path / 'deep' / 'results.json'
    options = ('--episodes', '3', '--seed', '5', '--task', 'lift', 'bowl')
    found = run(expert.url(Dialect.OPENPI), file, *options)
    assert [(e['task'], e['seed'], e['success']) for e in found['episodes']] == [
        (task, seed, True) for task in ('lift', 'bowl') for seed in (5, 6, 7)
    ]
    for entry in found['summary']:
        assert (entry['episodes'], entry['successes'], entry['clamped']) == (3, 3, {})
        assert entry['success_rate'] == 1.0
        assert entry['interval_95'] == pytest.approx([0.438, 1.0], abs=0.001)
        assert 1.0 < entry['seconds_until_success_p50'] < 8.0
        assert 0.0 < entry['latency_ms']['p50'] <= entry['latency_ms']['p95']
        assert entry['done_besides']['reach'] == 3
    assert found['summary'][0]['done_besides']['bowl'] == 0
    for episode in found['episodes']:
        assert episode['seconds'][episode['task']] == pytest.approx(episode['steps'] / 15)
        assert episode['inferences'] == len(episode['latency_ms']) == -(-episode['steps'] // 8)
    assert list(POSES) == found['server']['handshake']['privileged_keys']
    told = capsys.readouterr().out
    assert 'sends sim/cube_pose' in told
    assert 'image' not in told.replace('image_resolution', '')
    assert 'lift  3/3      100 %  44-100 %' in told


def test_equal_seeds_go_the_same_way_on_the_other_path(expert: Served, tmp_path):
    on = [
        run(expert.url(dialect), tmp_path / 'r.json', '--episodes', '1', '--seed', '5', *more)
        for dialect, more in ((Dialect.OPENPI, ()), (Dialect.STOCK, ('--privileged',)))
    ]
    first, second = (found['episodes'][0] for found in on)
    assert first['seconds'] == second['seconds']
    assert first['steps'] == second['steps']


def test_without_being_asked_nothing_privileged_is_sent(expert: Served, tmp_path, capsys):
    # RoboArena's six keys, all that this path greets with, cannot ask.
    found = run(
        expert.url(Dialect.STOCK), tmp_path / 'r.json', '--episodes', '2', expect=1
    )  # fmt: skip
    (episode,) = found['episodes']
    assert (episode['steps'], episode['success']) == (0, False)
    assert "'Internal inference error'" in episode['error']
    assert "look into the server's log" in capsys.readouterr().err


def test_velocities_do_what_positions_do(tmp_path):
    policy = load_policy('', policy='sim_expert', profile=load_robot('droid').profile)
    with serving(policy) as served:
        options = ('--robot', 'droid', '--episodes', '2', '--seed', '5')
        found = run(served.url(Dialect.STOCK), tmp_path / 'r.json', *options, '--privileged')
    assert found['settings']['action_space'] == 'joint_velocity'
    assert found['summary'][0]['successes'] == 2
    assert 'scale' not in found['summary'][0]['clamped']


@BOTH_PATHS
def test_a_checkpoint_takes_what_is_sent(dialect, tmp_path):
    make_checkpoint(tmp_path / 'made', 'small', 0)
    policy = load_policy(str(tmp_path / 'made'), profile=load_robot('droid_jointpos').profile)
    with serving(policy) as served:
        options = ('--episodes', '1', '--max-steps', '12', '--policy-seed', '3')
        found = [run(served.url(dialect), tmp_path / 'r.json', *options) for _ in range(2)]
    for each in found:
        (episode,) = each['episodes']
        assert (episode['steps'], episode['inferences']) == (12, 2)
        assert episode['error'] is None
    assert found[0]['episodes'][0]['clamped'] == found[1]['episodes'][0]['clamped']


def test_the_wire_changes_nothing(tmp_path):
    make_checkpoint(tmp_path / 'made', 'small', 0)
    policy = load_policy(str(tmp_path / 'made'), profile=load_robot('droid_jointpos').profile)
    asked: list[dict[str, Any]] = []
    answer = policy.infer

    def infer(requests: Any) -> Any:
        asked.extend(dict(request.observation) for request in requests)
        return answer(requests)

    policy.infer = infer  # type: ignore[method-assign]
    with serving(policy) as served:
        asked.clear()
        options = ('--episodes', '1', '--seed', '4', '--max-steps', '24', '--policy-seed', '0')
        run(served.url(Dialect.OPENPI), tmp_path / 'r.json', *options)
    seen = []
    with ServedPolicy(tmp_path / 'made') as direct, Environment() as environment:
        act = direct.begin(4)

        def note(observation: Observation) -> Any:
            seen.append(observation)
            return act(observation)

        run_episode(environment, note, seed=4, task='lift', views=views('letterbox'), max_steps=24)
    assert len(asked) == len(seen) == 3
    for request, observation in zip(asked, seen, strict=True):
        np.testing.assert_array_equal(
            request['observation/joint_position'], observation.state.policy_state[:7]
        )
        np.testing.assert_array_equal(
            request['observation/wrist_image_left'], observation.images['wrist']
        )
    assert not np.array_equal(seen[0].state.joint_position, seen[2].state.joint_position)


def test_the_names_of_pi0_base_are_known(tmp_path, capsys):
    make_checkpoint(tmp_path / 'made', 'small', 0)
    with serving(load_policy(str(tmp_path / 'made'), policy='pi0')) as served:
        url = served.url(Dialect.OPENPI)
        options = ['--robot', 'none', '--episodes', '1', '--max-steps', '3']
        assert main(['ws', '--url', url, *options]) == 2
        assert 'action_dim is 32, but the robot takes 8' in capsys.readouterr().err
        found = run(url, tmp_path / 'r.json', *options, '--crop-columns')
    assert found['episodes'][0]['steps'] == 3
    assert set(found['settings']['keys']) == {
        'observation.images.base_0_rgb',
        'observation.images.left_wrist_0_rgb',
        'observation.state',
        'prompt',
    }


DYING = """
import os, time
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.server import ServerThread

policy = load_policy('', policy='sim_expert')
answer, calls = policy.infer, []

def infer(requests):
    calls.append(1)
    if len(calls) == {calls}:
        os._exit(9)
    return answer(requests)

policy.infer = infer
engine = Engine(policy)
engine.start()
print(ServerThread(engine, ServerConfig(port=0)).start(), flush=True)
time.sleep(60)
"""


def test_a_server_that_dies_in_mid_episode_leaves_what_was_done(tmp_path, capsys):
    server = subprocess.Popen(
        [sys.executable, '-c', DYING.format(calls=9)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        found = run(
            f'ws://127.0.0.1:{port}{Dialect.OPENPI.value}', tmp_path / 'r.json', '--episodes', '3',
            '--seed', '5', '--video', str(tmp_path / 'videos'), '--gif', expect=1,
        )  # fmt: skip
        assert server.wait(10) == 9
    finally:
        server.kill()
        server.wait()
    told = capsys.readouterr()
    assert 'went away while it was asked' in told.err
    assert 'lift  1/1' in told.out
    whole, broken = found['episodes']
    assert whole['success']
    assert whole['error'] is None
    assert not broken['success']
    assert 'went away' in broken['error']
    assert broken['steps'] == 8 * broken['inferences'] > 0
    for episode in (whole, broken):
        path = Path(episode['video'])
        assert path.parent == tmp_path / 'videos'
        assert count_frames(path) == episode['steps'] + 1
        capture = cv2.VideoCapture(str(path))
        assert capture.get(cv2.CAP_PROP_FPS) == c.CONTROL_RATE
        frames = [capture.read()[1] for _ in range(episode['steps'] + 1)]
        capture.release()
        assert {frame.shape for frame in frames} == {(*SIZE, 3)}
        # Something moves, and there is a caption.
        assert np.abs(frames[0].astype(int) - frames[-1]).max() > 100
        assert frames[0][:28].max() > 200
        from PIL import Image

        with Image.open(path.with_suffix('.gif')) as picture:
            assert picture.n_frames == -(-(episode['steps'] + 1) // 3)
            assert picture.size == (480, 104)


def test_files_that_cannot_be_written_are_refused(tmp_path, capsys):
    (tmp_path / 'taken').write_text('')
    with standing_in({}, lambda _: {'actions': turning(10)}) as server:
        arguments = ['ws', '--url', server.url, '--episodes', '1', '--max-steps', '1']
        assert main([*arguments, '--json', str(tmp_path / 'taken' / 'r.json')]) == 2
        assert f'--json: {tmp_path / "taken"}' in capsys.readouterr().err
        assert main([*arguments, '--video', str(tmp_path / 'taken')]) == 2
        assert f'--video: {tmp_path / "taken"}' in capsys.readouterr().err
    assert server.sent == []


def test_a_file_that_can_no_longer_be_written_ends_the_run(tmp_path, capsys):
    file = tmp_path / 'r.json'

    def answer(_: object) -> dict[str, Any]:
        # As a full disk: the file cannot be replaced.
        file.mkdir(exist_ok=True)
        (file / 'x').touch()
        return {'actions': turning(10)}

    with standing_in({}, answer) as server:
        arguments = ['--episodes', '3', '--max-steps', '1', '--json', str(file)]
        assert main(['ws', '--url', server.url, *arguments]) == 1
    told = capsys.readouterr()
    assert f'{file}: cannot be written' in told.err
    assert 'lift  0/1' in told.out


ARGUMENTS = {
    'episodes': (['--episodes', '0'], '--episodes: 0, expected 1 or more'),
    'seed': (['--seed', '-1'], '--seed: -1, expected 0 or more'),
    'steps': (['--max-steps', '0'], '--max-steps: 0'),
    'prompt': (['--prompt', ' '], '--prompt: is empty'),
    'gif': (['--gif'], '--gif: needs --video'),
    'frames': (['--frames=-8,-16,0'], "--frames: '-8,-16,0', expected whole numbers that rise"),
    'address': (['--url', 'http://x:1'], 'is an http:// address'),
}


@pytest.mark.parametrize(('arguments', 'reason'), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_cannot_be_are_refused(arguments, reason, capsys):
    assert main(['ws', '--url', 'ws://127.0.0.1:9/', *arguments]) == 2
    assert reason in capsys.readouterr().err


def test_without_a_display_there_is_no_window(monkeypatch, capsys):
    monkeypatch.delenv('DISPLAY', raising=False)
    monkeypatch.delenv('WAYLAND_DISPLAY', raising=False)
    with standing_in({}, lambda _: {'actions': turning(10)}) as server:
        assert main(['ws', '--url', server.url, '--view']) == 2
    assert 'there is no display' in capsys.readouterr().err
    assert server.sent == []


def test_a_display_that_is_not_there_is_told(monkeypatch, capsys):
    monkeypatch.setenv('DISPLAY', ':9876')
    monkeypatch.delenv('WAYLAND_DISPLAY', raising=False)
    with standing_in({}, lambda _: {'actions': turning(10)}) as server:
        assert main(['ws', '--url', server.url, '--view']) == 2
    assert 'no window can be opened' in capsys.readouterr().err
    assert server.sent == []


@pytest.mark.skipif(shutil.which('Xvfb') is None, reason='needs Xvfb')
def test_a_window_opens_beside_the_cameras(tmp_path):
    # In a process of its own: MuJoCo's window takes the process along where something is amiss.
    screen = subprocess.Popen(
        ['Xvfb', '-displayfd', '1', '-screen', '0', '640x480x24'],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert screen.stdout is not None
        display = f':{screen.stdout.readline().strip()}'
        with standing_in({}, lambda _: {'actions': turning(10)}) as server:
            done = subprocess.run(
                [sys.executable, '-m', 'openpi_policy_ros_sim.cli', 'ws', '--url', server.url,
                 '--episodes', '1', '--max-steps', '9', '--view'],
                env={**os.environ, 'DISPLAY': display},
                capture_output=True, text=True, timeout=90, check=False,
            )  # fmt: skip
    finally:
        screen.kill()
        screen.wait()
    assert done.returncode == 0, done.stderr
    assert len(server.sent) == 2


def test_without_openpis_client_it_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, 'openpi_client', None)
    assert main(['ws', '--url', 'ws://127.0.0.1:9/']) == 2
    assert 'pip install --no-deps openpi-client' in capsys.readouterr().err


@pytest.mark.parametrize('error', [RuntimeError('invalid value'), AttributeError('glGetError')])
def test_a_backend_that_mujoco_cannot_use_is_told(error, monkeypatch, capsys):
    def refuse(_: str) -> None:
        raise error

    monkeypatch.setattr(extras.importlib, 'import_module', refuse)
    monkeypatch.setenv('MUJOCO_GL', 'bogus')
    assert main(['ws', '--url', 'ws://127.0.0.1:9/']) == 2
    told = capsys.readouterr().err
    assert "MuJoCo cannot be imported with MUJOCO_GL='bogus'" in told
    assert 'set MUJOCO_GL to a backend that works here' in told


def test_another_prompt_is_sent_and_the_task_still_judged(expert: Served, tmp_path):
    found = run(
        expert.url(Dialect.OPENPI), tmp_path / 'r.json', '--episodes', '1', '--seed', '5',
        '--task', 'bowl', '--prompt', 'lift the red cube', '--max-steps', '60',
    )  # fmt: skip
    (episode,) = found['episodes']
    assert (episode['task'], episode['success'], episode['steps']) == ('bowl', False, 60)
    assert episode['seconds']['lift'] is not None
    assert found['summary'][0]['done_besides'] == {'reach': 1, 'lift': 1}


def test_the_help_of_each_command_names_its_options(capsys):
    with pytest.raises(SystemExit):
        main(['ws', '--help'])
    told = capsys.readouterr().out
    assert all(option in told for option in ('--url', '--task', '--horizon', '--json', '--view'))
    assert main([]) == 2
