# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot with one joint for the tests of the door."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from fakes import EchoPolicy, make_spec

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.observation import Assembler
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.ros.actuator import Actuator
from openpi_policy_ros.ros.door import RobotDoor
from openpi_policy_ros.ros.door_log import DoorState

WAIT = 5.0
START = 10**18
ROBOT = {'joints': {'names': ['a'], 'keys': ['value']}}


class Bench:
    """A robot with one joint, a door, and everything that came out of it."""

    def __init__(
        self,
        policy: EchoPolicy,
        rate: float = 0.0,
        inference_timeout: float = WAIT,
        actuation: Actuator | None = None,
        robot: dict[str, Any] = ROBOT,
    ) -> None:
        self.policy = with_scalars(policy)
        self.engine = Engine(policy, inference_timeout=inference_timeout)
        self.engine.start()
        self.now = START
        self.seed: int | None = None
        self.chunks: list[tuple[float, int]] = []
        self.states: list[DoorState] = []
        self.broken = False
        self.sensors = Assembler(
            validate(RobotConfig, robot, 'test'),
            lambda: self.now,
            history_offsets=policy.spec.history_offsets,
        )
        self.sensors.set_prompt('go')
        self.door = RobotDoor(
            self.sensors,
            self.engine,
            'ros:/robot',
            seed=lambda: self.seed,
            publish=self._publish,
            report=self.states.append,
            rate=rate,
            actuation=actuation,
        )

    def _publish(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        if self.broken:
            raise RuntimeError('the publisher is gone')
        self.chunks.append((float(chunk.actions[0, 0]), t_obs_ns))

    def see(self, value: float, age_ns: int = 0) -> None:
        seconds, rest = divmod(self.now - age_ns, 10**9)
        stamp = SimpleNamespace(sec=seconds, nanosec=rest)
        message = SimpleNamespace(header=SimpleNamespace(stamp=stamp), name=['a'], position=[value])
        self.sensors.add_joints(message)
        self.door.wake()

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + WAIT
        while not condition():
            assert time.monotonic() < deadline, f'did not happen; states: {self.states[-3:]}'
            time.sleep(0.002)

    def settle(self) -> None:
        """Let the door come to rest: two looks at the sensors after whatever is going on."""
        self.until(lambda: self.door._in_flight is None)
        time.sleep(0.03)

    def settle_awake(self) -> None:
        """Let the door look at what is in flight some times."""
        for _ in range(3):
            self.door.wake()
            time.sleep(0.005)

    def pass_time(self, by_ns: int) -> None:
        """Let the node's clock jump."""
        self.now += by_ns

    @property
    def values(self) -> list[float]:
        return [value for value, _ in self.chunks]


def with_scalars(policy: EchoPolicy) -> EchoPolicy:
    """Let the policy see the joint as the number that Echo tells back."""
    infer = policy.infer

    def scalars(requests: Any) -> Any:
        return infer(
            [
                replace(
                    one,
                    observation={
                        **one.observation,
                        'value': np.asarray(one.observation['value']).item(),
                    },
                )
                for one in requests
            ]
        )

    policy.infer = scalars  # type: ignore[method-assign]
    return policy


def scalar(spec_changes: dict[str, Any] | None = None) -> Any:
    return make_spec(2, 3, **(spec_changes or {}))
