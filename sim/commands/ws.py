# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy-sim ws``: drive the simulated robot by any OpenPI server, and measure it."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from openpi_policy_ros.cli.common import add_command, add_log_level, log_to_stderr
from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros_sim.commands.looks import add_meshes, chosen_meshes
from openpi_policy_ros_sim.outlets import writable
from openpi_policy_ros_sim.tasks import PROMPTED

if TYPE_CHECKING:
    from openpi_policy_ros_sim.request import Plan
    from openpi_policy_ros_sim.stock_client import Server

KEY_VARIABLE = 'OPENPI_API_KEY'

DESCRIPTION = """\
Run seeded episodes: look, ask the server for a chunk of actions, execute the first of them, ask
again. What is sent follows from the server's handshake and the robot file; it is printed first, and
what the simulator cannot give is refused before anything moves.

The client is openpi's own (openpi-client). Both paths are spoken:
  ws://HOST:PORT/                           openpi, RoboArena, this package
  ws://HOST:PORT/v1/realtime/robot/openpi   this package, vLLM-Omni
Exit status 0: every episode ran, whether it succeeded or not; 1: the server failed or went away, or
a signal came, what was done up to then is written; 2: refused before the first episode; 130: a
signal came before it.
"""
EXAMPLES = """\
examples:
  a hundred episodes of each task, with a file of results and videos:
    openpi-policy-sim ws --url ws://127.0.0.1:8000/v1/realtime/robot/openpi \\
        --task lift bowl --episodes 100 --json results.json --video videos
  a checkpoint that answers joint velocities:
    openpi-policy-sim ws --url ws://127.0.0.1:8000/ --robot droid
  DreamZero, as RoboArena speaks to it: single images every 8 steps, or four every 24:
    openpi-policy-sim ws --url ws://gpu-box:8000/v1/realtime/robot/openpi --robot roboarena
    openpi-policy-sim ws --url ws://gpu-box:8000/v1/realtime/robot/openpi --robot roboarena \\
        --frames=-23,-16,-8,0
  the names of LeRobot's pi0_base, of whose 32 columns the first 8 are the robot's:
    openpi-policy-sim ws --url ws://127.0.0.1:8000/ --robot none --crop-columns
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'ws',
        summary='let an OpenPI server drive the simulated robot',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    # Else --api-key would pass for --api-key-file, and the key turn up in an error message.
    parser.allow_abbrev = False
    parser.set_defaults(run=_run)
    what = parser.add_argument_group('what to run')
    what.add_argument('--url', required=True, help='the server, ws://host:port/path or wss://…')
    what.add_argument(
        '--api-key-file',
        default='',
        metavar='FILE',
        help=f'file with the key for the server (default: the variable {KEY_VARIABLE})',
    )
    what.add_argument(
        '--task', nargs='+', choices=PROMPTED, default=[PROMPTED[0]], help='(default: lift)'
    )
    what.add_argument(
        '--prompt', help="instruction to send instead of the task's own; the task is still judged"
    )
    what.add_argument('--episodes', type=int, default=10, help='per task (default: 10)')
    what.add_argument(
        '--seed', type=int, default=0, help='of the first; the next has the next (default: 0)'
    )
    what.add_argument(
        '--max-steps', type=int, default=450, help='actions before time is up (default: 450, 30 s)'
    )
    how = parser.add_argument_group('how to ask')
    how.add_argument(
        '--robot',
        default='droid_jointpos',
        help='robot file that names the keys: the name of a shipped one or a path; none = the '
        "names of LeRobot's pi0_base (default: droid_jointpos)",
    )
    how.add_argument(
        '--horizon',
        type=int,
        help='actions executed before it asks again (default: 8, fewer where a chunk has fewer; '
        '24 with --frames)',
    )
    how.add_argument(
        '--frames',
        default='0',
        metavar='OFFSETS',
        help='images to send of each camera, in actions from the newest, e.g. -23,-16,-8,0 '
        '(write --frames=-23,…); the first request has one (default: the newest alone)',
    )
    how.add_argument(
        '--crop-columns',
        action='store_true',
        help='execute the first 8 columns of a chunk that has more',
    )
    how.add_argument(
        '--policy-seed',
        type=int,
        metavar='N',
        help='send a seed with each request, drawn from this and from the seed of the episode, '
        'for servers that take one; equal ones, equal answers',
    )
    how.add_argument(
        '--privileged',
        action='store_true',
        help='send where things are (sim/…) though the handshake does not ask for it; on / it '
        'cannot',
    )
    add_meshes(how)
    result = parser.add_argument_group('results')
    result.add_argument('--json', metavar='FILE', help='file for every episode and the summary')
    result.add_argument('--video', metavar='DIR', help='folder for one MP4 file per episode')
    result.add_argument(
        '--gif', action='store_true', help='write a small GIF beside each MP4; needs --video'
    )
    result.add_argument(
        '--view', action='store_true', help='show a window, in real time at most; needs a display'
    )
    add_log_level(result, default='warning')


def _run(options: argparse.Namespace) -> int:
    from openpi_policy_ros_sim.extras import require

    require('mujoco', 'websockets', 'openpi_client')
    log_to_stderr(options.log_level)

    from openpi_policy_ros.client.api_key import read_api_key
    from openpi_policy_ros_sim.evaluation import evaluate
    from openpi_policy_ros_sim.request import make_plan
    from openpi_policy_ros_sim.results import Results, Settings
    from openpi_policy_ros_sim.stock_client import Server

    settings = Settings.checked(
        tasks=tuple(dict.fromkeys(options.task)),
        episodes=options.episodes,
        seed=options.seed,
        max_steps=options.max_steps,
        prompt=options.prompt,
        policy_seed=options.policy_seed,
    )
    frames = _offsets(options.frames)
    if options.gif and not options.video:
        raise ConfigurationError('arguments', ['--gif: needs --video DIR, where it is written'])
    if options.gif:
        require('PIL')
    file = writable('--json', options.json, folder=False)
    video = writable('--video', options.video, folder=True)
    key = read_api_key(options.api_key_file, KEY_VARIABLE, os.environ)
    meshes = chosen_meshes(options)
    try:
        with _interruptible():
            server = Server(options.url, key)
            plan = make_plan(
                server.handshake(),
                options.robot,
                horizon=options.horizon,
                frames=frames,
                crop=options.crop_columns,
                privileged=options.privileged,
                commands=server.knows_commands,
            )
            print(_announcement(server, plan), flush=True)
            looks = {'meshes': options.meshes}
            results = Results(settings, {**plan.described(), **looks}, server.url)
            failure = evaluate(
                server,
                plan,
                results,
                video=video,
                gif=options.gif,
                view=options.view,
                json=file,
                meshes=meshes,
            )
            print(results.table())
    except KeyboardInterrupt:
        print('openpi-policy-sim ws: stopped before the first episode', file=sys.stderr)
        return 128 + signal.SIGINT
    if failure is not None:
        print(f'openpi-policy-sim ws: {failure}', file=sys.stderr)
        return 1
    return 0


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C, which a shell keeps from what it starts in the background."""
    main = threading.current_thread() is threading.main_thread()
    kinds = (signal.SIGINT, signal.SIGTERM) if main else ()
    before = {kind: signal.signal(kind, signal.default_int_handler) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def _offsets(text: str) -> tuple[int, ...]:
    """Return the offsets of a history: whole numbers that rise and end with 0."""
    try:
        offsets = tuple(int(part) for part in text.split(','))
    except ValueError:
        offsets = ()
    if not offsets or offsets[-1] != 0 or list(offsets) != sorted(set(offsets)):
        raise ConfigurationError(
            'arguments',
            [f'--frames: {text!r}, expected whole numbers that rise and end with 0: -23,-16,-8,0'],
        )
    return offsets


def _announcement(server: Server, plan: Plan) -> str:
    said = ', '.join(f'{name} {value}' for name, value in server.handshake().items())
    lines = [f'{server.url}', f'  handshake: {said or "empty"}', f'  executes {plan.execution()}']
    lines += [f'  sends {key}: {what}' for key, what in plan.contents().items()]
    return '\n'.join(lines)
