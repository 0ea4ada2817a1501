# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A process of its own for what is measured, so that its CPU time is nobody else's.

Parent and child talk in lines over the child's stdin and stdout: a word, answered by one JSON
object. The child's log goes to stderr, which the parent shows if the child fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openpi_policy_ros.errors import PolicyRosError

START_TIMEOUT = 120.0
"""Seconds a child gets to import, load and listen."""
END_TIMEOUT = 20.0
LOG_TAIL = 4000

Answers = Mapping[str, Callable[[], Mapping[str, Any]]]


class ChildFailed(PolicyRosError):
    """A process that was to be measured ended or does not answer."""


class Child:
    """Runs ``python -m MODULE ARGUMENTS``; use as a context manager.

    Args:
        module: calls ``answer_commands``.
        arguments: of its command line.
        env: its whole environment; None = ours.

    Attributes:
        hello: the JSON object it sent when it was ready.

    """

    def __init__(
        self, module: str, arguments: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        self._module = module
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            [sys.executable, '-m', module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=None if env is None else dict(env),
        )
        self._buffer = b''
        self.hello: dict[str, Any] = {}

    def __enter__(self) -> Child:
        try:
            self.hello = self._read(START_TIMEOUT)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # The end of its input is what tells it to leave.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def ask(self, command: str, timeout: float = 60.0) -> dict[str, Any]:
        """Return the child's answer.

        Raises:
            ChildFailed: it ended, or does not answer within ``timeout`` seconds.

        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f'{command}\n'.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure('ended') from None
        return self._read(timeout)

    def _read(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b'\n' not in self._buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._failure(f'does not answer within {timeout:g} s')
                piece = self._process.stdout.read1(65536)  # type: ignore[attr-defined]
                if not piece:
                    raise self._failure('ended')
                self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b'\n')
        answer: dict[str, Any] = json.loads(line)
        return answer

    def log(self) -> str:
        """Return the end of what the child wrote to stderr."""
        # By position: a seek would move the child's own writing.
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), LOG_TAIL, max(0, size - LOG_TAIL))
        return tail.decode('utf-8', 'replace').strip() or '(empty)'

    def _failure(self, what: str) -> ChildFailed:
        return ChildFailed(f'the process of {self._module} {what}; its log: {self.log()}')


def answer_commands(hello: Mapping[str, Any], answers: Answers) -> None:
    """Say hello, then answer the parent until it goes away; in the child, blocks."""
    _say(hello)
    for line in sys.stdin:
        _say(answers[line.strip()]())


def _say(answer: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + '\n')
    sys.stdout.flush()


def usage() -> dict[str, float]:
    """Return what this process has used so far: CPU seconds of all its threads, page faults."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        'cpu': time.process_time(),
        'minor_faults': used.ru_minflt,
        'max_rss_mb': used.ru_maxrss / 1024.0,
    }
