# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The frame of a command line with subcommands: parse, run, one line on stderr where refused."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openpi_policy_ros import __version__
from openpi_policy_ros.cli.common import REFUSED
from openpi_policy_ros.errors import PolicyRosError


@dataclass(frozen=True)
class Program:
    """A program and its commands.

    Attributes:
        name: of the program, as in its usage.
        description, examples: above and below what ``--help`` lists.
        commands: modules with ``add(commands)``, which sets ``run``, in the order of ``--help``.

    """

    name: str
    description: str
    examples: str
    commands: Sequence[Any]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command line and return the exit status."""
        parser = self.parser()
        options = parser.parse_args(arguments)
        if options.run is None:
            parser.print_help(sys.stderr)
            return REFUSED
        try:
            status: int = options.run(options)
        except (PolicyRosError, OSError) as error:
            print(f'{self.name} {options.command}: {error}', file=sys.stderr)
            return REFUSED
        return status

    def parser(self) -> argparse.ArgumentParser:
        """Return the parser of all commands; ``run`` is None where none was given."""
        parser = argparse.ArgumentParser(
            prog=self.name,
            description=self.description,
            epilog=self.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument('--version', action='version', version=f'%(prog)s {__version__}')
        parser.set_defaults(run=None)
        commands = parser.add_subparsers(dest='command', metavar='COMMAND', title='commands')
        for command in self.commands:
            command.add(commands)
        return parser
