# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What recording costs: time of the engine's worker, CPU of the process, bytes on the disk.

``python -m openpi_policy_ros.bench.recording [SECONDS]`` prints it for this machine.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from openpi_policy_ros.bench import machine
from openpi_policy_ros.bench.echo_policy import CAMERAS, EchoPolicy, observation
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, SessionKey

RATE, SIZE = 15.0, 224
"""Inferences per second, and pixels along each side of an image."""

_VARIETY = 24


def measure(*, seconds: int) -> dict[str, Any]:
    """Run the same inferences with and without a recorder.

    Args:
        seconds: of inferences at ``RATE``, for each kind of picture.

    """
    count = max(1, round(seconds * RATE))
    return {
        'rate': RATE,
        'cameras': len(CAMERAS),
        'size': SIZE,
        'inferences': count,
        **{kind: _measure(_pictures(kind), count) for kind in ('smooth', 'noise')},
    }


def report(result: dict[str, Any]) -> str:
    """Return the table."""
    lines = [
        f'recording, {result["cameras"]} cameras of {result["size"]} x {result["size"]} at '
        f'{result["rate"]:g} Hz, {result["inferences"]} inferences',
        f'{"pictures":10} {"worker us":>10} {"CPU ms":>8} {"in MB/s":>8} {"disk MB/s":>10} '
        f'{"dropped":>8}',
    ]
    for kind in ('smooth', 'noise'):
        one = result[kind]
        lines.append(
            f'{kind:10} {one["worker_us"]:10.1f} {one["cpu_ms"]:8.2f} {one["in_mb_s"]:8.2f} '
            f'{one["disk_mb_s"]:10.2f} {one["dropped"]:8d}'
        )
    return '\n'.join(
        [
            *lines,
            'worker: median time an inference is held up; CPU: of all threads, per inference, more '
            'than without',
        ]
    )


class _Timed:
    """Passes on to a recorder and notes how long that holds the worker."""

    def __init__(self, recorder: Any) -> None:
        self._recorder = recorder
        self.took: list[float] = []

    def inferred(
        self, request: InferenceRequest, lane: Lane, outcome: ActionChunk | BaseException
    ) -> None:
        """Note the time of one call."""
        began = time.perf_counter()
        self._recorder.inferred(request, lane, outcome)
        self.took.append(time.perf_counter() - began)

    def session_closed(self, key: SessionKey) -> None:
        """Pass it on."""
        self._recorder.session_closed(key)


def _pictures(kind: str) -> list[npt.NDArray[np.uint8]]:
    """Return noise, which no compression shrinks, or something as smooth as a clear photo."""
    rng = np.random.default_rng(0)
    all_ = rng.integers(0, 256, (_VARIETY, SIZE, SIZE, 3), np.uint8)
    if kind == 'noise':
        return list(all_)
    return [np.asarray(cv2.GaussianBlur(one, (0, 0), 4.0), np.uint8) for one in all_]


def _measure(pictures: list[npt.NDArray[np.uint8]], count: int) -> dict[str, Any]:
    from openpi_policy_ros.recording.recorder import Recorder
    from openpi_policy_ros.recording.session import Setting

    without = _run(pictures, count, None)
    with tempfile.TemporaryDirectory(prefix='openpi_policy_recording_') as scratch:
        folder = Path(scratch)
        recorder = Recorder(folder, Setting(EchoPolicy().spec))
        tap = _Timed(recorder)
        began = time.process_time()
        _run(pictures, count, tap)
        recorder.close()
        cpu = time.process_time() - began
        disk = sum(path.stat().st_size for path in folder.rglob('*.mcap'))
        stats = recorder.stats
    seconds = count / RATE
    return {
        'worker_us': 1e6 * statistics.median(tap.took),
        'cpu_ms': 1e3 * (cpu - without) / count,
        'in_mb_s': 1e-6 * stats.bytes / seconds,
        'disk_mb_s': 1e-6 * disk / seconds,
        'dropped': stats.dropped,
    }


def _run(pictures: list[npt.NDArray[np.uint8]], count: int, tap: _Timed | None) -> float:
    """Run paced inferences; return the CPU seconds of the process."""
    engine = Engine(EchoPolicy())
    if tap is not None:
        engine.add_tap(tap)
    engine.start()
    began, due = time.process_time(), time.monotonic()
    for number in range(count):
        seen: dict[str, Any] = observation(1, 1)
        for camera, name in enumerate(CAMERAS):
            seen[f'observation/{name}'] = pictures[(number * len(CAMERAS) + camera) % _VARIETY]
        one = InferenceRequest(seen, SessionKey('bench', '1'))
        engine.submit(one, Lane.REMOTE).result()
        due += 1.0 / RATE
        time.sleep(max(0.0, due - time.monotonic()))
    cpu = time.process_time() - began
    engine.close()
    return cpu


if __name__ == '__main__':
    print(machine.line(machine.describe()))
    print(report(measure(seconds=int(sys.argv[1]) if len(sys.argv) > 1 else 20)))
