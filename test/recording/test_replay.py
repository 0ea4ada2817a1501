# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The same weights and seed give the same chunk, bit by bit; anything else is measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip('rosbags')
pytest.importorskip('mcap_ros2')

from fakes import EchoPolicy
from recordings import ROBOT, SPEC, WAIT, observe, taped
from serving import Client, Served

from openpi_policy_ros.cli import main
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.control.observation import Assembler, Ready
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.errors import InvalidObservation, PolicyRosError
from openpi_policy_ros.policies.base import InferenceRequest, RtcPrefix, SessionKey
from openpi_policy_ros.policies.loading import load_policy
from openpi_policy_ros.recording.compare import Matching
from openpi_policy_ros.recording.reader import Recording
from openpi_policy_ros.recording.replay import replay
from openpi_policy_ros.server import ServerThread
from openpi_policy_ros.wire import Dialect

MODEL = str(Path(__file__).resolve().parents[1] / 'data' / 'pi0_tiny_ft_meanstd')
CAMERAS = ('base_0_rgb', 'left_wrist_0_rgb', 'right_wrist_0_rgb')
JOINTS = [f'joint_{i}' for i in range(14)]
NOW = 10**18


def seen(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    pictures = {
        f'observation.images.{name}': rng.integers(0, 256, (48, 64, 3), np.uint8)
        for name in CAMERAS
    }
    return {
        **pictures,
        'state': rng.standard_normal(14).astype(np.float32),
        'prompt': 'pick up the red block',
    }


def observed_on_topics(number: int) -> dict[str, Any]:
    """Return what the robot's own door makes of messages."""
    file = {
        'camera_names': list(CAMERAS),
        'cameras': {
            name: {'topic': name, 'key': f'observation.images.{name}', 'rotate': 180}
            for name in CAMERAS
        },
        'joints': {'names': JOINTS, 'keys': ['state']},
    }
    door = Assembler(validate(RobotConfig, file, 'test'), lambda: NOW)
    door.set_prompt('pick up the red block')
    header = SimpleNamespace(stamp=SimpleNamespace(sec=NOW // 10**9, nanosec=0))
    rng = np.random.default_rng(number)
    for name in CAMERAS:
        pixels = rng.integers(0, 256, (48, 64, 3), np.uint8)
        door.add_image(
            name,
            SimpleNamespace(
                header=header,
                height=48,
                width=64,
                encoding='bgr8',
                step=192,
                is_bigendian=0,
                data=pixels.tobytes(),
            ),
        )
    positions = rng.standard_normal(14).tolist()
    door.add_joints(SimpleNamespace(header=header, name=JOINTS, position=positions))
    ready = door.snapshot()
    assert isinstance(ready, Ready), ready
    return dict(ready.observation)


@pytest.fixture(scope='module')
def both_doors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return recordings of a tiny π0: one of a client, one of the robot, the last of it unseeded.

    The robot's second chunk continues its first one (real-time chunking).
    """
    folder = tmp_path_factory.mktemp('both')
    with taped(folder, load_policy(MODEL)) as tape:
        server = ServerThread(tape.engine, ServerConfig(port=0))
        port = server.start()
        try:
            with Client(Served(port, tape.engine, server), Dialect.OPENPI) as client:
                for number in range(2):
                    client.actions(**seen(number), seed=number)
                client.actions(**seen(2), seed=5, sampling_params={'num_inference_steps': 3})
        finally:
            server.stop()
        key = SessionKey('ros:/robot', '1')
        rtc = None
        for number in range(3):
            seed = number if number < 2 else None
            one = InferenceRequest(
                observed_on_topics(number), key, reset=not number, seed=seed, rtc=rtc
            )
            chunk = tape.engine.submit(one, Lane.ROBOT).result(WAIT)
            assert chunk.model_actions is not None
            rtc = RtcPrefix(chunk.model_actions[5:], 3, state=chunk.state)
    return folder


@pytest.fixture(scope='module')
def engine() -> Iterator[Engine]:
    """Return an engine around the same weights."""
    engine = Engine(load_policy(MODEL))
    engine.start()
    yield engine
    engine.close()


def test_equal_weights_and_seeds_differ_by_exactly_nothing(
    both_doors: Path, engine: Engine
) -> None:
    remote, robot = sorted(both_doors.iterdir(), key=lambda bag: 'robot' in bag.name)
    result = replay(Recording(remote), engine)
    assert len(result.recorded) == 3
    assert result.largest == 0.0
    assert not result.notes
    result = replay(Recording(robot), engine)
    errors = np.abs(result.errors).max(axis=(1, 2))
    assert errors[:2].tolist() == [0.0, 0.0]
    # The noise of a request without a seed cannot come again.
    assert errors[2] > 0.0
    assert 'requests had no seed' in result.notes[0]


def test_pixels_and_joints_reach_the_policy_as_they_were(both_doors: Path) -> None:
    robot = next(bag for bag in both_doors.iterdir() if 'robot' in bag.name)
    for number, one in enumerate(Recording(robot).inferences()):
        wanted = observed_on_topics(number)
        assert list(one.request.observation) == list(wanted)
        for key, value in wanted.items():
            got = one.request.observation[key]
            assert np.array_equal(got, value), key
            assert getattr(got, 'dtype', None) == getattr(value, 'dtype', None), key


def test_the_command_passes_and_fails_by_tolerance(
    both_doors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remote = next(bag for bag in both_doors.iterdir() if 'remote' in bag.name)
    out = tmp_path / 'report'
    asked = ['replay', str(remote), '--model', MODEL, '--tolerance', '0', '--out', str(out)]
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert 'largest difference 0: identical' in text
    assert 'within --tolerance 0' in text
    told = json.loads((out / 'replay.json').read_text())
    (comparison,) = told['comparisons']
    assert (comparison['inferences'], comparison['largest']) == (3, 0.0)
    assert {column['max'] for column in comparison['columns'].values()} == {0.0}

    # All of them, with one that drew its own noise.
    assert main(['replay', str(both_doors), '--model', MODEL, '--tolerance', '1e-3']) == 1
    text = capsys.readouterr().out
    assert 'MORE THAN --tolerance 0.001' in text


def test_the_page_stands_alone_and_shows_every_picture(both_doors: Path, tmp_path: Path) -> None:
    pytest.importorskip('matplotlib')
    out = tmp_path / 'report'
    assert main(['replay', str(both_doors), '--model', MODEL, '--out', str(out)]) == 0
    page = (out / 'replay.html').read_text()
    pictures = sorted(out.glob('*.png'))
    assert len(pictures) == 4
    assert all(one.read_bytes().startswith(b'\x89PNG') for one in pictures)
    assert page.count('data:image/png;base64,') == 4
    assert not re.search(r'(src|href)="(?!data:)', page)
    for bag in both_doors.iterdir():
        assert bag.name in page


def test_without_a_model_it_tells_what_was_recorded(
    both_doors: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['replay', str(both_doors)]) == 0
    text = capsys.readouterr().out
    assert "door         remote, session 'default' of c1" in text
    assert "door         robot, session '1' of ros:/robot" in text
    assert 'inferences   3 in' in text
    assert 'observation.images.base_0_rgb uint8 [48, 64, 3]' in text
    assert 'replayed' not in text


def test_without_matplotlib_there_are_tables(
    both_doors: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _hide(monkeypatch, 'matplotlib')
    assert main(['replay', str(both_doors), '--out', str(tmp_path / 'out')]) == 0
    text = capsys.readouterr().out
    assert "needs matplotlib; install it with: pip install 'openpi_policy_ros[plot]'" in text
    assert sorted(one.name for one in (tmp_path / 'out').iterdir()) == [
        'replay.html',
        'replay.json',
    ]


def test_without_rosbags_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _hide(monkeypatch, 'rosbags')
    assert main(['replay', str(tmp_path)]) == 2
    assert "pip install 'openpi_policy_ros[record]'" in capsys.readouterr().err
    # Before the model, which does not exist.
    folder = str(tmp_path / 'rec')
    assert main(['serve', '--model', '/no/such', '--port', '0', '--record', folder]) == 2
    error = capsys.readouterr().err
    assert '--record: 1 problem\n  - needs rosbags; install it with: pip install' in error
    assert not Path(folder).exists()


def test_a_folder_that_cannot_be_written_is_refused_before_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / 'file').write_text('')
    taken = str(tmp_path / 'file' / 'below')
    assert main(['serve', '--model', '/no/such', '--port', '0', '--record', taken]) == 2
    assert 'cannot be written: Not a directory' in capsys.readouterr().err
    monkeypatch.setattr('openpi_policy_ros.recording.ready.START_FREE', 10**18)
    assert main(['serve', '--model', '/no/such', '--port', '0', '--record', str(tmp_path)]) == 2
    assert 'GB free, expected at least' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('arguments', 'text'),
    [
        (['--tolerance', '1'], '--tolerance: 1 problem\n  - needs --model'),
        (['--tolerance', '-1', '--model', 'x'], 'is -1.0, expected 0 or more'),
        (['--tolerance', 'nan', '--model', 'x'], 'is nan, expected 0 or more'),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    both_doors: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    assert main(['replay', str(both_doors), *arguments]) == 2
    assert text in capsys.readouterr().err


def test_another_policy_is_compared_where_names_and_steps_agree(tmp_path: Path) -> None:
    with taped(tmp_path) as tape:
        for value in range(3):
            tape.ask(float(value), seed=value)
    (recording,) = map(Recording, tape.bags)
    other = replace(
        SPEC,
        horizon=2,
        action_names=('joint_1', 'new', 'joint_0'),
        output_shapes={'actions': (2, 3)},
    )
    engine = Engine(EchoPolicy(other))
    engine.start()
    try:
        result = replay(recording, engine)
    finally:
        engine.close()
    assert result.names == ('joint_0', 'joint_1')
    assert result.rows == 2
    # Echo tells value and seed in its first two columns, whatever their names.
    figures = {one.name: one for one in result.differences()}
    assert (figures['joint_0'].maximum, figures['joint_1'].maximum) == (2.0, 0.0)
    assert result.notes == [
        'only the recording has joint_2: not compared',
        'only the policy has new: not compared',
        'recorded chunks have 4 steps, the policy makes 2: the first 2 are compared',
    ]


def test_nothing_in_common_is_refused() -> None:
    with pytest.raises(PolicyRosError, match='expected at least one name in common'):
        Matching(('a', 'b'), ('c',), 'bag')


def test_an_inference_that_fails_in_the_replay_fails_the_command(tmp_path: Path) -> None:
    with taped(tmp_path) as tape:
        for value in range(3):
            tape.ask(float(value))

    class Picky(EchoPolicy):
        def answer(self, one: InferenceRequest) -> Any:
            if one.observation['value'] == 1.0:
                return InvalidObservation('value', 'is 1')
            return super().answer(one)

    engine = Engine(Picky(SPEC))
    engine.start()
    try:
        result = replay(Recording(tape.bags[0]), engine)
    finally:
        engine.close()
    assert result.failed == {2: 'value: is 1'}
    assert len(result.recorded) == 2


def test_figures_of_a_known_difference(tmp_path: Path) -> None:
    """One of three chunks differs: by 3 in the first step, by 4 in the last, of one column."""

    class Off(EchoPolicy):
        def answer(self, one: InferenceRequest) -> Any:
            chunk = super().answer(one)
            if one.observation['value'] == 1.0:
                chunk.outputs['actions'][0, 2] += 3.0
                chunk.outputs['actions'][3, 2] -= 4.0
            return chunk

    with taped(tmp_path) as tape:
        for value in range(3):
            tape.ask(float(value), seed=0)
    engine = Engine(Off(SPEC))
    engine.start()
    try:
        result = replay(Recording(tape.bags[0]), engine)
    finally:
        engine.close()
    first, _, last = result.differences()
    assert (first.mean, first.maximum, first.rms) == (0.0, 0.0, 0.0)
    assert last.mean == pytest.approx(7.0 / 12)
    assert last.maximum == 4.0
    assert last.rms == pytest.approx(np.sqrt(25.0 / 12))
    assert last.first == pytest.approx(np.sqrt(9.0 / 3))
    assert last.last == pytest.approx(np.sqrt(16.0 / 3))


def test_motion_puts_measured_commanded_and_planned_side_by_side(tmp_path: Path) -> None:
    from openpi_policy_ros.recording import messages

    file = {
        **ROBOT.model_dump(include={'joints', 'profile', 'timing'}),
        'output_names': ['hand'],
        'outputs': {
            'hand': {'type': 'array', 'topic': 'hand/set', 'joints': ['b'], 'action_indices': [1]}
        },
        'limits': {'velocity': [1.0, 1.0], 'position_min': [-1.0] * 2, 'position_max': [1.0] * 2},
    }
    robot = validate(RobotConfig, file, 'test')
    stamp = SimpleNamespace(sec=1, nanosec=0)
    state = SimpleNamespace(
        header=SimpleNamespace(stamp=stamp, frame_id=''),
        name=['b', 'a'],
        position=[0.5, 0.25],
        velocity=[],
        effort=[],
    )
    with taped(tmp_path, robot=robot) as tape:
        chunk = tape.ask(1.0, 'ros:/x', '1', Lane.ROBOT, observation=observe(1.0))
        tape.recorder.note('/joint_states', lambda: messages.joint_state(state), 7)
        tape.recorder.note('/ns/hand/set', lambda: messages.numbers(np.array([0.75]), None), 9)
        tape.recorder.note(
            '/arm', lambda: messages.trajectory(['a'], 'positions', [[0.1], [0.2]], [5, 9], 0), 10
        )
        tape.recorder.note_chunk(chunk, t_obs_ns=20, time_ns=30)
    motion = Recording(tape.bags[0]).motion()
    assert (motion.measured['a'].times_ns, motion.measured['a'].values) == ([7], [0.25])
    assert motion.measured['b'].values == [0.5]
    assert (motion.commanded['b'].times_ns, motion.commanded['b'].values) == ([9], [0.75])
    assert (motion.commanded['a'].times_ns, motion.commanded['a'].values) == ([15], [0.1])
    ((times, values),) = motion.planned['a']
    assert times.tolist() == [20 + step * 10**8 for step in (1, 2, 3, 4)]
    assert np.array_equal(values, chunk.actions[:, 0])


def _hide(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        'find_spec',
        lambda name, *more: None if name == module else find(name, *more),
    )
