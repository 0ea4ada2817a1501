# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Count and time calls in bounded memory."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import ActionChunk

WINDOW = 512
MAX_STAGES = 32


@dataclass(frozen=True)
class Timing:
    """Distribution of the newest ``WINDOW`` samples of one stage, milliseconds.

    ``count`` is the number of samples ever; all other fields are 0 when it is 0.
    """

    count: int = 0
    last: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    max: float = 0.0


class Window:
    """The newest samples of one stage."""

    def __init__(self, size: int = WINDOW) -> None:
        self._samples: deque[float] = deque(maxlen=size)
        self._count = 0

    def add(self, sample: float) -> None:
        """Add one sample, milliseconds."""
        self._samples.append(sample)
        self._count += 1

    def timing(self) -> Timing:
        """Return the distribution; percentiles are samples (nearest rank), never interpolated."""
        if not self._samples:
            return Timing()
        ordered = sorted(self._samples)

        def rank(share: float) -> float:
            return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

        return Timing(
            count=self._count,
            last=self._samples[-1],
            p50=rank(0.50),
            p95=rank(0.95),
            p99=rank(0.99),
            max=ordered[-1],
        )


class Stages:
    """One window per stage name; names beyond the first ``MAX_STAGES`` are not kept."""

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}

    def add(self, timing_ms: Mapping[str, float]) -> None:
        """Add one call's stages, milliseconds each."""
        for name, sample in timing_ms.items():
            if name not in self._windows:
                if len(self._windows) >= MAX_STAGES:
                    continue
                self._windows[name] = Window()
            self._windows[name].add(float(sample))

    def timings(self) -> dict[str, Timing]:
        """Return every stage's distribution."""
        return {name: window.timing() for name, window in self._windows.items()}


@dataclass(frozen=True)
class EngineStats:
    """What the engine did since it started; the warm-up is in none of it.

    Attributes:
        succeeded: requests answered with a chunk.
        invalid_observations: requests refused because of their observation.
        failures: requests that failed for any other reason (policy raised, invalid output).
        consecutive_failures: of these, how many since the last chunk.
        superseded: robot requests replaced before they were started.
        cancelled: requests whose caller went away before they were started.
        batches: calls of the policy.
        waiting: requests that wait now.
        running: requests that run now.
        latency: submit to answer of answered requests.
        stages: ``queue``, ``infer`` (the policy's whole call), and what the policy reports.

    """

    succeeded: int = 0
    invalid_observations: int = 0
    failures: int = 0
    consecutive_failures: int = 0
    superseded: int = 0
    cancelled: int = 0
    batches: int = 0
    waiting: int = 0
    running: int = 0
    latency: Timing = field(default_factory=Timing)
    stages: Mapping[str, Timing] = field(default_factory=dict)


class Ledger:
    """Adds up ``EngineStats``. Not thread-safe: the engine holds a lock."""

    def __init__(self) -> None:
        self.superseded = 0
        self.cancelled = 0
        self._succeeded = 0
        self._invalid_observations = 0
        self._failures = 0
        self._consecutive_failures = 0
        self._batches = 0
        self._latency = Window()
        self._stages = Stages()

    def batch(
        self,
        outcomes: Sequence[ActionChunk | BaseException],
        waited_ms: Sequence[float],
    ) -> bool:
        """Add one call of the policy; return whether it yielded a chunk.

        Args:
            outcomes: one per request.
            waited_ms: submit to answer of each request, in the same order.

        """
        self._batches += 1
        for outcome, waited in zip(outcomes, waited_ms, strict=True):
            if isinstance(outcome, ActionChunk):
                self._succeeded += 1
                self._consecutive_failures = 0
                self._latency.add(waited)
                self._stages.add(outcome.timing_ms)
            elif isinstance(outcome, InvalidObservation):
                self._invalid_observations += 1
            else:
                self._failures += 1
                self._consecutive_failures += 1
        return any(isinstance(outcome, ActionChunk) for outcome in outcomes)

    def stats(self, *, waiting: int, running: int) -> EngineStats:
        """Return the sums, with what waits and runs now."""
        return EngineStats(
            succeeded=self._succeeded,
            invalid_observations=self._invalid_observations,
            failures=self._failures,
            consecutive_failures=self._consecutive_failures,
            superseded=self.superseded,
            cancelled=self.cancelled,
            batches=self._batches,
            waiting=waiting,
            running=running,
            latency=self._latency.timing(),
            stages=self._stages.timings(),
        )
