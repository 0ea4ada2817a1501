# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Take messages in the spinning thread, and run services, which may take long, beside it.

rclpy's MultiThreadedExecutor hands every message to another thread and spins without sleeping until
that has taken it, both at odds for the interpreter's lock. With images this takes a whole core: see
docs/cameras.md.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rclpy.executors import (
    ConditionReachedException,
    Executor,
    ShutdownException,
    TimeoutException,
)
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.service import Service


class NodeExecutor(Executor):
    """Runs the callbacks of subscriptions, timers and events in the thread that spins.

    These must be short. Services run in threads of their own, so that messages are taken and other
    services answered while one loads a model.

    Args:
        services: how many may run at once.

    """

    def __init__(self, services: int, **options: Any) -> None:
        super().__init__(**options)
        self._threads = ThreadPoolExecutor(services, thread_name_prefix='ros-service')
        self._running: list[Any] = []

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Wait for one callback and run it, or hand it over; raise what one has raised."""
        try:
            task, entity, _ = self.wait_for_ready_callbacks(timeout_sec=timeout_sec)
        except (ShutdownException, TimeoutException, ConditionReachedException):
            pass
        except rclpy_implementation.InvalidHandle:
            # A service (cleanup, say) destroyed a subscription while it was being waited for.
            pass
        else:
            if isinstance(entity, Service):
                # Handed out again until it has begun; a second call of it does nothing.
                self._threads.submit(task)
                self._running.append(task)
            else:
                task()
                task.result()
        done = [one for one in self._running if one.done()]
        if done:
            self._running = [one for one in self._running if not one.done()]
            for one in done:
                one.result()

    def shutdown(self, timeout_sec: float | None = None) -> bool:
        """Stop; return whether everything that ran has ended in time."""
        ended: bool = super().shutdown(timeout_sec)
        self._threads.shutdown(wait=False)
        return ended
