# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draw docs/timing_async.svg and docs/timing_open_loop.svg from what the control core plays.

    python scripts/timing_figure.py

Simulated time, no random numbers: the same pictures every time. Needs matplotlib (`pip install
matplotlib`); the simulation itself does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.commands import TrajectoryCommand
from openpi_policy_ros.control.driver import Driven, Driver
from openpi_policy_ros.control.limits import JointLimits

DOCS = Path(__file__).resolve().parents[1] / 'docs'
MS = 1_000_000
"""Nanoseconds."""

ACTION_RATE, HORIZON, OPEN_LOOP_STEPS = 10.0, 12, 8
TICK = 20 * MS
STAGES: Mapping[str, int] = {
    'transport': 20 * MS,
    'wait for the trigger': 10 * MS,
    'assemble': 10 * MS,
    'queue': 10 * MS,
    'inference': 290 * MS,
    'deliver': 10 * MS,
}
"""From the exposure to the arrival of the chunk, each stage's time: 0.35 s in all."""
BEFORE = STAGES['transport'] + STAGES['wait for the trigger']
"""Age of the newest observation when an inference begins."""
LATENCY = sum(STAGES.values())
OFFSETS = (0.0, 0.06, -0.05, 0.04)
"""What chunk k says beside the one plan: no two predictions of a policy agree, rad."""
STANDS = {'async': 0.2, 'open_loop': 0.02}
"""Where the joint is at first, rad."""
WIRE_AT = {'async': 870 * MS}
"""When the trajectory on the wire is drawn."""


@dataclass(frozen=True)
class Life:
    """One chunk.

    Attributes:
        t_obs: of its observation, ns.
        arrival: ns.
        rows: what it says, float64 [H].
        first: time of its first row, ns.
        dropped: rows that had elapsed.

    """

    t_obs: int
    arrival: int
    rows: Sequence[float]
    first: int
    dropped: int

    def due(self, row: int) -> int:
        """Return when a row is due, ns."""
        return self.first + row * round(1e9 / ACTION_RATE)


@dataclass
class Played:
    """What came of it.

    Attributes:
        chunks: in the order of their arrival.
        ticks: time (ns) → commanded position.
        held: time (ns) → position held while nothing is to play.
        wire: the trajectory sent at one tick: its time, (ns after it, position) of each point.

    """

    chunks: list[Life] = field(default_factory=list)
    ticks: dict[int, float] = field(default_factory=dict)
    held: dict[int, float] = field(default_factory=dict)
    wire: tuple[int, list[tuple[int, float]]] | None = None


def robot(mode: str) -> RobotConfig:
    """Return a robot of one joint that plays in a mode."""
    return RobotConfig.model_validate(
        {
            'profile': {'action_names': ['joint']},
            'joints': {'names': ['joint'], 'keys': ['state']},
            'timing': {'action_rate': ACTION_RATE},
            'output_names': ['arm'],
            'outputs': {
                'arm': {
                    'type': 'trajectory',
                    'topic': 'arm/joint_trajectory',
                    'joints': ['joint'],
                    'action_indices': [0],
                }
            },
            'execution': {
                'mode': mode,
                **({'open_loop_steps': OPEN_LOOP_STEPS} if mode == 'open_loop' else {}),
            },
        }
    )


def play(mode: str, end: int) -> Played:
    """Return what the executor makes of chunks that take ``LATENCY`` each, until ``end`` ns."""
    config = robot(mode)
    dt = round(1e9 / ACTION_RATE)
    driver = Driver(config, Axes(config, velocity=False), dt)
    driver.set_limits(JointLimits(np.array([-2.0]), np.array([2.0]), np.array([2.0])))
    driver.begin()
    played = Played()
    running: int | None = None
    stands = STANDS[mode]
    # One of no camera: the first observation lies at 0.
    for now in range(BEFORE, end, MS):
        if running is not None and now == running + LATENCY:
            index = len(played.chunks)
            # In open loop the policy goes on from where it sees the robot stand.
            start = index * OPEN_LOOP_STEPS * dt if mode == 'open_loop' else running
            rows = _predict(start, OFFSETS[index % len(OFFSETS)])
            commanded = driver.commanded_at(now)
            offer = driver.executor.offer(
                np.array(rows)[:, None], running, 0, now, commanded=commanded
            )
            first = (now if mode == 'open_loop' else running) + dt
            played.chunks.append(Life(running, now, rows, first, offer.dropped))
            running = None
        if now % TICK == 10 * MS:
            driven = driver.drive(now, {'joint': stands})
            if driven is None:
                driver.wait(now)
                if played.chunks:
                    played.held[now] = stands
            else:
                assert not driven.stop, driven.stop
                _note_commands(played, driver, driven, now, shown=now == WIRE_AT.get(mode))
                stands = played.ticks[now]
        if running is None and driver.executor.needs_inference(now):
            running = now - BEFORE
    return played


def _note_commands(
    played: Played, driver: Driver, driven: Driven, now: int, *, shown: bool
) -> None:
    position = driver.commanded_at(now)
    assert position is not None
    played.ticks[now] = float(position[0])
    (command,) = driven.commands
    assert isinstance(command, TrajectoryCommand)
    if shown:
        pairs = zip(command.times_ns, command.rows, strict=True)
        played.wire = (now, [(after, row[0]) for after, row in pairs])


def _predict(start: int, offset: float) -> list[float]:
    dt = 1.0 / ACTION_RATE
    times = [start / 1e9 + (row + 1) * dt for row in range(HORIZON)]
    return [0.35 * math.sin(1.9 * time - 0.6) + 0.2 + offset for time in times]


COLOURS = ('#1f77b4', '#b5277f', '#2a9d5c', '#8e5ea2')
STAGE_COLOURS = ('#9ecae1', '#dddddd', '#a1d99b', '#fdd0a2', '#e6550d', '#bcbddc')


def draw(mode: str, end: int, title: str, path: Path) -> Played:
    """Draw what is played in a mode."""
    import matplotlib

    matplotlib.use('svg')
    from matplotlib import pyplot

    # The same file from the same numbers.
    pyplot.rcParams.update({'svg.hashsalt': mode, 'svg.fonttype': 'none', 'font.size': 9})
    played = play(mode, end)
    figure, (top, below) = pyplot.subplots(
        2, 1, sharex=True, figsize=(10, 6.2), height_ratios=[1, 1.7], layout='constrained'
    )
    figure.suptitle(title)
    _draw_lives(top, played, end)
    _draw_commands(below, played, mode)
    below.set_xlim(0, end / 1e9)
    below.set_xlabel('time, s')
    figure.savefig(path, metadata={'Date': None, 'Creator': None})
    pyplot.close(figure)
    return played


def _draw_lives(axes: Any, played: Played, end: int) -> None:
    """Draw a row per chunk: how it came to be, what of it is dropped, played, replaced."""
    dt = round(1e9 / ACTION_RATE)
    for index, chunk in enumerate(played.chunks):
        start = chunk.t_obs
        for (name, length), colour in zip(STAGES.items(), STAGE_COLOURS, strict=True):
            bar = {'color': colour, 'height': 0.34, 'align': 'edge'}
            label = name if index == 0 else None
            axes.barh(index - 0.36, length / 1e9, left=start / 1e9, label=label, **bar)
            start += length
        axes.plot(chunk.t_obs / 1e9, index - 0.19, 'k|', markersize=11)
        following = played.chunks[index + 1] if index + 1 < len(played.chunks) else None
        replaced = end if following is None else following.arrival
        kinds: dict[str, list[int]] = {}
        for row in range(_last_row(chunk, played)):
            due = chunk.due(row)
            kind = 'played' if due <= replaced else f'replaced by chunk {index + 2}'
            kind = 'elapsed: dropped' if row < chunk.dropped else kind
            kinds.setdefault(kind, []).append(due)
            bar = {'height': 0.34, 'align': 'edge', **_bar_style(kind, COLOURS[index])}
            axes.barh(index, dt / 1e9, left=(due - dt) / 1e9, **bar)
        for kind, dues in kinds.items() if index == 0 else ():
            middle = (dues[0] - dt + dues[-1]) / 2e9
            back = {'facecolor': 'white', 'alpha': 0.85, 'edgecolor': 'none', 'pad': 1.0}
            axes.text(middle, index + 0.17, kind, ha='center', va='center', fontsize=7, bbox=back)
    axes.text(0.004, -0.45, 't_obs', fontsize=7)
    names = [f'chunk {index + 1}' for index in range(len(played.chunks))]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.75)
    axes.legend(ncols=6, loc='lower center', bbox_to_anchor=(0.5, 1.0), frameon=False, fontsize=8)
    axes.spines[['top', 'right']].set_visible(False)


def _bar_style(kind: str, colour: str) -> dict[str, Any]:
    if kind == 'played':
        return {'color': colour, 'edgecolor': 'white'}
    if kind.startswith('replaced'):
        return {'color': colour, 'edgecolor': 'white', 'alpha': 0.25}
    return {'color': 'white', 'edgecolor': '#999999', 'hatch': '////'}


def _last_row(chunk: Life, played: Played) -> int:
    """Return how many rows are drawn: open loop plays no more than it was told."""
    first = played.chunks[0]
    return OPEN_LOOP_STEPS if first.first > first.arrival else len(chunk.rows)


def _draw_commands(axes: Any, played: Played, mode: str) -> None:
    """Draw every chunk's actions, and the one line that the robot is commanded along."""
    for index, chunk in enumerate(played.chunks):
        rows = range(_last_row(chunk, played))
        times = [chunk.due(row) / 1e9 for row in rows]
        values = [chunk.rows[row] for row in rows]
        kept = slice(chunk.dropped, None)
        axes.plot(
            times[: chunk.dropped], values[: chunk.dropped], 'o', mfc='white', mec=COLOURS[index]
        )
        axes.plot(times[kept], values[kept], 'o', color=COLOURS[index], markersize=5)
        axes.plot(times, values, '-', color=COLOURS[index], alpha=0.35, linewidth=1)
        axes.axvline(chunk.arrival / 1e9, color=COLOURS[index], linestyle=':', linewidth=1)
        if index == 0:
            _note(axes, f'chunk 1 arrives,\n{LATENCY / 1e9:.2f} s after t_obs', chunk.arrival, 0.97)
    points = [(time / 1e9, value) for time, value in played.ticks.items()]
    gaps = [(time / 1e9, value) for time, value in played.held.items()]
    _line(axes, points, color='black', linewidth=2.2, label='commanded')
    _line(axes, gaps, color='#c00000', linewidth=2.2, label='held in WAIT')
    if played.wire is not None:
        now, pairs = played.wire
        axes.plot(
            [(now + after) / 1e9 for after, _ in pairs],
            [value for _, value in pairs],
            'D',
            color='#c00000',
            markersize=6,
            zorder=5,
            label='points on the wire at one tick',
        )
        reach = 300 * MS
        low = axes.get_ylim()[0]
        axes.annotate(
            '',
            ((now + reach) / 1e9, low),
            (now / 1e9, low),
            arrowprops={'arrowstyle': '|-|', 'color': '#c00000', 'mutation_scale': 4},
        )
        axes.text(
            (now + reach / 2) / 1e9,
            low + 0.012,
            'max_lookahead',
            color='#c00000',
            ha='center',
            fontsize=8,
        )
    if mode == 'async':
        for chunk in played.chunks[1:]:
            axes.axvspan(
                chunk.arrival / 1e9,
                chunk.arrival / 1e9 + 0.3,
                color='#f2e6b8',
                alpha=0.6,
                zorder=0,
                label='blend_steps' if chunk is played.chunks[1] else None,
            )
        axes.plot([], [], 'o', mfc='white', mec='#555555', label='elapsed, dropped')
    axes.plot([], [], 'o', color='#555555', markersize=5, label='actions of a chunk')
    axes.set_ylabel('position of the joint, rad')
    axes.legend(loc='lower right', fontsize=8)
    axes.spines[['top', 'right']].set_visible(False)


def _note(axes: Any, text: str, time: int, height: float) -> None:
    axes.text(
        time / 1e9 + 0.01, height, text, transform=axes.get_xaxis_transform(), fontsize=8, va='top'
    )


def _line(axes: Any, points: Sequence[tuple[float, float]], **style: Any) -> None:
    """Draw points that follow each other within a tick as lines."""
    parts: list[list[tuple[float, float]]] = []
    for point in points:
        if not parts or point[0] - parts[-1][-1][0] > 1.5 * TICK / 1e9:
            parts.append([])
        parts[-1].append(point)
    for index, part in enumerate(parts):
        label = style.get('label') if index == 0 else None
        axes.plot(*zip(*part, strict=True), **{**style, 'label': label})


if __name__ == '__main__':
    draw(
        'async',
        1500 * MS,
        'async: infer all the time; enter each new chunk at the action that is due now',
        DOCS / 'timing_async.svg',
    )
    draw(
        'open_loop',
        2400 * MS,
        'open_loop: play 8 actions of a chunk from the first one on, then wait for the next',
        DOCS / 'timing_open_loop.svg',
    )
