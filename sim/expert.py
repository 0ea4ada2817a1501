# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A scripted expert: what to do in any state to lift the cube, or to put it in the bowl.

It is a function of the present state and of a small memory (whether it is closing or opening), so
it also answers in states that somebody else brought about: an oracle for relabelling. It grasps by
friction, as anybody has to.

Where to go follows from where things are, without a plan: the height to keep above the cube falls
with the distance from it, a funnel; moving sideways waits until that height is reached.
"""

from __future__ import annotations

import argparse
import logging
import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.episodes import EPISODE_STEPS, Observation, run_episode
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.kinematics import Kinematics
from openpi_policy_ros_sim.noise import Noise
from openpi_policy_ros_sim.scene import FOOTPRINT
from openpi_policy_ros_sim.state import State, Vector, rotation
from openpi_policy_ros_sim.tasks import BOWL, PROMPTED, in_bowl

OPEN, CLOSED = 0.0, 1.0
_SPEED, _TURN = 0.40, 1.6
_GAIN = 6.0
# The drive loses its grip on a target while it nears it: over one action of 1/15 s a target this
# many seconds ahead is what makes the joint move at the velocity asked for.
_LEAD = (1 / c.CONTROL_RATE) / (1 - math.exp(-c.STIFFNESS / c.DAMPING / c.CONTROL_RATE))
_HOVER = 0.11
_LIFT_TO = 0.22
_CARRY = 0.19
_RELEASE = 0.068
# The fingertips reach this far below the tool's point.
_TIP = 0.015
# Middle and half of the room that one open finger fills beside the cube.
_FINGER, _FINGER_HALF = 0.054, 0.012
# Readings of a gripper that stands still with the cube in it: flat, or by its edges.
_HELD = (0.24, 0.56)


class _Aim(NamedTuple):
    """Where the tool should be going."""

    position: Vector
    yaw: float
    gripper: float
    # Of the sideways speed, 0..1.
    sideways: float = 1.0


class Expert:
    """The expert for one episode.

    Args:
        task: ``lift`` or ``bowl``.
        kinematics: shared between experts, to save building it.

    Raises:
        SimulationError: it does not know the task.

    """

    def __init__(self, task: str, kinematics: Kinematics | None = None) -> None:
        if task not in PROMPTED:
            raise SimulationError(f'task {task!r}', expected=' or '.join(PROMPTED))
        self.task = task
        self._kinematics = kinematics or Kinematics()
        self.reset()

    def reset(self) -> None:
        """Forget the episode."""
        self._gripper: float | None = None
        self._closing = self._opening = False

    def memory(self) -> tuple[float | None, bool, bool]:
        """Return the memory, to give it back with ``recall``."""
        return self._gripper, self._closing, self._opening

    def recall(self, memory: tuple[float | None, bool, bool]) -> None:
        """Take a memory back."""
        self._gripper, self._closing, self._opening = memory

    def act(self, state: State) -> Vector:
        """Return the action for this state: seven absolute targets in rad and the gripper [8]."""
        aim = self._aim(state)
        self._gripper = state.gripper_position
        linear = _limited(_GAIN * (aim.position - state.tool_position), _SPEED)
        linear[:2] *= aim.sideways
        angular = _limited(
            _GAIN * _turn(rotation(state.tool_quaternion), _pointing_down(aim.yaw)), _TURN
        )
        velocity = self._kinematics.joint_velocity(
            state.joint_position, np.concatenate([linear, angular])
        )
        target = np.clip(state.joint_position + _LEAD * velocity, c.LOWER, c.UPPER)
        return np.append(target, aim.gripper)

    def chunk(self, environment: Environment, rows: int) -> Vector:
        """Return the expert's next actions [rows, 8] from the environment's present state.

        The environment is run ahead and put back. The memory afterwards is that of the first row.
        """
        saved, clamped = environment.snapshot(), environment.clamped.copy()
        state = environment.state()
        actions = []
        for row in range(rows):
            actions.append(self.act(state))
            if row == 0:
                memory = self.memory()
            state = environment.step(actions[-1])
        environment.restore(saved)
        environment.clamped = clamped
        self.recall(memory)
        return np.stack(actions)

    def _aim(self, state: State) -> _Aim:
        inside = in_bowl(state)
        if self._opening:
            self._opening = state.gripper_position > 0.1
        if self.task == BOWL.name and (self._opening or (inside and not self._held(state))):
            self._closing = False
            return self._retreat(state)
        if self._held(state):
            self._closing = True
            return self._carry(state) if self.task == BOWL.name else self._raise(state)
        return self._approach(state, inside)

    def _held(self, state: State) -> bool:
        """Return whether the cube is between fingers that have stopped on it."""
        near = np.linalg.norm(state.cube[:3] - state.tool_position) < 0.032
        low, high = _HELD
        still = self._gripper is None or abs(state.gripper_position - self._gripper) < 0.02
        # Fingers on their way from open to closed pass these readings too, but not still.
        return bool(near and low < state.gripper_position < high and still)

    def _raise(self, state: State) -> _Aim:
        position = state.tool_position.copy()
        position[2] = _LIFT_TO
        return _Aim(position, _yaw(state), CLOSED)

    def _carry(self, state: State) -> _Aim:
        offset = state.bowl[:2] - state.cube[:2]
        distance = float(np.hypot(*offset))
        bottom = state.bowl[2]
        height = bottom + _RELEASE + min(max(3.0 * (distance - 0.02), 0.0), _CARRY - _RELEASE)
        position = np.append(state.tool_position[:2] + offset, height)
        if distance < 0.016 and state.tool_position[2] < bottom + _RELEASE + 0.012:
            self._opening = True
            return _Aim(position, _yaw(state), OPEN)
        # Over the rim first: the cube hangs up to its half below the tool's point.
        sideways = _ramp(state.tool_position[2], height - 0.07, height - 0.02)
        return _Aim(position, _yaw(state), CLOSED, sideways)

    def _retreat(self, state: State) -> _Aim:
        position = state.tool_position.copy()
        # Open first, then up: fingers that still touch would take the cube along.
        if state.gripper_position < 0.2:
            position[2] = max(_LIFT_TO, position[2])
        return _Aim(position, _yaw(state), OPEN)

    def _approach(self, state: State, inside: bool) -> _Aim:
        grasp = state.cube[:3].copy()
        grasp[2] = max(grasp[2], _TIP + 0.006)
        if inside:
            # Between the walls there is room for the fingers only near the top.
            grasp[2] += 0.016
        yaw = self._grasp_yaw(state)
        offset = grasp - state.tool_position
        distance = float(np.hypot(offset[0], offset[1]))
        twist = abs(_wrapped(yaw - _yaw(state)))
        tilt = math.acos(min(1.0, -rotation(state.tool_quaternion)[2, 2]))
        slack = 2.0 if self._closing else 1.0
        there = (
            distance < 0.010 * slack
            and twist < 0.15 * slack
            and abs(offset[2]) < 0.009 * slack
            and tilt < 0.2
        )
        missed = state.gripper_position > 0.62
        self._closing = there and not missed
        if self._closing:
            return _Aim(grasp, yaw, CLOSED)
        error = distance + 0.04 * twist + 0.03 * tilt
        height = min(max(5.0 * (error - 0.006), 0.0), _HOVER)
        if state.gripper_position > 0.15:
            # The fingers have to be open before they go down beside it.
            height = max(height, 0.06)
        position = grasp.copy()
        position[2] += height
        sideways = _ramp(state.tool_position[2], position[2] - 0.06, position[2] - 0.02)
        if distance < 0.012:
            sideways = 1.0
        return _Aim(position, yaw, OPEN, sideways)

    def _grasp_yaw(self, state: State) -> float:
        """Return the yaw at which the fingers meet two faces of the cube, and nothing else."""
        axes = rotation(state.cube[3:])
        # The cube may have come to lie on any face: the axes that are level.
        level = axes[:, int(np.argsort(np.abs(axes[2]))[0])]
        first = math.atan2(level[1], level[0])
        now = _yaw(state)
        best, least = 0.0, math.inf
        for quarter in range(4):
            yaw = _wrapped(first + quarter * math.pi / 2)
            cost = abs(_wrapped(yaw - now)) + 0.3 * abs(yaw) + 3.0 * self._obstruction(state, yaw)
            if abs(yaw) < 2.0 and cost < least:
                best, least = yaw, cost
        return best

    def _obstruction(self, state: State, yaw: float) -> float:
        """Return how deep the fingers would be in other things, in cm."""
        along = np.array([-math.sin(yaw), math.cos(yaw)])
        depth = 0.0
        for name in ('bowl', 'can', 'box'):
            thing = getattr(state, name)
            for side in (_FINGER, -_FINGER):
                away = float(np.hypot(*(state.cube[:2] + side * along - thing[:2])))
                depth += max(0.0, FOOTPRINT[name] + _FINGER_HALF - away)
        return 100.0 * depth


def _pointing_down(yaw: float) -> Vector:
    cos, sin = math.cos(yaw), math.sin(yaw)
    return np.array([[cos, sin, 0.0], [sin, -cos, 0.0], [0.0, 0.0, -1.0]])


def _yaw(state: State) -> float:
    x_axis = rotation(state.tool_quaternion)[:, 0]
    return math.atan2(x_axis[1], x_axis[0])


def _turn(now: Vector, wanted: Vector) -> Vector:
    """Return the rotation vector [3] in rad from one orientation to the other, in the base frame.

    From the cross products of the axes: exact in direction for small turns, and never blind but at
    half a turn.
    """
    between = wanted @ now.T
    vector = np.array(
        [
            between[2, 1] - between[1, 2],
            between[0, 2] - between[2, 0],
            between[1, 0] - between[0, 1],
        ]
    )
    sine, cosine = np.linalg.norm(vector) / 2, (np.trace(between) - 1) / 2
    angle = math.atan2(sine, cosine)
    return vector * (angle / (2 * sine)) if sine > 1e-9 else np.zeros(3)


def _limited(vector: Vector, length: float) -> Vector:
    norm = float(np.linalg.norm(vector))
    return vector * (length / norm) if norm > length else vector.copy()


def _wrapped(angle: float) -> float:
    return (angle + math.pi) % (2 * math.pi) - math.pi


def _ramp(value: float, low: float, high: float) -> float:
    return min(max((value - low) / (high - low), 0.0), 1.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the expert on seeded episodes; return 0 when every one succeeded."""
    parser = argparse.ArgumentParser(
        prog='python -m openpi_policy_ros_sim.expert',
        description='Measure how often the scripted expert does a task.',
    )
    parser.add_argument('--task', choices=PROMPTED, default=PROMPTED[0])
    parser.add_argument('--episodes', type=int, default=40)
    parser.add_argument('--seed', type=int, default=10_000, help='of the first episode')
    parser.add_argument('--noise', type=float, default=0.0, help='0 = none, 1 = as in data')
    parser.add_argument('--max-steps', type=int, default=EPISODE_STEPS)
    options = parser.parse_args(arguments)
    if options.episodes < 1:
        parser.error('--episodes: at least 1')
    logging.basicConfig(level=logging.ERROR)
    kinematics = Kinematics()
    times, failed, steps = [], [], 0
    start = time.perf_counter()
    with Environment() as environment:
        seeds = range(options.seed, options.seed + options.episodes)
        for seed in tqdm(seeds, desc=options.task, unit='episode'):
            expert = Expert(options.task, kinematics)
            noise = Noise(np.random.default_rng(seed), options.noise)

            def act(
                observation: Observation, expert: Expert = expert, noise: Noise = noise
            ) -> Vector:
                return noise.disturb(expert.act(observation.state))[None]

            episode = run_episode(
                environment, act, seed=seed, task=options.task, horizon=1,
                max_steps=options.max_steps,
            )  # fmt: skip
            steps += len(episode.actions)
            done = episode.success[options.task]
            if done is None:
                failed.append(seed)
            else:
                times.append(done)
    wall = time.perf_counter() - start
    print(f'{options.task}: {len(times)} of {options.episodes}, noise {options.noise:g}')
    if times:
        middle, most = np.percentile(times, [50, 90])
        print(f'seconds until done: p50 {middle:.1f}, p90 {most:.1f}, most {max(times):.1f}')
    print(f'{steps / c.CONTROL_RATE / wall:.0f} times real time, without images')
    if failed:
        print('failed seeds:', ', '.join(map(str, failed)))
    return 1 if failed else 0


if __name__ == '__main__':
    raise SystemExit(main())
