# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure the stages of a call; on a GPU without making the host wait between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import torch


class StageClock:
    """Times the stages of one call.

    Args:
        device: where the stages run.
        seconds: what is read on a CPU, such as ``time.process_time``.

    """

    def __init__(self, device: torch.device, seconds: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._cuda = device.type == 'cuda'
        self._device = device
        self._stages: list[tuple[str, Any, Any]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what runs inside; a name that comes again adds up."""
        start = self._now()
        yield
        self._stages.append((name, start, self._now()))

    def milliseconds(self) -> dict[str, float]:
        """Return stage → ms, in the order they began. On a GPU this waits for the last one."""
        if self._cuda and self._stages:
            self._stages[-1][2].synchronize()
        sums: dict[str, float] = {}
        for name, start, end in self._stages:
            took = start.elapsed_time(end) if self._cuda else (end - start) * 1e3
            sums[name] = sums.get(name, 0.0) + took
        return sums

    def _now(self) -> Any:
        if not self._cuda:
            return self._seconds()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event
