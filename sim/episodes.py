# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Run one episode with anything that answers observations with chunks of actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import Environment, letterbox
from openpi_policy_ros_sim.errors import InvalidAction, SimulationError
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.tasks import TASKS, Judge, task_named

Image: TypeAlias = npt.NDArray[np.uint8]
Images: TypeAlias = Mapping[str, Image]

EPISODE_STEPS: Final = 450
"""30 s, as sim-evals has it."""


@dataclass(frozen=True)
class View:
    """How to look through one camera.

    Attributes:
        camera: its name.
        height: of what is drawn, in pixels.
        width: of what is drawn, in pixels.
        frame: (height, width) of the black frame the image is centred in; None = no frame. What a
            policy gets that wants 224×224 of a 720×1280 camera is (126, 224) in (224, 224).

    """

    camera: str
    height: int
    width: int
    frame: tuple[int, int] | None = None

    def look(self, environment: Environment) -> Image:
        """Return the image, uint8 RGB [height, width, 3]."""
        image = environment.render(self.camera, self.height, self.width)
        return image if self.frame is None else letterbox(image, *self.frame)


@dataclass(frozen=True)
class Observation:
    """What there is to be known at one inference.

    Attributes:
        images: camera → uint8 RGB [height, width, 3], drawn now.
        prompt: the instruction.
        state: everything; ``state.policy_state`` is what DROID measures.
        step: actions executed so far.

    """

    images: Images
    prompt: str
    state: State
    step: int


Act: TypeAlias = Callable[[Observation], npt.ArrayLike]
"""Answers an observation with actions [H, 8], H >= 1."""


@dataclass
class Episode:
    """What happened.

    Attributes:
        seed: of the reset.
        task: name of the task that was told.
        states: T + 1 states, the reset's first.
        actions: T executed actions, float64 [8] each.
        images: step → what the policy saw then, where it was kept.
        success: task → time in s at which it was done; every task is judged, not only the one
            told. None = it was not.
        clamped: how often which limit came to bear.

    """

    seed: int
    task: str
    states: list[State] = field(default_factory=list)
    actions: list[npt.NDArray[np.float64]] = field(default_factory=list)
    images: dict[int, Images] = field(default_factory=dict)
    success: dict[str, float | None] = field(default_factory=dict)
    clamped: dict[str, int] = field(default_factory=dict)

    @property
    def succeeded(self) -> bool:
        """Return whether the task that was told was done."""
        return self.success[self.task] is not None


def run_episode(
    environment: Environment,
    act: Act,
    *,
    seed: int,
    task: str,
    horizon: int = 8,
    views: Sequence[View] = (),
    max_steps: int = EPISODE_STEPS,
    prompt: str | None = None,
    keep_images: bool = False,
    stop_at_success: bool = True,
    on_step: Callable[[Environment, State], None] | None = None,
) -> Episode:
    """Reset, then ask and execute until the task is done or the time is up.

    Args:
        environment: to act in.
        act: what answers; asked whenever ``horizon`` actions of its last answer are executed.
        seed: of the reset.
        task: which judge ends the episode.
        horizon: actions executed open loop, H at most.
        views: cameras to look through, at inference only.
        max_steps: after which the time is up.
        prompt: the instruction; None = the task's own.
        keep_images: keep what was seen in the record.
        stop_at_success: False = go on until the time is up.
        on_step: called with every state, the reset's included, e.g. to record a video.

    Raises:
        InvalidAction: an answer is no [H, 8] of finite numbers, or has fewer rows than
            ``horizon``.
        SimulationError: no such task, or a horizon below 1.

    """
    told = task_named(task)
    if horizon < 1:
        raise SimulationError(f'horizon {horizon}', expected='at least 1')
    state = environment.reset(seed)
    judges = {name: Judge(each) for name, each in TASKS.items()}
    episode = Episode(seed, task, states=[state])
    rows: list[npt.NDArray[np.float64]] = []
    for step in range(max_steps + 1):
        for judge in judges.values():
            judge.see(state)
        if on_step is not None:
            on_step(environment, state)
        done = stop_at_success and judges[task].success is not None
        if done or step == max_steps:
            break
        if not rows:
            images = {view.camera: view.look(environment) for view in views}
            if keep_images:
                episode.images[step] = images
            words = told.prompt if prompt is None else prompt
            rows = _rows(act(Observation(images, words, state, step)), horizon)
        action = rows.pop(0)
        state = environment.step(action)
        episode.actions.append(action)
        episode.states.append(state)
    episode.success = {name: judge.success for name, judge in judges.items()}
    episode.clamped = dict(environment.clamped)
    return episode


def _rows(answer: npt.ArrayLike, horizon: int) -> list[npt.NDArray[np.float64]]:
    """Return the rows of a chunk that will be executed."""
    chunk = np.asarray(answer, dtype=np.float64)
    if chunk.ndim != 2 or chunk.shape[1] != c.ACTION_DIM or len(chunk) < horizon:
        raise InvalidAction(
            f'chunk of shape {chunk.shape}',
            expected=f'[H, {c.ACTION_DIM}] with at least {horizon} rows, the open-loop horizon',
        )
    return list(chunk[:horizon])
