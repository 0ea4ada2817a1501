# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy client``: ask any OpenPI server, and see what comes back and how fast."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openpi_policy_ros.cli import client_videos
from openpi_policy_ros.cli.common import add_command, add_log_level, log_to_stderr
from openpi_policy_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openpi_policy_ros.client import OpenPiClient, Reply
    from openpi_policy_ros.client.trial import Part

DONE, FAILED, INTERRUPTED = 0, 1, 130
SHOWN_COLUMNS = 8
KEY_VARIABLE = 'OPENPI_API_KEY'

DESCRIPTION = """\
Connect to an OpenPI server (this package's, vLLM-Omni, openpi, RoboArena; either path), print its
handshake, send it observations and print the chunks and how long they took.

Keys, layout and sizes come from --robot, else from the handshake and the base model's own names;
images that are not given are a test pattern, a state that is not given is zeros. Without --prompt
and --observation only the handshake is printed.

Exit status: 0 done, 1 a request failed, 2 no connection or wrong arguments, 130 Ctrl-C.
"""
EXAMPLES = """\
examples:
  openpi-policy client --url ws://127.0.0.1:8000/v1/realtime/robot/openpi --prompt "pick the cup"
  openpi-policy client --url ws://gpu-box:8000/ --robot droid --prompt "pick the cup" \\
      --images side.png wrist.png --state=0,-0.5,0,-2.2,0,1.6,0.8,0 --repeat 50 --seed 0
  the cadence of DreamZero's client, from three videos:
    openpi-policy client --url ws://gpu-box:8000/ --prompt "pick the cup" --video-dir episode
  openpi-policy client --url wss://gpu-box:8443/ --ca-file ca.pem --observation obs.npz
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'client',
        summary='ask an OpenPI server: handshake, chunks, latency',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.set_defaults(run=_client)
    server = parser.add_argument_group('which server')
    server.add_argument('--url', required=True, help='ws://HOST:PORT/PATH, or wss:// for TLS')
    server.add_argument(
        '--wait',
        type=_seconds,
        default=0.0,
        metavar='SECONDS',
        help='keep trying to connect for so long (default: 0 = once)',
    )
    server.add_argument(
        '--api-key-file',
        default='',
        metavar='FILE',
        help=f'file with the API key; default: the environment variable {KEY_VARIABLE}, if set',
    )
    server.add_argument(
        '--ca-file', default='', metavar='FILE', help="PEM file of the server's CA, for wss://"
    )
    what = parser.add_argument_group('what to send')
    what.add_argument('--prompt', help='instruction')
    what.add_argument('--robot', help='robot file: the name of a shipped one (droid) or a path')
    what.add_argument(
        '--images',
        nargs='+',
        default=[],
        metavar='[KEY=]FILE',
        help="png or jpeg files, in the order of the robot's cameras or with their keys; sent at "
        'their own size (default: a test pattern)',
    )
    what.add_argument(
        '--state',
        action='append',
        default=[],
        metavar='[KEY=]N,N,…',
        help='joint values etc.; write --state=-1,… if the first is negative (default: zeros)',
    )
    what.add_argument(
        '--observation',
        metavar='FILE',
        help='.npz with a whole observation, one array per key, instead of --images and --state',
    )
    client_videos.add_options(what)
    what.add_argument(
        '--repeat',
        type=_count,
        metavar='N',
        help='requests (default: 1, with --video-dir as many as the videos last for)',
    )
    what.add_argument('--seed', type=int, help='equal seeds ask for equal chunks')
    what.add_argument('--steps', type=_count, metavar='N', help='sampler steps')
    what.add_argument('--session-id', metavar='ID', help="default: the server's own")
    what.add_argument('--reset', action='store_true', help='reset the session after every request')
    what.add_argument(
        '--timeout',
        type=_seconds,
        default=30.0,
        metavar='SECONDS',
        help='longest a request may take (default: 30)',
    )
    output = parser.add_argument_group('what to show')
    output.add_argument(
        '--rows', type=int, default=3, metavar='N', help='rows of the first chunk (default: 3)'
    )
    output.add_argument('--save', metavar='FILE', help='write the last chunk there (.npy)')
    add_log_level(output, default='warning')


def _client(options: argparse.Namespace) -> int:
    from openpi_policy_ros.client import ClientConfig, OpenPiClient
    from openpi_policy_ros.client.api_key import read_api_key

    log_to_stderr(options.log_level)
    _check(options)
    config = ClientConfig(
        api_key=read_api_key(options.api_key_file, KEY_VARIABLE, os.environ),
        ca_file=options.ca_file,
    )
    with OpenPiClient(options.url, config) as client:
        try:
            began = time.perf_counter()
            handshake = client.connect(options.wait)
            took = 1e3 * (time.perf_counter() - began)
            print(f'connected to {client.address} in {took:.1f} ms')
            _print_handshake(handshake)
            if options.prompt is None and options.observation is None:
                print('nothing sent: give --prompt or --observation to ask for a chunk')
                return DONE
            if options.video_dir is not None:
                return _play(client, options, handshake)
            parts = _parts(options, handshake)
            _print_parts(parts)
            return _ask(client, parts, options)
        except KeyboardInterrupt:
            return INTERRUPTED


def _check(options: argparse.Namespace) -> None:
    problems = client_videos.check(options)
    if options.observation and (options.images or options.state or options.robot):
        problems.append('--observation is a whole one: leave out --images, --state and --robot')
    if options.save and not options.save.endswith('.npy'):
        problems.append(f'--save {options.save}: the name of the file has to end in .npy')
    if options.save and not Path(options.save).expanduser().resolve().parent.is_dir():
        problems.append(f'--save {options.save}: no such directory')
    if problems:
        raise ConfigurationError('arguments', problems)


def _parts(options: argparse.Namespace, handshake: Mapping[str, Any]) -> list[Part]:
    from openpi_policy_ros.client.recorded import load_observation
    from openpi_policy_ros.client.trial import Part, build_observation
    from openpi_policy_ros.configuration.robot import load_robot

    if options.observation:
        content = load_observation(options.observation)
        if options.prompt is not None:
            content['prompt'] = options.prompt
        return [Part(key, value, options.observation) for key, value in content.items()]
    return build_observation(
        handshake,
        load_robot(options.robot) if options.robot is not None else None,
        prompt=options.prompt,
        images=options.images,
        state=options.state,
    )


def _play(client: OpenPiClient, options: argparse.Namespace, handshake: Mapping[str, Any]) -> int:
    """Send videos, print what comes; return the exit status."""
    parts, videos, robot = client_videos.parts_and_videos(options, handshake)
    print('videos:')
    width = max(len(video.key) for video in videos)
    for video in videos:
        print(f'  {video.key:{width}}  uint8 {[*video.size, 3]}  ({video.origin})')
    _print_parts(parts)
    replies, failed, interrupted = client_videos.ask(client, parts, videos, robot, options)
    status = INTERRUPTED if interrupted else DONE
    return _conclude(replies, failed, status, options)


def _ask(client: OpenPiClient, parts: Sequence[Part], options: argparse.Namespace) -> int:
    """Send the requests, print what comes; return the exit status."""
    from openpi_policy_ros.wire.peer import PeerError, RequestFailed

    observation = {part.key: part.value for part in parts}
    replies: list[Reply] = []
    failed = 0
    status = DONE
    try:
        for number in range(1, (options.repeat or 1) + 1):
            try:
                reply = client.infer(
                    observation,
                    timeout=options.timeout,
                    session_id=options.session_id,
                    seed=options.seed,
                    num_inference_steps=options.steps,
                )
                if not replies:
                    _print_chunk(reply, options.rows)
                replies.append(reply)
                if options.reset:
                    client.reset(options.timeout)
            except PeerError as error:
                print(f'request {number}: {error}', file=sys.stderr)
                failed += 1
                if not isinstance(error, RequestFailed):
                    break
    except KeyboardInterrupt:
        status = INTERRUPTED
    return _conclude(replies, failed, status, options)


def _conclude(
    replies: Sequence[Reply], failed: int, status: int, options: argparse.Namespace
) -> int:
    """Print the sum, save what is asked for; return the exit status."""
    import numpy as np

    if replies:
        if options.video_dir is not None:
            _print_chunk(replies[0], options.rows)
        _print_latency(replies)
        if options.save:
            np.save(Path(options.save).expanduser(), replies[-1].actions)
            print(f'wrote {options.save}')
    if failed:
        print(f'{failed} of {failed + len(replies)} requests failed', file=sys.stderr)
        status = status or FAILED
    return status


def _print_handshake(handshake: Mapping[str, Any]) -> None:
    print('handshake:' if handshake else 'handshake: empty')
    for key, value in handshake.items():
        text = repr(value)
        print(f'  {key}: {text if len(text) <= 200 else text[:199] + "…"}')


def _print_parts(parts: Sequence[Part]) -> None:
    print('observation:')
    width = max(len(part.key) for part in parts)
    for part in parts:
        print(f'  {part.key:{width}}  {_describe(part.value)}  ({part.origin})')


def _describe(value: Any) -> str:
    if hasattr(value, 'dtype') and value.ndim:
        return f'{value.dtype} {list(value.shape)}'
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + '…'


def _print_chunk(reply: Reply, rows: int) -> None:
    import numpy as np

    actions = reply.actions
    print(f'sent {reply.sent_bytes / 1e3:.1f} kB, got actions {_describe(actions)}:')
    for name in reply.outputs:
        if name != 'actions':
            print(f'  also {name} {_describe(reply.outputs[name])}')
    if actions.ndim != 2:
        print('  not a chunk: expected two axes, steps and dimensions')
        return
    for index, row in enumerate(actions[: max(rows, 0)]):
        shown = ' '.join(f'{value:9.4f}' for value in row[:SHOWN_COLUMNS])
        more = len(row) - SHOWN_COLUMNS
        print(f'  {index:3d}  {shown}' + (f'  … {more} more' if more > 0 else ''))
    if len(actions) > rows:
        print(f'  … {len(actions) - max(rows, 0)} more rows')
    bad = int((~np.isfinite(actions)).sum()) if actions.dtype.kind in 'fiu' else 0
    if bad:
        print(f'  {bad} values are not finite')


def _print_latency(replies: Sequence[Reply]) -> None:
    """Print p50 and p95; without the first of several, which finds everything cold."""
    import numpy as np

    rows = {'round trip': [reply.round_trip_ms for reply in replies]}
    for stage in replies[-1].timing_ms:
        rows[stage] = [reply.timing_ms[stage] for reply in replies if stage in reply.timing_ms]
    print(f'{"latency, ms":24} {"first":>9} {"p50":>9} {"p95":>9} {"max":>9}')
    for name, times in rows.items():
        later = times[1:] or times
        p50, p95 = np.percentile(later, (50, 95))
        print(f'  {name:22} {times[0]:9.2f} {p50:9.2f} {p95:9.2f} {max(later):9.2f}')
    sessions = sum(reply.fresh for reply in replies)
    print(
        f'{len(replies)} chunks, {sessions} of them began a session'
        + ('' if len(replies) == 1 else '; p50, p95 and max are without the first')
    )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f'{text}: expected seconds, 0 or more')
    return value


def _count(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f'{text}: expected a whole number, at least 1')
    return value
