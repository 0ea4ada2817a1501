# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""`openpi-policy-sim ros` as a program: its results, its refusals, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('mujoco')

from node_process import WAIT, NodeProcess, Peer, environment, new_domain, peer_of
from sidecar_policy import write_state
from sim_robot_rig import expert_node, skip_where_nothing_can_be_drawn
from std_srvs.srv import Trigger

from openpi_policy_ros_sim.environment import Environment

pytestmark = pytest.mark.ros

CHUNK = 'openpi_policy/action_chunk'


class Program:
    """One run of the program."""

    def __init__(self, scratch: Path, domain: int, *arguments: str) -> None:
        self.log = scratch / f'program_{time.monotonic_ns()}.log'
        with self.log.open('wb') as output:
            self.process = subprocess.Popen(
                [sys.executable, '-m', 'openpi_policy_ros_sim.cli', 'ros', *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(domain, scratch),
                start_new_session=True,
            )

    def text(self) -> str:
        return self.log.read_text(errors='replace')

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + WAIT
        while text not in self.text():
            assert time.monotonic() < deadline, self.text()
            assert self.process.poll() is None, self.text()
            time.sleep(0.02)

    def join(self) -> int:
        try:
            return self.process.wait(60.0)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.text()) from None

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Bench:
    """The node with its expert, and programs beside it."""

    def __init__(self, scratch: Path, domain: int, node: NodeProcess, peer: Peer) -> None:
        self.scratch, self.domain, self.node, self.peer = scratch, domain, node, peer
        self.programs: list[Program] = []

    def program(self, *arguments: str) -> Program:
        self.programs.append(Program(self.scratch, self.domain, *arguments))
        return self.programs[-1]

    def wait_for_state(self, state: str) -> str:
        self.peer.wait_until(state, lambda: self.peer.status_text().startswith(state), lambda: None)
        return self.peer.status_text()

    def wait_for_motion(self) -> None:
        """Wait until the robot follows chunks."""
        self.wait_for_state('ENABLED')
        self.peer.forget(CHUNK)
        self.peer.wait_until('chunks', lambda: len(self.peer.heard(CHUNK)) > 4)


@pytest.fixture(scope='module')
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    scratch = tmp_path_factory.mktemp('sim_robot_program')
    state_file = scratch / 'state.json'
    skip_where_nothing_can_be_drawn()
    with Environment() as world:
        # The program tells nobody where things are: the arm goes for where they were with seed 0.
        write_state(state_file, world.reset(0))
    domain = new_domain()
    node = expert_node(scratch, domain, state_file)
    try:
        with peer_of(domain) as peer:
            peer.listen_to_node()
            made = Bench(scratch, domain, node, peer)
            yield made
            for program in made.programs:
                program.kill()
    finally:
        node.kill()


def test_it_waits_for_the_node_and_writes_what_came_of_the_episodes(
    bench: Bench, tmp_path: Path
) -> None:
    results, videos = tmp_path / 'results.json', tmp_path / 'videos'
    program = bench.program(
        '--episodes', '2', '--max-steps', '6', '--seed', '4', '--rate', '0.5',
        '--json', str(results), '--video', str(videos),
    )  # fmt: skip
    assert program.join() == 0, program.text()
    said = program.text()
    assert 'camera wrist: 224x126, 15 Hz, raw on /wrist/image_raw' in said
    assert 'driven by /openpi_policy, ' in said
    assert 'lift  0/2' in ' '.join(said.split('\n')).replace('   ', '  ')
    content = json.loads(results.read_text())
    assert content['server']['url'] == 'ros:/openpi_policy'
    assert content['server']['handshake']['policy'] == 'sidecar'
    assert content['settings']['loop'] == 'ros'
    assert [one['seed'] for one in content['episodes']] == [4, 5]
    for one in content['episodes']:
        assert one['steps'] == 6
        assert one['error'] is None
        assert one['ended'] is None
        assert 0.0 < one['real_time_factor'] < 1.0
        assert one['gates']['chunks_taken'] >= 1
        assert Path(one['video']).stat().st_size > 1000
    assert bench.wait_for_state('READY')


def test_ctrl_c_ends_it_with_the_node_disabled_and_the_results_written(
    bench: Bench, tmp_path: Path
) -> None:
    results = tmp_path / 'results.json'
    program = bench.program('--episodes', '3', '--rate', '0.25', '--json', str(results))
    bench.wait_for_motion()
    program.process.send_signal(signal.SIGINT)
    assert program.join() == 1, program.text()
    assert 'openpi-policy-sim ros: stopped by a signal' in program.text()
    assert 'Traceback' not in program.text()
    (episode,) = json.loads(results.read_text())['episodes']
    assert episode['error'] == 'stopped by a signal'
    assert episode['steps'] > 0
    assert bench.wait_for_state('READY')


def test_killed_in_mid_episode_it_leaves_a_robot_that_the_node_holds(bench: Bench) -> None:
    # Its clock begins anew, which the node has to bear.
    program = bench.program('--episodes', '1', '--rate', '0.25')
    bench.wait_for_motion()
    program.process.kill()
    program.process.wait()
    assert bench.wait_for_state('HOLD').startswith('HOLD: S')


def test_the_next_run_enables_a_node_that_holds(bench: Bench) -> None:
    program = bench.program('--episodes', '1', '--max-steps', '2')
    assert program.join() == 0, program.text()


def test_without_episodes_it_lives_and_is_reset_by_a_service(bench: Bench) -> None:
    program = bench.program('--episodes', '0', '--seed', '7')
    program.wait_for('seed 7; the next: ros2 service call /sim_robot/reset')
    # A second one would make two clocks of one.
    second = bench.program('--episodes', '0')
    assert second.join() == 2, second.text()
    assert 'already: another simulator, or a robot' in second.text()
    client = bench.peer.node.create_client(Trigger, 'sim_robot/reset')
    assert client.wait_for_service(WAIT)
    future = client.call_async(Trigger.Request())
    bench.peer.wait_until('an answer', future.done)
    assert future.result().message == 'seed 8'
    program.process.send_signal(signal.SIGTERM)
    assert program.join() == 0, program.text()


def test_a_size_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    from openpi_policy_ros_sim.cli import main

    with pytest.raises(SystemExit):
        main(['ros', '--size', '224'])
    assert "expected 16x16 to 1920x1080, found '224'" in capsys.readouterr().err


def test_no_node_is_told_with_the_remedy(tmp_path: Path) -> None:
    program = Program(tmp_path, new_domain(), '--patience', '0.3')
    try:
        assert program.join() == 2
        assert 'the policy node /openpi_policy is not active after 0.3 s (no word' in program.text()
        assert 'use_sim_time:=true' in program.text()
    finally:
        program.kill()


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (['--robot', 'so101'], 'simulated robot so101: 2 problems'),
        (['--episodes', '-1'], '--episodes: -1, expected 1 or more'),
        (['--episodes', '0', '--json', 'r.json'], '--json: no effect without episodes'),
        (['--gif'], '--gif: needs --video'),
        (['--json', '/dev/null/r.json'], '--json: /dev/null cannot be written to'),
        (['--video', '/dev/null/videos'], '--video: /dev/null/videos cannot be written to'),
        (['--patience', 'nan'], '--patience: nan, expected 0 s or more'),
        (['--rate', '0.5', '--wall-clock'], '--rate 0.5 with --wall-clock'),
        (['--ros-args', '-r', 'nonsense'], 'ROS refuses'),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    from openpi_policy_ros_sim.cli import main

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert main(['ros', *arguments]) == 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert said in capsys.readouterr().err
