# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy serve``: a policy behind a WebSocket server, without ROS."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import time
import typing
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from openpi_policy_ros.cli.common import (
    add_checkpoint_arguments,
    add_command,
    add_log_level,
    choose_device,
    log_to_stderr,
)
from openpi_policy_ros.configuration.server import ServerConfig
from openpi_policy_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from openpi_policy_ros.configuration.robot import RobotConfig
    from openpi_policy_ros.engine import Engine
    from openpi_policy_ros.recording.recorder import Recorder

LOG = logging.getLogger('openpi_policy_ros.cli')

CLOSE_TIMEOUT = 2.0
"""Seconds to free the sessions of the last clients; their requests are finished by then."""

DESCRIPTION = """\
Load a policy, warm it up, then serve it until Ctrl-C or SIGTERM.

Prints "listening on ws://HOST:PORT" (wss:// with TLS) once clients can connect. They use
  ws://HOST:PORT/v1/realtime/robot/openpi   OpenPI (vLLM-Omni) clients
  ws://HOST:PORT/                           openpi-client, RoboArena
  http://HOST:PORT/healthz, /readyz         health: alive, fit to answer
With --api-key-file, or keys in the environment variable OPENPI_API_KEY, everything but /healthz
needs the header "Authorization: Api-Key <key>" or "Bearer <key>".
On Ctrl-C or SIGTERM requests in flight are answered first; a second Ctrl-C ends at once.
"""
EXAMPLES = """\
examples:
  the policy that comes with the simulator (openpi-policy-sim ws drives a robot by it):
    openpi-policy serve --model demo --robot droid_jointpos
  a checkpoint as it is, its own names for cameras and state:
    openpi-policy serve --model ~/checkpoints/pi0
  for a DROID robot, on the GPU, for the whole network:
    openpi-policy serve --model ~/checkpoints/pi0_droid --policy pi0 --robot droid \\
        --device cuda --host 0.0.0.0
  and keep what was asked and answered, to look at it and run it again (openpi-policy replay):
    openpi-policy serve --model ~/checkpoints/pi0_droid --robot droid --record ~/recordings
  from a Python client:
    from openpi_client.websocket_client_policy import WebsocketClientPolicy
    WebsocketClientPolicy('127.0.0.1', 8000).infer(observation)
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'serve',
        summary='serve a checkpoint over WebSocket',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    # Else --api-key would pass for --api-key-file, and the key turn up in an error message.
    parser.allow_abbrev = False
    parser.set_defaults(run=_serve)
    what = parser.add_argument_group('what to serve')
    what.add_argument(
        '--model',
        default='',
        help='checkpoint: a directory, or, where no such directory exists, a hub id, or demo, the '
        'one that comes with the simulator; needed, unless the policy has no model (--policy '
        'rehearsal)',
    )
    add_checkpoint_arguments(what)
    what.add_argument(
        '--record',
        default='',
        metavar='DIR',
        help='folder to record every session into, as rosbag2 (MCAP); needs '
        "pip install 'openpi_policy_ros[record]'",
    )
    what.add_argument(
        '--imagined-dir',
        default='',
        metavar='DIR',
        help='folder for a video (MP4) per session of the future that the policy imagines, where '
        'it does (imagined of the policy file)',
    )
    where = parser.add_argument_group('where and how')
    for name in ServerConfig.model_fields:
        _add_setting(where, name)
    add_log_level(where)


def _add_setting(group: Any, name: str) -> None:
    """Add the option of one setting of the server."""
    field = ServerConfig.model_fields[name]
    kind: Any = field.annotation
    how: dict[str, Any] = {'type': kind, 'metavar': name.upper()}
    shown = f' (default: {field.default})' if field.default not in ('', []) else ''
    if kind is float:
        how['metavar'] = 'SECONDS'
    elif kind is bool:
        how, shown = {'action': 'store_true'}, ''
    elif kind == list[str]:
        how = {'nargs': '+', 'metavar': '"/PATH -> WHAT"'}
    elif typing.get_origin(kind) is typing.Literal:
        how = {'choices': typing.get_args(kind)}
    elif kind is str and not field.default:
        how['metavar'] = 'FILE'
    group.add_argument(
        f'--{name.replace("_", "-")}',
        default=field.default,
        help=f'{field.description}{shown}'.replace('%', '%%'),
        **how,
    )


def _serve(options: argparse.Namespace) -> int:
    from openpi_policy_ros.configuration.robot import load_robot
    from openpi_policy_ros.policies.loading import needs_model

    if not options.model and needs_model(options.policy):
        raise ConfigurationError(
            'arguments', ['--model: required, a checkpoint or a hub id, or demo']
        )
    log_to_stderr(options.log_level)
    robot = load_robot(options.robot) if options.robot is not None else None
    config = server_config(options, robot)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end_at_once)

    from openpi_policy_ros.engine import Engine
    from openpi_policy_ros.policies.loading import load_policy
    from openpi_policy_ros.recording.imagined import (
        ImaginedFiles,
        require_imagined,
        tell_no_dreams,
    )
    from openpi_policy_ros.recording.ready import require
    from openpi_policy_ros.server import Exposure, refuse_taken_address, serve_until_signal

    # Before the model, which may take minutes to load.
    exposure = Exposure.load(config)
    refuse_taken_address(config)
    folder = require(options.record, '--record') if options.record else None
    wanted = options.imagined_dir
    videos = require_imagined(wanted, '--imagined-dir') if wanted else None
    device = choose_device(options.device)
    began = time.monotonic()
    LOG.info('loading %s on %s', options.model or options.policy, device)
    policy = load_policy(
        options.model,
        policy=options.policy,
        profile=None if robot is None else robot.profile,
        device=device,
        revision=options.revision,
        robot=robot,
    )
    engine = Engine(policy, inference_timeout=config.inference_timeout)
    LOG.info('loaded in %.1f s; warming up', time.monotonic() - began)
    recorder = None if folder is None else _start_recorder(folder, engine, options, robot)
    imagined = None if videos is None else ImaginedFiles(videos)
    if imagined is not None:
        tell_no_dreams(policy.spec, '--imagined-dir')
        engine.add_tap(imagined)
    engine.start()
    LOG.info('ready after %.1f s', time.monotonic() - began)

    def announce(port: int) -> None:
        host = f'[{config.host}]' if ':' in config.host else config.host
        print(f'listening on {exposure.scheme}://{host}:{port}', flush=True)

    try:
        serve_until_signal(engine, config, announce, exposure)
    finally:
        engine.close(CLOSE_TIMEOUT)
        if recorder is not None:
            recorder.close()
        if imagined is not None:
            imagined.close()
    if engine.health().busy_for:
        # A call hangs; the interpreter's own ending would wait for it or crash in it.
        logging.shutdown()
        os._exit(0)
    return 0


def server_config(options: argparse.Namespace, robot: RobotConfig | None) -> ServerConfig:
    """Return how to serve: the options, and how long the robot's policy may think.

    Raises:
        ConfigurationError: an option is out of range.

    """
    from openpi_policy_ros.configuration.schema import validate

    config = validate(
        ServerConfig,
        {name: getattr(options, name) for name in ServerConfig.model_fields},
        'arguments',
    )
    slow = robot.timing.inference_timeout if robot is not None else None
    if slow is not None and config.inference_timeout == ServerConfig().inference_timeout:
        return config.model_copy(update={'inference_timeout': slow})
    return config


def _start_recorder(
    folder: Path, engine: Engine, options: argparse.Namespace, robot: RobotConfig | None
) -> Recorder:
    """Let every inference be recorded; the engine is not started yet."""
    from openpi_policy_ros.configuration import files
    from openpi_policy_ros.recording.recorder import Recorder
    from openpi_policy_ros.recording.session import Setting

    text = ''
    if options.robot is not None:
        text = files.resolve(options.robot, 'robot').read_text(encoding='utf-8')
    setting = Setting(
        engine.spec,
        robot=robot,
        robot_name=options.robot or '',
        robot_text=text,
        device=options.device,
    )
    recorder = Recorder(folder, setting)
    engine.add_tap(recorder)
    return recorder


def _end_at_once(number: int, _: FrameType | None) -> None:
    """End a process that still loads: nobody is connected, and torch may be in mid-flight."""
    # Not print(): this may have interrupted one.
    os.write(2, f'openpi-policy serve: {signal.Signals(number).name} before serving\n'.encode())
    os._exit(128 + number)
