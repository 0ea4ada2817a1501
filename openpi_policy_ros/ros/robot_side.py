# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Everything that belongs to one configured robot: sensors, door, chunk topics, outputs, prompt."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rclpy.node import Node
from sensor_msgs.msg import JointState

from openpi_policy_ros.control.chunk import ChunkLayout
from openpi_policy_ros.control.controller import Tick
from openpi_policy_ros.control.observation import Assembler
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.policies.base import ActionChunk, PolicySpec
from openpi_policy_ros.ros.actuation_side import ActuationSide
from openpi_policy_ros.ros.door import DoorState, RobotDoor
from openpi_policy_ros.ros.listener import Listeners
from openpi_policy_ros.ros.publishers import ChunkPublishers, PromptPublisher
from openpi_policy_ros.ros.sensors import Sensors
from openpi_policy_ros.ros.settings import NodeConfig
from openpi_policy_ros.ros.teardown import Teardown

_log = logging.getLogger('openpi_policy_ros.ros.robot_side')


class RobotSide:
    """Hears the robot from the beginning, makes chunks from ``start`` to ``stop``.

    Args:
        node: owns publishers and subscriptions.
        config: fits the engine's policy, and has a camera or a joint.
        engine: started; stays open.
        prompt: tells the prompt in use.
        seed: returns that of the next inference, None = a new one each time.
        report: called with every state of the door, often.
        report_tick: called after every control tick.
        listeners: hear chunks, commands, joints and ticks; stay open.

    Attributes:
        config: as it holds now.
        spec: of the engine's policy.
        assembler: holds the newest messages.
        actuation: drives the robot; None = the robot file names no output.
        door: makes chunks.
        sensors: what is subscribed.

    Raises:
        ConfigurationError: a topic, an output or a limit that cannot be; nothing is left behind.

    """

    def __init__(
        self,
        node: Node,
        config: NodeConfig,
        engine: Engine,
        *,
        prompt: PromptPublisher,
        seed: Callable[[], int | None],
        report: Callable[[DoorState], None],
        report_tick: Callable[[Tick], None],
        listeners: Listeners,
    ) -> None:
        self.config = config
        self.spec: PolicySpec = engine.spec
        self.actuation: ActuationSide | None = None
        self._node = node
        self._prompt = prompt
        self._report_tick = report_tick
        self._listeners = listeners
        self._teardown = Teardown()
        try:
            self._build(engine, seed, report)
        except BaseException:
            self._teardown.run()
            raise

    def start(self) -> None:
        """Begin to make chunks, and be ready to be enabled."""
        self.door.start()
        if self.actuation is not None:
            self.actuation.start()

    def stop(self) -> None:
        """Disarm the robot, then make no chunk any more; sensors are still heard."""
        self.halt()
        self.door.stop()

    def halt(self) -> None:
        """Disarm the robot now: the hold is the last that its controllers hear."""
        if self.actuation is not None:
            self.actuation.stop()

    def close(self) -> None:
        """Stop, and take all topics back."""
        self._teardown.run()

    def tune(self, config: NodeConfig, names: frozenset[str]) -> None:
        """Let dynamic parameters take effect; the robot's own from the next control tick on.

        Args:
            config: as before, but for these.
            names: those that were set, dotted.

        """
        self.config = config
        if 'default_prompt' in names:
            self.use_prompt(config.default_prompt or self.spec.default_prompt)
        self.door.set_rate(config.timing.inference_rate)
        if self.actuation is not None:
            self.actuation.actuation.tune(config)

    def use_prompt(self, prompt: str) -> None:
        """Tell the policy this from the next inference on, and everybody that it is so."""
        self.door.set_prompt(prompt)
        self._prompt.publish(prompt)

    def _build(
        self,
        engine: Engine,
        seed: Callable[[], int | None],
        report: Callable[[DoorState], None],
    ) -> None:
        node, config, spec = self._node, self.config, self.spec
        layout = ChunkLayout(config, spec)
        if layout.no_trajectory:
            _log.info('~/action_chunk is not published: %s', layout.no_trajectory)
        self._chunks = ChunkPublishers(node, layout)
        self._teardown.add('chunk topics', self._chunks.close)
        self.assembler = Assembler(
            config, self._now, node.resolve_topic_name, history_offsets=spec.history_offsets
        )
        if config.output_names:
            self.actuation = ActuationSide(
                node,
                config,
                engine,
                streams=self.assembler.streams,
                report=self._on_tick,
                sent=self._listeners.on_command,
            )
            self._teardown.add('outputs', self.actuation.close)
        actuation = None if self.actuation is None else self.actuation.actuation
        self.door = RobotDoor(
            self.assembler,
            engine,
            f'ros:{node.get_fully_qualified_name()}',
            seed=seed,
            publish=self._on_chunk,
            report=report,
            rate=config.timing.inference_rate,
            actuation=actuation,
        )
        self._teardown.add('robot door', self.door.stop)
        self.use_prompt(config.default_prompt or spec.default_prompt)
        self.sensors = Sensors(
            node,
            config,
            self.assembler,
            on_prompt=self.use_prompt,
            on_news=self.door.wake,
            on_joints=None if actuation is None else actuation.on_joints,
            on_joint_state=self._on_joint_state,
            on_interlock=None if actuation is None else actuation.on_interlock,
        )
        self._teardown.add('subscriptions', self.sensors.close)

    def _now(self) -> int:
        now: int = self._node.get_clock().now().nanoseconds
        return now

    def _on_chunk(self, chunk: ActionChunk, t_obs_ns: int) -> None:
        self._chunks.publish(chunk, t_obs_ns)
        self._listeners.on_chunk(chunk, t_obs_ns)

    def _on_joint_state(self, message: JointState) -> None:
        self._listeners.on_joints(message, self._now())

    def _on_tick(self, tick: Tick) -> None:
        self._report_tick(tick)
        self._listeners.on_tick(tick)
