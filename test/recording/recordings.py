# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of fake policies, for the tests of what writes and reads them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fakes import EchoPolicy, make_spec
from mcap_ros2.reader import read_ros2_messages

from openpi_policy_ros.configuration.robot import RobotConfig
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.policies.base import ActionChunk, InferenceRequest, Policy, SessionKey
from openpi_policy_ros.recording.recorder import Recorder
from openpi_policy_ros.recording.session import Setting

WAIT = 20.0
SPEC = make_spec(horizon=4, action_dim=3)
ROBOT = validate(
    RobotConfig,
    {
        'joints': {'names': ['a', 'b'], 'keys': ['state'], 'action_indices': [0, 1]},
        'profile': {'action_space': 'joint_position'},
        'timing': {'action_rate': 10.0},
    },
    'test',
)


def observe(value: float, size: int = 8) -> dict[str, Any]:
    """Return an observation that holds ``value`` and pixels made from it."""
    rng = np.random.default_rng(round(value))
    return {
        'image': rng.integers(0, 256, (size, size + 2, 3), np.uint8),
        'state': np.array([value, -value], np.float32),
        'value': value,
        'prompt': 'pick the cup',
    }


@dataclass
class Taped:
    """An engine whose inferences are recorded."""

    engine: Engine
    recorder: Recorder
    folder: Path

    def ask(
        self,
        value: float,
        connection: str = 'c1',
        session: str = 'default',
        lane: Lane = Lane.REMOTE,
        **fields: Any,
    ) -> ActionChunk:
        """Return the answer to one request."""
        observation = fields.pop('observation', None) or observe(value)
        one = InferenceRequest(observation, SessionKey(connection, session), **fields)
        return self.engine.submit(one, lane).result(timeout=WAIT)

    @property
    def bags(self) -> list[Path]:
        """Return the folders so far."""
        return sorted(self.folder.iterdir())


@contextlib.contextmanager
def taped(
    folder: Path, policy: Policy | None = None, robot: RobotConfig | None = None, **options: Any
) -> Iterator[Taped]:
    """Record a policy for the length of the block."""
    engine = Engine(EchoPolicy(SPEC) if policy is None else policy)
    folder.mkdir(parents=True, exist_ok=True)
    setting = Setting(engine.spec, robot=robot, robot_name='two_joints', robot_text='joints: {}')
    recorder = Recorder(folder, setting, **options)
    engine.add_tap(recorder)
    engine.start()
    try:
        yield Taped(engine, recorder, folder)
    finally:
        engine.close(drain_timeout=WAIT)
        recorder.close(WAIT)


def read(bag: Path) -> list[tuple[str, str, int, Any]]:
    """Return (topic, type, time, message) of a bag by a reader that is not the writer's."""
    (file,) = bag.glob('*.mcap')
    return [
        (one.channel.topic, one.schema.name, one.log_time_ns, one.ros_msg)
        for one in read_ros2_messages(str(file))
    ]
