# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Listen for two seconds to what a robot file names, and print what was seen.

Run as a module, in the robot's domain, by ``graph``: it prints one JSON object.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from openpi_policy_ros.configuration.robot import Joints, RobotConfig, load_robot
from openpi_policy_ros.control.images import check_compressed_image, check_image
from openpi_policy_ros.errors import PolicyRosError

LISTEN = 2.0
"""Seconds that every topic is listened to."""
_DISCOVERY = 0.7
"""Seconds before that in which participants find each other."""
_SERVICE = 1.0
"""Seconds that a node of ours gets to answer."""
_NODE = 'openpi_policy'
_SERVER = 'server'
"""Key of its status under which the address of its server is."""


class _Ear:
    """What came on one topic."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.arrivals: list[float] = []
        self.ages: list[float] = []
        self.unstamped = 0
        self.refusal = ''
        self.size = ''
        self.names: set[str] = set()

    def beat(self, message: Any = None) -> None:
        """Note that a message came."""
        self.arrivals.append(time.monotonic())

    def came(self, message: Any) -> None:
        """Note one message with a header."""
        self.beat()
        stamp = message.header.stamp
        if stamp.sec == 0 and stamp.nanosec == 0:
            self.unstamped += 1
        else:
            self.ages.append(self._now() - stamp.sec - stamp.nanosec * 1e-9)

    def image(self, message: Any, *, compressed: bool) -> None:
        """Note one image."""
        self.came(message)
        try:
            if compressed:
                check_compressed_image(message)
                self.size = message.format
            else:
                check_image(message)
                self.size = f'{message.width}x{message.height} {message.encoding}'
        except PolicyRosError as error:
            self.refusal = str(error)

    def joints(self, message: Any, prefix: str) -> None:
        """Note one message of joints, whose names get a prefix."""
        self.came(message)
        self.names.update(prefix + name for name in message.name)

    def told(self) -> dict[str, Any]:
        """Return what was noted."""
        return {
            'count': len(self.arrivals),
            'rate': self._rate(),
            'oldest': max(self.ages, default=None),
            'newest': min(self.ages, default=None),
            'unstamped': self.unstamped,
            'refusal': self.refusal,
            'size': self.size,
            'names': sorted(self.names),
        }

    def _rate(self) -> float:
        if len(self.arrivals) < 2:
            return 0.0
        return (len(self.arrivals) - 1) / max(self.arrivals[-1] - self.arrivals[0], 1e-3)


def look(robot: RobotConfig | None, namespace: str) -> dict[str, Any]:
    """Return what the graph shows of a robot."""
    import rclpy
    from diagnostic_msgs.msg import DiagnosticStatus
    from rclpy.node import Node
    from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
    from rclpy.utilities import get_rmw_implementation_identifier
    from rosgraph_msgs.msg import Clock
    from sensor_msgs.msg import CompressedImage, Image, JointState
    from std_msgs.msg import Bool

    from openpi_policy_ros.ros.watch import loss_remedy

    rclpy.init()
    node = Node('openpi_policy_doctor', namespace=namespace)
    best = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    simulated: list[float] = []
    node.create_subscription(
        Clock, '/clock', lambda m: simulated.append(m.clock.sec + m.clock.nanosec * 1e-9), best
    )
    cameras = {} if robot is None else dict(robot.cameras)
    # Best effort hears every publisher; what the robot file asks for is judged by what is offered.
    ears = {name: _Ear(time.time) for name in cameras}
    for name, camera in cameras.items():
        compressed = camera.transport == 'compressed'
        node.create_subscription(
            CompressedImage if compressed else Image,
            camera.topic,
            lambda m, ear=ears[name], squeezed=compressed: ear.image(m, compressed=squeezed),
            best,
        )
    joints, interlock = _Ear(time.time), _Ear(time.time)
    sources = (Joints() if robot is None else robot.joints).topics()
    for topic, prefix in sources:
        node.create_subscription(
            JointState, topic, lambda m, prefix=prefix: joints.joints(m, prefix), best
        )
    if robot is not None and robot.safety.interlock_topic:
        node.create_subscription(Bool, robot.safety.interlock_topic, interlock.beat, 10)
    servers: list[str] = []
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    node.create_subscription(
        DiagnosticStatus,
        f'{_NODE}/status',
        lambda m: servers.extend(pair.value for pair in m.values if pair.key == _SERVER),
        latched,
    )
    _spin(node, _DISCOVERY + LISTEN)
    remedy = loss_remedy(get_rmw_implementation_identifier(), os.environ)
    seen: dict[str, Any] = {
        'nodes': sorted(
            f'{space.rstrip("/")}/{name}'
            for name, space in node.get_node_names_and_namespaces()
            if name != node.get_name() and not name.startswith('doctor_')
        ),
        'clock': simulated[-1] if simulated else None,
        'now': time.time(),
        'own_server': servers[-1] if servers else '',
        'remedy': remedy,
        'cameras': {
            name: {**ears[name].told(), **_publishers(node, cameras[name].topic)}
            for name in cameras
        },
        'joints': {**joints.told(), **_publishers(node, *(topic for topic, _ in sources))},
        'interlock': interlock.told()['rate'],
        'outputs': {}
        if robot is None
        else {
            name: _listeners(node, output.topic, gripper=output.type == 'gripper')
            for name, output in robot.outputs.items()
        },
    }
    seen['sim_time'] = _sim_time(node, seen['nodes'])
    node.destroy_node()
    rclpy.try_shutdown()
    return seen


def _publishers(node: Any, *topics: str) -> dict[str, Any]:
    """Return who publishes these topics."""
    from rclpy.qos import ReliabilityPolicy

    return {
        'topic': ', '.join(node.resolve_topic_name(topic) for topic in topics),
        'senders': [
            [
                f'{one.node_namespace.rstrip("/")}/{one.node_name}',
                one.topic_type,
                one.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT,
            ]
            for topic in topics
            for one in node.get_publishers_info_by_topic(topic)
        ],
    }


def _listeners(node: Any, topic: str, *, gripper: bool) -> dict[str, Any]:
    """Return who would take the commands of an output."""
    resolved = node.resolve_topic_name(topic)
    if gripper:
        found = node.get_publishers_info_by_topic(f'{topic}/_action/status')
    else:
        found = node.get_subscriptions_info_by_topic(topic)
    return {
        'topic': resolved,
        'takers': [
            [f'{one.node_namespace.rstrip("/")}/{one.node_name}', one.topic_type] for one in found
        ],
    }


def _sim_time(node: Any, nodes: list[str]) -> bool | None:
    """Return ``use_sim_time`` of the policy node of this namespace; None = there is none."""
    from rcl_interfaces.srv import GetParameters

    name = f'{node.get_namespace().rstrip("/")}/{_NODE}'
    if name not in nodes:
        return None
    client = node.create_client(GetParameters, f'{name}/get_parameters')
    if not client.wait_for_service(_SERVICE):
        return None
    future = client.call_async(GetParameters.Request(names=['use_sim_time']))
    end = time.monotonic() + _SERVICE
    while not future.done() and time.monotonic() < end:
        _spin(node, 0.05)
    answer = future.result() if future.done() else None
    return None if answer is None else bool(answer.values[0].bool_value)


def _spin(node: Any, seconds: float) -> None:
    import rclpy

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rclpy.spin_once(node, timeout_sec=0.05)


def main(robot: str, namespace: str) -> dict[str, Any]:
    """Return what was seen, or why nothing could be."""
    try:
        import rclpy  # noqa: F401
    except ImportError as error:
        return {'no_rclpy': f'rclpy cannot be imported: {error}'}
    return look(load_robot(robot) if robot else None, namespace)


if __name__ == '__main__':
    print(json.dumps(main(sys.argv[1], sys.argv[2])))
