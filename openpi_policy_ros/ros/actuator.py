# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot's door needs of whatever drives the robot."""

from __future__ import annotations

from typing import Protocol

from openpi_policy_ros.policies.base import ActionChunk, RtcPrefix


class Actuator(Protocol):
    """Takes chunks and decides what of them moves the robot. Any thread may call any method.

    No method may wait for the door: the door calls them with its lock held.
    """

    @property
    def enabled(self) -> bool:
        """Return whether chunks drive the robot, or would if there were any."""

    def enable(self, on: bool) -> tuple[bool, str]:
        """Open or close the gate to the robot; return (done, one sentence for the operator).

        (True, ``control.machine.OPENED``) where it was closed and is open now, and only then.
        """

    def expect(self, epoch: int) -> None:
        """Refuse results of older epochs; the chunk that runs goes on until a new one comes."""

    def reset(self, epoch: int) -> None:
        """Drop the chunk that runs, and refuse results of older epochs."""

    def needs_inference(self) -> bool:
        """Return whether a chunk is wanted now."""

    def inference_started(self) -> None:
        """Note that an inference was handed to the engine."""

    def inference_finished(self) -> None:
        """Note that it ended, well or not."""

    def on_chunk(self, chunk: ActionChunk, t_obs_ns: int, epoch: int) -> str:
        """Take over a chunk; return why it was not, '' = it was."""

    def on_failure(self, reason: str) -> None:
        """Count an inference that failed."""

    def rows_left(self) -> int:
        """Return how many actions of the running chunk are left to play."""

    def rows_needed(self, latency_s: float) -> int:
        """Return how many actions elapse in so many seconds, rounded up."""

    def rtc_prefix(self, t_obs_ns: int, latency_s: float) -> RtcPrefix | None:
        """Return what the policy is to continue; None = nothing, or the mode is not ``rtc``.

        Args:
            t_obs_ns: stamp of the observation that goes to the policy.
            latency_s: from that stamp to the arrival of the chunk, as measured lately.

        """
