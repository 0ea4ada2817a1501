# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy bench``: what requests, topics, control and the model cost here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openpi_policy_ros.cli.common import add_command, choose_device
from openpi_policy_ros.errors import ConfigurationError

DESCRIPTION = """\
Measure on this machine, each part against its rival in the same run:

  transport   server CPU per request and round trip at 452 kB and 2.77 MB, against a websockets
              server that decodes with openpi_client (needs openpi-client)
  topics      from inference trigger to published chunk beside the model, with three 640x480
              cameras at 30 Hz, raw and JPEG (needs rclpy)
  control     how evenly the control thread ticks beside an inference, how fast a silent camera
              stops the robot, starvation, steps between chunks, and (with rclpy) from topic to
              command
  model       each stage of a π0 chunk, against the reference algorithm on the same weights; with
              --model of a DreamZero checkpoint each stage of its calls, and what each cache saves

Without --only, a part whose needs are missing is left out with a word about it. Numbers of a busy
machine mean little: the load average is part of the output.
"""
EXAMPLES = """\
examples:
  openpi-policy bench
  openpi-policy bench --only transport --uvloop
  openpi-policy bench --only model --size medium --threads 2 --json result.json
  openpi-policy bench --only model --model ~/checkpoints/pi0 --device cuda --cameras 3 1
  openpi-policy bench --only model --model ~/checkpoints/dreamzero --device cuda
"""


@dataclass(frozen=True)
class Part:
    """One thing to measure.

    Attributes:
        missing: says what to install first, None = nothing.
        measure: returns what goes into the JSON.
        report: returns the table of that.

    """

    missing: Callable[[], str | None]
    measure: Callable[[argparse.Namespace], dict[str, Any]]
    report: Callable[[dict[str, Any]], str]


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'bench',
        summary='measure transport, topics, control and model on this machine',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.set_defaults(run=_bench)
    parser.add_argument(
        '--only',
        type=_names,
        default=None,
        metavar='PART[,PART]',
        help='transport, topics, control, model; default: all that can run here',
    )
    parser.add_argument(
        '--json', type=Path, metavar='FILE', help='also write everything measured to FILE'
    )
    parser.add_argument(
        '--rounds', type=_positive, default=8, help='rounds of transport and model (default: 8)'
    )
    transport = parser.add_argument_group('transport')
    transport.add_argument(
        '--requests',
        type=_positive,
        default=120,
        help='requests per round at 452 kB, a third of it at 2.77 MB (default: 120)',
    )
    transport.add_argument('--uvloop', action='store_true', help='run our event loop on uvloop')
    transport.add_argument(
        '--heap',
        choices=('keep', 'system'),
        default='keep',
        help="our server's setting of that name (default: keep)",
    )
    topics = parser.add_argument_group('topics and control')
    topics.add_argument(
        '--seconds',
        type=_positive,
        default=20,
        help='seconds per transport and per measurement of threads (default: 20)',
    )
    model = parser.add_argument_group('model (and what runs in topics and control)')
    model.add_argument(
        '--model',
        help='a π0 or DreamZero checkpoint, a directory or hub id; default: make a π0 of --size',
    )
    model.add_argument(
        '--size',
        default='small',
        choices=('small', 'medium'),
        help='of the checkpoint that is made and thrown away (default: small)',
    )
    model.add_argument(
        '--cameras',
        type=int,
        nargs='+',
        choices=(1, 2, 3),
        default=[3, 2, 1],
        help='how many cameras send an image (default: 3 2 1)',
    )
    model.add_argument('--steps', type=_positive, help="sampler steps (default: the checkpoint's)")
    model.add_argument(
        '--threads', type=_positive, help='torch threads (default: as many as cores)'
    )
    model.add_argument('--device', default='cpu', help='cpu, cuda, cuda:N or auto (default: cpu)')
    model.add_argument(
        '--no-reference',
        action='store_true',
        help='do not compare with the reference algorithm, which needs the weights twice',
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(',') if name.strip()]
    unknown = [name for name in names if name not in NAMES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f'{", ".join(unknown) or "nothing"}: expected some of {", ".join(NAMES)}'
        )
    return names


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'{text}: expected a whole number, at least 1')
    return number


NAMES = ('transport', 'topics', 'control', 'model')


def _parts() -> dict[str, Part]:
    from openpi_policy_ros.bench import control, model, topics, transport

    return {
        'transport': Part(
            transport.missing,
            lambda options: transport.measure(
                rounds=options.rounds,
                requests=options.requests,
                uvloop=options.uvloop,
                keep_heap=options.heap == 'keep',
            ),
            transport.report,
        ),
        'topics': Part(
            topics.missing,
            lambda options: topics.measure(
                seconds=options.seconds,
                model=options.model,
                size=options.size,
                threads=options.threads,
            ),
            topics.report,
        ),
        'control': Part(
            lambda: None,
            lambda options: control.measure(
                seconds=options.seconds,
                model=options.model,
                size=options.size,
                threads=options.threads,
            ),
            control.report,
        ),
        'model': Part(
            lambda: None,
            lambda options: model.measure(
                model=options.model,
                size=options.size,
                cameras=options.cameras,
                steps=options.steps,
                threads=options.threads,
                device=choose_device(options.device),
                rounds=options.rounds,
                reference=not options.no_reference,
            ),
            model.report,
        ),
    }


def _bench(options: argparse.Namespace) -> int:
    from openpi_policy_ros.bench import machine

    parts = _parts()
    chosen = options.only if options.only is not None else list(NAMES)
    problems = {name: parts[name].missing() for name in chosen}
    if options.only is not None and any(problems.values()):
        raise ConfigurationError(
            'bench', [f'{name}: {problem}' for name, problem in problems.items() if problem]
        )
    # Before measuring: minutes later it would be a pity.
    if options.json is not None:
        try:
            options.json.touch()
        except OSError as error:
            raise ConfigurationError(
                '--json', [f'cannot write {options.json}: {error.strerror}; give another path']
            ) from None
    described = machine.describe()
    print(machine.line(described), flush=True)
    results: dict[str, Any] = {'machine': described}
    for name in chosen:
        if problems[name]:
            print(f'\n{name}: left out: {problems[name]}', file=sys.stderr)
            continue
        results[name] = parts[name].measure(options)
        print(f'\n{name}\n\n{parts[name].report(results[name])}', flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + '\n', encoding='utf-8')
    return 0
