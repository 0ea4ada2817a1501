# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the simulator says to the policy's node and hears of it, over its services and topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.client import Client
from rclpy.qos import ReliabilityPolicy
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectory

from openpi_policy_ros.control.controller import PAUSE
from openpi_policy_ros.ros.sensors import qos
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.ros.arm import NANOSECONDS
from openpi_policy_ros_sim.ros.node import SimulatedRobotNode

ANSWER: Final = 20.0
"""Seconds that a service of the node may take: as long as a chunk in the making."""
ECHO: Final = 10.0
"""Seconds that a prompt may take."""
SETTLE: Final = 5.0
"""Seconds in which the node may still refuse to be enabled: it learns the limits, hears joints."""
AGAIN: Final = 0.5
SILENCE: Final = 10.0
"""Least seconds without command and word after which an enabled node is taken for dead."""
MARGIN: Final = 2.0
"""Seconds that a node may take beyond its ``safety.max_wait`` to say that it holds (S15)."""
_FACTS: Final = ('policy', 'model', 'revision', 'weights_hash', 'action_space', 'robot')
_DRIVING: Final = ('ENABLED', 'WAIT')
COUNTED: Final = (
    'chunks_taken', 'clamped', 'slowed', 'starved', 'late', 'dropped_actions', 'refused',
    'failures', 'holds', 'watchdog',
)  # fmt: skip
"""Counters of ``~/status``."""


class NodeLost(SimulationError):
    """The policy's node does not answer, or is gone."""


class NodeRefused(SimulationError):
    """The policy's node refuses what is asked of it."""


class PolicyLink:
    """The policy's node as the simulator sees it. The simulated robot lives on while it waits.

    Args:
        robot: whose ``turn`` makes time go on.
        node: name of the policy's node, relative to the namespace.
        max_wait: ``safety.max_wait`` of its robot file, s: for so long it may wait in silence.

    """

    def __init__(
        self, robot: SimulatedRobotNode, node: str = 'openpi_policy', max_wait: float = 0.0
    ) -> None:
        self._robot = robot
        self._max_wait = max_wait
        self._name = node
        latched = qos(1, ReliabilityPolicy.RELIABLE, latched=True)
        reliable = qos(10, ReliabilityPolicy.RELIABLE)
        self._enable = robot.create_client(SetBool, f'{node}/enable')
        self._reset = robot.create_client(Trigger, f'{node}/reset')
        self._prompts = robot.create_publisher(String, 'prompt', reliable)
        for kind, topic, take, profile in (
            (DiagnosticStatus, f'{node}/status', self._take_status, latched),
            (String, f'{node}/current_prompt', self._take_prompt, latched),
            (JointTrajectory, f'{node}/action_chunk', self._take_chunk, reliable),
        ):
            robot.create_subscription(kind, topic, take, profile)
        self._status: dict[str, str] = {}
        self._prompt: str | None = None
        self._latencies: list[float] = []
        self._waits = 0
        self._heard = time.monotonic()
        self._taken = 0

    @property
    def state(self) -> str:
        """Return the node's state as it said it last, '' = nothing yet."""
        return self._status.get('state', '')

    @property
    def reason(self) -> str:
        """Return why it waits, holds, or makes no chunk."""
        return self._status.get('reason', '')

    @property
    def model(self) -> str:
        """Return which policy it serves."""
        return self._status.get('model') or self._status.get('policy', '')

    @property
    def facts(self) -> dict[str, str]:
        """Return what tells one policy from another."""
        return {name: self._status[name] for name in _FACTS if self._status.get(name)}

    @property
    def counters(self) -> dict[str, int]:
        """Return what the node has counted since it started, and WAITs heard of since ``note``."""
        said = {name: int(self._status.get(name) or 0) for name in COUNTED}
        return {**said, 'waits': self._waits}

    @property
    def latencies(self) -> list[float]:
        """Return the age of what each chunk since ``note`` answers when it came, s, simulated."""
        return list(self._latencies)

    def note(self) -> None:
        """Collect latencies and WAITs from now on."""
        self._latencies, self._waits = [], 0

    def wait_until_there(self, patience: float) -> None:
        """Wait until the node is active.

        Raises:
            NodeLost: it is not within ``patience`` seconds.
            NodeRefused: it will never move the robot: dry run.

        """
        there = self._wait(lambda: self.state not in ('', 'INIT'), patience)
        if not there:
            said = f'it says {self.state}: {self.reason}' if self.state else 'no word of it'
            raise NodeLost(
                f'the policy node {self._full_name()} is not active after {patience:g} s ({said})',
                remedy='start it with robot:=sim_droid use_sim_time:=true, in the same namespace '
                'and ROS_DOMAIN_ID',
            )
        if self.state == 'DRY_RUN':
            raise NodeRefused(
                f'{self._full_name()} is in dry run: it would never move the robot',
                remedy='start it without dry_run',
            )

    def disable(self) -> None:
        """Let it command nothing; it holds the robot first."""
        self._call(self._enable, SetBool.Request(data=False), 'enable')
        # Its counters come with the status that says so.
        self._wait(lambda: self.state not in (*_DRIVING, 'HOLD'), AGAIN)

    def enable(self) -> None:
        """Let it drive the robot.

        Raises:
            NodeRefused: it does not want to, with its reason.

        """
        until = time.monotonic() + SETTLE
        while True:
            answer = self._call(self._enable, SetBool.Request(data=True), 'enable')
            if answer.success:
                self._heard = time.monotonic()
                self._wait(lambda: self.state in (*_DRIVING, 'HOLD'), AGAIN)
                return
            if time.monotonic() >= until:
                raise NodeRefused(f'{self._full_name()} cannot be enabled: {answer.message}')
            self._wait(lambda: False, AGAIN)

    def reset(self) -> None:
        """Begin a new session of the policy."""
        answer = self._call(self._reset, Trigger.Request(), 'reset')
        if not answer.success:
            raise NodeRefused(f'{self._full_name()} cannot be reset: {answer.message}')

    def tell(self, prompt: str) -> None:
        """Publish the instruction until the node says that it uses it."""
        until = time.monotonic() + ECHO
        while self._prompt != prompt:
            if time.monotonic() >= until:
                raise NodeLost(
                    f'{self._full_name()} does not take the prompt {prompt!r}: it says '
                    f'{self._prompt!r}'
                )
            self._prompts.publish(String(data=prompt))
            self._wait(lambda: self._prompt == prompt, AGAIN)

    @property
    def gone(self) -> bool:
        """Return whether an enabled node has been silent for longer than one that lives can be."""
        taken = sum(self._robot.arm.model.taken.values())
        if taken != self._taken:
            self._taken, self._heard = taken, time.monotonic()
        return time.monotonic() - self._heard > self._silence

    @property
    def _silence(self) -> float:
        return max(SILENCE, self._max_wait + MARGIN)

    def stopped(self) -> str:
        """Return why the node, once enabled, does not drive the robot any more; '' = it does.

        Raises:
            NodeLost: it is gone.

        """
        if self.state not in _DRIVING:
            return f'{self.state}: {self.reason}' if self.reason else self.state
        if self.gone:
            raise NodeLost(
                f'{self._full_name()} is gone: no command and no word for {self._silence:g} s'
            )
        return ''

    def _call(self, client: Client, request: Any, name: str) -> Any:
        if not client.service_is_ready() and not self._wait(client.service_is_ready, ECHO):
            raise NodeLost(f'{self._full_name()} is gone: no service {name}')
        future = client.call_async(request)
        if not self._wait(future.done, ANSWER):
            client.remove_pending_request(future)
            raise NodeLost(f'{self._full_name()} does not answer {name} within {ANSWER:g} s')
        return future.result()

    def _wait(self, condition: Callable[[], bool], patience: float) -> bool:
        """Let time go on until a condition holds; return whether it does."""
        until = time.monotonic() + patience
        while not condition():
            if time.monotonic() >= until:
                return False
            self._robot.turn()
        return True

    def _take_status(self, message: DiagnosticStatus) -> None:
        before = self.state
        self._heard = time.monotonic()
        self._status = {pair.key: pair.value for pair in message.values}
        if before == 'ENABLED' and self.state == 'WAIT' and not self.reason.startswith(PAUSE):
            self._waits += 1

    def _take_prompt(self, message: String) -> None:
        self._prompt = message.data

    def _take_chunk(self, message: JointTrajectory) -> None:
        stamp = message.header.stamp
        observed_ns = stamp.sec * NANOSECONDS + stamp.nanosec
        self._latencies.append((self._robot.time_ns - observed_ns) / NANOSECONDS)

    def _full_name(self) -> str:
        return str(self._robot.resolve_topic_name(self._name))
