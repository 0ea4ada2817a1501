# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""docs/bring-up.md does what it says: its commands, in its order, with what it says they print.

What differs from the page: the node's port, which may be taken here; how old messages may be, how
long may be waited, and the watchdog, as a shared test machine stalls for longer than a robot's own
may; in phase 1 the fault comes earlier than a human could wish, unless it came too early here, too;
in phase 4 the checkpoint and the device, which are not here. The fake robot
stands for the robot of phases 2 to 5.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pytest

pytest.importorskip('rclpy')

from node_process import environment, new_domain

pytestmark = pytest.mark.ros

PAGE = Path(__file__).resolve().parents[2] / 'docs' / 'bring-up.md'
PATIENCE = 90.0
"""Longest wait for anything, s: every command takes seconds where tests share a machine."""
PATIENT = [
    'safety.watchdog_periods:=50.0',
    'safety.stale_hold:=2.0',
    'safety.max_wait:=20.0',
    'timing.camera_max_age:=1.0',
    'timing.joint_max_age:=1.0',
    'timing.max_skew:=1.0',
]
"""What the node bears here, and no robot would."""
FAULT = re.compile(r'camera:front@\d+\.\.\d+')
FAULTS_AT = (10, 30, 75)
"""Seconds into the life of the fake robot at which the camera falls silent, tried in turn."""
ROBOT, NODE = 'openpi_policy_fake_robot', 'openpi_policy_node'


class Step(NamedTuple):
    """A command of the page and what is printed below it."""

    words: list[str]
    printed: str


def phases() -> dict[str, list[Step]]:
    """Return phase → its steps, in order."""
    result = {}
    text = PAGE.read_text(encoding='utf-8')
    for number, body in re.findall(r'^## (\d)\..*?\n(.*?)(?=^## |\Z)', text, re.S | re.M):
        found = re.findall(r'^```bash\n(.*?)^```\n(?:\n```text\n(.*?)^```)?', body, re.S | re.M)
        result[number] = [
            Step(words, printed)
            for commands, printed in found
            for line in commands.splitlines()
            if (words := shlex.split(line, comments=True))
        ]
    return result


class Terminals:
    """The three terminals of the page, in one ROS domain."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._environment = environment(new_domain(), scratch)
        self._running: dict[str, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}
        self._starts = 0
        self.logs: dict[str, Path] = {}

    def start(self, words: list[str]) -> None:
        """Start a robot or a node in place of the one that runs."""
        name = words[0]
        self.stop(name)
        self._starts += 1
        self.logs[name] = self._scratch / f'{self._starts}_{name}.log'
        output = self.logs[name].open('wb')
        process = subprocess.Popen(
            [program(name), *words[1:]],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=self._environment,
        )
        self._running[name] = process, output

    def stop(self, name: str) -> None:
        """Press Ctrl-C, where it runs; it must leave cleanly."""
        if name not in self._running:
            return
        process, output = self._running.pop(name)
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
            output.close()
        assert status == 0, self.text(name)
        assert 'Traceback' not in self.text(name)

    def close(self) -> None:
        """End what runs, however a test ended."""
        for process, output in self._running.values():
            process.kill()
            process.wait()
            output.close()

    def run(self, words: list[str]) -> tuple[int, str]:
        """Run a command to its end; return (status, output)."""
        done = subprocess.run(
            [program(words[0]), *words[1:]],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout

    def expect(self, words: list[str], printed: str, patience: float = PATIENCE) -> None:
        """Run a command, again and again if need be, until it prints something."""
        deadline = time.monotonic() + patience
        while True:
            _, output = self.run(words)
            if alike(output) == alike(printed):
                return
            assert time.monotonic() < deadline, f'{words}: {output}\n{self.everything()}'
            time.sleep(0.2)

    def text(self, name: str) -> str:
        """Return what a robot or a node has printed so far."""
        return self.logs[name].read_text(errors='replace')

    def everything(self) -> str:
        """Return what all have printed so far."""
        return '\n'.join(self.text(name) for name in self.logs)

    def await_text(self, name: str, pattern: str) -> None:
        """Block until a robot or a node has printed something."""
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text(name)):
            assert time.monotonic() < deadline, f'no {pattern}:\n{self.everything()}'
            time.sleep(0.2)

    def await_motion(self) -> None:
        """Block until the robot has told that its first joint moves, and how often it is told."""
        seen = len(lines(self.text(ROBOT)))
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            new = lines(self.text(ROBOT))[seen:]
            if len({places[0] for places, _ in new}) > 1 and max(rate for _, rate in new) > 30:
                return
            time.sleep(0.2)
        raise AssertionError(f'nothing moves:\n{self.everything()}')


def program(name: str) -> str:
    """Return the path of an installed program, beside the interpreter first."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found, f'{name} is not installed'
    return found


def lines(text: str) -> list[tuple[list[float], int]]:
    """Return (places of the joints, commands of the arm) of every second."""
    return [
        ([float(place) for place in places.split()], int(rate))
        for places, rate in re.findall(r'^ *\d+ s \| ([^|]*) \| arm (\d+)/s', text, re.M)
    ]


def well(text: str) -> set[str]:
    """Return what the doctor finds well."""
    return {name.strip() for name in re.findall(r'^OK +(\S+(?: \S+)*)', text, re.M)}


def alike(text: str) -> str:
    """Return a text without what differs from time to time."""
    old = r'is \d\.\d\d\d s old \(safety\.stale_hold \d\.\d\d\d s\)'
    return re.sub(old, 'is old (safety.stale_hold)', text.strip())


@pytest.fixture(scope='module')
def terminals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminals]:
    made = Terminals(tmp_path_factory.mktemp('bring_up'))
    yield made
    made.close()


def follow(terminals: Terminals, steps: list[Step], changes: dict[str, str]) -> None:
    """Do what the page says, step by step."""
    for words, printed in steps:
        words = [changes.get(word, word) for word in words]
        if words[0] == ROBOT:
            terminals.start(words)
        elif words[0] == NODE:
            patient = [word for one in ('port:=0', *PATIENT) for word in ('-p', one)]
            terminals.start([*words, *patient])
        elif printed:
            terminals.expect(words, printed)
            if words[1:] == ['robot', 'enable'] and printed.strip() == 'enabled':
                terminals.await_motion()
        else:
            status, output = terminals.run(words)
            assert status in (0, 1), output
            assert 'Traceback' not in output


def test_phase_0_the_doctor_looks_at_the_machine(terminals: Terminals) -> None:
    (step,) = phases()['0']
    status, output = terminals.run(step.words)
    assert status in (0, 1), output
    assert ' OK' in output.splitlines()[-1]


def meets_the_fault(terminals: Terminals) -> bool:
    """Enable the robot that is to fail; return whether it moved before its camera fell silent."""
    robot = ['openpi-policy', 'robot']
    terminals.expect([*robot, 'status'], 'READY')
    if terminals.run([*robot, 'enable'])[1].strip() != 'enabled':
        return False
    while 'fault: camera' not in terminals.text(ROBOT):
        if any(rate > 30 for _, rate in lines(terminals.text(ROBOT))):
            return True
        time.sleep(0.2)
    return False


@pytest.mark.timeout(600)
def test_phase_1_the_fake_robot_moves_and_is_held_by_a_fault(terminals: Terminals) -> None:
    steps = phases()['1']
    (last,) = [number for number, step in enumerate(steps) if '--fault' in step.words]
    follow(terminals, steps[:last], {})
    assert steps[0].printed in terminals.text(ROBOT)
    assert last == len(steps) - 1
    (written,) = [word for word in steps[last].words if FAULT.fullmatch(word)]
    for begin in FAULTS_AT:
        # What was held the last time is to begin from READY again.
        terminals.run(['openpi-policy', 'robot', 'disable'])
        follow(terminals, steps[last:], {written: f'camera:front@{begin}..{begin + 5}'})
        if meets_the_fault(terminals):
            break
    else:
        raise AssertionError(f'every fault came too early:\n{terminals.everything()}')
    (held,) = re.findall(r'^HOLD: S2.*$', PAGE.read_text(encoding='utf-8'), re.M)
    terminals.expect(['openpi-policy', 'robot', 'status'], held)
    # The camera is back, and it does not go on.
    terminals.await_text(ROBOT, r'fault: camera.*\n(?!.*fault).*\n')
    terminals.expect(['openpi-policy', 'robot', 'status'], held)


@pytest.mark.timeout(600)
def test_phase_2_nothing_moves_in_a_dry_run(terminals: Terminals) -> None:
    terminals.start([ROBOT, '--robot', 'so101'])
    doctor, *steps = phases()['2']
    wanted = {'camera front', 'camera wrist', 'joint_states', 'output arm', 'output gripper'}
    deadline = time.monotonic() + 4 * PATIENCE
    # It gives up on a machine that is as busy as one that runs tests may be.
    while not wanted <= well(terminals.run(doctor.words)[1]):
        assert time.monotonic() < deadline, terminals.run(doctor.words)[1]
    follow(terminals, steps, {})
    assert {rate for _, rate in lines(terminals.text(ROBOT))} == {0}


@pytest.mark.timeout(600)
def test_phase_3_it_moves_slowly_and_then_faster(terminals: Terminals) -> None:
    follow(terminals, phases()['3'], {})


@pytest.mark.timeout(600)
def test_phase_4_a_checkpoint_takes_the_place_of_the_rehearsal(
    terminals: Terminals, tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / 'checkpoint')
    status, output = terminals.run(['openpi-policy', 'make-checkpoint', checkpoint])
    assert status == 0, output
    steps = phases()['4']
    # The last node may move the robot, and the weights are random.
    assert steps[-1].words[0] == NODE
    changes = {'/data/checkpoint': checkpoint, 'model:=/data/checkpoint': f'model:={checkpoint}'}
    follow(terminals, steps[:-1], {**changes, 'device:=cuda': 'device:=cpu'})
    terminals.expect(['openpi-policy', 'robot', 'status'], 'DRY_RUN')


@pytest.mark.timeout(600)
def test_phase_5_a_recording_is_made_and_read(terminals: Terminals, tmp_path: Path) -> None:
    pytest.importorskip('rosbags')
    folder = str(tmp_path / 'recordings')
    node, replay = phases()['5']
    follow(terminals, [node], {'record:=/tmp/recordings': f'record:={folder}'})
    terminals.expect(['openpi-policy', 'robot', 'enable'], 'enabled')
    terminals.await_motion()
    terminals.stop(NODE)
    status, output = terminals.run([folder if w == '/tmp/recordings' else w for w in replay.words])
    assert status == 0, output
    assert re.search(r'^ +policy +rehearsal', output, re.M), output
    terminals.stop(ROBOT)
