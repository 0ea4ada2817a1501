# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Episodes in which the policy's node drives the simulated robot, with its gates on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from openpi_policy_ros_sim.environment import SERVO_STEPS, Environment
from openpi_policy_ros_sim.episodes import EPISODE_STEPS, Episode
from openpi_policy_ros_sim.ros.link import PolicyLink
from openpi_policy_ros_sim.ros.node import SimulatedRobotNode
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.tasks import TASKS, Judge, task_named

SETTLE_TURNS: Final = 24
"""Steps of 1/120 s from a reset of the scene to one of the node: images of before are gone then."""


@dataclass
class RosEpisode(Episode):
    """One episode over ROS; ``actions`` stays empty, the robot heard trajectories.

    Attributes:
        ended: why it ended before its time without success, e.g. ``HOLD: S2: …``; '' = it did not.
        latencies: age in s of what each chunk answers when it came, in simulated time.
        counters: what the node's gates counted.
        factor: simulated seconds per second.

    """

    ended: str = ''
    latencies: list[float] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    factor: float = 0.0


def run_ros_episode(
    robot: SimulatedRobotNode,
    link: PolicyLink,
    *,
    seed: int,
    task: str,
    prompt: str | None = None,
    max_steps: int = EPISODE_STEPS,
    on_step: Callable[[Environment, State], None] | None = None,
) -> RosEpisode:
    """Reset scene and node, enable the node, and judge until the task is done or the time is up.

    Args:
        robot: the simulated robot.
        link: to the node that drives it.
        seed: of the scene.
        task: which judge ends the episode.
        prompt: the instruction; None = the task's own.
        max_steps: actions of 1/15 s, counted from enabling on.
        on_step: called with every judged state, 15 times a second.

    Raises:
        NodeLost: the node does not answer.
        NodeRefused: the node cannot be enabled.
        SimulationError: no such task, or the physics broke down.

    """
    told = task_named(task)
    link.disable()
    robot.reset(seed)
    for _ in range(SETTLE_TURNS):
        robot.turn()
    link.tell(told.prompt if prompt is None else prompt)
    link.reset()
    before = link.counters
    link.note()
    link.enable()
    robot.pace.begin()
    environment = robot.arm.environment
    begin_s = environment.state().time
    judges = {name: Judge(each) for name, each in TASKS.items()}
    episode = RosEpisode(seed, task)
    for step in range(max_steps + 1):
        state = replace(environment.state(), time=environment.state().time - begin_s)
        episode.states.append(state)
        for judge in judges.values():
            judge.see(state)
        if on_step is not None:
            on_step(environment, state)
        if judges[task].success is not None or step == max_steps:
            break
        episode.ended = link.stopped()
        if episode.ended:
            break
        for _ in range(SERVO_STEPS):
            robot.turn()
    episode.factor = robot.pace.factor()
    if not link.gone:
        link.disable()
    episode.success = {name: judge.success for name, judge in judges.items()}
    episode.clamped = dict(environment.clamped)
    episode.latencies = link.latencies
    episode.counters = {
        name: count - (0 if name == 'waits' else before[name])
        for name, count in link.counters.items()
    }
    return episode
