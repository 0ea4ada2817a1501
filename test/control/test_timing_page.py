# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page and pictures about timing say what the control core does."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openpi_policy_ros.configuration.execution import Execution
from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.control.axes import Axes
from openpi_policy_ros.control.executor import ChunkExecutor, Verdict

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / 'docs' / 'timing.md').read_text(encoding='utf-8')
MS = 1_000_000
RATE, LATENCY, AGE, LEAD = 30.0, 180, 30, 20
"""Of the worked example: Hz, ms."""
DT = round(1e9 / RATE)
FRAME = 33 * MS


@pytest.fixture(scope='module')
def figure() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / 'scripts' / 'timing_figure.py'))


def executor(figure: dict[str, Any]) -> ChunkExecutor:
    robot: RobotConfig = figure['robot']('async')
    return ChunkExecutor(Axes(robot, velocity=False), Execution(), DT)


def starved(figure: dict[str, Any], horizon: int, latency: int) -> int:
    """Return how many ms of 20 s had nothing to play, with inferences one after another."""
    one = executor(figure)
    rows = np.zeros((horizon, 1))
    without, began, started = 0, None, False
    for now in range(0, 20_000 * MS, MS):
        frame = (now - AGE * MS) // FRAME * FRAME
        if began is not None and now >= began[0] + latency * MS:
            started = one.offer(rows, began[1], 0, now).verdict is not Verdict.LATE or started
            began = None
        if began is None and (now - AGE * MS) % FRAME < MS:
            # What has just come wakes the door.
            began = now, frame
        if started and one.sample(now) is None:
            without += 1
    return without


def test_the_pictures_show_what_the_text_counts(figure: dict[str, Any]) -> None:
    played = figure['play']('async', 1500 * MS)
    assert [chunk.dropped for chunk in played.chunks] == [3, 3, 3, 3]
    assert [len(chunk.rows) for chunk in played.chunks] == [12] * 4
    assert {chunk.arrival - chunk.t_obs for chunk in played.chunks} == {350 * MS}
    assert 'Here the first 3\n   of 12' in PAGE
    assert '12 in a chunk, 0.35 s from the exposure' in PAGE
    now, points = played.wire
    assert max(after for after, _ in points) <= 300 * MS
    assert now in played.ticks


def test_the_picture_of_open_loop_waits_where_nothing_is_left_to_play(
    figure: dict[str, Any],
) -> None:
    played = figure['play']('open_loop', 2400 * MS)
    first, second = played.chunks
    assert [first.dropped, second.dropped] == [0, 0]
    last = first.arrival + 8 * 100 * MS
    waits = [time for time in played.held if time < second.arrival]
    assert waits
    assert all(last < time < second.arrival for time in waits)
    assert len({played.held[time] for time in waits}) == 1
    assert not set(waits) & set(played.ticks)


@pytest.mark.parametrize('name', ['async', 'open_loop'])
def test_the_pictures_are_there_small_and_shown(name: str) -> None:
    path = ROOT / 'docs' / f'timing_{name}.svg'
    assert path.stat().st_size < 150_000
    assert f']({path.name})' in PAGE


def test_the_example_drops_as_many_actions_as_it_says(figure: dict[str, Any]) -> None:
    one = executor(figure)
    offer = one.offer(np.zeros((50, 1)), 0, 0, (AGE + LATENCY) * MS)
    assert offer.dropped == math.floor((AGE + LATENCY + LEAD) / 1e3 * RATE) == 6
    assert 'so 6 actions of each chunk are dropped' in PAGE
    assert f'latency_p95_ms: {LATENCY:.1f}' in PAGE


def test_the_rule_for_the_horizon_is_enough_and_little_less_is_not(
    figure: dict[str, Any],
) -> None:
    enough = math.ceil((2 * LATENCY + AGE + 33) / 1e3 * RATE)
    assert enough == 13
    assert f'that is {enough} actions' in PAGE
    assert starved(figure, enough, LATENCY) == 0
    assert starved(figure, enough - 3, LATENCY) > 0


def test_a_horizon_of_16_bears_the_latency_that_the_page_says(figure: dict[str, Any]) -> None:
    most = int((16 / RATE - AGE / 1e3 - 0.033) / 2 * 1e3)
    assert most == 235
    assert '= 0.235 s' in PAGE
    assert starved(figure, 16, most) == 0
    assert starved(figure, 16, most + 60) > 0
