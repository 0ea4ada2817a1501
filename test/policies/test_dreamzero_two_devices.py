# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The guidance on two devices, here two CPU processes: equal numbers, and what a death costs."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from dreamzero_policies import QUICK, make_tiny, observe, serve
from dreamzero_tiny import Reference, read_reference
from torch import Tensor

from openpi_policy_ros.engine import Engine, EngineStopped, Lane
from openpi_policy_ros.errors import PolicyLost
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.policies.dreamzero import guidance_devices, guidance_worker
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.guidance import Branches, Flow, Guidance, OneBatch
from openpi_policy_ros.policies.dreamzero.guidance_devices import TwoDevices
from openpi_policy_ros.policies.dreamzero.guidance_link import Link, LinkLost
from openpi_policy_ros.policies.stage_clock import StageClock

CPU = torch.device('cpu')
SCALE = 5.0
WAIT = 30.0
ATOL = 2e-5


@pytest.fixture(scope='module')
def reference() -> Reference:
    return read_reference()


@pytest.fixture(scope='module')
def two(reference: Reference) -> Iterator[TwoDevices]:
    guidance = TwoDevices(reference.dit, SCALE, CPU)
    yield guidance
    guidance.shutdown()
    assert gone(guidance.process)


def gone(process: int) -> bool:
    """Return whether a process has ended; one that nobody has reaped yet counts."""
    try:
        stat = Path(f'/proc/{process}/stat').read_text(encoding='ascii')
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(')')[2].split()[0] == 'Z'


def wait_for(condition: Callable[[], object]) -> bool:
    end = time.monotonic() + WAIT
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return bool(condition())


def begin(guidance: Guidance, trace: dict[str, Tensor], *, swap: bool = False) -> int:
    """Open a session and write the first frame."""
    handle = guidance.open()
    texts = [trace['prompt_emb'], trace['prompt_emb_neg']]
    guidance.begin(handle, *(reversed(texts) if swap else texts), trace['call1.clip'])
    guidance.prefill(handle, trace['fwd000.x'], trace['fwd000.y'], 0)
    return handle


def step(guidance: Guidance, handle: int, trace: dict[str, Tensor], **changes: Any) -> Flow:
    given = {key: trace[f'fwd001.{key}'] for key in ('x', 'y', 'action', 'state')}
    numbers = {'t_video': 999, 't_action': 999, 'start_frame': 1}
    return guidance.denoise(handle, **{**given, **numbers, **changes})


def test_the_reference_session_has_the_reference_numbers(
    reference: Reference, two: TwoDevices
) -> None:
    model = reference.model(guide=lambda dit, scale: two)
    beside = reference.model()
    session, other = model.open(), beside.open()
    for number in range(1, 5):
        call = reference.call(number)
        mine = model.call(session, call, StageClock(CPU))
        one = beside.call(other, call, StageClock(CPU))
        for found, expected in (
            (torch.from_numpy(mine.actions)[None], f'call{number}.action_pred'),
            (mine.video, f'call{number}.video_pred'),
        ):
            torch.testing.assert_close(found, reference.trace[expected], atol=ATOL, rtol=0)
        torch.testing.assert_close(mine.actions, one.actions, atol=ATOL, rtol=0)
        torch.testing.assert_close(mine.video, one.video, atol=ATOL, rtol=0)
    model.close(session)


def test_interleaved_sessions_are_separate_ones(reference: Reference, two: TwoDevices) -> None:
    trace = reference.trace
    one = OneBatch(reference.dit, SCALE)
    handles = [begin(two, trace), begin(two, trace, swap=True)]
    beside = [begin(one, trace), begin(one, trace, swap=True)]
    for _ in range(2):
        for mine, other in zip(handles, beside, strict=True):
            found, expected = step(two, mine, trace), step(one, other, trace)
            torch.testing.assert_close(found, expected, atol=ATOL, rtol=0)
    assert not torch.allclose(step(two, handles[0], trace).video, found.video, atol=1e-2)
    for handle in handles:
        two.close(handle)
    with pytest.raises(ValueError, match=f'no session {handles[0]}: it was closed'):
        two.close(handles[0])
    with pytest.raises(ValueError, match='no session'):
        step(two, handles[0], trace)


def test_both_devices_take_what_is_computed(reference: Reference, two: TwoDevices) -> None:
    one = OneBatch(reference.dit, SCALE)
    # Here they are one device. A picture's keys are on both ranks, as both read them.
    image = 2 * reference.config.dit.num_layers * 257 * reference.config.dit.dim * 4
    assert two.bytes_per_session == one.bytes_per_session + image


def test_a_wrong_input_is_named_and_the_next_call_is_served(
    reference: Reference, two: TwoDevices
) -> None:
    trace = reference.trace
    handle = begin(two, trace)
    expected = step(two, handle, trace)
    with pytest.raises(ValueError, match=r'action is \[1, 5, 10\], expected \[1, 6, 10\]'):
        step(two, handle, trace, action=torch.zeros(1, 5, 10))
    with pytest.raises(ValueError, match='start_frame is 3, the window holds 1'):
        step(two, handle, trace, start_frame=3)
    assert torch.equal(step(two, handle, trace).video, expected.video)
    two.close(handle)


def test_a_session_that_one_device_has_no_room_for_is_on_neither(
    reference: Reference, two: TwoDevices, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(dit: CausalWan, batch: int) -> Branches:
        raise torch.OutOfMemoryError('no room here')

    said: list[dict[str, Any]] = []
    say = two._link.say
    with monkeypatch.context() as patch:
        patch.setattr(two._link, 'say', lambda message: (said.append(message), say(message)))
        patch.setattr(guidance_devices, 'Branches', full)
        with pytest.raises(torch.OutOfMemoryError, match='no room here'):
            two.open()
        assert [message['do'] for message in said] == ['open', 'close']
        assert said[0]['handle'] == said[1]['handle']

    with monkeypatch.context() as patch:
        # Rank 1 answers what it answers when its device is full.
        answer = {'error': 'CUDA out of memory', 'memory': True}
        hear = two._link.hear
        patch.setattr(two._link, 'hear', lambda timeout: (hear(timeout), answer)[1])
        with pytest.raises(torch.OutOfMemoryError, match=r'rank 1 .*\(cpu\): CUDA out of memory'):
            two.open()
    step(two, begin(two, reference.trace), reference.trace)


def test_a_hang_is_ended_in_time(reference: Reference) -> None:
    guidance = TwoDevices(reference.dit, SCALE, CPU, timeout=2.0)
    try:
        handle = begin(guidance, reference.trace)
        os.kill(guidance.process, signal.SIGSTOP)
        with pytest.raises(PolicyLost, match='hangs and was killed: no answer within 2 s') as lost:
            step(guidance, handle, reference.trace)
        assert gone(guidance.process)
        for call in (
            guidance.open,
            lambda: begin(guidance, reference.trace),
            lambda: guidance.begin(handle, *[torch.zeros(1)] * 3),
            lambda: guidance.prefill(handle, torch.zeros(1), torch.zeros(1), 1),
            lambda: step(guidance, handle, reference.trace),
        ):
            with pytest.raises(PolicyLost) as again:
                call()
            assert again.value is lost.value
        # What frees goes on, so that nothing hides the error.
        guidance.close(handle)
        assert not guidance._sessions
    finally:
        guidance.shutdown()


def test_a_death_during_a_call_fails_it_and_every_later_one_and_ends_the_engine(
    tmp_path: Path,
) -> None:
    policy = serve(make_tiny(tmp_path / 'tiny'), **QUICK)
    # Who dies is not waited for as long as who hangs.
    guidance = TwoDevices(policy.model.guidance.dit, SCALE, CPU, timeout=300.0)
    policy.model.guidance = guidance
    engine = Engine(policy, inference_timeout=60.0)
    engine.start()

    def ask() -> BaseException | None:
        request = InferenceRequest(observe(policy, 0), SessionKey('test', 'x'), reset=True)
        return engine.submit(request, Lane.ROBOT).exception(WAIT)

    handle = guidance.open()
    try:
        assert ask() is None
        assert engine.health().ready
        os.kill(guidance.process, signal.SIGSTOP)
        killer = threading.Timer(0.3, os.kill, (guidance.process, signal.SIGKILL))
        killer.start()
        error = ask()
        killer.join(WAIT)
        assert isinstance(error, PolicyLost)
        text = str(error)
        assert f'rank 1 of the guidance (cpu, process {guidance.process}) died' in text
        assert 'exit code -9 (SIGKILL)' in text
        assert 'restart the server' in text
        assert not engine.health().ready
        assert engine.health().reason == engine.problem()
        assert isinstance(ask(), EngineStopped)
    finally:
        engine.close()
    # The engine closed the policy, which had it shut down; what was lost stays lost.
    with pytest.raises(PolicyLost) as again:
        guidance.open()
    assert again.value is error
    assert gone(guidance.process)
    with pytest.raises(ValueError, match='no session'):
        guidance.close(handle)


def test_an_error_that_is_no_answer_ends_rank_1_and_is_noticed_without_a_call(
    tmp_path: Path, reference: Reference, capfd: pytest.CaptureFixture[str]
) -> None:
    policy = serve(make_tiny(tmp_path / 'tiny'), **QUICK)
    engine = Engine(policy, inference_timeout=60.0)
    engine.start()
    policy.model.guidance = guidance = TwoDevices(reference.dit, SCALE, CPU)
    try:
        assert engine.health().ready
        guidance._link.say({'do': 'begin', 'shapes': []})
        assert wait_for(guidance.problem)
        assert not engine.health().ready
        assert engine.health().reason == engine.problem() == guidance.problem()
        assert 'second device is gone' in engine.problem()
        with pytest.raises(PolicyLost, match=r'rank 1 .* died: exit code 1;'):
            guidance.open()
        assert "KeyError: 'handle'" in capfd.readouterr().err
    finally:
        engine.close()
        guidance.shutdown()


def test_a_device_that_is_not_there_is_named(
    reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 is a thread here, a sleeping process its stand-in."""
    threads: list[threading.Thread] = []

    def start(store: Path, timeout: float) -> tuple[subprocess.Popen[bytes], Link]:
        mine, other = socket.socketpair()
        worker = Link(other, 1, store, timeout)
        threads.append(threading.Thread(target=guidance_worker.set_up, args=(worker,)))
        threads[0].start()
        command = [sys.executable, '-S', '-c', 'import time; time.sleep(60)']
        return subprocess.Popen(command), Link(mine, 0, store, timeout)

    monkeypatch.setattr(guidance_devices, '_start', start)
    monkeypatch.setattr(guidance_devices, '_STOP', 0.1)
    index = torch.cuda.device_count()
    with pytest.raises(PolicyLost, match=rf'rank 1 .* cannot be on cuda:{index}: .*') as caught:
        TwoDevices(reference.dit, SCALE, torch.device('cuda', index), start_timeout=WAIT)
    assert 'cfg_parallel_size: 1' in str(caught.value)
    threads[0].join(WAIT)
    assert not threads[0].is_alive()


_PARENT = """
import os, socket, subprocess, sys, time
mine, other = socket.socketpair()
number = str(other.fileno())
module = 'openpi_policy_ros.policies.dreamzero.guidance_start'
child = subprocess.Popen(
    [sys.executable, '-m', module, str(os.getpid()), number, sys.argv[1], '60'],
    pass_fds=(other.fileno(),),
    start_new_session=True,
)
if sys.argv[2] == 'waits':
    mine.recv(1)
print(child.pid, flush=True)
time.sleep(60.0)
"""


@pytest.mark.parametrize('child_is', ['starting', 'waits'])
def test_the_other_process_ends_with_its_parent_and_takes_the_folder_along(
    tmp_path: Path, child_is: str
) -> None:
    folder = tmp_path / 'rendezvous'
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, '-c', _PARENT, str(folder / 'store'), child_is],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not gone(child)
    finally:
        parent.kill()
        parent.wait(WAIT)
        parent.stdout.close()
    try:
        assert wait_for(lambda: gone(child))
        assert not folder.exists()
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_starting_to_watch_the_parent_waits_for_no_import_of_torch() -> None:
    start = 'openpi_policy_ros.policies.dreamzero.guidance_start'
    code = f"import {start}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, '-c', code], check=False).returncode == 0


def test_shutdown_leaves_no_process_and_no_file(two: TwoDevices) -> None:
    """Last in this file: it ends what the others share."""
    folder = Path(two._folder.name)
    two.shutdown()
    assert gone(two.process)
    assert two._process.returncode == 0
    assert not folder.exists()
    two.shutdown()


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[Link, socket.socket]]:
    mine, other = socket.socketpair()
    with mine, other:
        yield Link(mine, 0, tmp_path / 'store', 0.2), other


def test_a_message_arrives_whole(ends: tuple[Link, socket.socket], tmp_path: Path) -> None:
    link, other = ends
    message = {'do': 'open', 'shapes': [[1, 2], []], 'text': 'ä' * 3000}
    link.say(message)
    assert Link(other, 1, tmp_path / 'store', 0.2).hear(1.0) == message


@pytest.mark.parametrize(
    ('data', 'message'),
    [
        (b'', 'no answer within 0.2 s'),
        (b'\0\0', 'no answer within 0.2 s'),
        (b'\xff\xff\xff\xff', 'a message of 4294967295 bytes'),
    ],
)
def test_an_answer_that_does_not_come_is_not_waited_for(
    ends: tuple[Link, socket.socket], data: bytes, message: str
) -> None:
    link, other = ends
    other.sendall(data)
    with pytest.raises(LinkLost, match=message):
        link.hear(0.2)


def test_a_closed_end_is_noticed_both_ways(ends: tuple[Link, socket.socket]) -> None:
    link, other = ends
    other.close()
    with pytest.raises(LinkLost, match='is gone'):
        link.hear(None)
    with pytest.raises(LinkLost, match='nobody takes messages'):
        link.say({'do': 'stop'})
