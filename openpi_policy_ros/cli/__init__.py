# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``openpi-policy``: what needs no ROS, ``robot`` excepted. One module per command.

Exit status: 0 done, 1 done with a bad result, 2 refused (one message on stderr says what and how to
mend it), 128 + n ended by signal n before there was anything to drain. Everything heavy is imported
by the command that needs it, so that ``--help`` is quick.
"""

from __future__ import annotations

from collections.abc import Sequence

from openpi_policy_ros.cli import (
    bench,
    check,
    client,
    doctor,
    inspect,
    layout,
    make_checkpoint,
    replay,
    robot,
    serve,
)
from openpi_policy_ros.cli.frame import Program

COMMANDS = (serve, client, robot, replay, inspect, check, layout, doctor, make_checkpoint, bench)
"""Modules with ``add(commands)``, in the order ``--help`` lists them."""

DESCRIPTION = """\
Serve vision-language-action policies to OpenPI clients, without ROS.
"""
EXAMPLES = """\
first steps, no download, no GPU:
  openpi-policy make-checkpoint /tmp/pi0_small
  openpi-policy serve --model /tmp/pi0_small

with the robot's own cameras and joints as well (needs ROS 2):
  ros2 launch openpi_policy_ros serve.launch.py policy:=pi0 robot:=droid model:=/tmp/pi0_small

`openpi-policy COMMAND --help` explains each command.
"""

PROGRAM = Program('openpi-policy', DESCRIPTION, EXAMPLES, COMMANDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    return PROGRAM.main(arguments)
