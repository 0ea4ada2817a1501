# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy inspect``: what a checkpoint is, and whether it would be served."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from openpi_policy_ros.cli.common import add_command, add_file_arguments

SERVED, REFUSED = 0, 1

DESCRIPTION = """\
Tell what a checkpoint is and whether it would be served, without loading it.

Reads names, small files and the headers of the weights: a second for a model of any size. All
that serving would refuse is listed at once, each with what to do about it. A folder never touches
the network; of a hub id only small files and headers are fetched.

Exit status: 0 it would be served, 1 it would be refused, 2 there is nothing to look at.
"""
EXAMPLES = """\
examples:
  openpi-policy inspect /tmp/pi0_small
  openpi-policy inspect ~/checkpoints/pi0_droid --policy pi0 --robot droid
  openpi-policy inspect lerobot/pi0_base --json
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'inspect',
        summary='tell what a checkpoint is and what would be refused',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.set_defaults(run=_inspect)
    parser.add_argument(
        'model', metavar='MODEL', help='a directory, or a hub id where no such directory exists'
    )
    add_file_arguments(parser)
    parser.add_argument('--json', action='store_true', help='print one JSON object')


def _inspect(options: argparse.Namespace) -> int:
    # Read when the hub's client is imported; its bars tell nothing about files this small.
    os.environ.setdefault('HF_HUB_DISABLE_PROGRESS_BARS', '1')
    from openpi_policy_ros.cli.inspect_text import as_text
    from openpi_policy_ros.policies.inspection import inspect_model
    from openpi_policy_ros.policies.inspection_json import as_json

    inspection = inspect_model(
        options.model, policy=options.policy, robot=options.robot, revision=options.revision
    )
    if options.json:
        print(json.dumps(as_json(inspection), indent=2, ensure_ascii=False))
    else:
        print(as_text(inspection))
    return SERVED if inspection.served else REFUSED
