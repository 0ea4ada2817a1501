# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges: whether a history of states shows a task done. They look at nothing but states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.state import State

REACH_DISTANCE: Final = 0.03
LIFT_HEIGHT: Final = 0.10
LIFT_SECONDS: Final = 1.0
REST_SECONDS: Final = 0.5
REST_SPEED: Final = 0.02
OPEN_BELOW: Final = 0.2
# Cosine of the tilt at which a bowl no longer counts as standing.
_UPRIGHT: Final = 0.9
# States come 1/15 s apart; half of that absorbs the rounding of their sums.
_HALF_STEP: Final = 0.5 / c.CONTROL_RATE


@dataclass(frozen=True)
class Task:
    """What is asked of the robot, and when it is done.

    Attributes:
        name: of the task.
        prompt: the instruction; '' for what no policy is told.
        holds: whether one state fulfils it.
        seconds: how long it has to hold without a break.

    """

    name: str
    prompt: str
    holds: Callable[[State], bool]
    seconds: float = 0.0

    def success(self, states: Iterable[State]) -> float | None:
        """Return the time of the first state at which it was done, in s; None = never."""
        judge = Judge(self)
        for state in states:
            judge.see(state)
        return judge.success


class Judge:
    """Looks at states one after the other; ``success`` is when the task was done, or None."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.success: float | None = None
        self._since: float | None = None

    def see(self, state: State) -> bool:
        """Take the next state in; return whether the task has been done up to now."""
        if self.success is None:
            if not self.task.holds(state):
                self._since = None
            else:
                if self._since is None:
                    self._since = state.time
                if state.time - self._since >= self.task.seconds - _HALF_STEP:
                    self.success = state.time
        return self.success is not None


def reached(state: State) -> bool:
    """Return whether the point between the fingertips is within 3 cm of the cube's middle."""
    return bool(np.linalg.norm(state.tool_position - state.cube[:3]) < REACH_DISTANCE)


def lifted(state: State) -> bool:
    """Return whether the cube is 10 cm higher than where it stands on the table."""
    return bool(state.cube[2] >= c.CUBE_HALF + LIFT_HEIGHT)


def in_bowl(state: State) -> bool:
    """Return whether the cube's middle is inside the rim of the upright bowl."""
    offset = state.cube[:3] - state.bowl[:3]
    _, x, y, _ = state.bowl[3:]
    upright = 1 - 2 * (x * x + y * y)
    return bool(
        upright > _UPRIGHT
        and np.hypot(offset[0], offset[1]) < c.BOWL_RIM - c.CUBE_HALF / 2
        and 0.0 < offset[2] < c.BOWL_HEIGHT
    )


def rests_in_bowl(state: State) -> bool:
    """Return whether the cube lies still inside the rim, with the gripper open."""
    return (
        in_bowl(state)
        and bool(np.linalg.norm(state.cube_velocity[:3]) < REST_SPEED)
        and state.gripper_position < OPEN_BELOW
    )


REACH = Task('reach', '', reached)
LIFT = Task('lift', 'lift the red cube', lifted, LIFT_SECONDS)
BOWL = Task('bowl', 'put the red cube in the bowl', rests_in_bowl, REST_SECONDS)
TASKS: Final = {task.name: task for task in (REACH, LIFT, BOWL)}
PROMPTED: Final = (LIFT.name, BOWL.name)
"""Tasks that a policy can be told, and that the expert knows."""


def task_named(name: str) -> Task:
    """Return a task.

    Raises:
        SimulationError: there is none of that name.

    """
    if name not in TASKS:
        raise SimulationError(f'task {name!r}', expected=' or '.join(TASKS))
    return TASKS[name]
