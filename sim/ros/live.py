# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot without episodes: it lives, says what was done, and is reset by a service."""

from __future__ import annotations

from dataclasses import replace

from std_srvs.srv import Trigger

from openpi_policy_ros_sim.environment import SERVO_STEPS
from openpi_policy_ros_sim.ros.node import SimulatedRobotNode
from openpi_policy_ros_sim.tasks import TASKS, Judge
from openpi_policy_ros_sim.window import Window


class _Scene:
    """One placing of things, and what has been done with them."""

    def __init__(self, robot: SimulatedRobotNode, seed: int) -> None:
        self.seed = seed
        self._robot = robot
        self._judges = {name: Judge(task) for name, task in TASKS.items()}
        self._begin_s = robot.reset(seed).time
        self._said: set[str] = set()

    def judge(self) -> None:
        """Look at the present state, and say what has just been done."""
        state = self._robot.arm.environment.state()
        state = replace(state, time=state.time - self._begin_s)
        for name, judge in self._judges.items():
            if judge.see(state) and name not in self._said:
                self._said.add(name)
                print(f'seed {self.seed}: {name} after {state.time:.1f} s', flush=True)


def live(robot: SimulatedRobotNode, seed: int, window: Window | None = None) -> None:
    """Be the robot until a signal raises ``Interrupted``.

    ``~/reset`` puts everything where the next seed says. Disable whoever drives the arm before.
    """
    scene = _Scene(robot, seed)

    def reset(request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        nonlocal scene
        scene = _Scene(robot, scene.seed + 1)
        response.success, response.message = True, f'seed {scene.seed}'
        return response

    robot.create_service(Trigger, '~/reset', reset)
    print(f'seed {seed}; the next: ros2 service call {robot.resolve_service_name("~/reset")} '
          'std_srvs/srv/Trigger', flush=True)  # fmt: skip
    while True:
        for _ in range(SERVO_STEPS):
            robot.turn()
        scene.judge()
        if window is not None:
            window.show()
