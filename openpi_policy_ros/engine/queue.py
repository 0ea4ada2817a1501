# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Decide what the worker does next: a plain data structure, no threads, no clock.

A *source* is a connection. Its items (requests, and the closing of its sessions) run strictly in
order and one at a time, so a session is never closed under a call that uses it. Between sources:

* the closing of sessions goes first (it only frees memory),
* then the robot's requests, then those of remote clients,
* within a lane the sources take turns, however many requests each has waiting,
* of the robot's waiting requests only the newest survives.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from openpi_policy_ros.engine.types import Lane
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey


@dataclass(eq=False)
class Job:
    """One waiting request.

    Attributes:
        request: what the policy gets.
        lane: the door it came through.
        ticket: the caller's handle, only compared by identity.
        submitted: when it came, in the caller's clock, seconds.

    """

    request: InferenceRequest
    lane: Lane
    ticket: object
    submitted: float = 0.0

    @property
    def source(self) -> str:
        """Return the connection."""
        return self.request.session.connection


@dataclass(eq=False)
class Closing:
    """Free a session once everything before it has run."""

    key: SessionKey

    @property
    def source(self) -> str:
        """Return the connection."""
        return self.key.connection


@dataclass(eq=False)
class Batch:
    """Requests for one call of the policy, each of another source."""

    jobs: list[Job]


Work: TypeAlias = Batch | Closing


def compatible(first: InferenceRequest, second: InferenceRequest) -> bool:
    """Return whether two requests may share one call: same sampler steps, both or none RTC."""
    return first.num_inference_steps == second.num_inference_steps and (first.rtc is None) == (
        second.rtc is None
    )


class FairQueue:
    """Waiting work, ordered as the module says. Not thread-safe: the engine holds a lock."""

    def __init__(self) -> None:
        # In the order of turns: who was served goes to the end.
        self._turns: OrderedDict[str, deque[Job | Closing]] = OrderedDict()
        self._busy: set[str] = set()

    def __len__(self) -> int:
        """Return how many items wait (not those that run)."""
        return sum(len(items) for items in self._turns.values())

    @property
    def waiting_jobs(self) -> int:
        """Return how many requests wait."""
        return sum(isinstance(item, Job) for items in self._turns.values() for item in items)

    def push(self, job: Job) -> list[Job]:
        """Add a request and return those it replaces (robot lane only).

        A replaced request that was to start its session afresh hands that wish on: otherwise the
        session would silently go on with old state.
        """
        items = self._turns.setdefault(job.source, deque())
        if job.lane is not Lane.ROBOT:
            items.append(job)
            return []
        replaced = [item for item in items if isinstance(item, Job) and item.lane is Lane.ROBOT]
        if any(
            old.request.reset and old.request.session == job.request.session for old in replaced
        ):
            job.request = replace(job.request, reset=True)
        for old in replaced:
            items.remove(old)
        items.append(job)
        return replaced

    def push_closing(self, key: SessionKey) -> None:
        """Add the closing of a session behind what its connection has waiting."""
        self._turns.setdefault(key.connection, deque()).append(Closing(key))

    def discard(self, ticket: object) -> bool:
        """Remove the request with this ticket if it still waits; return whether it did."""
        for source, items in self._turns.items():
            for item in items:
                if isinstance(item, Job) and item.ticket is ticket:
                    items.remove(item)
                    if not items:
                        del self._turns[source]
                    return True
        return False

    def take(self, max_batch: int = 1) -> Work | None:
        """Remove and return what to do next; its sources are busy until ``done``.

        None: nothing waits, or everything that waits is behind something that runs.
        A call led by the robot is not filled up with remote requests: the robot waits for nobody.
        """
        for source, head in self._heads():
            if isinstance(head, Closing):
                self._start(source)
                return head
        # No head is a closing from here on.
        jobs = [(source, head) for source, head in self._heads() if isinstance(head, Job)]
        if not jobs:
            return None
        lane = min(job.lane for _, job in jobs)
        _, leader = next(entry for entry in jobs if entry[1].lane is lane)
        chosen = [
            (source, job)
            for source, job in jobs
            if job.lane is lane and compatible(leader.request, job.request)
        ][:max_batch]
        for source, _ in chosen:
            self._start(source)
        return Batch([job for _, job in chosen])

    def done(self, work: Work) -> None:
        """Tell that ``work`` has run: its sources may go on."""
        for item in work.jobs if isinstance(work, Batch) else [work]:
            self._busy.discard(item.source)

    def drain(self) -> list[Job]:
        """Remove everything that waits and return the requests among it."""
        jobs = [item for items in self._turns.values() for item in items if isinstance(item, Job)]
        self._turns.clear()
        return jobs

    def _heads(self) -> Iterator[tuple[str, Job | Closing]]:
        for source, items in self._turns.items():
            if source not in self._busy:
                yield source, items[0]

    def _start(self, source: str) -> None:
        items = self._turns[source]
        items.popleft()
        self._busy.add(source)
        if items:
            self._turns.move_to_end(source)
        else:
            del self._turns[source]
