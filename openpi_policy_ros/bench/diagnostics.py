# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure what one message of ``/diagnostics`` costs the thread that takes the sensors' messages.

``python -m openpi_policy_ros.bench.diagnostics``: three cameras, 14 joints, an engine and a server
with full windows of samples. CPU time of the thread, from reading every counter to publishing.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

from openpi_policy_ros.bench.echo_policy import CAMERAS, WIDTH, EchoPolicy, observation
from openpi_policy_ros.bench.machine import describe, line
from openpi_policy_ros.bench.statistics import quantiles, table
from openpi_policy_ros.configuration.schema import validate
from openpi_policy_ros.engine import Engine, Lane
from openpi_policy_ros.policies.base import InferenceRequest, SessionKey
from openpi_policy_ros.ros.settings import NodeConfig
from openpi_policy_ros.server import ServerThread

JOINTS = tuple(f'joint_{number}' for number in range(1, 15))
SAMPLES = 600
"""Inferences before the measurement, more than a window of the engine holds."""
WARM = 70
"""Messages before the measurement: a minute's, which the window of counters holds."""

ROBOT: dict[str, Any] = {
    'camera_names': list(CAMERAS),
    'cameras': {
        name: {'topic': f'{name}/image_raw', 'key': f'observation/{name}'} for name in CAMERAS
    },
    'joints': {'names': list(JOINTS), 'keys': ['observation/state']},
    'timing': {'action_rate': 15.0},
    'limits': {
        'position_min': [-3.0] * len(JOINTS),
        'position_max': [3.0] * len(JOINTS),
        'velocity': [2.0] * len(JOINTS),
    },
    'output_names': ['arm'],
    'outputs': {
        'arm': {
            'type': 'array',
            'topic': 'arm/commands',
            'joints': list(JOINTS),
            'action_indices': list(range(len(JOINTS))),
        }
    },
}


def measure(count: int) -> list[float]:
    """Return the CPU time of so many messages, ms each."""
    import rclpy
    from rclpy.signals import SignalHandlerOptions

    config = validate(NodeConfig, {'model': 'echo', 'port': 0, **ROBOT}, 'bench diagnostics')
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node('bench_diagnostics')
    engine = Engine(EchoPolicy())
    try:
        engine.start()
        request = InferenceRequest(
            {**observation(8, 8), 'observation/state': [0.0] * WIDTH}, SessionKey('bench', '0')
        )
        for _ in range(SAMPLES):
            engine.submit(request, Lane.REMOTE).result()
        return _tick(node, config, engine, count)
    finally:
        engine.close()
        node.destroy_node()
        rclpy.shutdown()


def _tick(node: Any, config: NodeConfig, engine: Engine, count: int) -> list[float]:
    from openpi_policy_ros.ros.diagnostics import Diagnostics
    from openpi_policy_ros.ros.listener import Listeners
    from openpi_policy_ros.ros.publishers import PromptPublisher, Status, StatusPublisher
    from openpi_policy_ros.ros.robot_side import RobotSide
    from openpi_policy_ros.ros.vitals import Vitals

    listeners = Listeners()
    status = StatusPublisher(node, listeners.on_status)
    status.show(Status('READY'))
    robot = RobotSide(
        node,
        config,
        engine,
        prompt=PromptPublisher(node),
        seed=lambda: None,
        report=lambda state: None,
        report_tick=lambda tick: None,
        listeners=listeners,
    )
    server = ServerThread(engine, config.server())
    diagnostics = Diagnostics(node, status.newest)
    try:
        diagnostics.watch(
            Vitals(
                config,
                engine,
                server,
                address=f'{config.host}:{server.start()}',
                robot=robot,
                resolve=node.resolve_topic_name,
                active=lambda: True,
                # A second passes between two messages.
                clock=itertools.count(0.0, 1.0).__next__,
            )
        )
        times = []
        for _ in range(WARM + count):
            before = time.thread_time()
            diagnostics.publish()
            times.append(1e3 * (time.thread_time() - before))
        return times[WARM:]
    finally:
        server.stop()
        robot.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--count', type=int, default=300, help='messages to measure')
    options = parser.parse_args()
    print(line(describe()))
    found = quantiles(measure(options.count))
    numbers = [f'{ms:.2f}' for ms in found.values()]
    print(table(['CPU ms', *found], [['one message of /diagnostics', *numbers]]))


if __name__ == '__main__':
    main()
