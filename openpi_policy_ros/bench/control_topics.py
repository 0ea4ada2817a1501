# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure what lies between an observation and the command it leads to, beside the model.

The node of ``control_node`` in one process, the robot of ``topic_robot`` in another, both on one
monotonic clock. Overhead of a chunk: from the inference trigger to the arrival of the first command
that plays it, minus the wait for the next tick of the control thread. It holds the decoding of
images, the hand-over to the worker and back, the tick, publishing, and the way to the subscriber.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openpi_policy_ros.bench import topic_robot, topics
from openpi_policy_ros.bench.child import Child, ChildFailed
from openpi_policy_ros.bench.echo_policy import HORIZON
from openpi_policy_ros.bench.statistics import quantiles

NODE = 'openpi_policy'
CONTROL_RATE = 100.0
ENABLE_TIMEOUT = 60.0
_CAMERAS = ('observation/base', 'observation/left_wrist', 'observation/right_wrist')

missing = topics.missing


def measure(seconds: float) -> dict[str, Any]:
    """Return overhead, wait and total, ms.

    Args:
        seconds: to measure, once commands flow.

    Raises:
        ChildFailed: a process ended, or no command came; shows its log.

    """
    with tempfile.TemporaryDirectory(prefix='openpi_bench_') as scratch:
        folder = Path(scratch)
        env = topics.environment(os.environ, folder, threads=1)
        robot, parameters = folder / 'robot.yaml', folder / 'node.yaml'
        robot.write_text(topics.ros_file(robot_file()), encoding='utf-8')
        values = {
            'model': 'counting',
            'robot': str(robot),
            'port': 0,
            'autostart': True,
            'default_prompt': 'pick up the red block',
        }
        parameters.write_text(topics.ros_file(values), encoding='utf-8')
        arguments = ['--ros-args', '--params-file', str(parameters)]
        with (
            Child('openpi_policy_ros.bench.control_node', arguments, env) as node,
            Child('openpi_policy_ros.bench.topic_robot', ['raw', '--node', NODE], env) as source,
        ):
            _enable(node, source)
            before = source.ask('commands')['count']
            time.sleep(seconds)
            heard = source.ask('commands')
            chunks = node.ask('report')['chunks']
    commands = dict(heard['first'])
    found = [split(chunk, commands[round(chunk[1], 6)]) for chunk in chunks if chunk[1] in commands]
    if not found:
        raise ChildFailed('no chunk was played', remedy='measure for longer')
    return {
        'seconds': seconds,
        'control_rate': CONTROL_RATE,
        'chunks': len(found),
        'commands': heard['count'] - before,
        **{name: quantiles([one[name] for one in found]) for name in found[0]},
    }


def split(chunk: tuple[int, float, int, int, int], came_ns: int) -> dict[str, float]:
    """Return the parts of a chunk's way to the robot, ms.

    Args:
        chunk: serial, position, and when it was triggered, taken over by the core, and played by
            the first tick after that, ns.
        came_ns: arrival of the first command that plays it.

    """
    _, _, triggered, taken, played = chunk
    return {
        'overhead_ms': ((came_ns - triggered) - (played - taken)) * 1e-6,
        'wait_ms': (played - taken) * 1e-6,
        'to_core_ms': (taken - triggered) * 1e-6,
        'to_robot_ms': (came_ns - played) * 1e-6,
        'total_ms': (came_ns - triggered) * 1e-6,
    }


def robot_file() -> dict[str, Any]:
    """Return the robot of ``topic_robot``, commanded by one array, free of limits."""
    joints = list(topic_robot.JOINTS)
    count = len(joints)
    cameras: Mapping[str, Any] = {
        name: {'topic': topic_robot.topic(name), 'key': key}
        for name, key in zip(topic_robot.CAMERAS, _CAMERAS, strict=True)
    }
    return {
        'camera_names': list(topic_robot.CAMERAS),
        'cameras': cameras,
        'joints': {'names': joints, 'keys': ['observation/state'] * count},
        'timing': {'action_rate': float(HORIZON), 'inference_rate': topics.INFERENCE_RATE},
        'output_names': ['arm'],
        'outputs': {
            'arm': {
                'type': 'array',
                'topic': topic_robot.COMMANDS,
                'joints': joints,
                'action_indices': list(range(count)),
            }
        },
        'limits': {
            'position_min': [-100.0] * count,
            'position_max': [100.0] * count,
            'velocity': [1e6] * count,
        },
        # The first command of a chunk is its number, unfaded.
        'execution': {'control_rate': CONTROL_RATE, 'blend_steps': 0},
        'safety': {'max_start_jump': 10.0, 'max_wait': 600.0, 'watchdog_periods': 100.0},
    }


def _enable(node: Child, source: Child) -> None:
    deadline = time.monotonic() + ENABLE_TIMEOUT
    while True:
        answer = source.ask('enable')
        if answer['done'] and source.ask('commands')['count']:
            return
        if time.monotonic() > deadline:
            raise ChildFailed(
                f'no command within {ENABLE_TIMEOUT:g} s ({answer["text"]}); the node said: '
                f'{node.log()}'
            )
        time.sleep(0.2)
