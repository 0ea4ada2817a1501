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
mean nothing: for trying out, tests and measurements, never for a robot that moves. Policy, size and
seed alone decide the weights; the other options decide what the files around them say.
"""
EXAMPLES = """\
examples:
  openpi-policy make-checkpoint /tmp/pi0_small
  openpi-policy make-checkpoint /tmp/pi0_medium --size medium --seed 7
  openpi-policy make-checkpoint /tmp/pi05 --policy pi05

a fine-tune with statistics, in three weight files, for a robot with 14 joints:
  openpi-policy make-checkpoint /tmp/aloha --normalization mean_std --shards 3 \\
      --state-dim 14 --action-dim 14

a DreamZero whose images, chunks and windows have the published shapes:
  openpi-policy make-checkpoint /tmp/dreamzero --policy dreamzero --size droid

one whose actions are differences from the state, and one that openpi's converter wrote:
  openpi-policy make-checkpoint /tmp/relative --normalization quantiles --relative
  openpi-policy make-checkpoint /tmp/droid --policy pi05 --layout openpi --dtype bfloat16
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
    parser.add_argument('--policy', default='pi0', help='pi0, pi05 or dreamzero (default: pi0)')
    parser.add_argument(
        '--size',
        help='pi0, pi05: small (a few MB) or medium (about 200 MB); dreamzero: tiny (5 MB), small '
        '(50 MB) or droid (the published shapes, few channels); default: the first',
    )
    parser.add_argument(
        '--seed',
        type=int,
        default=0,
        help='equal seeds give equal weights and statistics (default: 0)',
    )
    files = parser.add_argument_group(
        'what its files say', 'DreamZero has one layout, and takes --shards and --dtype alone.'
    )
    files.add_argument(
        '--layout',
        help='whose files: lerobot (0.6, the default), lerobot-0.4 (older numbers and names) or '
        'openpi (converted to PyTorch)',
    )
    files.add_argument(
        '--normalization',
        metavar='MODE',
        help='of state and actions: identity, mean_std, min_max, quantiles or quantile10; default: '
        'quantiles for pi05, mean_std for pi0 in the openpi layout, else identity',
    )
    files.add_argument(
        '--relative',
        action='store_true',
        help="actions are differences from the state, except the last column, the gripper's "
        '(layout lerobot)',
    )
    files.add_argument(
        '--shards', type=int, metavar='N', help='number of weight files (default: one)'
    )
    files.add_argument(
        '--state-dim',
        type=int,
        metavar='N',
        help='numbers of a state, up to 32; default: 32 with identity and no --relative, else 8 '
        '(seven joints and a gripper)',
    )
    files.add_argument(
        '--action-dim',
        type=int,
        metavar='N',
        help='columns of a chunk, up to 32; default: likewise',
    )
    files.add_argument('--dtype', help='of the weights: float32 (the default) or bfloat16')
    files.add_argument(
        '--cameras',
        nargs='+',
        default=(),
        metavar='NAME',
        help='camera features in order, without observation.images.; default: base_0_rgb '
        'left_wrist_0_rgb right_wrist_0_rgb',
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
    plugin.make_checkpoint(
        directory,
        size,
        options.seed,
        registry.CheckpointOptions(
            layout=options.layout,
            normalization=options.normalization,
            relative=options.relative,
            shards=options.shards,
            state_dim=options.state_dim,
            action_dim=options.action_dim,
            dtype=options.dtype,
            cameras=tuple(options.cameras),
        ),
    )
    total = sum(file.stat().st_size for file in directory.rglob('*') if file.is_file())
    print(f'wrote {directory} ({total / 1e6:.1f} MB)')
    if options.layout == 'openpi':
        print(
            'the files of openpi do not say what its actions are, a robot file does, such as droid'
        )
        print(f'serve it: openpi-policy serve --model {directory} --robot droid')
    else:
        print(f'serve it: openpi-policy serve --model {directory}')
    return 0
