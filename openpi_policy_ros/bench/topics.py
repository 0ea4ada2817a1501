# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure what lies between topics and a chunk beside the model: the node's own overhead.

A robot process publishes three 640×480 cameras at 30 Hz and joints at 100 Hz; the real node runs in
another. Overhead of a chunk: from the inference trigger to its publication, minus what the policy
says of its preprocessing and its model. It holds the decoding of images, the hand-over to the
worker and back, the wait for the interpreter while subscriptions receive, and publishing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from openpi_policy_ros.bench.child import Child, ChildFailed
from openpi_policy_ros.bench.statistics import quantiles, table
from openpi_policy_ros.errors import ConfigurationError

TRANSPORTS = ('raw', 'jpeg')
INFERENCE_RATE = 10.0
"""Inferences per second at most: what a robot with chunks of a second asks for, and more."""
FIRST_CHUNK_TIMEOUT = 120.0
SETTLE = 1.0
MODEL_CAMERAS = (
    'observation.images.base_0_rgb',
    'observation.images.left_wrist_0_rgb',
    'observation.images.right_wrist_0_rgb',
)


def missing() -> str | None:
    """Return what to install before this can run, None = nothing."""
    if importlib.util.find_spec('rclpy') is None:
        return 'rclpy is not there: source a ROS 2 installation, or install its wheels'
    return None


def measure(*, seconds: float, model: str | None, size: str, threads: int | None) -> dict[str, Any]:
    """Return overhead and CPU time for raw and for JPEG images.

    Args:
        seconds: to measure for each transport, once chunks flow.
        model: a π0 checkpoint directory with the base model's three cameras; None = make one.
        size: of the checkpoint that is made.
        threads: of torch in the node; None = as it is.

    Raises:
        ConfigurationError: rclpy is missing.
        ChildFailed: a process ended, or no chunk came; shows its log.

    """
    problem = missing()
    if problem is not None:
        raise ConfigurationError('bench topics', [problem])
    with tempfile.TemporaryDirectory(prefix='openpi_bench_') as scratch:
        if model is None:
            from openpi_policy_ros.policies.pi0.make_checkpoint import make_checkpoint

            model = str(Path(scratch) / size)
            make_checkpoint(Path(model), size, 0)
        env = environment(os.environ, Path(scratch), threads)
        return {
            'seconds': seconds,
            'inference_rate': INFERENCE_RATE,
            'threads': threads,
            'model_alone_ms': _alone(model, threads),
            'transports': {
                name: _measure(name, model, env, Path(scratch), seconds) for name in TRANSPORTS
            },
        }


def environment(ours: Mapping[str, str], scratch: Path, threads: int | None) -> dict[str, str]:
    """Return the environment of both processes: on this host only, large images let through."""
    from openpi_policy_ros.ros.launch_arguments import dds_environment

    env = {**ours, **dds_environment(ours), 'ROS_LOG_DIR': str(scratch / 'ros_log')}
    env.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
    # Nobody else's robot shall move by our chunks.
    env.setdefault('ROS_DOMAIN_ID', str(1 + os.getpid() % 100))
    if 'ROS_DISTRO' not in env:
        # The wheels live in the environment's own prefix.
        env.setdefault('AMENT_PREFIX_PATH', sys.prefix)
    if threads is not None:
        env['OMP_NUM_THREADS'] = str(threads)
    return env


def _measure(
    transport: str, model: str, env: Mapping[str, str], scratch: Path, seconds: float
) -> dict[str, Any]:
    robot, parameters = scratch / f'{transport}_robot.yaml', scratch / f'{transport}.yaml'
    robot.write_text(ros_file(robot_file(transport)), encoding='utf-8')
    values = {
        'model': model,
        'robot': str(robot),
        'port': 0,
        'autostart': True,
        'default_prompt': 'pick up the red block',
    }
    parameters.write_text(ros_file(values), encoding='utf-8')
    arguments = ['--ros-args', '--params-file', str(parameters)]
    with (
        Child('openpi_policy_ros.bench.topic_node', arguments, env) as node,
        Child('openpi_policy_ros.bench.topic_robot', [transport], env) as source,
    ):
        _wait_for_chunks(node)
        time.sleep(SETTLE)
        published, before = source.ask('usage'), node.ask('mark')
        began = time.monotonic()
        time.sleep(seconds)
        after = node.ask('report')
        took = time.monotonic() - began
        sent = source.ask('usage')
    chunks = after['chunks']
    if not chunks:
        raise ChildFailed(f'no chunk within {seconds:g} s', remedy='measure for longer')
    return {
        'chunks': len(chunks),
        'chunks_per_s': len(chunks) / took,
        'images_published_per_s': (sent['images'] - published['images']) / took,
        'overhead_ms': quantiles([overhead(chunk) for chunk in chunks]),
        'stages_ms': {
            name: quantiles([chunk[name] for chunk in chunks])
            for name in ('assemble', 'queue', 'preprocess', 'model', 'publish', 'total')
        },
        'node_cpu_percent': 100.0 * (after['cpu'] - before['cpu']) / took,
    }


def overhead(chunk: Mapping[str, float]) -> float:
    """Return what a chunk took beside preprocessing and model, ms.

    Args:
        chunk: stage → ms as the door logs it, with ``total`` from trigger to publication.

    """
    return chunk['total'] - chunk['preprocess'] - chunk['model']


def robot_file(transport: str) -> dict[str, Any]:
    """Return the robot file that fits ``topic_robot`` and the base model's own names."""
    from openpi_policy_ros.bench import topic_robot

    cameras: dict[str, dict[str, str]] = {}
    for name, key in zip(topic_robot.CAMERAS, MODEL_CAMERAS, strict=True):
        cameras[name] = {'topic': topic_robot.topic(name), 'key': key}
        if transport == 'jpeg':
            cameras[name]['transport'] = 'compressed'
    joints = list(topic_robot.JOINTS)
    return {
        'profile': {
            'action_space': 'joint_position',
            'action_names': joints,
            'crop_columns': len(joints),
        },
        'camera_names': list(topic_robot.CAMERAS),
        'cameras': cameras,
        'joints': {
            'names': joints,
            'keys': ['state'] * len(joints),
            'action_indices': list(range(len(joints))),
        },
        'timing': {'action_rate': 50.0, 'inference_rate': INFERENCE_RATE},
    }


def ros_file(parameters: Mapping[str, Any]) -> str:
    """Return a file of parameters for every node."""
    return yaml.safe_dump({'/**': {'ros__parameters': dict(parameters)}})


def _alone(model: str, threads: int | None) -> float:
    """Return the model's median time for three cameras in a process with nothing else to do."""
    from openpi_policy_ros.bench import model as model_bench

    alone = model_bench.measure(
        model=model,
        size='',
        cameras=[3],
        steps=None,
        threads=threads,
        device='cpu',
        rounds=10,
        reference=False,
    )
    return float(alone['cameras']['3']['stages_ms']['model']['median'])


def _wait_for_chunks(node: Child) -> None:
    deadline = time.monotonic() + FIRST_CHUNK_TIMEOUT
    while node.ask('report')['total'] == 0:
        if time.monotonic() > deadline:
            raise ChildFailed(
                f'no chunk within {FIRST_CHUNK_TIMEOUT:g} s; the node said: {node.log()}',
                expected='chunks once the cameras publish',
            )
        time.sleep(0.2)


def report(result: dict[str, Any]) -> str:
    """Return the table."""
    rows = []
    for name, one in result['transports'].items():
        over, stages = one['overhead_ms'], one['stages_ms']
        rows.append(
            [
                name,
                str(one['chunks']),
                f'{over["p50"]:.1f}',
                f'{over["p99"]:.1f}',
                f'{stages["assemble"]["p50"]:.1f}',
                f'{stages["preprocess"]["p50"]:.1f}',
                f'{stages["model"]["p50"]:.1f}',
                f'{stages["publish"]["p50"]:.1f}',
                f'{one["node_cpu_percent"]:.0f} %',
            ]
        )
    threads = result['threads']
    head = (
        f'{result["seconds"]:g} s each, {result["inference_rate"]:g} inferences/s at most, '
        f'{"as many torch threads as cores" if threads is None else f"{threads} torch threads"}; '
        f'the model alone, without a node: {result["model_alone_ms"]:.1f} ms'
    )
    headings = [
        'images',
        'chunks',
        'overhead p50 ms',
        'p99 ms',
        'of it assemble',
        'preprocess ms',
        'model ms',
        'publish ms',
        'node CPU',
    ]
    return f'{head}\n\n{table(headings, rows)}'
