# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy serve`` as a user runs it: a process, its output, its signals."""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme
from openpi_client import msgpack_numpy
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

LONGEST = 60.0
"""Seconds any step of a subprocess may take here: importing torch on a busy machine is slow."""
OPENPI = '/v1/realtime/robot/openpi'
TEST = Path(__file__).resolve().parents[1]


@dataclass
class Command:
    """A running ``openpi-policy`` whose output is read line by line."""

    process: subprocess.Popen[str]
    out: queue.Queue[str] = field(default_factory=queue.Queue)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for stream, keep in ((self.process.stdout, self.out.put), (self.process.stderr, self._log)):
            threading.Thread(target=self._read, args=(stream, keep), daemon=True).start()

    @staticmethod
    def _read(stream, keep: Callable[[str], None]) -> None:
        for line in stream:
            keep(line.rstrip('\n'))

    def _log(self, line: str) -> None:
        self.log.append(line)

    def listening(self) -> str:
        """Return the address once the command prints it."""
        line = self.out.get(timeout=LONGEST)
        match = re.fullmatch(r'listening on (ws://127\.0\.0\.1:\d+)', line)
        assert match, line
        return match.group(1)

    def wait_log(self, text: str) -> None:
        """Wait until a line of the log holds ``text``."""
        end = time.monotonic() + LONGEST
        while not any(text in line for line in self.log):
            assert time.monotonic() < end, f'{text!r} not in {self.log}'
            time.sleep(0.02)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Return the exit status."""
        return self.process.wait(LONGEST)


@pytest.fixture
def openpi_policy(tmp_path) -> Iterator[Callable[..., Command]]:
    """Return a starter of the command, with the policy ``fake`` registered."""
    info = tmp_path / 'fakes-1.0.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: fakes\nVersion: 1.0\n')
    (info / 'entry_points.txt').write_text('[openpi_policy_ros.policies]\nfake = fakes:PLUGIN\n')
    (tmp_path / 'fake.yaml').write_text('policy: fake\n')
    path = os.pathsep.join([str(tmp_path), str(TEST), os.environ.get('PYTHONPATH', '')])
    started: list[Command] = []

    def start(*arguments: str) -> Command:
        process = subprocess.Popen(
            [sys.executable, '-m', 'openpi_policy_ros.cli', *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, 'PYTHONPATH': path.rstrip(os.pathsep)},
        )
        started.append(Command(process))
        return started[-1]

    yield start
    for command in started:
        command.process.kill()
        command.process.wait(LONGEST)


def wait_busy(address: str) -> None:
    """Wait until a call has been running for longer than the inference timeout."""
    end = time.monotonic() + LONGEST
    while True:
        try:
            urllib.request.urlopen(address.replace('ws', 'http', 1) + '/readyz', timeout=20).close()
        except urllib.error.HTTPError as error:
            error.close()
            return
        assert time.monotonic() < end, 'the call never began'
        time.sleep(0.02)


def serve(openpi_policy: Callable[..., Command], model: str, *more: str) -> Command:
    arguments = ('--model', model, '--policy', './fake.yaml', '--port', '0')
    return openpi_policy('serve', *arguments, *more)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_it_serves_both_paths_until_told_to_end(openpi_policy, number):
    command = serve(openpi_policy, 'echo', '--robot', 'droid')
    address = command.listening()
    with urllib.request.urlopen(address.replace('ws', 'http', 1) + '/readyz', timeout=20) as got:
        assert got.status == 200
    with connect(address + OPENPI, compression=None) as openpi, connect(address) as stock:
        for client in (openpi, stock):
            client.recv(timeout=20)
            client.send(msgpack_numpy.packb({'value': 3.0}))
            reply = msgpack_numpy.unpackb(client.recv(timeout=20))
            actions = reply['actions'] if client is stock else reply
            assert actions[0, 0] == 3.0
        command.signal(number)
        for client in (openpi, stock):
            with pytest.raises(ConnectionClosed) as closed:
                client.recv(timeout=20)
            assert closed.value.rcvd.code == 1012
    assert command.wait() == 0
    assert command.out.empty()
    assert not any('Traceback' in line for line in command.log)


def test_a_second_ctrl_c_ends_at_once_in_spite_of_a_call_in_flight(openpi_policy):
    command = serve(openpi_policy, 'stuck', '--inference-timeout', '0.1')
    address = command.listening()
    with connect(address + OPENPI, compression=None) as client:
        client.recv(timeout=20)
        client.send(msgpack_numpy.packb({'value': 3.0}))
        wait_busy(address)
        command.signal(signal.SIGINT)
        command.wait_log('finishing what is in flight')
        assert command.process.poll() is None
        command.signal(signal.SIGINT)
        assert command.wait() == 130


def test_a_call_that_never_ends_does_not_keep_the_process_after_the_drain_timeout(openpi_policy):
    command = serve(openpi_policy, 'stuck', '--drain-timeout', '0.2', '--inference-timeout', '0.1')
    address = command.listening()
    with connect(address + OPENPI, compression=None) as client:
        client.recv(timeout=20)
        client.send(msgpack_numpy.packb({'value': 3.0}))
        wait_busy(address)
        command.signal(signal.SIGTERM)
        assert command.wait() == 0
    command.wait_log('still running')


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_it_can_be_ended_while_it_loads(openpi_policy, number):
    command = serve(openpi_policy, 'sleepy')
    command.wait_log('loading sleepy')
    command.signal(number)
    assert command.wait() == 128 + number
    assert not any('Traceback' in line for line in command.log)


def test_a_port_in_use_is_refused_with_what_to_do(openpi_policy):
    with socket.create_server(('127.0.0.1', 0)) as taken:
        port = str(taken.getsockname()[1])
        # Told before the model is loaded, which would take for ever.
        command = serve(openpi_policy, 'sleepy', '--port', port)
        assert command.wait() == 2
    command.wait_log(f'cannot listen on 127.0.0.1:{port}: the port is in use')
    assert command.out.empty()
    assert not any('Traceback' in line for line in command.log)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['--model', 'broken'], 'broken has no weights; expected model.safetensors; download it'),
        (['--model', 'm', '--port', '70000'], 'port: Input should be less than or equal to 65535'),
        (['--model', 'm', '--idle-timeout', 'nan'], 'idle_timeout: '),
        (['--model', 'm', '--robot', 'driod'], "'driod' is not shipped, did you mean 'droid'?"),
        (['--model', 'm', '--policy', 'pio'], "'pio' is not shipped, did you mean 'pi0'?"),
        (['--model', 'm', '--policy', './none.yaml'], 'none.yaml does not exist'),
        (
            ['--model', 'sleepy', '--api-key-file', './no-keys'],
            'api_key_file: ./no-keys: No such file',
        ),
        (['--model', 'm', '--path-aliases', '/healthz -> openpi'], '/healthz is served already'),
    ],
)
def test_refusals_are_one_message_and_status_2(openpi_policy, arguments, message):
    command = serve(openpi_policy, 'm', *arguments)
    assert command.wait() == 2
    command.wait_log(message)
    assert command.out.empty()
    assert not any('Traceback' in line for line in command.log)


def test_keys_and_tls_are_read_from_files_and_the_environment(openpi_policy, tmp_path, monkeypatch):
    authority = trustme.CA()
    authority.issue_cert('127.0.0.1').private_key_and_cert_chain_pem.write_to_path(
        tmp_path / 'server.pem'
    )
    monkeypatch.setenv('OPENPI_API_KEY', 'key-0123456789abcdef')
    options = ('--tls-certificate', 'server.pem', '--max-connections', '1')
    command = serve(openpi_policy, 'echo', *options, '--path-aliases', '/a -> openpi')
    address = command.out.get(timeout=LONGEST).removeprefix('listening on ')
    assert address.startswith('wss://127.0.0.1:')
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    headers = {'Authorization': 'Api-Key key-0123456789abcdef'}
    with pytest.raises(InvalidStatus, match='401'), connect(f'{address}/a', ssl=trust):
        pass
    with connect(f'{address}/a', ssl=trust, additional_headers=headers) as client:
        client.recv(timeout=20)
        client.send(msgpack_numpy.packb({'value': 3.0}))
        assert msgpack_numpy.unpackb(client.recv(timeout=20))[0, 0] == 3.0
        with (
            pytest.raises(InvalidStatus, match='503'),
            connect(address, ssl=trust, additional_headers=headers),
        ):
            pass
    command.signal(signal.SIGTERM)
    assert command.wait() == 0
    assert not any('key-0123456789abcdef' in line for line in command.log)


def test_a_policy_without_a_model_is_served_without_one(openpi_policy):
    numpy = pytest.importorskip('numpy')
    command = openpi_policy('serve', '--policy', 'rehearsal', '--robot', 'so101', '--port', '0')
    with connect(command.listening() + OPENPI, compression=None) as client:
        handshake = msgpack_numpy.unpackb(client.recv(timeout=20))
        state = numpy.arange(6, dtype=numpy.float32)
        client.send(msgpack_numpy.packb({'observation.state': state, 'prompt': 'go'}))
        chunk = msgpack_numpy.unpackb(client.recv(timeout=LONGEST))
    assert chunk.shape == (handshake['action_horizon'], handshake['action_dim']) == (50, 6)
    # Degrees: it begins where the client's robot is.
    assert numpy.abs(chunk[0] - state).max() < 1.0
    command.signal(signal.SIGTERM)
    assert command.wait() == 0


@pytest.mark.parametrize('policy', [[], ['--policy', 'pi0']])
def test_a_policy_with_a_model_is_not_served_without_one(openpi_policy, policy):
    command = openpi_policy('serve', *policy, '--port', '0')
    assert command.wait() == 2
    command.wait_log('--model: required, a checkpoint or a hub id')


def test_a_made_checkpoint_is_served(openpi_policy, tmp_path):
    numpy = pytest.importorskip('numpy')
    target = tmp_path / 'pi0'
    assert openpi_policy('make-checkpoint', str(target)).wait() == 0
    command = openpi_policy('serve', '--model', str(target), '--port', '0', '--device', 'auto')
    with connect(command.listening() + OPENPI, compression=None) as client:
        handshake = msgpack_numpy.unpackb(client.recv(timeout=20))
        observation = {
            'observation.images.base_0_rgb': numpy.full((224, 224, 3), 128, numpy.uint8),
            'observation.images.left_wrist_0_rgb': numpy.full((224, 224, 3), 64, numpy.uint8),
            'observation.images.right_wrist_0_rgb': numpy.full((224, 224, 3), 32, numpy.uint8),
            'state': numpy.zeros(8, numpy.float32),
            'prompt': 'pick up the cup',
            'seed': 1,
        }
        replies = []
        for _ in range(2):
            client.send(msgpack_numpy.packb(observation))
            replies.append(msgpack_numpy.unpackb(client.recv(timeout=LONGEST)))
        assert isinstance(replies[0], numpy.ndarray), replies[0]
        assert replies[0].shape == (handshake['action_horizon'], handshake['action_dim'])
        assert (replies[0] == replies[1]).all()
    command.signal(signal.SIGTERM)
    assert command.wait() == 0
