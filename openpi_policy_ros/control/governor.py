# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Keep commands within what the joints may do: gates S4, S6, S7 and S8.

Nothing here remembers anything: the last command and the measured joints are handed in. Rows are
float64 in ROS units (rad, m; rad/s, m/s where the policy commands velocities).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.configuration.execution import Safety
from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.buffers import NANOSECONDS, to_nanoseconds
from openpi_policy_ros.control.limits import JointLimits
from openpi_policy_ros.control.timed_chunk import Row, Rows
from openpi_policy_ros.errors import ConfigurationError

Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Clamped:
    """Rows within the position limits.

    Attributes:
        rows: as handed in, each number within what its joint may do.
        changed: whether any number had to be changed.
        violation: why nothing of this may be commanded; '' = it may.

    """

    rows: Rows
    changed: bool = False
    violation: str = ''


@dataclass(frozen=True)
class Paced:
    """A row, or waypoints, that no joint has to exceed its speed for.

    Attributes:
        rows: [N] or [M, n].
        times_ns: int64 [M] from now, strictly rising; None for a row.
        slowed: whether anything had to be changed.

    """

    rows: Rows
    slowed: bool
    times_ns: Times | None = None


def chunk_problem(actions: npt.NDArray[np.floating], shape: tuple[int, int]) -> str:
    """S4: return why a chunk must not be used, '' = it may.

    Args:
        actions: what the policy answered.
        shape: (horizon, columns) that the policy declared.

    """
    if actions.shape != shape:
        return f'S4: the chunk has the shape {list(actions.shape)}, expected {list(shape)}'
    wrong = np.argwhere(~np.isfinite(actions))
    if wrong.size:
        row, column = wrong[0]
        return (
            f'S4: {len(wrong)} numbers of the chunk are not finite, the first is '
            f'{actions[row, column]} in row {row}, column {column}'
        )
    return ''


class Governor:
    """The limits of one robot, applied to what a chunk wants.

    Attributes:
        lower, upper: float64 [N], positions that may be commanded (``position_margin`` applied).
        speed: float64 [N], fastest that an axis may be commanded (``velocity_scale`` applied);
            inf where an axis has no limit or is the goal of a gripper's own controller.

    """

    def __init__(
        self,
        axes: Axes,
        limits: JointLimits,
        safety: Safety,
        max_lookahead: float,
        *,
        unpaced: npt.NDArray[np.bool_],
        disabled: frozenset[str] = frozenset(),
    ) -> None:
        """Prepare the limits.

        Args:
            axes: what can be commanded.
            limits: of each axis.
            safety: margins.
            max_lookahead: seconds that a command may act before another one replaces it.
            unpaced: bool [N], axes that are goals for another controller, not set points.
            disabled: gates that are switched off.

        Raises:
            ConfigurationError: ``position_margin`` leaves a joint no room.

        """
        self._names = axes.names
        self._position = np.asarray(axes.position, bool)
        self._gripper = np.asarray(axes.gripper, bool)
        # A gripper must close fully, and its range is of the size of the margin.
        margin = np.where(self._gripper, 0.0, safety.position_margin)
        self.lower, self.upper = limits.lower + margin, limits.upper - margin
        self.speed = np.where(unpaced, np.inf, limits.velocity * safety.velocity_scale)
        narrow = [self._names[axis] for axis in np.flatnonzero(self.lower >= self.upper)]
        if narrow:
            raise ConfigurationError(
                'safety.position_margin',
                [
                    f'{name}: {safety.position_margin} at both ends leaves nothing of its range; '
                    'lower the margin or correct the limits'
                    for name in narrow
                ],
            )
        self._clamp_max = safety.clamp_max
        self._max_start_jump = safety.max_start_jump
        self._lookahead = max_lookahead
        self._lookahead_ns = to_nanoseconds(max_lookahead)
        self._checks_positions = 'S6' not in disabled
        self._checks_speeds = 'S7' not in disabled
        self._checks_start = 'S8' not in disabled

    def clamp(self, rows: Rows, measured: Mapping[str, float]) -> Clamped:
        """S6: keep positions within the limits, and velocities from leading beyond them.

        A velocity may at most use up, within ``max_lookahead``, the room that the measured joint
        has left; a joint beyond its limit may only come back.

        Args:
            rows: [M, N].
            measured: joint → position in ROS units.

        """
        if not self._checks_positions:
            return Clamped(rows)
        lower, upper = self.lower.copy(), self.upper.copy()
        beyond = np.zeros(len(lower))
        for axis in np.flatnonzero(~self._position):
            low, high, beyond[axis] = self._room(int(axis), measured)
            lower[axis], upper[axis] = low / self._lookahead, high / self._lookahead
        clamped = np.clip(rows, lower, upper)
        # A NaN stays one here and is a violation: hence `not <=` below.
        over = np.abs(rows - clamped).max(axis=0, initial=0.0)
        excess = np.where(self._position | np.isnan(over), over, beyond)
        far = [int(axis) for axis in np.flatnonzero(~(excess <= self._clamp_max))]
        violation = ''
        if far:
            found = ', '.join(f'{self._names[axis]} by {excess[axis]:.3f}' for axis in far)
            violation = (
                f'S6: beyond the position limit: {found} (safety.clamp_max {self._clamp_max}, '
                'position_margin included); the policy, joints.scale or the limits are wrong'
            )
        return Clamped(clamped, bool((rows != clamped).any()), violation)

    def step(self, wanted: Row, last: Row, elapsed_ns: int) -> Paced:
        """S7, a row for each tick: go no further from the last command than speed allows.

        Args:
            wanted: [N].
            last: [N], NaN where an axis was never commanded and not measured.
            elapsed_ns: since the last command, not more than a control period.

        """
        if not self._checks_speeds:
            return Paced(wanted, False)
        reach = self.speed * (elapsed_ns / NANOSECONDS)
        bound = np.where(self._position, reach, self.speed)
        centre = np.where(self._position, last, 0.0)
        # An axis that nobody measures has no place to start from but the wanted one.
        free = np.isnan(centre) | np.isinf(bound)
        kept = np.where(free, wanted, np.clip(wanted, centre - bound, centre + bound))
        return Paced(kept, bool((kept != wanted).any()))

    def retime(
        self, axes: slice, start: Row, times_ns: Times, rows: Rows, others: Rows | None = None
    ) -> Paced:
        """S7, waypoints: stretch the times where a joint would be too fast; keep the path.

        What does not fit into ``max_lookahead`` after that is cut off, at a point on the path.

        Args:
            axes: the output's axes among all.
            start: [n], where the joints are commanded to be now; NaN where unknown.
            times_ns: [M] from now, positive and strictly rising.
            rows: [M, n].
            others: [K, n], where the joints may be instead of at ``start``.

        """
        position, speed = self._position[axes], self.speed[axes]
        if not self._checks_speeds:
            return Paced(rows, False, times_ns)
        # Velocities are bounded, not paced.
        bounded = np.where(position, rows, np.clip(rows, -speed, speed))
        path = np.vstack([start, bounded])
        starts = start[None] if others is None else np.vstack([start, others])
        distance = np.abs(np.diff(path, axis=0))
        distance[0] = np.abs(bounded[0] - starts).max(axis=0)
        distance = np.where(position, distance, 0.0)
        needed = np.nan_to_num(distance / speed, nan=0.0, posinf=np.inf).max(axis=1, initial=0.0)
        gaps = np.diff(times_ns, prepend=0).astype(np.float64)
        paced = np.maximum(gaps, np.ceil(needed * NANOSECONDS))
        slowed = bool((paced > gaps).any() or (bounded != rows).any())
        ends = np.cumsum(paced)
        if ends[-1] <= self._lookahead_ns:
            return Paced(bounded, slowed, ends.astype(np.int64))
        keep = int(np.searchsorted(ends, self._lookahead_ns, side='right'))
        times = ends[:keep].astype(np.int64)
        begun = int(times[-1]) if keep else 0
        if begun == self._lookahead_ns:
            return Paced(bounded[:keep], slowed, times)
        share = (self._lookahead_ns - begun) / paced[keep]
        before, after = path[keep], path[keep + 1]
        cut = np.where(position & np.isfinite(before), before + share * (after - before), after)
        if not keep and len(starts) > 1:
            # Within reach of wherever they are.
            reach = np.where(position, speed * self._lookahead, np.inf)
            cut = np.clip(cut, starts.max(axis=0) - reach, starts.min(axis=0) + reach)
        return Paced(
            np.vstack([bounded[:keep], cut]), slowed, np.append(times, np.int64(self._lookahead_ns))
        )

    def start_jump(self, wanted: Row, measured: Mapping[str, float]) -> str:
        """S8: return why motion must not begin with this row, '' = it may.

        Only positions are judged, and no gripper's: it opens and closes in one step by design.
        """
        if not self._checks_start:
            return ''
        found = []
        for axis in np.flatnonzero(self._position & ~self._gripper):
            name = self._names[axis]
            distance = abs(wanted[axis] - measured.get(name, math.nan))
            if math.isnan(distance):
                found.append(f'{name} (not measured)')
            elif distance > self._max_start_jump:
                found.append(f'{name} by {distance:.3f}')
        if not found:
            return ''
        return (
            f'S8: the first command is too far from the measured joints: {", ".join(found)} '
            f'(safety.max_start_jump {self._max_start_jump}); bring the arm to where the policy '
            'starts, or check joints.scale, offset and the order of the actions'
        )

    def _room(self, axis: int, measured: Mapping[str, float]) -> tuple[float, float, float]:
        """Return (≤ 0, ≥ 0, how far beyond the limits): what a joint may still move either way."""
        lower, upper = self.lower[axis], self.upper[axis]
        if np.isinf(lower) and np.isinf(upper):
            return -math.inf, math.inf, 0.0
        position = measured.get(self._names[axis])
        if position is None or not math.isfinite(position):
            return 0.0, 0.0, 0.0
        beyond = max(position - upper, lower - position, 0.0)
        return min(lower - position, 0.0), max(upper - position, 0.0), beyond
