# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Executable ``openpi_policy_fake_robot``: be the robot of a robot file until a signal."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openpi_policy_ros.configuration.robot import RobotConfig, load_robot
from openpi_policy_ros.errors import ConfigurationError, PolicyRosError
from openpi_policy_ros.fake_robot.faults import EXAMPLE, KINDS, Fault, parse_faults
from openpi_policy_ros.fake_robot.joints import Joint, make_joints

if TYPE_CHECKING:
    from openpi_policy_ros.fake_robot.node import FakeRobotNode

REFUSED = 2
POLL = 0.1

DESCRIPTION = """\
Be the robot that a robot file describes: joint states, drawn cameras, and a controller behind every
output, which moves the joints. For trying out a robot file, the node and its gates without a robot.
"""
FAULTS = '\n'.join(f'  {name:17} {what}' for name, what in KINDS.items())
EXAMPLES = f"""\
faults, {EXAMPLE} (seconds after the start; no END = for good):
{FAULTS}

examples:
  openpi_policy_fake_robot --robot so101
  two robots on one machine, each in a namespace:
    openpi_policy_fake_robot --robot so101 --ros-args -r __ns:=/left
  a camera that fails for three seconds, and one whose clock is wrong:
    openpi_policy_fake_robot --robot so101 --fault camera:front@10..13 --fault skew:wrist=0.5@20..25
"""


def main(args: Sequence[str] | None = None) -> int:
    """Run the robot; return 0 after a signal, 2 where it cannot be."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    logging.basicConfig(format='%(levelname)s: %(message)s')
    words = list(sys.argv[1:] if args is None else args)
    split = words.index('--ros-args') if '--ros-args' in words else len(words)
    options = _parser().parse_args(words[:split])
    try:
        robot, joints, faults, urdf = _read(options)
    except (PolicyRosError, OSError, ValueError) as error:
        return _refuse(error)
    try:
        import rclpy
        from rclpy.exceptions import NameValidationException
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions

        from openpi_policy_ros.fake_robot.node import FakeRobotNode
    except ImportError as error:
        return _refuse(
            f'needs ROS 2, which cannot be imported ({error}); source an installation, or enter '
            'the environment of scripts/install.sh (. scripts/env.sh)'
        )
    try:
        rclpy.init(args=words[split:], signal_handler_options=SignalHandlerOptions.NO)
        node = FakeRobotNode(robot, joints, faults, size=options.size, urdf=urdf)
    except (RuntimeError, ValueError, NameValidationException, PolicyRosError) as error:
        rclpy.try_shutdown()
        return _refuse(error)
    print(node.introduction(), flush=True)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    if not options.quiet:
        _tell(node)
    while not ended.is_set():
        executor.spin_once(timeout_sec=POLL)
    executor.shutdown()
    node.destroy_node()
    rclpy.try_shutdown()
    return 0


def _tell(node: FakeRobotNode) -> None:
    """Say once a second how it is; only what moves, and how often it is told to."""
    node.create_timer(1.0, lambda: print(node.summary(), flush=True))


def _refuse(error: object) -> int:
    print(f'openpi_policy_fake_robot: {error}', file=sys.stderr)
    return REFUSED


def _read(
    options: argparse.Namespace,
) -> tuple[RobotConfig, dict[str, Joint], list[Fault], str | None]:
    """Return what the arguments name, read and checked."""
    robot = load_robot(options.robot)
    urdf = None if options.urdf is None else options.urdf.read_text(encoding='utf-8')
    if not robot.camera_names and not robot.joints.names:
        raise ConfigurationError(
            'fake robot',
            [f'--robot {options.robot}: names neither cameras nor joints, so there is no robot'],
        )
    joints = make_joints(robot, urdf=urdf, home=dict(options.home))
    faults = parse_faults(options.fault, robot.camera_names, robot.joints.names)
    return robot, joints, faults, urdf


def _home(text: str) -> tuple[str, float]:
    name, equals, value = text.rpartition('=')
    if not equals:
        raise argparse.ArgumentTypeError(f'expected JOINT=POSITION, found {text!r}')
    return name, float(value)


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition('x')
    size = int(width), int(height)
    if min(size) < 32 or max(size) > 4096:
        raise argparse.ArgumentTypeError(f'expected 32x32 to 4096x4096, found {text!r}')
    return size


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='openpi_policy_fake_robot',
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        '--robot', required=True, help='robot file: the name of a shipped one (so101) or a path'
    )
    parser.add_argument(
        '--urdf',
        type=Path,
        metavar='FILE',
        help='robot description, published on robot_description; its limits count where the robot '
        'file has none',
    )
    parser.add_argument(
        '--home',
        type=_home,
        action='append',
        default=[],
        metavar='JOINT=POSITION',
        help='where a joint stands at first, rad or m (default: the middle between its limits); '
        'may be repeated',
    )
    parser.add_argument(
        '--fault', action='append', default=[], metavar='FAULT', help='see below; may be repeated'
    )
    parser.add_argument(
        '--size',
        type=_size,
        default=(640, 480),
        metavar='WxH',
        help='of the cameras, in pixels (default: 640x480)',
    )
    parser.add_argument('--quiet', action='store_true', help='no line every second')
    return parser


if __name__ == '__main__':
    sys.exit(main())
