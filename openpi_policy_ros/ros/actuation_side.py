# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Wire what drives a robot: the control core, its outputs, and the limits of its joints."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rclpy.node import Node

from openpi_policy_ros.control.axes import make_axes
from openpi_policy_ros.control.buffers import to_nanoseconds
from openpi_policy_ros.control.commands import Command
from openpi_policy_ros.control.controller import Controller, Tick
from openpi_policy_ros.control.gates import StreamReport
from openpi_policy_ros.control.machine import ACTIVE, State
from openpi_policy_ros.engine import Engine
from openpi_policy_ros.ros.actuation import Actuation
from openpi_policy_ros.ros.description import ROBOT_DESCRIPTION
from openpi_policy_ros.ros.door import RobotDoor
from openpi_policy_ros.ros.limits_source import LimitsBook, LimitsSource
from openpi_policy_ros.ros.outputs import Outputs
from openpi_policy_ros.ros.settings import NodeConfig

_log = logging.getLogger('openpi_policy_ros.ros.actuation_side')

NO_OUTPUTS = (
    'refused: the robot file names no output, so nothing can be commanded; write output_names, and '
    'type, topic, joints and action_indices under outputs.<name> (docs/robots.md)'
)


class ActuationSide:
    """Everything between chunks and controllers of one configured robot that has outputs.

    Args:
        node: owns publishers and subscriptions.
        config: fits the engine's policy.
        engine: started.
        streams: returns what the sensors' side says of its streams.
        report: called after every control tick.
        sent: called with every command that has left, and the ROS time in nanoseconds.

    Attributes:
        actuation: takes chunks, joints and the interlock.

    Raises:
        ConfigurationError: an output or a limit that cannot be.

    """

    def __init__(
        self,
        node: Node,
        config: NodeConfig,
        engine: Engine,
        *,
        streams: Callable[[], StreamReport],
        report: Callable[[Tick], None],
        sent: Callable[[Command, int], None] | None = None,
    ) -> None:
        axes = make_axes(config, engine.spec)
        controller = Controller(
            config,
            engine.spec,
            axes,
            inference_timeout=config.inference_timeout,
            dry_run=config.dry_run,
        )
        self._outputs = Outputs(node, config)
        self.actuation = Actuation(
            controller,
            clock=lambda: node.get_clock().now().nanoseconds,
            send=self._outputs.send,
            streams=streams,
            engine_problem=engine.problem,
            report=report,
            sent=sent,
            period_ns=to_nanoseconds(1.0 / config.execution.control_rate),
            execution=config.execution,
            realtime=True,
        )
        try:
            topic = node.resolve_topic_name(ROBOT_DESCRIPTION)
            self._limits = LimitsBook(config, axes, topic, self.actuation.set_limits)
            self._source = LimitsSource(node, self._limits)
        except Exception:
            self._outputs.close()
            raise
        self._described = '; '.join(
            f'{name}: {config.outputs[name].type} on '
            f'{node.resolve_topic_name(config.outputs[name].topic)}'
            for name in config.output_names
        )

    @property
    def facts(self) -> dict[str, str]:
        """Return what ``~/status`` says of outputs and limits."""
        return {'outputs': self._described, 'limits': self._limits.facts}

    def enable(self, on: bool, door: RobotDoor) -> tuple[bool, str]:
        """Open or close the gate to the robot; return (done, one sentence for the operator)."""
        if on:
            self._limits.settle()
            done, text = door.enable(True)
            rivals = self._outputs.rivals() if done else []
            if rivals:
                # Not refused: teleoperation may be meant to take over at times.
                text += f'; take care, others command this robot too: {", ".join(rivals)}'
            return done, text
        # Not through the door, which may be busy: closing waits for nobody.
        answer = self.actuation.enable(False)
        self._limits.settle()
        return answer

    def start(self) -> None:
        """Get ready to be enabled."""
        self.actuation.start()

    def stop(self) -> None:
        """Be disarmed, with the hold as the last message, which the controllers have then."""
        last = self.actuation.state
        self.actuation.stop()
        if last is not State.INIT:
            self._outputs.flush()
        if last in ACTIVE:
            _log.info('robot: held where it was, and disarmed')

    def close(self) -> None:
        """Stop, and take topics and subscriptions back."""
        self.stop()
        self._source.close()
        self._outputs.close()
