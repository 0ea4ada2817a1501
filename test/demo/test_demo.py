# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo shows what it promises, ends by itself, and leaves nothing behind when interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('openpi_client')
pytest.importorskip('mujoco')

from openpi_policy_ros_sim.demo import FOLDER
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.errors import RenderingUnavailable

pytestmark = [
    pytest.mark.ros,
    pytest.mark.skipif(
        not (FOLDER / 'model.safetensors').exists(), reason='no trained checkpoint in sim/'
    ),
]

DEMO = Path(__file__).resolve().parents[2] / 'scripts' / 'demo.py'
DOMAIN = '93'
PROCESS = re.compile(r'^    process +(\d+)$', re.MULTILINE)
DONE = re.compile(r'^    (?:WebSocket|ROS 2) +(?:lift|bowl) +(\d)/1 ', re.MULTILINE)
BOUND_S = 110
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope='module', autouse=True)
def _can_draw() -> None:
    with Environment() as environment:
        try:
            environment.render('wrist', 8, 8)
        except RenderingUnavailable as error:
            pytest.skip(str(error))


@pytest.fixture
def start() -> Iterator[Start]:
    children = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, '-u', str(DEMO), *arguments],
            env={**os.environ, 'ROS_DOMAIN_ID': DOMAIN},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        if child.poll() is None:
            child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_demo_drives_the_robot_through_both_doors_and_ends_with_status_0(start):
    demo = start('--episodes', '1', '--no-video')
    said, _ = demo.communicate(timeout=BOUND_S)
    done = [int(count) for count in DONE.findall(said)]
    assert len(done) == 4, said
    # One table each: whether the policy is good is measured elsewhere.
    assert demo.returncode == (0 if any(done) else 1), said
    assert 'ended with status 0' in said
    assert said.count('table 0 ') == 4
    assert 'chunks_taken' in said
    pids = [int(pid) for pid in PROCESS.findall(said)]
    assert len(pids) == 3
    assert not any(map(runs, pids))


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_an_interrupted_demo_stops_what_it_started(start, number):
    demo = start('--no-video')
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if len(PROCESS.findall(''.join(lines))) == 2:
            break
    demo.send_signal(number)
    rest, _ = demo.communicate(timeout=BOUND_S)
    said = ''.join(lines) + rest
    assert demo.returncode == 130, said
    pids = [int(pid) for pid in PROCESS.findall(said)]
    assert len(pids) == 2
    assert not any(map(runs, pids))


def test_the_demo_run_by_hand_without_its_environment_says_what_to_run():
    environment = {k: v for k, v in os.environ.items() if k != 'ROS_DOMAIN_ID'}
    done = subprocess.run(
        [sys.executable, str(DEMO)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 1
    assert 'run scripts/demo.sh' in done.stderr
