# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The sensors' side of a DROID robot under test: messages by hand, and clocks that stand still."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.control.observation import Assembler, Blocked, Ready

MS = 1_000_000
START = 1_700_000_000_000 * MS
JOINTS = tuple(load_robot('droid').joints.names)


class Robot:
    """A DROID robot with a clock that only the test moves."""

    def __init__(self, history_offsets: tuple[int, ...] = (), **changes: Any) -> None:
        values = load_robot('droid').model_dump()
        for group, fields in changes.items():
            values[group] = {**values[group], **fields}
        self.config = validate(RobotConfig, values, 'test')
        self.now = START
        self.steady = 0
        self.sensors = Assembler(
            self.config,
            lambda: self.now,
            lambda topic: f'/ns/{topic}',
            lambda: self.steady,
            history_offsets=history_offsets,
        )
        self.sensors.set_prompt('pick up the cup')

    def image(self, camera: str, value: int = 0, age_ms: float = 0, **fields: Any) -> None:
        pixels = np.full((4, 5, 3), value, np.uint8)
        pixels[..., 0] += 1
        message = SimpleNamespace(
            header=header(self.now - round(age_ms * MS)),
            height=4,
            width=5,
            step=15,
            encoding='rgb8',
            data=pixels.tobytes(),
        )
        message.__dict__.update(fields)
        self.sensors.add_image(camera, message)

    def pass_time(self, ms: float) -> None:
        """Let both clocks run."""
        self.now += round(ms * MS)
        self.steady += round(ms * MS)

    def ages(self) -> dict[str, float | None]:
        """Return the age of each stream, ms."""
        streams = self.sensors.streams().streams.items()
        return {name: None if s.age_ns is None else s.age_ns / MS for name, s in streams}

    def joints(self, names: tuple[str, ...] = JOINTS, age_ms: float = 0, **fields: Any) -> None:
        message = SimpleNamespace(
            header=header(self.now - round(age_ms * MS)),
            name=list(names),
            position=[float(JOINTS.index(name)) if name in JOINTS else 99.0 for name in names],
        )
        message.__dict__.update(fields)
        self.used = self.sensors.add_joints(message)

    def everything(self, age_ms: float = 0) -> None:
        self.image('exterior_1', 10, age_ms)
        self.image('wrist', 20, age_ms)
        self.joints(age_ms=age_ms)

    def ready(self, begun: int | None = None) -> Ready:
        result = self.sensors.snapshot(begun)
        assert isinstance(result, Ready), result
        return result

    def blocked(self, begun: int | None = None) -> str:
        result = self.sensors.snapshot(begun)
        assert isinstance(result, Blocked), result
        return '; '.join(reason.text for reason in result.reasons)


def header(stamp_ns: int) -> Any:
    seconds, rest = divmod(stamp_ns, 10**9)
    return SimpleNamespace(stamp=SimpleNamespace(sec=seconds, nanosec=rest))
