# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Record what goes in and out on the robot's side, beside what the engine does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState

from openpi_policy_ros.configuration import files
from openpi_policy_ros.configuration.robot import JOINT_STATES, RobotConfig
from openpi_policy_ros.control.commands import (
    ArrayCommand,
    Command,
    GripperCommand,
    TrajectoryCommand,
)
from openpi_policy_ros.control.controller import Tick
from openpi_policy_ros.control.machine import State
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.base import ActionChunk
from openpi_policy_ros.recording.ready import require
from openpi_policy_ros.ros.listener import RobotListener
from openpi_policy_ros.ros.publishers import Status
from openpi_policy_ros.ros.robot_status import kind_of
from openpi_policy_ros.ros.settings import NodeConfig

if TYPE_CHECKING:
    from openpi_policy_ros.recording.messages import Message
    from openpi_policy_ros.recording.recorder import Recorder

GOAL = 'recorded_goal'
"""Below a gripper's action: (position, max_effort); its goals have no topic of their own."""


class RecordingListener(RobotListener):
    """Hands the robot's side over to a recorder, and the engine to listen to.

    Args:
        recorder: closed by ``close``.
        engine: tapped until then.
        clock: returns the node's time in nanoseconds.
        resolve: returns the full name of a topic.
        robot: names the topics.

    """

    def __init__(
        self,
        recorder: Recorder,
        engine: Engine,
        *,
        clock: Callable[[], int],
        resolve: Callable[[str], str],
        robot: RobotConfig,
    ) -> None:
        self.recorder = recorder
        self._engine = engine
        self._clock = clock
        self._node = recorder.setting.node
        sources = [topic for topic, _ in robot.joints.topics()]
        # Of several, names have their prefix already, which tells them apart on one topic.
        self._joints = resolve(sources[0] if len(sources) == 1 else JOINT_STATES)
        self._outputs = {name: robot.outputs[name] for name in robot.output_names}
        self._topics = {name: resolve(one.topic) for name, one in self._outputs.items()}
        self._state: tuple[State, str] | None = None
        engine.add_tap(recorder)

    def on_chunk(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        """Record a chunk as joint rows."""
        self.recorder.note_chunk(chunk, t_obs_ns, self._clock())

    def on_command(self, command: Command, now_ns: int) -> None:
        """Record a command on the topic that it left on."""
        topic = self._topics[command.output]
        if isinstance(command, GripperCommand):
            topic = f'{topic}/{GOAL}'
        names = self._outputs[command.output].message_names
        self.recorder.note(topic, lambda: _message(command, names), now_ns)

    def on_joints(self, message: JointState, now_ns: int) -> None:
        """Record the joints as they came."""
        from openpi_policy_ros.recording import messages

        self.recorder.note(self._joints, lambda: messages.joint_state(message), now_ns)

    def on_tick(self, tick: Tick) -> None:
        """Record where the door stands, when the state or the kind of reason has changed."""
        from openpi_policy_ros.recording import messages
        from openpi_policy_ros.recording.session import CONTROLLER

        state = tick.state, kind_of(tick.reason)
        if state != self._state:
            self._state = state
            text = f'{tick.state.value}: {tick.reason}' if tick.reason else tick.state.value
            topic = f'{self._node}/{CONTROLLER}'
            self.recorder.note_latched(topic, lambda: messages.text(text), self._clock())

    def on_status(self, status: Status) -> None:
        """Record what ``~/status`` says."""
        from openpi_policy_ros.recording import messages

        def make() -> Message:
            return messages.diagnostic_status(
                status.level, f'{self._node}: status', status.text, status.values()
            )

        self.recorder.note_latched(f'{self._node}/status', make, self._clock())

    def close(self) -> None:
        """Write what waits, and close every bag."""
        self._engine.remove_tap(self.recorder)
        self.recorder.close()


def make_recording(node: Node, config: NodeConfig, engine: Engine) -> RecordingListener:
    """Return the listener that records everything under ``config.record``.

    Raises:
        ConfigurationError: nothing can be recorded there.

    """
    folder = require(config.record, 'record')
    # Only here: the extra it needs is there from this line on.
    from openpi_policy_ros.recording.recorder import Recorder
    from openpi_policy_ros.recording.session import Setting

    def clock() -> int:
        now: int = node.get_clock().now().nanoseconds
        return now

    setting = Setting(
        engine.spec,
        node=node.get_fully_qualified_name(),
        robot=config,
        robot_name=config.robot,
        robot_text=robot_text(config.robot),
        device=config.device,
    )
    return RecordingListener(
        Recorder(Path(folder), setting, clock=clock),
        engine,
        clock=clock,
        resolve=node.resolve_topic_name,
        robot=config,
    )


def robot_text(name: str) -> str:
    """Return the robot file itself, '' = there is none."""
    return files.resolve(name, 'robot').read_text(encoding='utf-8') if name else ''


def _message(command: Command, names: Sequence[str]) -> Message:
    from openpi_policy_ros.recording import messages

    if isinstance(command, TrajectoryCommand):
        return messages.trajectory(names, 'positions', command.rows, command.times_ns, stamp_ns=0)
    if isinstance(command, ArrayCommand):
        # Without layout, as forward controllers get it.
        return messages.numbers(np.array(command.values), None)
    goal = np.array([command.position, command.max_effort])
    return messages.numbers(goal, ('position', 'max_effort'))
