# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo shows what it promises, ends by itself, and leaves nothing behind when interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('openpi_client')
pytestmark = pytest.mark.ros

DEMO = Path(__file__).resolve().parents[2] / 'scripts' / 'demo.py'
DOMAIN = '93'
PROCESS = re.compile(r'^    process +(\d+)$', re.MULTILINE)
BOUND_S = 110


@pytest.fixture
def demo() -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, '-u', str(DEMO)],
        env={**os.environ, 'ROS_DOMAIN_ID': DOMAIN},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield child
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


def test_the_demo_shows_both_doors_and_ends_with_status_0(demo):
    said, _ = demo.communicate(timeout=BOUND_S)
    assert demo.returncode == 0, said
    assert '50 points x 7 joints' in said
    assert said.count('chunk                 float32 (50, 7)') == 2
    assert 'yes, bit for bit' in said
    assert 'ended with status 0' in said
    assert said.count('\n') <= 60
    pids = [int(pid) for pid in PROCESS.findall(said)]
    assert len(pids) == 2
    assert not any(map(runs, pids))


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_an_interrupted_demo_stops_what_it_started(demo, number):
    lines = []
    for line in demo.stdout:
        lines.append(line)
        if line.startswith('[4]'):
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
