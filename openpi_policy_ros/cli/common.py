# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What several commands share."""

from __future__ import annotations

import argparse
import logging
from typing import Any

REFUSED = 2
LOG_LEVELS = ('debug', 'info', 'warning', 'error')


def add_command(
    commands: Any, name: str, *, summary: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """Add a command whose help keeps its line breaks; the caller sets ``run``."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_file_arguments(group: Any) -> None:
    """Add ``--revision``, ``--policy`` and ``--robot``."""
    group.add_argument(
        '--revision', help='commit, tag or branch of a hub id; ignored for a directory'
    )
    group.add_argument(
        '--policy',
        help='policy file: the name of a shipped one (pi0) or a path; default: everything is '
        'derived from the checkpoint',
    )
    group.add_argument(
        '--robot',
        help='robot file: the name of a shipped one (droid) or a path; default: the names that '
        'the checkpoint itself uses',
    )


def add_checkpoint_arguments(group: Any) -> None:
    """Add ``--revision``, ``--policy``, ``--robot`` and ``--device``."""
    add_file_arguments(group)
    group.add_argument(
        '--device',
        default='cpu',
        help='cpu, cuda, cuda:N, or auto = cuda where there is one (default: cpu)',
    )


def add_log_level(group: Any, default: str = 'info') -> None:
    """Add ``--log-level``."""
    group.add_argument(
        '--log-level',
        choices=LOG_LEVELS,
        default=default,
        help=f'how much to write to stderr (default: {default})',
    )


def choose_device(name: str) -> str:
    """Return the torch device that ``--device`` means."""
    if name != 'auto':
        return name
    import torch

    return 'cuda' if torch.cuda.is_available() else 'cpu'


def log_to_stderr(level: str) -> None:
    """Write the log of this package to stderr."""
    logging.basicConfig(format='%(asctime)s %(levelname)-8s %(name)s: %(message)s')
    # Ours alone: at debug, libraries would drown it.
    logging.getLogger('openpi_policy_ros').setLevel(level.upper())
