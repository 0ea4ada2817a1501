# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Threads that decode frames and encode replies.

A frame that is handed over needs nothing of what ``ThreadPoolExecutor`` wraps around a task (a
future with its lock, a semaphore, a check whether to start a thread): that was a tenth of what a
small frame costs the server.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

LOG = logging.getLogger('openpi_policy_ros.server')

T = TypeVar('T')


class CodecPool(Executor):
    """A fixed number of threads; use as a context manager, which waits for what is left."""

    def __init__(self, threads: int) -> None:
        self._tasks: SimpleQueue[tuple[Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f'codec-{number}', daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def hand_over(self, task: Callable[..., object], *arguments: Any) -> None:
        """Run ``task`` on one of the threads; it must not raise, and nobody hears its result."""
        self._tasks.put((task, arguments))

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run ``fn`` on one of the threads; the future has its result or exception."""
        with self._closing:
            if self._closed:
                raise RuntimeError('the codec pool is closed')
            future: Future[T] = Future()
            self._tasks.put((_settle, (future, fn, args, kwargs)))
            return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads once everything handed over so far is done. Idempotent."""
        del cancel_futures  # What is left is milliseconds of work.
        with self._closing:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _run(self) -> None:
        while True:
            entry = self._tasks.get()
            if entry is None:
                return
            task, arguments = entry
            try:
                task(*arguments)
            except Exception:
                LOG.exception('a codec task failed')
            # The frame must not live on here until the next one comes.
            del entry, task, arguments


def _settle(
    future: Future[T], fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
