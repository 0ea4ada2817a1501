# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Record every session into a bag of its own, without anybody having to wait for the disk.

The engine's worker and the robot's threads hand over references; one thread serialises, compresses
and writes. Where the disk is too slow whole inferences are dropped and counted. Where it fails,
recording ends and nothing else does.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from openpi_policy_ros.engine import Lane
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey
from openpi_policy_ros.recording.messages import Message
from openpi_policy_ros.recording.naming import free_path
from openpi_policy_ros.recording.outbox import Item, Outbox
from openpi_policy_ros.recording.ready import STOP_FREE
from openpi_policy_ros.recording.session import Inference, SessionBag, Setting

_log = logging.getLogger('openpi_policy_ros.recording')

QUEUE_BYTES = 256 * 2**20
"""Most bytes that wait for the disk: about 9 s of three cameras of 640 x 480 at 30 Hz."""

FLUSH = 1.0
"""Seconds after which what was recorded outlives the process."""

CLOSE = 30.0
"""Seconds that the rest of the queue and the indexes may take at the end."""

REPEAT = 10.0
"""Least seconds between two log lines of the same kind."""


@dataclass(frozen=True)
class RecorderStats:
    """What a recorder did so far.

    Attributes:
        written: messages.
        dropped: messages that a slow disk or a fault kept out; an inference counts as one.
        bytes: of what was written, before compression.
        waiting: bytes in the queue.
        bags: folders begun.
        stopped: why it records no more, '' = it does.

    """

    written: int = 0
    dropped: int = 0
    bytes: int = 0
    waiting: int = 0
    bags: int = 0
    stopped: str = ''


class Recorder:
    """A tap of the engine; also takes what else happens on the robot's side.

    Args:
        directory: exists; see ``ready.require``.
        setting: what every bag says of itself.
        clock: returns the time of messages in nanoseconds: the node's, else since 1970.
        queue_bytes: most that may wait for the disk.
        stop_free: bytes that are left free on the disk.

    """

    def __init__(
        self,
        directory: Path,
        setting: Setting,
        *,
        clock: Callable[[], int] = time.time_ns,
        queue_bytes: int = QUEUE_BYTES,
        stop_free: int = STOP_FREE,
    ) -> None:
        self._directory = directory
        self._setting = setting
        self._clock = clock
        self._stop_free = stop_free
        self._outbox = Outbox(queue_bytes)
        self._lock = threading.Lock()
        self._stats = RecorderStats()
        self._told: dict[str, float] = {}
        # Touched by one worker at a time for each session.
        self._numbers: dict[SessionKey, int] = {}
        # The writer's own.
        self._bags: dict[SessionKey, SessionBag] = {}
        self._robot: SessionKey | None = None
        self._latched: dict[str, Callable[[], Message]] = {}
        self._flushed = time.monotonic()
        self._thread = threading.Thread(target=self._run, name='recorder', daemon=True)
        self._thread.start()
        _log.info('recording every session to %s', directory)

    @property
    def stats(self) -> RecorderStats:
        """Return counts so far; any thread."""
        with self._lock:
            return replace(self._stats, waiting=self._outbox.waiting)

    @property
    def setting(self) -> Setting:
        """Return what every bag says of itself."""
        return self._setting

    def inferred(
        self, request: InferenceRequest, lane: Lane, outcome: ActionChunk | BaseException
    ) -> None:
        """Take an inference; the engine's worker calls this."""
        number = self._numbers.get(request.session, 0) + 1
        self._numbers[request.session] = number
        if isinstance(outcome, ActionChunk):
            one = Inference(number, request, lane, outcome, '', self._clock())
        else:
            # Its text, not itself: an exception holds whatever its frames hold.
            error = f'{type(outcome).__name__}: {outcome}'
            one = Inference(number, request, lane, None, error, self._clock())
        self._put(lambda: self._infer(one), one.size)

    def session_closed(self, key: SessionKey) -> None:
        """Close the bag of a session; the engine's worker calls this."""
        self._numbers.pop(key, None)
        self._put(lambda: self._close_remote(key), 0, must=True)

    def note(self, topic: str, make: Callable[[], Message], time_ns: int, size: int = 256) -> None:
        """Take a message of the robot's side, for the bag of its session; any thread.

        Args:
            topic: full name.
            make: returns the message; called later, in the recorder's thread.
            time_ns: when it was sent or came.
            size: bytes that ``make`` holds.

        """
        self._put(lambda: self._note(lambda bag: bag.write(topic, make(), time_ns)), size)

    def note_latched(self, topic: str, make: Callable[[], Message], time_ns: int) -> None:
        """Take a message like ``note``, with which the bags to come will begin, too; any thread."""
        self._put(lambda: self._latch(topic, make), 0, must=True)
        self.note(topic, make, time_ns)

    def note_chunk(self, chunk: ActionChunk, t_obs_ns: int, time_ns: int) -> None:
        """Take a chunk that counts for the robot, observed at ``t_obs_ns``; any thread."""
        # Its numbers are there already: they came with the inference.
        self._put(lambda: self._note(lambda bag: bag.trajectory(chunk, t_obs_ns, time_ns)), 256)

    def close(self, patience: float = CLOSE) -> None:
        """Write what waits and close every bag; returns after ``patience`` seconds at most."""
        self._outbox.close()
        self._thread.join(patience)
        if self._thread.is_alive():
            _log.error(
                'the recording in %s could not be completed within %g s: the disk is too slow or '
                'hangs; openpi-policy replay --repair mends what was left open',
                self._directory,
                patience,
            )

    def _put(self, work: Callable[[], object], size: int, *, must: bool = False) -> None:
        if self._stats.stopped:
            return
        if not self._outbox.put(Item(work, size, must=must)) and not must:
            self._drop('the disk is slower than what is recorded; messages are left out')

    def _drop(self, why: str) -> None:
        with self._lock:
            self._stats = replace(self._stats, dropped=self._stats.dropped + 1)
            dropped = self._stats.dropped
        if self._due(why):
            _log.warning('%s (%d so far)', why, dropped)

    def _due(self, what: str) -> bool:
        now = time.monotonic()
        with self._lock:
            if now - self._told.get(what, now - REPEAT) < REPEAT:
                return False
            self._told[what] = now
            return True

    def _count(self, written: int, size: int) -> None:
        with self._lock:
            stats = self._stats
            self._stats = replace(stats, written=stats.written + written, bytes=stats.bytes + size)

    def _run(self) -> None:
        # At normal priority: a lower one lets other programs take the core away while this thread
        # holds the interpreter, and the control thread, whatever its priority, waits for it.
        while not self._outbox.over:
            item = self._outbox.take(FLUSH)
            if item is not None:
                self._guarded(item.work)
                self._outbox.done(item)
            if time.monotonic() - self._flushed >= FLUSH:
                self._guarded(self._flush)
        for key in list(self._bags):
            self._guarded(lambda key=key: self._close(key))  # type: ignore[misc]

    def _guarded(self, work: Callable[[], object]) -> None:
        if self._stats.stopped:
            return
        try:
            work()
        except OSError as error:
            self._stop(f'{error.strerror or error} ({error.filename or self._directory})')
        except Exception:
            self._drop('a message could not be recorded')
            if self._due('trace'):
                _log.exception('this is why')

    def _infer(self, one: Inference) -> None:
        bag = self._bags.get(one.request.session)
        before = 0 if bag is None else bag.bag.written
        if bag is None:
            bag = self._open(one)
        size = bag.infer(one)
        self._count(bag.bag.written - before, size)

    def _note(self, write: Callable[[SessionBag], int]) -> None:
        bag = None if self._robot is None else self._bags.get(self._robot)
        # Between sessions there is nothing that it could belong to.
        if bag is not None:
            before = bag.bag.written
            size = write(bag)
            self._count(bag.bag.written - before, size)

    def _latch(self, topic: str, make: Callable[[], Message]) -> None:
        self._latched[topic] = make

    def _open(self, one: Inference) -> SessionBag:
        key = one.request.session
        if one.lane is Lane.ROBOT:
            if self._robot is not None:
                self._close(self._robot)
            self._robot = key
        folder = free_path(self._directory, one.lane, key)
        bag = SessionBag(folder, self._setting, one)
        self._bags[key] = bag
        if one.lane is Lane.ROBOT:
            for topic, make in self._latched.items():
                bag.write(topic, make(), bag.began_ns)
        with self._lock:
            self._stats = replace(self._stats, bags=self._stats.bags + 1)
        _log.info('session %s is recorded to %s', key, folder.name)
        return bag

    def _close_remote(self, key: SessionKey) -> None:
        # The robot is still told to hold: its bag stays open until its next session begins.
        if key != self._robot:
            self._close(key)

    def _close(self, key: SessionKey) -> None:
        bag = self._bags.pop(key, None)
        if bag is not None:
            bag.bag.close()
            _log.info('session %s: %d messages recorded', key, bag.bag.written)

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        for bag in self._bags.values():
            if bag.bag.dirty:
                bag.bag.flush()
            # Writing into a file that was deleted or whose disk was taken away succeeds.
            bag.bag.file.stat()
        free = shutil.disk_usage(self._directory).free
        if free < self._stop_free:
            self._stop(f'only {free / 1e6:.0f} MB are free on the disk of {self._directory}')

    def _stop(self, why: str) -> None:
        with self._lock:
            self._stats = replace(self._stats, stopped=why)
        _log.error('recording has stopped, all else goes on: %s', why)
        for key in list(self._bags):
            bag = self._bags.pop(key)
            try:
                # There may be room for an index, if not for more.
                bag.bag.close()
            except Exception as error:
                _log.warning(
                    '%s was left open (%s); openpi-policy replay --repair mends it',
                    bag.bag.folder,
                    error,
                )
