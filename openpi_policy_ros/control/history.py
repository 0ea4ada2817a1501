# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Remember the images of a camera for as long as a policy looks back at them.

Pure: stamps in int nanoseconds are handed in, nothing reads a clock or decodes anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from openpi_policy_ros.control.buffers import Sample

T = TypeVar('T')

TOLERANCE = 1 / 4
"""Part of an action step by which an image may be later than the time wanted: the stamps of a
camera at exactly the action rate scatter by microseconds, and on which side one falls is chance."""

THINNING_TOLERANCE = 1 / 16
"""Likewise for thinning, so that a camera at twice the action rate keeps every second image. Less
than the interval of any camera up to sixteen times as fast, whose images would else be thinned
further than to one per step."""


class History(Generic[T]):
    """One image per action step of one camera, as far back as the oldest offset.

    The newest image takes the place of the one before it while both lie within one action step
    of the one before those. So a camera that is faster than the action rate is thinned to it, one
    at the action rate loses nothing whatever its phase and jitter, and what ``frames`` returns is
    either the very image nearest at or before the time wanted (a quarter of a step later still
    counts as before), or less than a step before it.

    Args:
        offsets: action steps from the newest image, strictly rising, the last one 0.
        dt_ns: length of an action step.

    """

    def __init__(self, offsets: tuple[int, ...], dt_ns: int) -> None:
        self._offsets = offsets
        self._dt_ns = dt_ns
        self._late_ns = round(TOLERANCE * dt_ns)
        self._thinned_ns = dt_ns + round(THINNING_TOLERANCE * dt_ns)
        # Every second one is more than a step later, so that this always reaches the first offset.
        self._kept: deque[Sample[T]] = deque(maxlen=1 - 2 * offsets[0])

    @property
    def kept(self) -> tuple[Sample[T], ...]:
        """Return what is kept, stamps strictly rising; the last one is the newest accepted."""
        return tuple(self._kept)

    def add(self, sample: Sample[T]) -> None:
        """Take in the newest image; those with a later stamp are forgotten, as it counts."""
        kept = self._kept
        while kept and kept[-1].stamp_ns >= sample.stamp_ns:
            kept.pop()
        if len(kept) > 1 and sample.stamp_ns - kept[-2].stamp_ns <= self._thinned_ns:
            kept.pop()
        kept.append(sample)

    def discard(self, sample: Sample[T]) -> None:
        """Forget one image, which turned out to be unusable; another or unknown one stays."""
        # Messages cannot be compared (arrays): by identity.
        self._kept = deque(
            (one for one in self._kept if one is not sample), maxlen=self._kept.maxlen
        )

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def frames(self, t_ns: int) -> tuple[Sample[T], ...]:
        """Return what ``choose`` does of what is kept."""
        return self.choose(self.kept, t_ns)

    def choose(self, kept: Sequence[Sample[T]], t_ns: int) -> tuple[Sample[T], ...]:
        """Return for each offset the image nearest at or before ``t_ns`` + offset · dt.

        A quarter of a step later still counts as before.

        Args:
            kept: as ``kept`` returned it, perhaps less some; if empty, so is the result.
            t_ns: when offset 0 is, usually the stamp of the newest image.

        Returns:
            One per offset, in their order; where nothing is that old, the oldest kept.

        """
        if not kept:
            return ()
        wanted = (t_ns + offset * self._dt_ns + self._late_ns for offset in self._offsets)
        return tuple(_at_or_before(kept, one_ns) for one_ns in wanted)


def _at_or_before(kept: Sequence[Sample[T]], t_ns: int) -> Sample[T]:
    return next((one for one in reversed(kept) if one.stamp_ns <= t_ns), kept[0])
