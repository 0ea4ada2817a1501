# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Threads that decode and encode, off the event loop."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref

import pytest
from fakes import WAIT

from openpi_policy_ros.server.codec_pool import CodecPool


def test_tasks_run_on_the_pool_s_threads_side_by_side() -> None:
    meet = threading.Barrier(3)
    names: list[str] = []

    def task(number: int) -> None:
        names.append(threading.current_thread().name)
        meet.wait(WAIT)
        assert number in (1, 2)

    with CodecPool(2) as pool:
        pool.hand_over(task, 1)
        pool.hand_over(task, 2)
        meet.wait(WAIT)
    assert sorted(names) == ['codec-0', 'codec-1']


def test_closing_finishes_what_was_handed_over() -> None:
    done: list[int] = []
    with CodecPool(1) as pool:
        for number in range(50):
            pool.hand_over(done.append, number)
    assert done == list(range(50))
    pool.shutdown()
    with pytest.raises(RuntimeError, match='closed'):
        pool.submit(int)


def test_a_task_that_raises_is_logged_and_the_thread_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR), CodecPool(1) as pool:
        pool.hand_over(int, 'x')
        assert pool.submit(int, '7').result(WAIT) == 7
    assert 'a codec task failed' in caplog.text
    assert 'ValueError' in caplog.text


def test_a_future_has_the_result_the_exception_or_was_cancelled() -> None:
    started, gate = threading.Event(), threading.Event()

    def block() -> None:
        started.set()
        assert gate.wait(WAIT)

    with CodecPool(1) as pool:
        pool.hand_over(block)
        assert started.wait(WAIT)
        cancelled = pool.submit(int)
        assert cancelled.cancel()
        failing = pool.submit(int, 'x')
        gate.set()
        with pytest.raises(ValueError, match='invalid literal'):
            failing.result(WAIT)
        assert cancelled.cancelled()

        async def ask() -> int:
            return await asyncio.get_running_loop().run_in_executor(pool, int, '9')

        assert asyncio.run(ask()) == 9


def test_nothing_of_a_task_lives_on_while_the_pool_waits() -> None:
    class Frame:
        """Stands for megabytes."""

    with CodecPool(1) as pool:
        frame = Frame()
        alive = weakref.ref(frame)
        pool.hand_over(lambda _: None, frame)
        del frame
        # The thread has let go of the first task when it takes the next, or before.
        pool.submit(int).result(WAIT)
        gc.collect()
        assert alive() is None
