# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Play chunks: what to command at which time, and how one chunk gives way to the next.

All times are nanoseconds of one clock, handed in. A new chunk is entered at the point in time that
is now, not at its beginning, and the step between the two chunks is faded out, so that the robot
neither jumps nor steps back. Between actions positions are interpolated, velocities and grippers
held.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.execution import Execution
from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.buffers import to_nanoseconds
from openpi_policy_ros.control.timed_chunk import Row, Rows, TimedChunk
from openpi_policy_ros.policies.base import ActionChunk, FloatArray


class Verdict(enum.Enum):
    """What became of an offered chunk."""

    ACCEPTED = 'accepted'
    LATE = 'late'
    """S14: every action of it has elapsed."""
    OUTDATED = 'outdated'
    """Of an older epoch, or made from an older observation, than the chunk that runs."""


@dataclass(frozen=True)
class Offer:
    """Answer to an offered chunk.

    Attributes:
        verdict: what became of it.
        dropped: its actions that had elapsed and are not played.

    """

    verdict: Verdict
    dropped: int = 0

    @property
    def accepted(self) -> bool:
        """Return whether the chunk is played from now on."""
        return self.verdict is Verdict.ACCEPTED


@dataclass(frozen=True)
class _Fades:
    """Steps between plans: each error is added from its start on, and ever less of it.

    Attributes:
        starts_ns: int64 [F].
        errors: float64 [F, N].
        fade_ns: how long each takes to be gone, > 0.

    """

    starts_ns: npt.NDArray[np.int64]
    errors: Rows
    fade_ns: int

    def at(self, times_ns: npt.NDArray[np.int64]) -> Rows:
        """Return what is left of all steps at some times, float64 [M, N]."""
        since = times_ns - self.starts_ns[:, np.newaxis]
        left = np.where(since < 0, 0.0, np.maximum(1.0 - since / self.fade_ns, 0.0))
        return np.einsum('fm,fn->mn', left, self.errors)


class ChunkExecutor:
    """The chunks of one robot in time. Limits and states are others' business."""

    def __init__(
        self,
        axes: Axes,
        execution: Execution,
        dt_ns: int,
        disabled: frozenset[str] = frozenset(),
    ) -> None:
        """Prepare to play.

        Args:
            axes: what the columns of the rows are.
            execution: mode and times.
            dt_ns: one action step of the policy, > 0.
            disabled: gates to leave out ('S14'), for the tests of the tests.

        """
        self._held = axes.gripper | ~axes.position
        self._velocity = ~axes.position
        self._gripper = axes.gripper
        self._width = len(axes)
        self._execution = execution
        self._open_loop = execution.mode == 'open_loop'
        self._dt_ns = dt_ns
        self._lead_ns = max(to_nanoseconds(execution.min_lead_time), 1)
        self._decay = execution.ensemble_decay
        self._drops_late = 'S14' not in disabled
        self._epoch: int | None = None
        self.clear()

    def tune(self, execution: Execution) -> None:
        """Fade and weigh as these say from the next chunk on, so that nothing steps in between.

        Args:
            execution: as before, but for ``blend_steps`` and ``ensemble_decay``.

        """
        self._execution = execution

    def clear(self) -> None:
        """Forget every chunk, so that the next one begins unfaded: S8 must see where it begins."""
        self._chunks: list[TimedChunk] = []  # oldest first; the last one is the newest
        self._fades: _Fades | None = None
        self._observed_ns: int | None = None

    def drop_older_than(self, epoch: int) -> None:
        """Stop chunks of earlier epochs, and refuse those still to come."""
        self._epoch = epoch if self._epoch is None else max(epoch, self._epoch)
        if self._chunks and self._chunks[-1].epoch < epoch:
            self._chunks, self._fades = [], None

    def offer(
        self,
        rows: Rows,
        t_obs_ns: int,
        epoch: int,
        now_ns: int,
        chunk: ActionChunk | None = None,
        commanded: Row | None = None,
    ) -> Offer:
        """Take a chunk over at the row that belongs to now; in open loop at its first row.

        Args:
            rows: float64 [H, N] in ROS units (``Axes.rows``), finite.
            t_obs_ns: stamp of the observation that it answers.
            epoch: of the request; a chunk of an older one than the running one's is refused.
            now_ns: arrival.
            chunk: as the policy gave it, for ``leftover``.
            commanded: where the commands have the robot now, float64 [N], NaN where unknown; None =
                where the running chunk has it. Limits hold the robot back from what a chunk wants:
                a step faded from there would be another than the robot makes.

        """
        rows = np.array(rows, np.float64)
        if rows.ndim != 2 or len(rows) < 1 or rows.shape[1] != self._width:
            raise ValueError(f'rows have shape {rows.shape}, expected (1 or more, {self._width})')
        if self._open_loop:
            rows = rows[: self._execution.open_loop_steps]
        start_ns = now_ns if self._open_loop else t_obs_ns
        new = TimedChunk(rows, start_ns, self._dt_ns, epoch, chunk)
        dropped = 0 if self._open_loop else new.first_due(now_ns + self._lead_ns)
        if self._outdated(t_obs_ns, epoch):
            return Offer(Verdict.OUTDATED, dropped)
        if dropped == len(rows) and self._drops_late:
            return Offer(Verdict.LATE, dropped)
        before = self._commanded(now_ns)
        if before is not None and commanded is not None:
            before = np.where(np.isfinite(commanded), commanded, before)
        keep = self._execution.mode == 'ensemble'
        self._chunks = [
            *(one for one in self._chunks if keep and one.epoch == epoch and one.end_ns >= now_ns),
            new,
        ]
        self._decay = self._execution.ensemble_decay
        fade_ns = self._execution.blend_steps * self._dt_ns
        self._fades = self._steps(now_ns, before, fade_ns) if fade_ns else None
        self._epoch, self._observed_ns = epoch, t_obs_ns
        return Offer(Verdict.ACCEPTED, dropped)

    def sample(self, now_ns: int) -> Row | None:
        """Return what to command now, float64 [N]; None before a chunk and after its last row."""
        if not self._chunks or now_ns > self._chunks[-1].end_ns:
            return None
        return self._values(np.array([now_ns], np.int64))[0]

    def waypoints(self, now_ns: int, lookahead_ns: int) -> tuple[npt.NDArray[np.int64], Rows]:
        """Return the actions to come as points of a trajectory that starts now.

        Those due from now + ``min_lead_time`` to now + ``lookahead_ns``; where actions lie further
        apart than that, the one point on the way to the next.

        Returns:
            (int64 [M], time of each point after now, strictly rising and above 0;
            float64 [M, N]). M = 0: nothing left.

        """
        times = np.empty(0, np.int64)
        if self._chunks:
            newest = self._chunks[-1]
            first = newest.first_due(now_ns + self._lead_ns)
            dues = [newest.due_ns(row) for row in range(first, len(newest.rows))]
            reached = [due for due in dues if due <= now_ns + lookahead_ns]
            if dues and not reached:
                reached = [now_ns + max(lookahead_ns, self._lead_ns)]
            times = np.array(reached, np.int64)
        if not len(times):
            return times, np.empty((0, self._width), np.float64)
        return times - now_ns, self._values(times)

    def remaining(self, now_ns: int) -> int:
        """Return how many actions are left to play: those due after ``min_lead_time`` or later."""
        if not self._chunks:
            return 0
        newest = self._chunks[-1]
        return len(newest.rows) - newest.first_due(now_ns + self._lead_ns)

    def leftover(self, t_obs_ns: int) -> FloatArray | None:
        """Return what is left of the running chunk for a request of real-time chunking.

        Args:
            t_obs_ns: stamp of the observation of that request: row 0 of the answer will be due one
                action step later, and so is row 0 of the leftover, to half a step.

        Returns:
            Rows in model space, float32 [T, D_model], T ≥ 1; None = nothing is left, or the policy
            gives none.

        """
        if not self._chunks:
            return None
        newest = self._chunks[-1]
        model = None if newest.chunk is None else newest.chunk.model_actions
        if model is None:
            return None
        elapsed = (2 * (t_obs_ns - newest.start_ns) + self._dt_ns) // (2 * self._dt_ns)
        rows = model[max(elapsed, 0) :]
        return rows if len(rows) else None

    @property
    def playing(self) -> ActionChunk | None:
        """Return the newest chunk as the policy gave it; None = none runs, or its rows alone."""
        return self._chunks[-1].chunk if self._chunks else None

    def delay_steps(self, latency_s: float) -> int:
        """Return the actions that elapse between an observation and its chunk's arrival."""
        return -(-to_nanoseconds(latency_s) // self._dt_ns)

    def finished(self, now_ns: int) -> bool:
        """Return whether the last row of the newest chunk is due or past."""
        return bool(self._chunks) and now_ns >= self._chunks[-1].end_ns

    def needs_inference(self, now_ns: int) -> bool:
        """Return whether another chunk is wanted: always, but in open loop only at the end."""
        return not self._open_loop or not self._chunks or self.finished(now_ns)

    def _outdated(self, t_obs_ns: int, epoch: int) -> bool:
        if self._epoch is not None and epoch < self._epoch:
            return True
        return self._observed_ns is not None and t_obs_ns < self._observed_ns

    def _commanded(self, now_ns: int) -> Row | None:
        """Return where the plan has the robot, at its end once it is over; None = no plan."""
        running = self.sample(now_ns)
        if running is not None:
            return running
        if not self._chunks:
            return None
        last = self._values(np.array([self._chunks[-1].end_ns], np.int64))[0]
        return np.where(self._velocity, 0.0, last)

    def _values(self, times_ns: npt.NDArray[np.int64]) -> Rows:
        """Return the plan with what is left of the steps between chunks, float64 [M, N]."""
        plan = self._mean(self._say(times_ns), times_ns <= self._ends_ns())
        return plan if self._fades is None else plan + self._fades.at(times_ns)

    def _say(self, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return what every chunk says at some times, float64 [chunks, M, N]."""
        return np.stack([chunk.at(times_ns, self._held) for chunk in self._chunks])

    def _ends_ns(self) -> npt.NDArray[np.int64]:
        return np.array([[chunk.end_ns] for chunk in self._chunks], np.int64)

    def _mean(self, values: npt.NDArray[np.float64], covers: npt.NDArray[np.bool_]) -> Rows:
        """Return the mean of the chunks that cover a time, float64 [M, N].

        Temporal ensembling (arXiv 2304.13705): weights exp(−m·i), i = 0 for the oldest one. What
        is held comes from the newest.

        Args:
            values: [chunks, M, N].
            covers: [chunks, M].

        """
        if len(values) == 1:
            return np.asarray(values[0])
        rank = np.cumsum(covers, axis=0) - 1
        weights = np.where(covers, np.exp(-self._decay * rank), 0.0)
        mean = np.einsum('cm,cmn->mn', weights / weights.sum(axis=0), values)
        return np.where(self._held, values[-1], mean)

    def _steps(self, now_ns: int, before: Row | None, fade_ns: int) -> _Fades:
        """Return the steps to fade: from ``before`` to the new plan, and those within the plan.

        The mean of an ensemble makes one where a chunk of it ends: known beforehand, so that
        waypoints and samples agree on it.
        """
        ends = self._ends_ns()
        within = np.unique(ends[ends < self._chunks[-1].end_ns])
        times = np.concatenate([[now_ns], within])
        values = self._say(times)
        plan = self._mean(values, times <= ends)
        if len(within):
            # A chunk covers the moment of its end; the plan without it begins thereafter.
            without = self._mean(values[:, 1:], times[1:] < ends)
            errors = np.vstack([plan[0], plan[1:] - without])
        else:
            errors = plan
        errors[0] = 0.0 if before is None else before - errors[0]
        errors = np.where(self._gripper, 0.0, errors)
        return _Fades(np.concatenate([[now_ns], within + 1]), errors, fade_ns)
