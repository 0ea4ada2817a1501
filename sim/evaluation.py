# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run the episodes of an evaluation against a server; whatever happens, keep what was done."""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy.typing as npt
from tqdm import tqdm

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.episodes import Observation, run_episode
from openpi_policy_ros_sim.errors import InvalidAction, SimulationError
from openpi_policy_ros_sim.meshes import Meshes
from openpi_policy_ros_sim.observing import Observer
from openpi_policy_ros_sim.request import Plan
from openpi_policy_ros_sim.results import Record, Results
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.stock_client import Server
from openpi_policy_ros_sim.tasks import TASKS, Judge
from openpi_policy_ros_sim.video import Recorder
from openpi_policy_ros_sim.window import Window

STOPPED = 'stopped by a signal'
SEED = 'seed'
"""Key of a request that servers of this package consume."""


@dataclass(frozen=True)
class _Bench:
    """What all episodes share."""

    server: Server
    plan: Plan
    results: Results
    environment: Environment
    window: Window | None
    video: Path | None
    gif: bool


class _Run:
    """One episode as it goes on: what has to be known of it even if it breaks off.

    Args:
        bench: what it shares with others.
        task: told and judged.
        seed: of the reset.
        progress: counts its steps.

    """

    def __init__(self, bench: _Bench, task: str, seed: int, progress: tqdm[NoReturn]) -> None:
        settings = bench.results.settings
        self.steps = -1
        self.latencies: list[float] = []
        self.failure: PolicyRosError | None = None
        self._bench, self._task, self._seed, self._progress = bench, task, seed, progress
        self._prompt = settings.prompt or TASKS[task].prompt
        self._judges = {name: Judge(each) for name, each in TASKS.items()}
        session = f'{task}-{seed}-{uuid.uuid4().hex[:12]}'
        self._observer = Observer(bench.plan, self._prompt, session)
        self._recorder: Recorder | None = None

    def run(self) -> Record:
        """Run it and return what came of it; ``failure`` says why it broke off, if it did."""
        bench = self._bench
        settings = bench.results.settings
        bench.environment.clamped = Counter()
        try:
            bench.server.begin_episode()
            if bench.video is not None:
                path = bench.video / f'{self._task}_seed{self._seed:04d}.mp4'
                self._recorder = Recorder(path, self._prompt, gif=bench.gif)
            run_episode(
                bench.environment,
                self._act,
                seed=self._seed,
                task=self._task,
                horizon=bench.plan.horizon,
                max_steps=settings.max_steps,
                prompt=self._prompt,
                on_step=self._see,
            )
        except PolicyRosError as error:
            self.failure = error
        except OSError as error:
            self.failure = SimulationError(str(error))
        except KeyboardInterrupt:
            self.failure = SimulationError(STOPPED)
        video = self._close_video()
        seconds = {name: judge.success for name, judge in self._judges.items()}
        return Record(
            seed=self._seed,
            task=self._task,
            prompt=self._prompt,
            success=seconds[self._task] is not None,
            seconds=seconds,
            steps=max(self.steps, 0),
            inferences=len(self.latencies),
            latency_ms=[round(ms, 3) for ms in self.latencies],
            clamped=dict(bench.environment.clamped),
            video=video,
            error=None if self.failure is None else str(self.failure),
        )

    def _see(self, environment: Environment, state: State) -> None:
        """Take a state in."""
        self.steps += 1
        for judge in self._judges.values():
            judge.see(state)
        self._observer.see(environment)
        if self._recorder is not None:
            self._recorder.add(environment, state.time, self._judges[self._task].success)
        if self._bench.window is not None:
            self._bench.window.show()
        self._progress.update(1)

    def _act(self, observation: Observation) -> npt.ArrayLike:
        """Ask the server."""
        request = self._observer.request(observation.state)
        policy_seed = self._bench.results.settings.policy_seed
        if policy_seed is not None:
            # With 0 those that ``served.ServedPolicy`` takes: the two go the same way.
            own = 1000 * self._seed + len(self.latencies) + 1
            request[SEED] = (1_000_003 * policy_seed + own) % 2**31
        reply = self._bench.server.infer(request)
        self.latencies.append(reply.latency_ms)
        chunk = reply.actions
        if chunk.shape[1] > c.ACTION_DIM and not self._bench.plan.crop:
            raise InvalidAction(
                f'the server answered with {chunk.shape[1]} columns',
                expected=f'{c.ACTION_DIM}: seven joints and the gripper',
                remedy=f'where those are the first {c.ACTION_DIM} columns, say so with '
                '--crop-columns',
            )
        return chunk[:, : c.ACTION_DIM]

    def _close_video(self) -> str | None:
        """Finish the recording; return where it is, None = nowhere."""
        if self._recorder is None:
            return None
        try:
            self._recorder.close()
        except SimulationError as error:
            self.failure = self.failure or error
        return str(self._recorder.path) if self._recorder.path.exists() else None


def evaluate(
    server: Server,
    plan: Plan,
    results: Results,
    *,
    video: Path | None = None,
    gif: bool = False,
    view: bool = False,
    json: Path | None = None,
    meshes: Meshes | None = None,
) -> PolicyRosError | None:
    """Run the episodes of ``results.settings`` and add them to it; return why it broke off.

    Args:
        server: who is asked; closed afterwards.
        plan: how.
        results: to add to.
        video: folder for one MP4 file per episode.
        gif: write one beside each.
        view: show a window.
        json: file of results, written again after each episode.
        meshes: to draw the robot with; None = with primitives.

    Raises:
        ConfigurationError: MuJoCo cannot read a mesh. Nothing was run.
        SimulationError: there is no display to show a window on. Nothing was run.

    """
    results.handshake = server.handshake()
    try:
        return _evaluate(server, plan, results, video, gif, view, json, meshes)
    except KeyboardInterrupt:
        # Between two episodes, or for the second time.
        return results.keep(json) or SimulationError(STOPPED)


def _evaluate(
    server: Server,
    plan: Plan,
    results: Results,
    video: Path | None,
    gif: bool,
    view: bool,
    json: Path | None,
    meshes: Meshes | None,
) -> PolicyRosError | None:
    settings = results.settings
    with contextlib.ExitStack() as stack:
        stack.callback(server.close)
        environment = stack.enter_context(Environment(plan.action_space, meshes))
        window = stack.enter_context(Window(environment)) if view else None
        bench = _Bench(server, plan, results, environment, window, video, gif)
        total = len(settings.tasks) * settings.episodes
        episodes = stack.enter_context(tqdm(total=total, unit='episode'))
        for task in settings.tasks:
            for seed in range(settings.seed, settings.seed + settings.episodes):
                done = sum(record.success for record in results.records if record.task == task)
                episodes.set_description(f'{task}: {done} done')
                # A bar within a bar is for terminals.
                steps = settings.max_steps + 1
                with tqdm(
                    total=steps, unit='step', desc=f'seed {seed}', leave=False, disable=None
                ) as progress:
                    run = _Run(bench, task, seed, progress)
                    results.records.append(run.run())
                unwritten = results.keep(json)
                if run.failure is not None or unwritten is not None:
                    return run.failure or unwritten
                episodes.update(1)
    return None
