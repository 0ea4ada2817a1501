# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The README's commands and client examples, run as they stand against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip('openpi_client')

README = Path(__file__).resolve().parents[2] / 'README.md'
EXAMPLES = re.findall(r'^```python\n(.*?)^```', README.read_text(encoding='utf-8'), re.S | re.M)
LISTENING = re.compile(r'listening on ws://127\.0\.0\.1:(\d+)')
BOUND_S = 100.0


def command_of_readme(start: str) -> list[str]:
    (line,) = re.findall(rf'^{re.escape(start)}[^#\n]*', README.read_text(encoding='utf-8'), re.M)
    return line.split()


@pytest.fixture(scope='module')
def port(tool, run, plain_environment, tmp_path_factory) -> Iterator[int]:
    """Serve as the README says, on a free port; return it."""
    folder = str(tmp_path_factory.mktemp('readme') / 'pi0_small')
    program = str(tool('openpi-policy'))

    def mine(words: list[str]) -> list[str]:
        return [program, *(folder if word == '/tmp/pi0_small' else word for word in words[1:])]

    run(mine(command_of_readme('openpi-policy make-checkpoint')))
    serve = mine(command_of_readme('openpi-policy serve --model /tmp'))
    serve[serve.index('8000')] = '0'
    server = subprocess.Popen(
        serve,
        env=plain_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # Ends the wait below if the server neither listens nor leaves.
    watchdog = threading.Timer(BOUND_S, server.kill)
    watchdog.start()
    said = []
    for line in server.stdout:
        said.append(line)
        if found := LISTENING.search(line):
            break
    assert found, ''.join(said)
    drain = threading.Thread(target=server.stdout.read, daemon=True)
    drain.start()
    yield int(found.group(1))
    server.terminate()
    assert server.wait(timeout=BOUND_S) == 0
    watchdog.cancel()
    drain.join()
    server.stdout.close()


@pytest.mark.parametrize(
    ('example', 'printed'),
    [
        (EXAMPLES[0], ["'action_space': 'joint_velocity'", '(10, 8)']),
        (EXAMPLES[1], ["{'status': 'reset successful'}"]),
    ],
    ids=['stock path', 'openpi path'],
)
def test_a_client_example_of_the_readme_works(port, example, printed):
    assert '8000' in example
    done = subprocess.run(
        [sys.executable, '-c', example.replace('8000', str(port))],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for text in printed:
        assert text in done.stdout


def test_every_client_example_is_tried():
    assert len(EXAMPLES) == 2
