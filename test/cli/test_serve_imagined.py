# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy serve --imagined-dir`` as a user runs it: a process, its files, its signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from dreaming_policy import CAMERAS, GRIPPER, JOINTS
from openpi_client import msgpack_numpy
from test_serve import LONGEST, OPENPI, TEST, Command
from websockets.sync.client import connect

OBSERVATION = {
    **{key: np.zeros((6, 8, 3), np.uint8) for key in CAMERAS},
    JOINTS: np.zeros(7, np.float32),
    GRIPPER: np.zeros(1, np.float32),
    'prompt': 'go',
}


def serve(scratch: Path, *arguments: str) -> Command:
    """Start the command with the dreaming policy registered."""
    info = scratch / 'dreaming-1.0.dist-info'
    info.mkdir(exist_ok=True)
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: dreaming\nVersion: 1.0\n')
    (info / 'entry_points.txt').write_text(
        '[openpi_policy_ros.policies]\ndreaming = dreaming_policy:PLUGIN\n'
    )
    (scratch / 'dreaming.yaml').write_text('policy: dreaming\n')
    path = os.pathsep.join([str(scratch), str(TEST), os.environ.get('PYTHONPATH', '')])
    process = subprocess.Popen(
        [
            *(sys.executable, '-m', 'openpi_policy_ros.cli', 'serve', '--port', '0'),
            *('--model', 'dreams=1', '--policy', str(scratch / 'dreaming.yaml'), *arguments),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=scratch,
        env={**os.environ, 'PYTHONPATH': path.rstrip(os.pathsep)},
    )
    return Command(process)


def frames_of(path: Path) -> int:
    capture = cv2.VideoCapture(str(path))
    count = 0
    while capture.grab():
        count += 1
    capture.release()
    return count


def test_sessions_that_live_at_the_end_have_their_videos_too(tmp_path: Path) -> None:
    folder = tmp_path / 'dreams'
    command = serve(tmp_path, '--imagined-dir', str(folder))
    try:
        address = command.listening()
        with connect(address + OPENPI, max_size=None) as client:
            client.recv(timeout=LONGEST)
            for session in ('a', 'a', 'b'):
                client.send(msgpack_numpy.packb({**OBSERVATION, 'session_id': session}))
                assert msgpack_numpy.unpackb(client.recv(timeout=LONGEST)).shape == (24, 8)
            command.signal(signal.SIGTERM)
            assert command.wait() == 0
    finally:
        command.process.kill()
        command.process.wait(LONGEST)
    found = {path.name.rpartition('-')[2]: frames_of(path) for path in folder.iterdir()}
    assert found == {'a.mp4': 16, 'b.mp4': 8}


@pytest.mark.parametrize('name', ['file', 'file/below'])
def test_where_nothing_can_be_written_is_told_before_the_model_is_loaded(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / 'file').touch()
    command = serve(tmp_path, '--imagined-dir', str(tmp_path / name))
    try:
        assert command.wait() == 2
        command.wait_log('cannot be written')
    finally:
        command.process.kill()
        command.process.wait(LONGEST)
    log = '\n'.join(command.log)
    assert '--imagined-dir' in log
    assert 'loading' not in log
    assert 'Traceback' not in log
