# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Executable ``openpi_policy_sim_robot``, and what ``openpi-policy-sim ros`` does."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openpi_policy_ros.cli.common import REFUSED
from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.errors import ConfigurationError, PolicyRosError
from openpi_policy_ros_sim.commands import ros as command
from openpi_policy_ros_sim.commands.looks import chosen_meshes
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.outlets import writable

if TYPE_CHECKING:
    from openpi_policy_ros_sim.results import Settings
    from openpi_policy_ros_sim.ros.link import PolicyLink
    from openpi_policy_ros_sim.ros.node import SimulatedRobotNode

NAME = 'openpi_policy_sim_robot'


def main(arguments: Sequence[str] | None = None) -> int:
    """Be the simulated robot; return as ``openpi-policy-sim ros`` does."""
    parser = argparse.ArgumentParser(
        prog=NAME,
        description=f'The same as `openpi-policy-sim ros`.\n\n{command.DESCRIPTION}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser, episodes=0)
    options = parser.parse_args(arguments)
    try:
        return command.run(options)
    except (PolicyRosError, OSError) as error:
        print(f'{NAME}: {error}', file=sys.stderr)
        return REFUSED


def run(options: argparse.Namespace) -> int:
    """Run the robot, and episodes where some are wanted; return the exit status.

    Raises:
        PolicyRosError: what makes it impossible, before anything was run.

    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    robot = load_robot(options.robot)
    settings = _settings(options)
    outlets = {
        name: writable(f'--{name}', getattr(options, name), folder=name == 'video')
        for name in ('json', 'video')
    }
    try:
        import rclpy
        from rclpy.exceptions import NameValidationException
        from rclpy.signals import SignalHandlerOptions
    except ImportError as error:
        raise SimulationError(
            f'ROS 2 cannot be imported ({error})',
            remedy='source an installation, or enter the environment of scripts/install.sh '
            '(. scripts/env.sh)',
        ) from error

    from openpi_policy_ros_sim.environment import Environment
    from openpi_policy_ros_sim.ros.arm import check_robot
    from openpi_policy_ros_sim.ros.company import refuse_company
    from openpi_policy_ros_sim.ros.link import PolicyLink
    from openpi_policy_ros_sim.ros.node import Interrupted, Options, SimulatedRobotNode

    check_robot(robot, options.robot)
    meshes = chosen_meshes(options)
    wanted = Options(options.size, options.camera_rate, options.rate, options.wall_clock)
    ros = ['--ros-args', *options.ros_args] if options.ros_args else []
    try:
        rclpy.init(args=ros, signal_handler_options=SignalHandlerOptions.NO)
    except (RuntimeError, ValueError, NameValidationException) as error:
        rclpy.try_shutdown()
        raise SimulationError(f'ROS refuses {" ".join(ros)!r}: {error}') from error
    try:
        with Environment(meshes=meshes) as environment:
            # Refuses here, before anybody waits, where nothing can be drawn.
            environment.render(robot.camera_names[0], 16, 16)
            refuse_company(robot, clock=not options.wall_clock)
            node = SimulatedRobotNode(robot, environment, wanted, stop.is_set)
            try:
                print(_introduction(node, robot, options), flush=True)
                if settings is None:
                    return _live(node, options)
                link = PolicyLink(node, options.node, robot.safety.max_wait)
                return _episodes(link, node, options, settings, stop, **outlets)
            except Interrupted:
                return 0 if settings is None else 1
            finally:
                node.close()
    finally:
        rclpy.try_shutdown()


def _settings(options: argparse.Namespace) -> Settings | None:
    """Return which episodes to run, None = none are wanted."""
    from openpi_policy_ros_sim.results import Settings

    if options.episodes == 0:
        idle = [f'--{name}' for name in ('json', 'video') if getattr(options, name)]
        if idle:
            raise ConfigurationError(
                'arguments', [f'{", ".join(idle)}: no effect without episodes; say --episodes N']
            )
        return None
    return Settings.checked(
        tasks=tuple(dict.fromkeys(options.task)),
        episodes=options.episodes,
        seed=options.seed,
        max_steps=options.max_steps,
        prompt=options.prompt,
    )


def _live(node: SimulatedRobotNode, options: argparse.Namespace) -> int:
    """Be the robot until a signal; ``~/reset`` brings the next seed."""
    import contextlib

    from openpi_policy_ros_sim.ros.live import live
    from openpi_policy_ros_sim.window import Window

    with contextlib.ExitStack() as stack:
        environment = node.arm.environment
        window = stack.enter_context(Window(environment)) if options.view else None
        live(node, options.seed, window)
    return 0


def _episodes(
    link: PolicyLink,
    node: SimulatedRobotNode,
    options: argparse.Namespace,
    settings: Settings,
    stop: threading.Event,
    *,
    json: Path | None,
    video: Path | None,
) -> int:
    from openpi_policy_ros_sim.ros.evaluation import Outlets, evaluate
    from openpi_policy_ros_sim.ros.results import RosResults

    link.wait_until_there(options.patience)
    print(f'  driven by {node.resolve_topic_name(options.node)}, {link.model}', flush=True)
    plan = {
        'loop': 'ros',
        'robot': options.robot,
        'rate': options.rate,
        'camera_rate': options.camera_rate,
        'size': list(options.size),
        'wall_clock': options.wall_clock,
        'meshes': options.meshes,
        'cores': os.cpu_count(),
    }
    address = f'ros:{node.resolve_topic_name(options.node)}'
    results = RosResults(settings, plan, address, link.facts)
    outlets = Outlets(json, video, options.gif, options.view)
    failure = evaluate(node, link, results, stop, outlets)
    print(results.table(), flush=True)
    if failure is not None:
        print(f'openpi-policy-sim ros: {failure}', file=sys.stderr)
        return 1
    return 0


def _introduction(node: SimulatedRobotNode, robot: RobotConfig, options: argparse.Namespace) -> str:
    clock = 'the time of day' if options.wall_clock else '/clock'
    width, height = options.size
    lines = [
        f'simulated robot {node.get_fully_qualified_name()}, time: {clock}',
        *(
            f'  camera {name}: {width}x{height}, {options.camera_rate} Hz, '
            f'{robot.cameras[name].transport} on '
            f'{node.resolve_topic_name(robot.cameras[name].topic)}'
            for name in robot.camera_names
        ),
        *(
            f'  output {name}: {robot.outputs[name].type} on '
            f'{node.resolve_topic_name(robot.outputs[name].topic)}'
            for name in robot.output_names
        ),
    ]
    return '\n'.join(lines if robot.output_names else [*lines, '  no outputs: nothing moves it'])


if __name__ == '__main__':
    raise SystemExit(main())
