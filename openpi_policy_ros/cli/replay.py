# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy replay``: look at recordings, and run them through a policy again."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openpi_policy_ros.cli.common import (
    add_checkpoint_arguments,
    add_command,
    add_log_level,
    choose_device,
    log_to_stderr,
)
from openpi_policy_ros.errors import ConfigurationError, PolicyRosError

if TYPE_CHECKING:
    from openpi_policy_ros.engine import Engine
    from openpi_policy_ros.recording.report import Section

LOG = logging.getLogger('openpi_policy_ros.cli')

DONE, DIFFERENT = 0, 1

DESCRIPTION = """\
Read what `openpi-policy serve --record` or the node's parameter `record` wrote.

Without --model, tell what was recorded. With --model, or a --policy that needs none, run the
recorded observations through it in their order, with their sessions, resets and seeds, and show
how far its chunks are from the recorded ones, action by action. --out writes tables (JSON), plots
(PNG) and one page that holds all of it (replay.html).

Needs pip install 'openpi_policy_ros[record]'; plots need 'openpi_policy_ros[plot]' as well.

Exit status: 0 done (and within --tolerance), 1 a chunk differs by more, or failed, 2 refused.
"""
EXAMPLES = """\
examples:
  what is in it, with plots of measured, commanded and planned joints:
    openpi-policy replay ~/recordings --out ~/report
  the same observations through another checkpoint:
    openpi-policy replay ~/recordings --model ~/checkpoints/pi0_new --robot droid --out ~/report
  a regression test: after an upgrade, equal seeds give equal chunks:
    openpi-policy replay ~/recordings/20261130T101500Z_robot_1 --model ~/checkpoints/pi0_droid \\
        --robot droid --tolerance 1e-5
  after a power cut or kill -9:
    openpi-policy replay ~/recordings --repair
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'replay',
        summary='look at recordings, run them through a policy again',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.set_defaults(run=_replay)
    parser.add_argument(
        'folder', metavar='DIR', type=Path, help='a recording, or a folder of recordings'
    )
    what = parser.add_argument_group('what to run them through')
    what.add_argument(
        '--model', default='', help='a directory, or a hub id where no such directory exists'
    )
    add_checkpoint_arguments(what)
    how = parser.add_argument_group('what to do with the result')
    how.add_argument('--out', metavar='FOLDER', type=Path, help='write tables and plots there')
    how.add_argument('--tolerance', type=float, help='largest difference that passes; default: any')
    how.add_argument(
        '--repair',
        action='store_true',
        help='first mend recordings whose process was killed; they are changed in place',
    )
    add_log_level(how, default='warning')


def _replay(options: argparse.Namespace) -> int:
    from openpi_policy_ros.recording.ready import missing_extra

    log_to_stderr(options.log_level)
    why = missing_extra('rosbags', 'record')
    if why:
        raise ConfigurationError('openpi-policy replay', [why])
    if options.tolerance is not None and not options.tolerance >= 0.0:
        raise ConfigurationError('--tolerance', [f'is {options.tolerance}, expected 0 or more'])
    has_policy = bool(options.model or options.policy)
    if options.tolerance is not None and not has_policy:
        raise ConfigurationError('--tolerance', ['needs --model: nothing is replayed without'])

    from openpi_policy_ros.recording import describe, report
    from openpi_policy_ros.recording.reader import Recording, bags

    folders = bags(options.folder.expanduser())
    if options.repair:
        _repair(folders)
    recordings = [Recording(folder) for folder in folders]
    sections = [report.Section(describe.summarise(one)) for one in recordings]
    for section in sections:
        print('\n'.join(section.summary.lines()))
    if has_policy:
        # All of them are known to be readable before a model is loaded for minutes.
        engine = _load(options)
        try:
            _compare(recordings, sections, engine)
        finally:
            engine.close()
    if options.out is not None:
        _write(options, recordings, sections)
    return _judge(sections, options.tolerance)


def _repair(folders: list[Path]) -> None:
    from openpi_policy_ros.recording.salvage import is_whole, repair

    for folder in folders:
        if is_whole(folder):
            continue
        count = repair(folder)
        print(f'{folder.name}: repaired, {count} messages')


def _load(options: argparse.Namespace) -> Engine:
    from openpi_policy_ros.configuration.robot import load_robot
    from openpi_policy_ros.engine import Engine
    from openpi_policy_ros.policies.loading import load_policy

    robot = load_robot(options.robot) if options.robot is not None else None
    policy = load_policy(
        options.model,
        policy=options.policy,
        profile=None if robot is None else robot.profile,
        device=choose_device(options.device),
        revision=options.revision,
        robot=robot,
    )
    engine = Engine(policy)
    engine.start()
    return engine


def _compare(recordings: list[Any], sections: list[Section], engine: Engine) -> None:
    from openpi_policy_ros.recording import describe
    from openpi_policy_ros.recording.replay import replay

    for recording, section in zip(recordings, sections, strict=True):
        section.comparison = replay(recording, engine)
        print('\n' + '\n'.join(describe.table(section.comparison)))


def _write(options: argparse.Namespace, recordings: list[Any], sections: list[Section]) -> None:
    from openpi_policy_ros.recording import describe, report
    from openpi_policy_ros.recording.ready import missing_extra

    why = missing_extra('matplotlib', 'plot')
    if why:
        print(f'no plots: drawing {why}')
    else:
        from openpi_policy_ros.recording.plots import pages

        for recording, section in zip(recordings, sections, strict=True):
            section.pages = pages(recording, section.comparison)
    comparisons = [one.comparison for one in sections if one.comparison is not None]
    settings = {
        'folder': str(options.folder),
        'model': options.model or None,
        'policy': options.policy,
        'robot': options.robot,
        'device': options.device if comparisons else None,
        'tolerance': options.tolerance,
    }
    document = describe.document([one.summary for one in sections], comparisons, settings)
    for path in report.write(options.out.expanduser(), sections, document):
        print(f'wrote {path}')


def _judge(sections: list[Section], tolerance: float | None) -> int:
    comparisons = [one.comparison for one in sections if one.comparison is not None]
    if any(one.failed for one in comparisons):
        print('FAILED: inferences that succeeded when they were recorded')
        return DIFFERENT
    if tolerance is None:
        return DONE
    if not any(one.recorded for one in comparisons):
        raise PolicyRosError('--tolerance: there was nothing to compare')
    largest = max(one.largest for one in comparisons)
    within = largest <= tolerance
    print(
        f'largest difference {largest:.3g}: {"within" if within else "MORE THAN"} '
        f'--tolerance {tolerance:g}'
    )
    return DONE if within else DIFFERENT
