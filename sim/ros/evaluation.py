# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run the episodes of an evaluation over ROS; whatever happens, keep what was done."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.ros.episodes import RosEpisode, run_ros_episode
from openpi_policy_ros_sim.ros.link import PolicyLink
from openpi_policy_ros_sim.ros.node import Interrupted, SimulatedRobotNode
from openpi_policy_ros_sim.ros.results import RosRecord, RosResults
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.tasks import TASKS, Judge
from openpi_policy_ros_sim.video import Recorder
from openpi_policy_ros_sim.window import Window


@dataclass(frozen=True)
class Outlets:
    """Where an evaluation leaves its results.

    Attributes:
        json: file, written again after each episode.
        video: folder for one MP4 file per episode.
        gif: write one beside each.
        view: show a window.

    """

    json: Path | None = None
    video: Path | None = None
    gif: bool = False
    view: bool = False


def evaluate(
    robot: SimulatedRobotNode,
    link: PolicyLink,
    results: RosResults,
    stop: threading.Event,
    outlets: Outlets,
) -> PolicyRosError | None:
    """Run the episodes of ``results.settings`` and add them to it; return why it broke off.

    The node is left disabled.

    Args:
        robot: the simulated robot.
        link: to the node that drives it.
        results: to add to.
        stop: set by the user's signal; cleared here, so that the node can still be disabled.
        outlets: where else to leave them.

    Raises:
        SimulationError: there is no display to show a window on. Nothing was run.

    """
    settings = results.settings
    episodes = [
        (task, settings.seed + number)
        for task in settings.tasks
        for number in range(settings.episodes)
    ]
    with contextlib.ExitStack() as stack:
        environment = robot.arm.environment
        window = stack.enter_context(Window(environment)) if outlets.view else None
        outer = stack.enter_context(tqdm(episodes, unit='episode'))
        for task, seed in outer:
            done = sum(record.success for record in results.records if record.task == task)
            outer.set_description(f'{task}: {done} done')
            failure = _one(robot, link, results, task, seed, outlets, window)
            unwritten = results.keep(outlets.json)
            failure = failure or unwritten
            if failure is not None:
                break
        else:
            return None
    stop.clear()
    with contextlib.suppress(PolicyRosError, Interrupted):
        if link.state and not link.gone:
            link.disable()
    return failure


class _Watch:
    """What has to be known of an episode even if it breaks off."""

    def __init__(self, task: str, window: Window | None) -> None:
        self.steps = -1
        self.recorder: Recorder | None = None
        self._judge = Judge(TASKS[task])
        self._window = window

    def see(self, environment: Environment, state: State) -> None:
        self.steps += 1
        self._judge.see(state)
        if self.recorder is not None:
            self.recorder.add(environment, state.time, self._judge.success)
        if self._window is not None:
            self._window.show()


def _one(
    robot: SimulatedRobotNode,
    link: PolicyLink,
    results: RosResults,
    task: str,
    seed: int,
    outlets: Outlets,
    window: Window | None,
) -> PolicyRosError | None:
    """Run one episode and add its record; return why it broke off."""
    settings = results.settings
    prompt = settings.prompt or TASKS[task].prompt
    path = None if outlets.video is None else outlets.video / f'{task}_seed{seed:04d}.mp4'
    recorder: Recorder | None = None
    watch = _Watch(task, window)
    failure: PolicyRosError | None = None
    episode = RosEpisode(seed, task, success=dict.fromkeys(TASKS))
    try:
        if path is not None:
            recorder = watch.recorder = Recorder(path, prompt, gif=outlets.gif)
        episode = run_ros_episode(
            robot,
            link,
            seed=seed,
            task=task,
            prompt=prompt,
            max_steps=settings.max_steps,
            on_step=watch.see,
        )
    except PolicyRosError as error:
        failure = error
    except OSError as error:
        failure = SimulationError(str(error))
    except Interrupted:
        failure = SimulationError('stopped by a signal')
    if recorder is not None:
        try:
            recorder.close()
        except SimulationError as error:
            failure = failure or error
    results.records.append(
        RosRecord(
            seed=seed,
            task=task,
            prompt=prompt,
            success=episode.succeeded,
            seconds=episode.success,
            steps=max(watch.steps, 0),
            inferences=len(episode.latencies),
            latency_ms=[round(1e3 * one, 1) for one in episode.latencies],
            clamped=episode.clamped,
            video=str(path) if path is not None and path.exists() else None,
            error=None if failure is None else str(failure),
            ended=episode.ended or None,
            gates=episode.counters,
            real_time_factor=round(episode.factor, 3) if failure is None else None,
        )
    )
    return failure
