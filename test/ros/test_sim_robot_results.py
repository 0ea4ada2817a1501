# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What came of episodes over ROS is kept, whatever else goes wrong; without a node or a robot."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip('rclpy')
pytest.importorskip('mujoco')

from openpi_policy_ros_sim.results import Settings
from openpi_policy_ros_sim.ros import evaluation
from openpi_policy_ros_sim.ros.episodes import RosEpisode
from openpi_policy_ros_sim.ros.evaluation import Outlets
from openpi_policy_ros_sim.ros.link import NodeLost, PolicyLink
from openpi_policy_ros_sim.ros.results import RosResults
from openpi_policy_ros_sim.tasks import TASKS


def evaluate(
    monkeypatch: pytest.MonkeyPatch, outlets: Outlets, run: Any, tasks: tuple[str, ...] = ('lift',)
) -> tuple[Any, RosResults]:
    """Return why it broke off, and the results."""
    monkeypatch.setattr(evaluation, 'run_ros_episode', run)
    settings = Settings.checked(tasks=tasks, episodes=3, seed=0, max_steps=9)
    results = RosResults(settings, {}, 'ros:/openpi_policy')
    robot: Any = SimpleNamespace(arm=SimpleNamespace(environment=None))
    node: Any = SimpleNamespace(state='', gone=False)
    return evaluation.evaluate(robot, node, results, threading.Event(), outlets), results


def failed(*_: Any, seed: int, task: str, **__: Any) -> RosEpisode:
    return RosEpisode(seed, task, success=dict.fromkeys(TASKS))


def test_the_progress_counts_what_was_done_of_a_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def done(*_: Any, seed: int, task: str, **__: Any) -> RosEpisode:
        return RosEpisode(seed, task, success={**dict.fromkeys(TASKS), task: 2.0})

    evaluate(monkeypatch, Outlets(), done, ('lift', 'bowl'))
    told = capsys.readouterr().err
    counts = ('lift: 0', 'lift: 1', 'lift: 2', 'bowl: 0', 'bowl: 1', 'bowl: 2')
    places = [told.index(f'{count} done') for count in counts]
    assert places == sorted(places)
    assert 'bowl: 3' not in told


def test_a_file_that_can_no_longer_be_written_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / 'r.json').mkdir()
    (tmp_path / 'r.json' / 'x').touch()
    failure, results = evaluate(monkeypatch, Outlets(json=tmp_path / 'r.json'), failed)
    assert 'r.json: cannot be written' in str(failure)
    assert 'lift  0/1' in results.table()


def test_a_video_that_cannot_be_begun_ends_the_run_and_is_not_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / 'taken').touch()
    failure, results = evaluate(monkeypatch, Outlets(video=tmp_path / 'taken'), failed)
    (record,) = results.records
    assert record.error == str(failure) != 'None'
    assert record.video is None
    assert results.summary()[0]['episodes'] == 0


def link_to_a_silent_node(heard: float, max_wait: float) -> PolicyLink:
    """Return a link to a node that was ENABLED and has not been heard since ``heard``."""
    silent = object.__new__(PolicyLink)
    robot = SimpleNamespace(
        arm=SimpleNamespace(model=SimpleNamespace(taken={'arm': 3})),
        resolve_topic_name=lambda name: f'/{name}',
    )
    vars(silent).update(
        _robot=robot,
        _name='openpi_policy',
        _status={'state': 'ENABLED'},
        _taken=3,
        _heard=heard,
        _max_wait=max_wait,
    )
    return silent


def test_a_node_may_be_silent_for_as_long_as_its_robot_may_wait() -> None:
    heard = time.monotonic() - 15.0
    assert not link_to_a_silent_node(heard, max_wait=60.0).gone
    assert link_to_a_silent_node(heard, max_wait=8.0).gone


def test_a_node_that_was_killed_is_no_failure_of_its_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = link_to_a_silent_node(time.monotonic() - 11.0, max_wait=0.0)

    def run(*_: Any, **__: Any) -> None:
        gone.stopped()

    failure, results = evaluate(monkeypatch, Outlets(), run)
    assert isinstance(failure, NodeLost)
    assert 'is gone: no command and no word' in str(failure)
    assert results.summary()[0]['episodes'] == 0
