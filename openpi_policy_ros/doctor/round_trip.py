# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Two participants in two processes exchange a message and an image, as a driver and the node do.

Run as a module it is one of the two: ``answer`` counts what comes, ``ask`` sends and tells.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from openpi_policy_ros.doctor import children
from openpi_policy_ros.doctor.asked import Asked
from openpi_policy_ros.doctor.findings import Finding, fail, ok, skipped, warn

CHECK = 'DDS round trip'
PATIENCE = 14.0
"""Seconds for all of it, imports and discovery included."""
_DISCOVERY = 9.0
_IMAGES = 10
_PAUSE = 0.05
_HEIGHT, _WIDTH = 480, 640
_TOLERATED = 1
"""Images that may be lost."""
_MODULE = 'openpi_policy_ros.doctor.round_trip'


def examine(asked: Asked) -> list[Finding]:
    """Let them talk."""
    del asked
    return [judge(children.ask(_MODULE, ['ask', f'doctor_{os.getpid()}'], PATIENCE))]


def judge(answer: Mapping[str, Any]) -> Finding:
    """Judge what came across.

    Args:
        answer: of ``_ask``, or its problem.

    """
    if 'no_rclpy' in answer:
        return skipped(CHECK, answer['no_rclpy'])
    if 'problem' in answer:
        remedy = 'see whether `ros2 run demo_nodes_py talker` and `listener` hear each other'
        return children.unanswered(CHECK, 'two participants could not be tried', answer, remedy)
    rmw, took = answer['rmw'], answer['discovery']
    if took is None:
        return fail(
            CHECK,
            f'two participants on this machine ({rmw}) did not find each other within '
            f'{_DISCOVERY:.0f} s',
            'compare ROS_DOMAIN_ID and RMW_IMPLEMENTATION, free /dev/shm of files of dead '
            'processes, and see what is said of the discovery range and multicast',
        )
    if not answer['message']:
        text = f'they found each other ({rmw}), but a message did not come across'
        return fail(CHECK, text, 'let the firewall pass UDP on the loopback interface')
    came = answer['images']
    text = (
        f'{rmw}: found each other in {took:.1f} s; {came} of {_IMAGES} images of '
        f'{_WIDTH}x{_HEIGHT} arrived'
    )
    if came < _IMAGES - _TOLERATED:
        return (warn if came else fail)(CHECK, text, answer['remedy'])
    return ok(CHECK, text)


def _ask(name: str) -> dict[str, Any]:
    try:
        import rclpy
        from rclpy.qos import QoSProfile, ReliabilityPolicy
        from rclpy.utilities import get_rmw_implementation_identifier
        from sensor_msgs.msg import Image
        from std_msgs.msg import String
    except ImportError as error:
        return {'no_rclpy': f'rclpy cannot be imported: {error}'}
    from openpi_policy_ros.ros.watch import loss_remedy

    rmw = get_rmw_implementation_identifier()
    answer: dict[str, Any] = {
        'rmw': rmw,
        'remedy': loss_remedy(rmw, os.environ),
        'discovery': None,
        'message': False,
        'images': 0,
    }
    rclpy.init()
    node = rclpy.create_node(f'{name}_asks')
    replies: list[str] = []
    reliable = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
    node.create_subscription(String, f'_{name}/reply', lambda one: replies.append(one.data), 10)
    words = node.create_publisher(String, f'_{name}/word', reliable)
    best = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    pictures = node.create_publisher(Image, f'_{name}/image', best)
    other = subprocess.Popen([sys.executable, '-m', _MODULE, 'answer', name])
    began = time.monotonic()
    try:
        # The clock starts with the first word of the other, whose imports take their time.
        while time.monotonic() - began < PATIENCE - 3.0 and not replies:
            rclpy.spin_once(node, timeout_sec=0.02)
            if other.poll() is not None:
                return {'problem': f'the second process ended with {other.returncode}'}
            if words.get_subscription_count() and pictures.get_subscription_count():
                if answer['discovery'] is None:
                    answer['discovery'] = time.monotonic() - began
                words.publish(String(data='count'))
            elif time.monotonic() - began > _DISCOVERY:
                return answer
        if not replies:
            return answer
        answer['message'] = True
        image = Image(height=_HEIGHT, width=_WIDTH, encoding='rgb8', step=3 * _WIDTH)
        image.data = bytes(image.step * image.height)
        for _ in range(_IMAGES):
            pictures.publish(image)
            rclpy.spin_once(node, timeout_sec=_PAUSE)
        for _ in range(20):
            words.publish(String(data='count'))
            rclpy.spin_once(node, timeout_sec=0.02)
            answer['images'] = int(replies[-1])
            if answer['images'] >= _IMAGES:
                break
    finally:
        other.kill()
        other.wait()
        node.destroy_node()
        rclpy.try_shutdown()
    return answer


def _answer(name: str) -> None:
    import rclpy
    from rclpy.qos import QoSProfile, ReliabilityPolicy
    from sensor_msgs.msg import Image
    from std_msgs.msg import String

    rclpy.init()
    node = rclpy.create_node(f'{name}_answers')
    count = 0

    def came(message: Image) -> None:
        nonlocal count
        count += len(message.data) == 3 * _WIDTH * _HEIGHT

    reply = node.create_publisher(String, f'_{name}/reply', 10)
    node.create_subscription(
        String, f'_{name}/word', lambda _: reply.publish(String(data=str(count))), 10
    )
    best = QoSProfile(depth=_IMAGES, reliability=ReliabilityPolicy.BEST_EFFORT)
    node.create_subscription(Image, f'_{name}/image', came, best)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        rclpy.spin_once(node, timeout_sec=0.1)


if __name__ == '__main__':
    if sys.argv[1] == 'answer':
        _answer(sys.argv[2])
    else:
        print(json.dumps(_ask(sys.argv[2])))
