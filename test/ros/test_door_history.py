# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The door tells a policy that looks back which call is the first of a session."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from door_bench import Bench, scalar
from fakes import FailingPolicy

OFFSETS = (-2, -1, 0)
STEP_NS = 50_000_000
ROBOT = {
    'joints': {'names': ['a'], 'keys': ['value']},
    'camera_names': ['wrist'],
    'cameras': {'wrist': {'topic': 'wrist', 'key': 'image'}},
    # The joints of the step before are too old, so that no call sees an image without its joints.
    'timing': {'action_rate': 1e9 / STEP_NS, 'joint_max_age': 0.04},
}


def step(robot: Bench, value: int) -> None:
    """Let an action step pass and everything come."""
    robot.pass_time(STEP_NS)
    seconds, rest = divmod(robot.now, 10**9)
    message = SimpleNamespace(
        header=SimpleNamespace(stamp=SimpleNamespace(sec=seconds, nanosec=rest)),
        height=2,
        width=2,
        step=6,
        encoding='rgb8',
        data=np.full((2, 2, 3), value, np.uint8).tobytes(),
    )
    robot.sensors.add_image('wrist', message)
    robot.see(float(value))


def seen(robot: Bench) -> list[tuple[int, bool, list[int]]]:
    """Return of each call the joint, whether it began a session, and the frames."""
    found = []
    for one in robot.policy.requests:
        image = one.observation['image']
        assert image.shape[1:] == (2, 2, 3)
        value = int(one.observation['value'])
        found.append((value, one.reset, [int(pixels[0, 0, 0]) for pixels in image]))
    return found


def settled(robot: Bench, calls: int) -> Any:
    """Wait for so many calls and their end; return what the last one saw."""
    robot.until(lambda: len(robot.policy.requests) >= calls)
    robot.settle()
    assert len(robot.policy.requests) == calls
    return seen(robot)[-1]


def test_a_first_call_that_failed_is_repeated_as_the_first() -> None:
    policy = FailingPolicy(RuntimeError('not yet'), spec=scalar({'history_offsets': OFFSETS}))
    robot = Bench(policy, robot=ROBOT)
    try:
        step(robot, 1)
        robot.door.start()
        assert settled(robot, 1) == (1, True, [1])
        step(robot, 2)
        assert settled(robot, 2) == (2, True, [2])
        step(robot, 3)
        assert settled(robot, 3) == (3, False, [1, 2, 3])
        step(robot, 4)
        assert settled(robot, 4) == (4, False, [2, 3, 4])
        robot.door.reset()
        step(robot, 5)
        assert settled(robot, 5) == (5, True, [5])
        step(robot, 6)
        assert settled(robot, 6) == (6, False, [5, 5, 6])
        robot.until(lambda: robot.values == [2.0, 3.0, 4.0, 5.0, 6.0])
    finally:
        robot.door.stop()
        robot.engine.close()
