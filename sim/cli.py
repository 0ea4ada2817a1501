# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``openpi-policy-sim``: one module per loop that drives the simulated robot.

Exit status: 0 done, 1 done with a bad result, 2 refused (one message on stderr says what and how to
mend it). Everything heavy is imported by the command that needs it, so that ``--help`` is quick.
"""

from __future__ import annotations

from collections.abc import Sequence

from openpi_policy_ros.cli.frame import Program
from openpi_policy_ros_sim.commands import ros, ws

COMMANDS = (ws, ros)
"""Modules with ``add(commands)``, in the order ``--help`` lists them."""

DESCRIPTION = """\
Let a policy drive a simulated DROID robot, and measure whether it does what it was told.
"""
EXAMPLES = """\
first steps, no download, no GPU; in one terminal, then in another:
  openpi-policy serve --model demo --robot droid_jointpos
  openpi-policy-sim ws --url ws://127.0.0.1:8000/v1/realtime/robot/openpi --episodes 3
demo is a small trained policy that comes with the simulator; --policy sim_expert in its place
serves a scripted expert, which is told where things are.

`openpi-policy-sim COMMAND --help` explains each command.
"""

PROGRAM = Program('openpi-policy-sim', DESCRIPTION, EXAMPLES, COMMANDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    return PROGRAM.main(arguments)


if __name__ == '__main__':
    raise SystemExit(main())
