# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Guidance on two devices: one branch in this process, the other in a process of its own.

Rank 0, here, runs the conditional branch, rank 1 the unconditional one, at the same time. A step
sends 4 small tensors there and brings one back.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

import torch
from torch import Tensor

from openpi_policy_ros.errors import PolicyLost
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.guidance import Branches, Flow, Guidance, guided
from openpi_policy_ros.policies.dreamzero.guidance_link import Link, LinkLost

logger = logging.getLogger('openpi_policy_ros.policies.dreamzero')

TIMEOUT = 60.0
"""Seconds that rank 1 may need longer than rank 0 for the same computation."""
START_TIMEOUT = 300.0
"""Seconds that rank 1 may need to start, on a busy machine."""
_LAST_WORDS = 1.0
_STOP = 5.0
_MODULE = 'openpi_policy_ros.policies.dreamzero.guidance_start'
_STDERR = 2

T = TypeVar('T')


class TwoDevices(Guidance):
    """The two branches on two devices.

    The other process gets the weights from this one, so that both have the same ones. When it dies
    or does not answer in time, the call fails, and each later one at once with the same error; it
    does not start again. It ends with this process, however this one ends.

    Args:
        dit: the transformer, loaded.
        cfg_scale: of the guidance.
        device: of the unconditional branch.
        timeout: seconds that rank 1 may need longer than rank 0 for the same computation.
        start_timeout: seconds that it may need to start, and for each part of the weights.

    Raises:
        PolicyLost: rank 1 does not start.

    """

    def __init__(
        self,
        dit: CausalWan,
        cfg_scale: float,
        device: torch.device,
        *,
        timeout: float = TIMEOUT,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self.dit, self._scale, self._other = dit, cfg_scale, device
        self.device, self.dtype = dit.device, dit.dtype
        self._timeout = timeout
        self._sessions: dict[int, Branches] = {}
        self._handles = itertools.count()
        self._lost: PolicyLost | None = None
        self._folder = tempfile.TemporaryDirectory(prefix='openpi-policy-')
        self._process, self._link = _start(Path(self._folder.name) / 'store', start_timeout)
        try:
            with self._watched():
                self._send_weights(start_timeout)
        except BaseException:
            self.shutdown()
            raise
        # They have found each other: a process killed from here on leaves no file behind.
        self._folder.cleanup()
        self._link.timeout = timeout
        logger.info(
            'guidance on two devices: rank 0 on %s, rank 1 on %s (process %d)',
            self.device,
            device,
            self._process.pid,
        )

    @property
    def process(self) -> int:
        """Return the process id of rank 1."""
        return self._process.pid

    @property
    def bytes_per_session(self) -> int:
        """Return what ``open`` takes of ``device``'s memory; rank 1's device gives as much."""
        branches = 2 if self._other == self.device else 1
        return branches * Branches.nbytes(self.dit.config, 1, self.dtype.itemsize)

    def problem(self) -> str:
        """Return why no call will succeed any more; see ``Guidance.problem``."""
        if self._lost is None and self._process.poll() is None:
            return ''
        return 'the process of the second device is gone (see the log); restart the server'

    def open(self) -> int:
        """Take memory for a session on both devices; see ``Guidance.open``."""
        handle = next(self._handles)
        mine, _ = self._both('open', handle, (), lambda: Branches(self.dit, 1))
        self._sessions[handle] = mine
        return handle

    def begin(self, handle: int, text: Tensor, text_neg: Tensor, clip: Tensor) -> None:
        """Start a new window; see ``Guidance.begin``."""
        session = self._session(handle)
        self._both('begin', handle, (text_neg, clip), lambda: session.begin(text, clip))

    def prefill(self, handle: int, x: Tensor, y: Tensor, start_frame: int) -> None:
        """Write clean frames to the session's window; see ``Guidance.prefill``."""
        session = self._session(handle)
        self._both(
            'prefill',
            handle,
            (x, y),
            lambda: session.prefill(x, y, start_frame),
            start_frame=start_frame,
        )

    def denoise(
        self,
        handle: int,
        x: Tensor,
        y: Tensor,
        action: Tensor,
        state: Tensor,
        t_video: int,
        t_action: int,
        start_frame: int,
    ) -> Flow:
        """Return the flow of the session's next block; see ``Guidance.denoise``."""
        session = self._session(handle)
        numbers = {'t_video': t_video, 't_action': t_action, 'start_frame': start_frame}
        (conditional, actions), (unconditional,) = self._both(
            'denoise',
            handle,
            (x, y, action, state),
            lambda: session.denoise(x, y, action, state, **numbers),
            **numbers,
        )
        unconditional = unconditional.to(conditional.device)
        return Flow(guided(conditional, unconditional, self._scale), actions)

    def close(self, handle: int) -> None:
        """Free a session's memory; see ``Guidance.close``.

        When rank 1 is lost, its part is free already: nothing is raised.
        """
        if handle not in self._sessions:
            raise ValueError(f'no session {handle}: it was closed, or never opened')
        del self._sessions[handle]
        if self._lost is None:
            self._both('close', handle, (), lambda: None)

    def shutdown(self) -> None:
        """Free everything and end the other process; no call may follow."""
        self._sessions.clear()
        if self._process.poll() is None:
            try:
                self._link.say({'do': 'stop'}, _STOP)
                self._process.wait(_STOP)
            except (LinkLost, subprocess.TimeoutExpired):
                self._process.kill()
        self._process.wait()
        self._link.close()
        self._folder.cleanup()

    def _session(self, handle: int) -> Branches:
        self._raise_lost()
        if handle not in self._sessions:
            raise ValueError(f'no session {handle}: it was closed, or never opened')
        return self._sessions[handle]

    def _raise_lost(self) -> None:
        if self._lost is not None:
            raise self._lost.with_traceback(None)

    def _both(
        self,
        do: str,
        handle: int,
        tensors: Sequence[Tensor],
        mine: Callable[[], T],
        **numbers: int,
    ) -> tuple[T, list[Tensor]]:
        """Do the same on both ranks at the same time; return what each has to say.

        An answer is waited for even when this rank fails, so that the next message finds rank 1
        listening; and if both fail, this rank's error is raised.
        """
        self._raise_lost()
        with self._watched():
            sent = [tensor.to(self.dtype) for tensor in tensors]
            shapes = [list(tensor.shape) for tensor in sent]
            self._link.say({'do': do, 'handle': handle, 'numbers': numbers, 'shapes': shapes})
            sending = self._link.send(sent)
        error: BaseException | None = None
        try:
            result = mine()
        except BaseException as caught:
            error = caught
        with self._watched():
            answer = self._link.hear(self._timeout)
            sending.finish()
            received = self._link.receive(answer.get('shapes', ()), self.dtype)
        if error is not None:
            if do == 'open' and 'error' not in answer:
                # Rank 1 has the memory that this one has not: a session is on both or on none.
                self._both('close', handle, (), lambda: None)
            raise error
        if 'error' in answer:
            text = f'rank 1 of the guidance ({self._other}): {answer["error"]}'
            raise torch.OutOfMemoryError(text) if answer.get('memory') else RuntimeError(text)
        return result, received

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn the loss of rank 1 into the error that every later call raises too."""
        try:
            yield
        except LinkLost as error:
            self._lose(str(error))

    def _lose(self, reason: str) -> NoReturn:
        name = f'rank 1 of the guidance ({self._other}, process {self._process.pid})'
        try:
            # Its socket closes before its exit code is known.
            self._process.wait(_LAST_WORDS)
            what = f'{name} died: {_exit(self._process.returncode)}'
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            what = f'{name} hangs and was killed: {reason}'
        self._link.close()
        self._lost = PolicyLost(
            what,
            remedy='its last words are in this log; restart the server. A death by SIGKILL is '
            'mostly the system out of memory; where it goes on, serve with cfg_parallel_size: 1',
        )
        logger.critical('%s', self._lost)
        raise self._lost from None

    def _send_weights(self, timeout: float) -> None:
        """Tell rank 1 what to be; returns when it is.

        Raises:
            PolicyLost: it cannot.
            LinkLost: it is gone.

        """
        link = self._link
        link.hear(timeout)
        link.say(
            {
                'config': dataclasses.asdict(self.dit.config),
                'device': str(self._other),
                'dtype': str(self.dtype).removeprefix('torch.'),
                'threads': torch.get_num_threads(),
                'matmul': torch.get_float32_matmul_precision(),
            }
        )
        link.connect()
        answer = link.hear(timeout)
        if 'error' in answer:
            raise PolicyLost(
                f'rank 1 of the guidance cannot be on {self._other}: {answer["error"]}',
                remedy='choose a device with room for the network, or cfg_parallel_size: 1',
            )
        for _, parameter in sorted(self.dit.named_parameters()):
            link.send([parameter]).finish()
        link.hear(timeout)


def _start(store: Path, timeout: float) -> tuple[subprocess.Popen[bytes], Link]:
    """Start rank 1; it finds every module that this process finds."""
    mine, other = socket.socketpair()
    paths = os.pathsep.join(path for path in sys.path if path)
    with other:
        process = subprocess.Popen(
            [
                sys.executable,
                '-m',
                _MODULE,
                str(os.getpid()),
                str(other.fileno()),
                str(store),
                str(timeout),
            ],
            env={**os.environ, 'PYTHONPATH': paths},
            pass_fds=(other.fileno(),),
            stdin=subprocess.DEVNULL,
            # Standard output may be somebody's data; and Ctrl-C is for this process, which then
            # says goodbye.
            stdout=_STDERR,
            start_new_session=True,
        )
    return process, Link(mine, 0, store, timeout)


def _exit(code: int) -> str:
    """Return how a process ended, in words."""
    if code >= 0:
        return f'exit code {code}'
    try:
        return f'exit code {code} ({signal.Signals(-code).name})'
    except ValueError:
        return f'exit code {code}'
