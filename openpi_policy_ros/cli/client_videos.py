# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy client --video-dir``: ask as a client of a policy that looks back asks."""

from __future__ import annotations

import argparse
import sys
import uuid
from typing import TYPE_CHECKING, Any

from openpi_policy_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openpi_policy_ros.client import OpenPiClient, Reply
    from openpi_policy_ros.client.trial import Part
    from openpi_policy_ros.client.videos import Video
    from openpi_policy_ros.configuration.robot import RobotConfig

FEWEST = 4
"""Actions between two calls: less cannot be told apart by four frames."""


def add_options(group: Any) -> None:
    """Add the options of the command."""
    group.add_argument(
        '--video-dir',
        metavar='DIR',
        help='play three videos instead of --images, one frame per action, at the cadence of '
        "DreamZero's client: 1 frame, then 4 per chunk. Files are named like the end of their key "
        '(wrist_image_left.mp4); keys come from --robot, else they are those of RoboArena',
    )
    group.add_argument(
        '--videos',
        nargs='+',
        default=[],
        metavar='KEY=FILE',
        help='videos that are called otherwise',
    )
    group.add_argument(
        '--video-steps',
        type=_steps,
        metavar='N',
        help='frames from one call to the next: the actions of a chunk that are played '
        '(default: 24, with frames -23, -16, -8 and 0 from the newest)',
    )


def check(options: argparse.Namespace) -> list[str]:
    """Return which options do not go together."""
    if options.video_dir is None:
        given = {'--videos': options.videos, '--video-steps': options.video_steps}
        return [f'{name}: only with --video-dir' for name, value in given.items() if value]
    problems = []
    if options.images or options.observation:
        problems.append('--video-dir: leave out --images and --observation')
    if options.prompt is None:
        problems.append('--video-dir: needs --prompt')
    if options.reset:
        problems.append('--video-dir: leave out --reset: the session is reset at the end')
    return problems


def parts_and_videos(
    options: argparse.Namespace, handshake: Mapping[str, Any]
) -> tuple[list[Part], list[Video], RobotConfig]:
    """Return what every request holds, the videos, and whose keys these are.

    Raises:
        ConfigurationError: what is missing or cannot be used.

    """
    from openpi_policy_ros.client.trial import camera_keys, state_and_prompt
    from openpi_policy_ros.client.videos import calls_in, find_videos, roboarena
    from openpi_policy_ros.configuration.robot import load_robot

    own = load_robot(options.robot) if options.robot is not None else None
    robot = roboarena() if own is None else own
    keys = camera_keys(robot.profile) if own is not None else ()
    videos = find_videos(options.video_dir, keys, options.videos)
    calls = calls_in(videos[0].frames, _chunk(options))
    if options.repeat is not None and options.repeat > calls:
        raise ConfigurationError(
            '--video-dir',
            [
                f'{videos[0].frames} frames last for {calls} calls, fewer than --repeat '
                f'{options.repeat}; the first takes one frame, each later one {_chunk(options)}'
            ],
        )
    parts = state_and_prompt(handshake, robot, prompt=options.prompt, state=options.state)
    return parts, videos, robot


def ask(
    client: OpenPiClient,
    parts: Sequence[Part],
    videos: Sequence[Video],
    robot: RobotConfig,
    options: argparse.Namespace,
) -> tuple[list[Reply], int, bool]:
    """Send the videos, print a line per call; return replies, failures, and whether interrupted."""
    from openpi_policy_ros.client.videos import calls_in, observed
    from openpi_policy_ros.wire.peer import PeerError

    chunk = _chunk(options)
    count = options.repeat or calls_in(videos[0].frames, chunk)
    session = options.session_id or uuid.uuid4().hex
    print(f'session {session}, {count} calls, {chunk} actions from one to the next')
    print(f'{"call":>4}  {"frames":18} {"actions":22} {"round trip":>10}')
    still = {part.key: part.value for part in parts}
    profile = robot.profile
    replies: list[Reply] = []
    frames = observed(
        videos, count, chunk=chunk, colour_order=profile.colour_order, layout=profile.layout
    )
    try:
        for call, (numbers, seen) in enumerate(frames, 1):
            reply = client.infer(
                {**seen, **still},
                timeout=options.timeout,
                session_id=session,
                seed=options.seed,
                num_inference_steps=options.steps,
            )
            replies.append(reply)
            actions = f'{reply.actions.dtype} {list(reply.actions.shape)}'
            shown = ' '.join(map(str, numbers))
            # Whoever began anew in the middle has not seen what came before.
            anew = '  began anew' if reply.fresh and call > 1 else ''
            print(f'{call:4}  {shown:18} {actions:22} {reply.round_trip_ms:7.1f} ms{anew}')
        client.reset(options.timeout)
        print('session reset')
    except PeerError as error:
        # What follows would be no continuation any more.
        print(f'call {len(replies) + 1}: {error}', file=sys.stderr)
        return replies, 1, False
    except KeyboardInterrupt:
        return replies, 0, True
    finally:
        frames.close()
    return replies, 0, False


def _chunk(options: argparse.Namespace) -> int:
    from openpi_policy_ros.client.videos import CHUNK

    return options.video_steps or CHUNK


def _steps(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not FEWEST <= value <= 10000:
        raise argparse.ArgumentTypeError(f'{text}: expected a whole number, at least {FEWEST}')
    return value
