# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy make-checkpoint``: something to try things out with."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from openpi_policy_ros.cli.common import add_command
from openpi_policy_ros.errors import ConfigurationError

DESCRIPTION = """\
Write a small, complete checkpoint with seeded random weights and its own tokenizer.

It has the real layout, so everything works with it as with a trained one, except that its actions
mean nothing: for trying out, tests and measurements, never for a robot that moves.
"""
EXAMPLES = """\
examples:
  openpi-policy make-checkpoint /tmp/pi0_small
  openpi-policy make-checkpoint /tmp/pi0_medium --size medium --seed 7
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'make-checkpoint',
        summary='write a small checkpoint to try things out',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.set_defaults(run=_make_checkpoint)
    parser.add_argument(
        'directory', metavar='DIR', type=Path, help='where to write; must be empty or not exist'
    )
    parser.add_argument('--policy', default='pi0', help='kind of policy (default: pi0)')
    parser.add_argument(
        '--size', help='e.g. small (a few MB) or medium (about 200 MB); default: the smallest'
    )
    parser.add_argument(
        '--seed', type=int, default=0, help='equal seeds give equal weights (default: 0)'
    )


def _make_checkpoint(options: argparse.Namespace) -> int:
    from openpi_policy_ros.policies import registry

    plugin = registry.find(options.policy)
    sizes = plugin.checkpoint_sizes
    if plugin.make_checkpoint is None or not sizes:
        raise ConfigurationError('--policy', [f'{options.policy} cannot make checkpoints'])
    size = options.size if options.size is not None else sizes[0]
    if size not in sizes:
        raise ConfigurationError('--size', [f'{size!r} is unknown, expected {" or ".join(sizes)}'])
    directory: Path = options.directory.expanduser()
    if directory.exists() and not directory.is_dir():
        raise ConfigurationError('DIR', [f'{directory} is a file; give a directory'])
    if directory.is_dir() and any(directory.iterdir()):
        raise ConfigurationError(
            'DIR', [f'{directory} is not empty, and nothing is overwritten; give another one']
        )
    directory.mkdir(parents=True, exist_ok=True)
    plugin.make_checkpoint(directory, size, options.seed)
    total = sum(file.stat().st_size for file in directory.rglob('*') if file.is_file())
    print(f'wrote {directory} ({total / 1e6:.1f} MB)')
    print(f'serve it: openpi-policy serve --model {directory}')
    return 0
