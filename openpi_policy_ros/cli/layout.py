# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy layout``: what RViz or Foxglove opens to show one robot and its node."""

from __future__ import annotations

import argparse
from typing import Any

from openpi_policy_ros.cli.common import add_command

DESCRIPTION = """\
Print a configuration for RViz or a layout for Foxglove that shows what belongs to a robot file:
its cameras, the robot, the path that the last chunk plans, and in Foxglove the chunk's numbers, the
diagnostics, the status and the buttons of the node.

The file goes to standard output. Nothing is asked of a running robot.
"""
EXAMPLES = """\
examples:
  RViz (the frame is the root link of the robot's URDF, or any other that TF knows):
    openpi-policy layout --robot fr3 --format rviz --frame base > fr3.rviz
    rviz2 -d fr3.rviz
  Foxglove, for one of two robots; open it with "Import from file" in the menu of layouts:
    openpi-policy layout --robot fr3 --format foxglove --frame base --namespace /left > left.json
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'layout',
        summary='print a configuration of RViz or Foxglove for a robot file',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.set_defaults(run=_layout)
    parser.add_argument(
        '--robot',
        required=True,
        help='robot file: the name of a shipped one (droid) or a path',
    )
    parser.add_argument('--format', required=True, choices=('rviz', 'foxglove'), help='whose')
    parser.add_argument('--namespace', default='', help='of the node, e.g. /left (default: none)')
    parser.add_argument(
        '--frame',
        default='base_link',
        help='fixed frame: one that TF knows, best the root link of the URDF (default: base_link)',
    )


def _layout(options: argparse.Namespace) -> int:
    from openpi_policy_ros.cli.layout_foxglove import foxglove_layout
    from openpi_policy_ros.cli.layout_rviz import rviz_config
    from openpi_policy_ros.cli.layout_scene import Scene
    from openpi_policy_ros.configuration.robot import load_robot

    scene = Scene(load_robot(options.robot), options.namespace, options.frame)
    print(
        rviz_config(scene) if options.format == 'rviz' else foxglove_layout(scene),
        end='',
    )
    return 0
