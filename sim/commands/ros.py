# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy-sim ros``: be a ROS 2 robot that the policy's node drives, and measure it."""

from __future__ import annotations

import argparse
import math
from typing import Any

from openpi_policy_ros.cli.common import add_command, add_log_level, log_to_stderr
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros_sim.commands.looks import add_meshes
from openpi_policy_ros_sim.tasks import PROMPTED

DESCRIPTION = """\
Be the robot of a robot file on ROS topics: cameras, joint_states, /clock, robot_description, and a
controller behind every output. For each episode, reset the scene, tell the policy's node the
instruction, enable it, and judge what it does. All gates of the node are on.

The node has to run beside it, with the same robot file and use_sim_time:=true:
  ros2 launch openpi_policy_ros sim.launch.py          starts both
Exit status 0: every episode ran, whether it succeeded or not; 1: the node went away or refused,
what was done up to then is written; 2: refused before the first episode.
"""
EXAMPLES = """\
examples:
  the node, then in another terminal ten episodes with a file of results and videos:
    openpi_policy_node --ros-args -p model:=CHECKPOINT -p robot:=sim_droid -p use_sim_time:=true
    openpi-policy-sim ros --task lift --episodes 10 --json results.json --video videos
  just the robot; enable the node, and reset the scene, by hand:
    openpi-policy-sim ros --episodes 0
    ros2 service call /sim_robot/reset std_srvs/srv/Trigger
  half as fast, for a policy that thinks long:
    openpi-policy-sim ros --rate 0.5
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'ros',
        summary='let the ROS 2 node drive the simulated robot',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    add_arguments(parser, episodes=10)
    parser.set_defaults(run=run)


def add_arguments(parser: argparse.ArgumentParser, *, episodes: int) -> None:
    """Add all arguments; ``episodes`` is the default of that one."""
    what = parser.add_argument_group('what to run')
    what.add_argument(
        '--robot',
        default='sim_droid',
        help='robot file: the name of a shipped one or a path (default: sim_droid)',
    )
    what.add_argument(
        '--task', nargs='+', choices=PROMPTED, default=[PROMPTED[0]], help='(default: lift)'
    )
    what.add_argument(
        '--prompt', help="instruction instead of the task's own; the task is still judged"
    )
    what.add_argument(
        '--episodes',
        type=int,
        default=episodes,
        help=f'per task; 0 = just be the robot (default: {episodes})',
    )
    what.add_argument(
        '--seed',
        type=int,
        default=0,
        help='of the first episode; the next has the next (default: 0)',
    )
    what.add_argument(
        '--max-steps',
        type=int,
        default=450,
        help='fifteenths of a second from enabling on before time is up (default: 450, 30 s)',
    )
    how = parser.add_argument_group('the robot')
    how.add_argument(
        '--rate',
        type=float,
        default=1.0,
        metavar='FACTOR',
        help='most simulated seconds per second; where the machine is slower, simulated time is, '
        'too; 0 = as fast as it goes (default: 1)',
    )
    how.add_argument(
        '--camera-rate',
        type=int,
        default=15,
        metavar='HZ',
        help='images per simulated second, a divisor of 120 (default: 15)',
    )
    how.add_argument(
        '--size',
        type=_size,
        default=(224, 126),
        metavar='WxH',
        help="of images; DROID's are 16:9, and 224 wide once its client has scaled them (default: "
        '224x126)',
    )
    how.add_argument(
        '--wall-clock',
        action='store_true',
        help='stamp with the time of day, publish no /clock; for a node with use_sim_time:=false',
    )
    how.add_argument(
        '--node',
        default='openpi_policy',
        help="the policy's node, relative to the namespace (default: openpi_policy)",
    )
    how.add_argument(
        '--patience',
        type=float,
        default=300.0,
        metavar='SECONDS',
        help='wait so long for the node to load its model (default: 300)',
    )
    add_meshes(how)
    result = parser.add_argument_group('results')
    result.add_argument('--json', metavar='FILE', help='file for every episode and the summary')
    result.add_argument('--video', metavar='DIR', help='folder for one MP4 file per episode')
    result.add_argument(
        '--gif', action='store_true', help='write a small GIF beside each MP4; needs --video'
    )
    result.add_argument('--view', action='store_true', help='show a window; needs a display')
    add_log_level(result, default='warning')
    parser.add_argument(
        '--ros-args',
        nargs=argparse.REMAINDER,
        default=[],
        help="ROS's own arguments, e.g. -r __ns:=/left; the last ones",
    )


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.partition('x')
    size = (int(width), int(height)) if width.isdecimal() and height.isdecimal() else (0, 0)
    if min(size) < 16 or size[0] > 1920 or size[1] > 1080:
        raise argparse.ArgumentTypeError(f'expected 16x16 to 1920x1080, found {text!r}')
    return size


def run(options: argparse.Namespace) -> int:
    """Do what the arguments say and return the exit status.

    Raises:
        PolicyRosError: what makes it impossible, before anything was run.

    """
    from openpi_policy_ros_sim.extras import require

    require('mujoco')
    if options.gif and not options.video:
        raise ConfigurationError('arguments', ['--gif: needs --video DIR, where it is written'])
    if options.gif:
        require('PIL')
    if not 0.0 <= options.patience < math.inf:
        raise ConfigurationError(
            'arguments', [f'--patience: {options.patience:g}, expected 0 s or more']
        )
    log_to_stderr(options.log_level)

    from openpi_policy_ros_sim.ros import main

    return main.run(options)
