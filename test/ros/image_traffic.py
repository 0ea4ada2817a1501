# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Send 640×480 colour images at 30 Hz, best effort, or count them: each in its own process.

``send TOPIC COUNT`` begins when somebody listens. ``count TOPIC SECONDS`` prints what came and what
the middleware says was lost as JSON, so long after the first image.
"""

from __future__ import annotations

import json
import sys
import time

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image

try:
    from rclpy.event_handler import SubscriptionEventCallbacks
except ImportError:  # Humble
    from rclpy.qos_event import SubscriptionEventCallbacks

HEIGHT, WIDTH = 480, 640
QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
PATIENCE = 20.0


def send(node: Node, topic: str, count: int) -> None:
    """Publish so many images once there is a subscription."""
    publisher = node.create_publisher(Image, topic, QOS)
    message = Image(height=HEIGHT, width=WIDTH, encoding='rgb8', step=3 * WIDTH)
    message.data.frombytes(bytes(3 * WIDTH * HEIGHT))
    deadline = time.monotonic() + PATIENCE
    while not publisher.get_subscription_count() and time.monotonic() < deadline:
        time.sleep(0.02)
    # Both sides match, not at once.
    time.sleep(0.3)
    for _ in range(count):
        message.header.stamp = node.get_clock().now().to_msg()
        publisher.publish(message)
        time.sleep(1 / 30)
    time.sleep(0.5)


def count(node: Node, topic: str, seconds: float) -> dict[str, int]:
    """Return what came and what was lost."""
    counts = {'received': 0, 'lost': 0}

    def came(message: Image) -> None:
        counts['received'] += 1

    def missed(event: object) -> None:
        counts['lost'] = event.total_count  # type: ignore[attr-defined]

    events = SubscriptionEventCallbacks(message_lost=missed)
    node.create_subscription(Image, topic, came, QOS, event_callbacks=events)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    end = time.monotonic() + PATIENCE
    begun = False
    while time.monotonic() < end:
        executor.spin_once(timeout_sec=0.1)
        if counts['received'] and not begun:
            begun, end = True, time.monotonic() + seconds
    return counts


def main() -> None:
    """Do what the arguments say."""
    what, topic, amount = sys.argv[1:]
    rclpy.init()
    node = rclpy.create_node(f'image_{what}')
    if what == 'send':
        send(node, topic, int(amount))
    else:
        print(json.dumps(count(node, topic, float(amount))))
    node.destroy_node()
    rclpy.shutdown()


if __name__ == '__main__':
    main()
