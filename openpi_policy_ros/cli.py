# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``openpi-policy``: what needs no ROS.

Exit status: 0 done, 2 refused (one message on stderr says what and how to mend it), 128 + n ended
by signal n before there was anything to drain. Everything heavy is imported by the command that
needs it, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from openpi_policy_ros import __version__
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError, PolicyRosError

LOG = logging.getLogger('openpi_policy_ros.cli')

REFUSED = 2
LOG_LEVELS = ('debug', 'info', 'warning', 'error')
CLOSE_TIMEOUT = 2.0
"""Seconds to free the sessions of the last clients; their requests are finished by then."""

DESCRIPTION = """\
Serve vision-language-action policies to OpenPI clients, without ROS.
"""
EXAMPLES = """\
first steps, no download, no GPU:
  openpi-policy make-checkpoint /tmp/pi0_small
  openpi-policy serve --model /tmp/pi0_small

with the robot's own cameras and joints as well (needs ROS 2):
  ros2 launch openpi_policy_ros serve.launch.py policy:=pi0 model:=/tmp/pi0_small

`openpi-policy COMMAND --help` explains each command.
"""
SERVE_DESCRIPTION = """\
Load a policy, warm it up, then serve it until Ctrl-C or SIGTERM.

Prints "listening on ws://HOST:PORT" once clients can connect. They use
  ws://HOST:PORT/v1/realtime/robot/openpi   OpenPI (vLLM-Omni) clients
  ws://HOST:PORT/                           openpi-client, RoboArena
  http://HOST:PORT/healthz, /readyz         health: alive, fit to answer
On Ctrl-C or SIGTERM requests in flight are answered first; a second Ctrl-C ends at once.
"""
SERVE_EXAMPLES = """\
examples:
  a checkpoint as it is, its own names for cameras and state:
    openpi-policy serve --model ~/checkpoints/pi0
  for a DROID robot, on the GPU, for the whole network:
    openpi-policy serve --model ~/checkpoints/pi0_droid --policy pi0 --robot droid \\
        --device cuda --host 0.0.0.0
  from a Python client:
    from openpi_client.websocket_client_policy import WebsocketClientPolicy
    WebsocketClientPolicy('127.0.0.1', 8000).infer(observation)
"""
MAKE_DESCRIPTION = """\
Write a small, complete checkpoint with seeded random weights and its own tokenizer.

It has the real layout, so everything works with it as with a trained one, except that its actions
mean nothing: for trying out, tests and measurements, never for a robot that moves.
"""
MAKE_EXAMPLES = """\
examples:
  openpi-policy make-checkpoint /tmp/pi0_small
  openpi-policy make-checkpoint /tmp/pi0_medium --size medium --seed 7
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help(sys.stderr)
        return REFUSED
    try:
        status: int = options.run(options)
    except (PolicyRosError, OSError) as error:
        print(f'openpi-policy {options.command}: {error}', file=sys.stderr)
        return REFUSED
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='openpi-policy',
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--version', action='version', version=f'%(prog)s {__version__}')
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(dest='command', metavar='COMMAND', title='commands')
    _add_serve(commands)
    _add_make_checkpoint(commands)
    return parser


def _add_serve(commands: Any) -> None:
    parser = commands.add_parser(
        'serve',
        help='serve a checkpoint over WebSocket',
        description=SERVE_DESCRIPTION,
        epilog=SERVE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_serve)
    what = parser.add_argument_group('what to serve')
    what.add_argument(
        '--model',
        required=True,
        help='checkpoint: a directory, or a hub id where no such directory exists',
    )
    what.add_argument(
        '--revision', help='commit, tag or branch of a hub id; ignored for a directory'
    )
    what.add_argument(
        '--policy',
        help='policy file: the name of a shipped one (pi0) or a path; default: everything is '
        'derived from the checkpoint',
    )
    what.add_argument(
        '--robot',
        help='robot file: the name of a shipped one (droid) or a path; default: the names that '
        'the checkpoint itself uses',
    )
    what.add_argument(
        '--device',
        default='cpu',
        help='cpu, cuda, cuda:N, or auto = cuda where there is one (default: cpu)',
    )
    where = parser.add_argument_group('where and how')
    for name, field in ServerConfig.model_fields.items():
        where.add_argument(
            f'--{name.replace("_", "-")}',
            type=field.annotation,
            metavar='SECONDS' if field.annotation is float else name.upper(),
            default=field.default,
            help=f'{field.description} (default: {field.default})'.replace('%', '%%'),
        )
    where.add_argument(
        '--log-level',
        choices=LOG_LEVELS,
        default='info',
        help='how much to write to stderr (default: info)',
    )


def _add_make_checkpoint(commands: Any) -> None:
    parser = commands.add_parser(
        'make-checkpoint',
        help='write a small checkpoint to try things out',
        description=MAKE_DESCRIPTION,
        epilog=MAKE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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


def _serve(options: argparse.Namespace) -> int:
    from openpi_policy_ros.configuration.robot import load_robot
    from openpi_policy_ros.configuration.schema import validate

    _log_to_stderr(options.log_level)
    config = validate(
        ServerConfig,
        {name: getattr(options, name) for name in ServerConfig.model_fields},
        'arguments',
    )
    profile = load_robot(options.robot).profile if options.robot is not None else None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_at_once)

    from openpi_policy_ros.engine import Engine
    from openpi_policy_ros.policies.loading import load_policy
    from openpi_policy_ros.server import serve_until_signal

    device = _device(options.device)
    began = time.monotonic()
    LOG.info('loading %s on %s', options.model, device)
    policy = load_policy(
        options.model,
        policy=options.policy,
        profile=profile,
        device=device,
        revision=options.revision,
    )
    engine = Engine(policy, inference_timeout=config.inference_timeout)
    LOG.info('loaded in %.1f s; warming up', time.monotonic() - began)
    engine.start()
    LOG.info('ready after %.1f s', time.monotonic() - began)

    def announce(port: int) -> None:
        host = f'[{config.host}]' if ':' in config.host else config.host
        print(f'listening on ws://{host}:{port}', flush=True)

    try:
        serve_until_signal(engine, config, announce)
    finally:
        engine.close(CLOSE_TIMEOUT)
    if engine.health().busy_for:
        # A call hangs; the interpreter's own ending would wait for it or crash in it.
        logging.shutdown()
        os._exit(0)
    return 0


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


def _device(name: str) -> str:
    if name != 'auto':
        return name
    import torch

    return 'cuda' if torch.cuda.is_available() else 'cpu'


def _log_to_stderr(level: str) -> None:
    logging.basicConfig(format='%(asctime)s %(levelname)-8s %(name)s: %(message)s')
    # Ours alone: at debug, libraries would drown it.
    logging.getLogger('openpi_policy_ros').setLevel(level.upper())


def _end_at_once(number: int, _: FrameType | None) -> None:
    """End a process that still loads: nobody is connected, and torch may be in mid-flight."""
    # Not print(): this may have interrupted one.
    os.write(2, f'openpi-policy serve: {signal.Signals(number).name} before serving\n'.encode())
    os._exit(128 + number)


if __name__ == '__main__':
    sys.exit(main())
