# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draw a recording and its replay: motion of the joints, chunks, and differences.

Needs matplotlib (the extra ``plot``). Colours keep their meaning on every page.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.recording.compare import Comparison
from openpi_policy_ros.recording.reader import Motion, Recording, Track
from openpi_policy_ros.recording.units import OWN, action_units, motion_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Told apart by people who do not see red and green alike (Okabe and Ito, 2008).
MEASURED, COMMANDED, CHUNK, REPLAYED = '#000000', '#0072b2', '#b8b8b8', '#d55e00'
DOTS_PER_INCH = 110
LEAST_SPAN = 1e-4
WIDTH, ROW = 13.0, 1.75
MOST_CHUNKS, MOST_COMPARED = 100, 40
MOST_MARKS = 150
MOST_POINTS = 20000
COMMANDED_WIDTH, MEASURED_WIDTH = 2.8, 0.9
"""Points. They lie on each other where all is well: both must be seen."""
GAP_PERIODS = 10.0
"""Control periods without a command after which the line is broken: nothing was asked for then."""
SHADES = {'WAIT': '#f0e442', 'HOLD': '#cc79a7'}
"""Behind the lines, while the robot's door was in these states."""


@dataclass(frozen=True)
class Page:
    """One picture.

    Attributes:
        name: of its file, without folder and ending.
        title: for a heading.
        png: the picture.

    """

    name: str
    title: str
    png: bytes


def pages(recording: Recording, comparison: Comparison | None) -> list[Page]:
    """Return the pictures of one session; those with nothing to show are left out."""
    drawn = []
    motion = recording.motion()
    start = _start(recording, motion)
    config = recording.header['robot']['config'] or {'joints': {'names': []}}
    order = {joint: number for number, joint in enumerate(config['joints']['names'])}
    joints = sorted(
        {*motion.planned, *motion.commanded}, key=lambda one: order.get(one, len(order))
    )
    if motion.commanded or (motion.measured and motion.planned):
        drawn.append(
            Page(
                f'{recording.name}_motion',
                'Joints: measured, commanded, planned',
                _png(_motion(recording, motion, joints, start)),
            )
        )
    drawn.append(
        Page(
            f'{recording.name}_actions',
            'Chunks of the policy',
            _png(_actions(recording, motion, comparison, start)),
        )
    )
    if comparison is not None and comparison.recorded:
        drawn.append(
            Page(
                f'{recording.name}_difference',
                'Replayed less recorded',
                _png(_difference(recording.name, comparison)),
            )
        )
    return drawn


def _figure(rows: int, columns: int, height: float) -> tuple[Figure, Any]:
    # Without pyplot, which wants a display and keeps every figure.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, layout='constrained')
    return figure, figure.subplots(rows, columns, sharex=True, squeeze=False)


def _png(figure: Figure) -> bytes:
    out = io.BytesIO()
    figure.savefig(out, format='png')
    return out.getvalue()


def _grid(names: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """Return one axes for each name, in two columns read downwards."""
    columns = 1 if len(names) <= 2 else 2
    rows = -(-len(names) // columns)
    figure, grid = _figure(rows, columns, max(3.2, ROW * rows + 1.2))
    all_ = list(grid.T.reshape(-1))
    for spare in all_[len(names) :]:
        spare.set_visible(False)
    for axes, name in zip(all_, names, strict=False):
        axes.set_title(name, fontsize=9, loc='left', fontweight='bold')
        axes.grid(alpha=0.3, linewidth=0.5)
        axes.tick_params(labelsize=8)
        axes.margins(x=0.01)
    return figure, all_[: len(names)]


def _finish(figure: Figure, all_: Sequence[Axes], title: str, unit: str, x_label: str) -> None:
    figure.suptitle(title, fontsize=11)
    figure.supylabel(unit, fontsize=9)
    for axes in all_:
        # What does not move is a line, not its last bits.
        low, high = axes.get_ylim()
        if high - low < LEAST_SPAN:
            middle = 0.5 * (low + high)
            axes.set_ylim(middle - 0.5 * LEAST_SPAN, middle + 0.5 * LEAST_SPAN)
        axes.ticklabel_format(axis='y', useOffset=False)
    for axes in all_:
        place = axes.get_subplotspec()
        if axes is all_[-1] or (place is not None and place.is_last_row()):
            axes.set_xlabel(x_label, fontsize=9)
            axes.tick_params(labelbottom=True)
    seen: dict[str, Any] = {}
    for axes in all_:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            seen.setdefault(label, handle)
    figure.legend(
        seen.values(), seen.keys(), loc='outside lower center', ncols=len(seen), fontsize=9
    )


def _start(recording: Recording, motion: Motion) -> int:
    first = next(iter(recording.inferences()), None)
    times = [track.times_ns[0] for track in motion.measured.values()]
    times += [] if first is None else [first.observed_ns]
    return min(times, default=0)


def _seconds(times_ns: Any, start: int) -> npt.NDArray[np.float64]:
    return np.asarray(1e-9 * (np.asarray(times_ns, np.int64) - start), np.float64)


def _motion(recording: Recording, motion: Motion, joints: list[str], start: int) -> Figure:
    figure, all_ = _grid(joints)
    gap = _longest_step(recording)
    for axes, joint in zip(all_, joints, strict=True):
        _shade(axes, motion, start)
        chunks = motion.planned.get(joint, [])
        for number, (times, values) in enumerate(_thinned(chunks, MOST_CHUNKS)):
            label = 'chunks of the policy' if number == 0 else None
            axes.plot(_seconds(times, start), values, color=CHUNK, linewidth=0.7, label=label)
        track = motion.commanded.get(joint)
        _line(axes, track, start, COMMANDED, 'commanded', COMMANDED_WIDTH, gap)
        _line(axes, motion.measured.get(joint), start, MEASURED, 'measured', MEASURED_WIDTH)
    unit = f'[{motion_unit(recording.header)}]'
    _finish(figure, all_, f'{recording.name}: joints', unit, 'time since the first message [s]')
    return figure


def _line(
    axes: Axes,
    track: Track | None,
    start: int,
    colour: str,
    label: str,
    width: float,
    gap: float = np.inf,
) -> None:
    """Draw a track, with a break wherever nothing came for longer than ``gap`` seconds."""
    if track is not None:
        step = max(1, len(track.times_ns) // MOST_POINTS)
        times = _seconds(track.times_ns, start)
        breaks = np.flatnonzero(np.diff(times) > gap) + 1
        ends = np.unique([0, *breaks, *(breaks - 1), len(times) - 1])
        kept = np.union1d(np.arange(0, len(times), step), ends)
        at = np.searchsorted(kept, breaks)
        values = np.asarray(track.values, np.float64)[kept]
        axes.plot(
            np.insert(times[kept], at, np.nan),
            np.insert(values, at, np.nan),
            color=colour,
            linewidth=width,
            label=label,
        )


def _longest_step(recording: Recording) -> float:
    """Return how long after one command the next may come, s, without a break between them."""
    config = recording.header['robot']['config'] or {}
    rate = config.get('execution', {}).get('control_rate')
    return GAP_PERIODS / float(rate) if rate else np.inf


def _shade(axes: Axes, motion: Motion, start: int) -> None:
    for state, colour in SHADES.items():
        spans = [_seconds(span, start) for span in motion.spans(state)]
        for number, (first, last) in enumerate(spans):
            label = state if number == 0 else None
            axes.axvspan(first, last, color=colour, alpha=0.35, linewidth=0, label=label)


def _thinned(chunks: Sequence[Any], most: int) -> Sequence[Any]:
    return chunks[:: max(1, -(-len(chunks) // most))]


def _actions(
    recording: Recording, motion: Motion, comparison: Comparison | None, start: int
) -> Figure:
    """Draw every chunk over time where the rate is known, else the first steps alone."""
    names = recording.action_names if comparison is None else comparison.names
    if comparison is None:
        done = [one for one in recording.inferences() if one.actions is not None]
        numbers = [one.number for one in done]
        times = [one.observed_ns for one in done]
        recorded = [one.actions for one in done]
    else:
        numbers, times = comparison.numbers, list(comparison.times_ns)
        recorded = list(comparison.recorded)  # type: ignore[arg-type]
    replayed = [] if comparison is None else comparison.replayed
    seconds = _seconds(times, start)
    rate = recording.action_rate
    units = action_units(recording.header)
    figure, all_ = _grid([f'{name} [{units.get(name, OWN)}]' for name in names])
    for column, axes in enumerate(all_):
        _shade(axes, motion, start)
        for rows, colour, what, style in (
            (recorded, CHUNK if replayed else COMMANDED, 'recorded', '-'),
            (replayed, REPLAYED, 'replayed', '--'),
        ):
            if not len(rows):
                continue
            if rate:
                _draw_chunks(axes, seconds, rows, column, rate, colour, style)
            first = [float(one[0, column]) for one in rows]  # type: ignore[index]
            dark = MEASURED if what == 'recorded' else REPLAYED
            # Marks of many would hide everything else.
            few = len(first) <= MOST_MARKS
            axes.plot(
                *_broken(seconds + (1.0 / rate if rate else 0.0), first, numbers),
                linestyle='none' if few else style,
                linewidth=1.0,
                marker=('o' if what == 'recorded' else 'x') if few else '',
                fillstyle='none',
                markersize=3.5,
                color=dark,
                label=f'{what}: first step',
            )
            if rate:
                axes.plot([], [], color=colour, linestyle=style, label=f'{what}: chunk')
    space = recording.header['policy']['action_space']
    unit = space.replace('_', ' ') or 'action'
    title = f'{recording.name}: actions' + (', recorded and replayed' if len(replayed) else '')
    _finish(figure, all_, title, unit, 'time since the first message [s]')
    return figure


def _broken(
    seconds: npt.NDArray[np.float64], values: Sequence[float], numbers: Sequence[int]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return a line with a break wherever an inference is missing or failed."""
    breaks = np.flatnonzero(np.diff(numbers) > 1) + 1
    return np.insert(seconds, breaks, np.nan), np.insert(np.asarray(values), breaks, np.nan)


def _draw_chunks(
    axes: Axes,
    seconds: npt.NDArray[np.float64],
    rows: Sequence[Any],
    column: int,
    rate: float,
    colour: str,
    style: str,
) -> None:
    steps = (np.arange(len(rows[0])) + 1) / rate
    for when, one in _thinned(list(zip(seconds, rows, strict=True)), MOST_COMPARED):
        axes.plot(when + steps, one[:, column], style, color=colour, linewidth=0.8, alpha=0.8)


def _difference(name: str, comparison: Comparison) -> Figure:
    """Draw where in the chunk each action differs, and over the session by how much."""
    from matplotlib.figure import Figure

    errors = comparison.errors
    names = [f'{one} [{comparison.units.get(one, OWN)}]' for one in comparison.names]
    height = 2.6 + 0.24 * len(names)
    figure = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, layout='constrained')
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    rms = np.sqrt(np.square(errors).mean(axis=0)).T
    top = float(rms.max())
    shown = left.imshow(
        rms,
        aspect='auto',
        interpolation='nearest',
        cmap='viridis',
        vmin=0.0,
        vmax=top or 1.0,
        extent=(0.5, errors.shape[1] + 0.5, len(names) - 0.5, -0.5),
    )
    left.set_yticks(range(len(names)), names, fontsize=8)
    left.set_xlabel('step of the chunk', fontsize=9)
    left.set_title('root mean square over all inferences', fontsize=9, loc='left')
    bar = figure.colorbar(shown, ax=left, pad=0.01)
    bar.ax.tick_params(labelsize=8)
    bar.set_label('in the unit of each action', fontsize=8)
    size = np.abs(errors)
    rows = np.arange(len(names))
    right.barh(rows - 0.2, size.max(axis=(0, 1)), height=0.38, color=REPLAYED, label='largest')
    right.barh(rows + 0.2, size[:, 0].max(axis=0), height=0.38, color=COMMANDED, label='first step')
    right.set_yticks(rows, comparison.names, fontsize=8)
    right.set_ylim(len(names) - 0.5, -0.5)
    right.set_xlim(0.0, 1.08 * float(size.max()) or 1.0)
    right.set_xlabel('largest difference [in the unit of each action]', fontsize=9)
    right.grid(axis='x', alpha=0.3, linewidth=0.5)
    right.legend(fontsize=8, loc='lower right', bbox_to_anchor=(1.0, 1.0), ncols=2)
    for axes in (left, right):
        axes.tick_params(axis='x', labelsize=8)
    if not top:
        right.text(
            0.5, 0.5, 'identical', transform=right.transAxes, ha='center', va='center', fontsize=14
        )
    figure.suptitle(f'{name}: replayed less recorded, {len(errors)} inferences', fontsize=11)
    return figure
