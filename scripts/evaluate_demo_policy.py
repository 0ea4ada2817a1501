#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure the demo checkpoint and write its model card.

    python scripts/evaluate_demo_policy.py --training /tmp/demo_policy

For each of the seeds three episodes: told to lift, told to put the cube in the bowl, and told to
lift but judged by the bowl. Results go to CHECKPOINT/evaluation.json, the card to
CHECKPOINT/README.md. The code that answers is the server's; only the socket is left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import multiprocessing
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch
from demo_policy_card import card
from tqdm import tqdm

from openpi_policy_ros import __version__
from openpi_policy_ros.errors import ConfigurationError, PolicyRosError
from openpi_policy_ros_sim.dataset import FIRST_SEED, views
from openpi_policy_ros_sim.demo import FOLDER
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.episodes import EPISODE_STEPS, run_episode
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.outlets import writable
from openpi_policy_ros_sim.results import FORMAT as RESULTS
from openpi_policy_ros_sim.results import wilson
from openpi_policy_ros_sim.served import ServedPolicy
from openpi_policy_ros_sim.tasks import TASKS

CONDITIONS = {'lift': ('lift', 'lift'), 'bowl': ('bowl', 'bowl'), 'swapped': ('lift', 'bowl')}
"""Name → which task's prompt is told, which task is judged."""
Case = tuple[str, int]


class Worker:
    """A process of its own: one policy, one simulator.

    Args:
        checkpoint: folder.
        horizon: actions executed open loop.
        max_steps: after which the time is up.

    """

    def __init__(self, checkpoint: Path, horizon: int, max_steps: int) -> None:
        # What is said of optional cameras is said once a process, and known.
        logging.basicConfig(level=logging.ERROR)
        torch.set_num_threads(1)
        self.policy = ServedPolicy(checkpoint)
        self.environment = Environment()
        self.horizon, self.max_steps = horizon, max_steps

    def close(self) -> None:
        """Free both."""
        self.environment.close()
        self.policy.close()

    def run(self, case: Case) -> dict[str, Any]:
        """Run one episode and return what came of it."""
        condition, seed = case
        told, judged = CONDITIONS[condition]
        episode = run_episode(
            self.environment,
            self.policy.begin(seed),
            seed=seed,
            task=judged,
            horizon=self.horizon,
            views=views('letterbox'),
            max_steps=self.max_steps,
            prompt=TASKS[told].prompt,
        )
        return {
            'condition': condition,
            'seed': seed,
            'success': episode.succeeded,
            'seconds': episode.success,
            'steps': len(episode.actions),
        }


_worker: Worker | None = None


def _begin(checkpoint: Path, horizon: int, max_steps: int) -> None:
    global _worker
    _worker = Worker(checkpoint, horizon, max_steps)
    # A process of a pool runs no atexit function.
    Finalize(None, _worker.close, exitpriority=1)


def _run(case: Case) -> dict[str, Any]:
    assert _worker is not None
    return _worker.run(case)


def summary(condition: str, episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what is said of one condition."""
    told, judged = CONDITIONS[condition]
    done = [one for one in episodes if one['success']]
    low, high = wilson(len(done), len(episodes))
    return {
        'prompt': TASKS[told].prompt,
        'judged': judged,
        'episodes': len(episodes),
        'successes': len(done),
        'interval_95': [round(low, 4), round(high, 4)],
        'seconds_p50': statistics.median(one['seconds'][judged] for one in done) if done else None,
    }


def evaluate(options: argparse.Namespace) -> dict[str, Any]:
    """Run all episodes and return the contents of the file."""
    seeds = range(options.seed, options.seed + options.episodes)
    # The longest first, so that the processes end together.
    cases = [(name, seed) for name in reversed(CONDITIONS) for seed in seeds]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CONDITIONS}
    start = time.monotonic()
    context = multiprocessing.get_context('spawn')
    arguments = (options.checkpoint, options.horizon, options.max_steps)
    with (
        context.Pool(options.processes, _begin, arguments) as pool,
        tqdm(total=len(cases), unit='episode') as progress,
    ):
        answers = pool.imap_unordered(_run, cases)
        pool.close()
        for episode in answers:
            found[episode['condition']].append(episode)
            progress.update()
            progress.set_postfix_str(
                ', '.join(
                    f'{name} {sum(one["success"] for one in some)}/{len(some)}'
                    for name, some in found.items()
                    if some
                )
            )
        # Left to the end of the block, the processes would be killed as they close.
        pool.join()
    return {
        'format': 'openpi_policy_ros_sim.demo_evaluation',
        'version': 1,
        'package': __version__,
        'weights_sha256': sha256(options.checkpoint),
        'bytes': sum(one.stat().st_size for one in options.checkpoint.rglob('*') if one.is_file()),
        'settings': {
            'first_seed': options.seed,
            'episodes': options.episodes,
            'horizon': options.horizon,
            'max_steps': options.max_steps,
        },
        'training': training(options),
        'minutes': round((time.monotonic() - start) / 60, 1),
        'summary': {name: summary(name, some) for name, some in found.items()},
        'episodes': [
            one for some in found.values() for one in sorted(some, key=lambda each: each['seed'])
        ],
    }


def training(options: argparse.Namespace) -> dict[str, Any]:
    """Return how the checkpoint was trained: of its folder, or else what was known before."""
    known: dict[str, Any] = {}
    file = options.checkpoint / 'evaluation.json'
    if options.training is not None:
        known = json.loads((options.training / 'settings.json').read_text(encoding='utf-8'))
    elif file.exists():
        known = json.loads(file.read_text(encoding='utf-8'))['training']
    if options.minutes is not None:
        known['minutes'] = options.minutes
    return known


def loops(options: argparse.Namespace, weights: str) -> dict[str, dict[str, Any]]:
    """Return what was measured of these weights over WebSocket and ROS: now, and before.

    Raises:
        SimulationError: a file is none of `openpi-policy-sim`.

    """
    known: dict[str, dict[str, Any]] = {}
    file = options.checkpoint / 'evaluation.json'
    if file.exists():
        before = json.loads(file.read_text(encoding='utf-8'))
        if before['weights_sha256'] == weights:
            known = before.get('loops', {})
    for path in options.results:
        try:
            content = json.loads(path.read_text(encoding='utf-8'))
        except ValueError:
            content = None
        if not isinstance(content, dict) or content.get('format') != RESULTS:
            raise SimulationError(
                f'{path} holds no results', expected='a file that openpi-policy-sim wrote (--json)'
            )
        settings = content['settings']
        loop = known.setdefault('ros' if settings.get('loop') == 'ros' else 'websocket', {})
        for entry in content['summary']:
            loop[entry['task']] = {
                'first_seed': settings['seed'],
                'episodes': entry['episodes'],
                'successes': entry['successes'],
            }
    return known


def sha256(checkpoint: Path) -> str:
    """Return the hash of a checkpoint's weights."""
    return hashlib.sha256((checkpoint / 'model.safetensors').read_bytes()).hexdigest()


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    partial = path.with_name(f'{path.name}.partial')
    partial.write_text(text, encoding='utf-8')
    partial.replace(path)


def as_json(content: dict[str, Any]) -> str:
    """Return the file's text, one line for each episode."""
    lines = ',\n'.join(f'  {json.dumps(one)}' for one in content['episodes'])
    head = json.dumps({**content, 'episodes': []}, indent=1)
    return f'{head.removesuffix("[]" + chr(10) + "}")}[\n{lines}\n ]\n}}\n'


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate, write the results and the card, print the table; return 0."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        _check(options)
        return _measure(options)
    except (PolicyRosError, OSError) as error:
        parser.exit(2, f'{parser.prog}: {error}\n')


def _check(options: argparse.Namespace) -> None:
    """See, before an hour of episodes, that they can be run and their results be written.

    Raises:
        PolicyRosError: what is wrong.

    """
    least = {'episodes': 1, 'seed': 0, 'horizon': 1, 'max_steps': 1, 'processes': 1}
    problems = [
        f'--{name.replace("_", "-")}: {getattr(options, name)}, expected {limit} or more'
        for name, limit in least.items()
        if getattr(options, name) < limit
    ]
    if options.seed + options.episodes > FIRST_SEED:
        problems.append(f'--seed: those from {FIRST_SEED} on are for training')
    if problems:
        raise ConfigurationError('arguments', problems)
    if options.card_only and not (options.checkpoint / 'evaluation.json').is_file():
        raise SimulationError(
            f'there is no {options.checkpoint / "evaluation.json"}', remedy='evaluate first'
        )
    training(options)
    loops(options, '')
    if not options.card_only:
        # A process of the pool that cannot begin would be replaced for ever.
        with ServedPolicy(options.checkpoint) as policy, Environment() as environment:
            environment.render('wrist', 8, 8)
            if options.horizon > policy.horizon:
                raise ConfigurationError(
                    'arguments',
                    [f'--horizon: {options.horizon}, but a chunk has {policy.horizon} rows'],
                )
    writable('--checkpoint', str(options.checkpoint), folder=True)


def _measure(options: argparse.Namespace) -> int:
    file = options.checkpoint / 'evaluation.json'
    if options.card_only:
        content = json.loads(file.read_text(encoding='utf-8'))
        content['training'] = training(options)
    else:
        content = evaluate(options)
    content['loops'] = loops(options, content['weights_sha256'])
    # Last in the file: they are many.
    content['episodes'] = content.pop('episodes')
    write(file, as_json(content))
    text = card(options.checkpoint, content)
    write(options.checkpoint / 'README.md', text)
    print(text[text.index('## Measured') :])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description='Measure the demo checkpoint, write its card.')
    parser.add_argument('--checkpoint', type=Path, default=FOLDER, help='default: the shipped one')
    parser.add_argument(
        '--training', type=Path, metavar='FOLDER', help='of train_demo_policy.py, for the card'
    )
    parser.add_argument('--minutes', type=int, help='that the training took, for the card')
    parser.add_argument('--episodes', type=int, default=100, help='seeds (default: 100)')
    parser.add_argument('--seed', type=int, default=0, help='the first one (default: 0)')
    parser.add_argument('--horizon', type=int, default=8, help='(default: 8)')
    parser.add_argument('--max-steps', type=int, default=EPISODE_STEPS, help='(default: 450, 30 s)')
    parser.add_argument('--processes', type=int, default=2, help='(default: 2)')
    parser.add_argument(
        '--results',
        type=Path,
        nargs='*',
        default=[],
        metavar='FILE',
        help='of openpi-policy-sim (--json) with this checkpoint, for the card',
    )
    parser.add_argument(
        '--card-only', action='store_true', help='write the card anew from evaluation.json'
    )
    return parser


if __name__ == '__main__':
    sys.exit(main())
