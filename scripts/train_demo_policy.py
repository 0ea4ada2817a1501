#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Train the demo checkpoint: a small π0 that lifts the cube, or puts it in the bowl, as it is told.

    python scripts/train_demo_policy.py /tmp/demo_policy

Behaviour cloning of the scripted expert, then rounds in which the expert says what it would have
done where the policy went (DAgger, Ross et al. 2011). Started again with the same folder and
settings, it goes on where it was. FOLDER/checkpoint is the result.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.policies.pi0.config import GemmaSize, Pi0Config, VisionSize
from openpi_policy_ros.policies.pi0.demo_tokenizer import build_tokenizer
from openpi_policy_ros.policies.pi0.make_checkpoint import SIZES
from openpi_policy_ros.policies.pi0.model import Pi0Model
from openpi_policy_ros.policies.pi0.write_trained import write_trained
from openpi_policy_ros_sim.cloning import PlaceHead, flow_loss, image_tokens, initialise
from openpi_policy_ros_sim.dataset import FIRST_SEED, Sample, Settings, label, views
from openpi_policy_ros_sim.dataset import write as write_demonstrations
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.episodes import run_episode
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.examples import Examples, batch_of, read_demonstrations, statistics
from openpi_policy_ros_sim.expert import Expert
from openpi_policy_ros_sim.kinematics import Kinematics
from openpi_policy_ros_sim.served import ServedPolicy
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.tasks import PROMPTED, TASKS

CAMERAS = ('observation.images.base_0_rgb', 'observation.images.left_wrist_0_rgb')
SIZE = 128
"""Pixels: DROID's letterbox leaves 72 rows of them, in which the cube is a few pixels wide."""
EVERY = 2
"""Of the demonstrations, every so many-th state is kept: neighbours say nearly the same."""
JOINTS = tuple(f'panda_joint{number}' for number in range(1, 8))
DAGGER_SEED = FIRST_SEED + 500_000
STEP_LIMIT = 150
"""Longest episode that is relabelled: what is not done by then is stuck."""


def network() -> Pi0Config:
    """Return the sizes of the demo policy."""
    return dataclasses.replace(
        SIZES['small'],
        vision=VisionSize(width=96, depth=2, mlp_dim=192, num_heads=4, patch_size=16),
        language=GemmaSize(128, 3, 256, 4, 1, 32),
        expert=GemmaSize(96, 3, 192, 4, 1, 32),
        image_resolution=(SIZE, SIZE),
        image_features=CAMERAS,
        image_slots=len(CAMERAS),
        state_dim=8,
        max_state_dim=8,
        action_dim=8,
        max_action_dim=8,
        chunk_size=10,
        normalization={'VISUAL': 'IDENTITY', 'STATE': 'MEAN_STD', 'ACTION': 'MEAN_STD'},
        action_names=(*JOINTS, 'gripper'),
    )


class Training:
    """One run: everything that has to be kept to go on after a stop.

    Args:
        folder: of the run.
        options: the command line's.
        examples: prompt → labelled states, those of the demonstrations first.

    """

    def __init__(
        self, folder: Path, options: argparse.Namespace, examples: dict[str, Examples]
    ) -> None:
        self.folder = folder
        self.options = options
        self.examples = examples
        self.step = 0
        self.config = network()
        self.known = statistics(list(examples.values()), CAMERAS)
        generator = torch.Generator().manual_seed(options.seed)
        self.model = Pi0Model(self.config, torch.device('cpu'), torch.float32)
        initialise(self.model, generator)
        tokens = len(CAMERAS) * self.config.patches
        torch.manual_seed(options.seed)
        self.head = PlaceHead(tokens, self.config.language.width, 6)
        self.average = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.parameters = [*self.model.parameters(), *self.head.parameters()]
        self.optimiser = torch.optim.AdamW(
            self.parameters, lr=options.rate, betas=(0.9, 0.95), weight_decay=1e-4
        )
        tokenizer = build_tokenizer()
        self.tokens = {
            prompt: torch.tensor(tokenizer.encode(f'{prompt}\n').ids) for prompt in examples
        }

    def train(self, until: int) -> None:
        """Take steps up to ``until``; each draws from its own seed, so that a stop costs none."""
        options = self.options
        bar = tqdm(total=until, initial=self.step, unit='step', smoothing=0.05)
        shown = [math.nan, math.nan]
        while self.step < until:
            rate = self._rate()
            for group in self.optimiser.param_groups:
                group['lr'] = rate
            random = np.random.default_rng((options.seed, 1, self.step))
            generator = torch.Generator().manual_seed(options.seed * 10_000_000 + self.step)
            self.optimiser.zero_grad()
            losses = np.zeros(2)
            for prompt, found in self.examples.items():
                chosen = random.integers(0, len(found), options.batch // len(self.examples))
                light = np.stack(
                    [
                        random.uniform(0.8, 1.2, len(chosen)),
                        random.uniform(-0.15, 0.15, len(chosen)),
                    ],
                    axis=1,
                ).astype(np.float32)
                batch = batch_of(found, chosen, self.tokens[prompt], self.known, light)
                seen = image_tokens(self.model, batch.images)
                flow = flow_loss(self.model, seen, batch, options.draws, generator)
                place = (self.head(seen) - batch.places).square().mean()
                ((flow + options.helper * place) / len(self.examples)).backward()
                losses += flow.item(), place.item()
            torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
            self.optimiser.step()
            self.step += 1
            self._follow()
            losses /= len(self.examples)
            shown = losses if math.isnan(shown[0]) else 0.98 * np.asarray(shown) + 0.02 * losses
            bar.update()
            bar.set_postfix_str(f'flow {shown[0]:.4f}, place {shown[1]:.4f}, rate {rate:.1e}')
            if self.step % 500 == 0:
                self.save()
        bar.close()
        self.save()

    def write_checkpoint(self) -> Path:
        """Write the averaged weights as a checkpoint that the server serves; return its folder."""
        present = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self._put(self.average)
        try:
            directory = self.folder / 'checkpoint'
            write_trained(directory, self.model, self.known, relative=True)
        finally:
            self._put(present)
        return directory

    def save(self) -> None:
        """Keep what is needed to go on."""
        partial = self.folder / 'training.partial'
        torch.save(
            {
                'step': self.step,
                'model': self.model.state_dict(),
                'head': self.head.state_dict(),
                'optimiser': self.optimiser.state_dict(),
                'average': self.average,
            },
            partial,
        )
        partial.replace(self.folder / 'training.pt')

    def resume(self) -> None:
        """Go on from what was kept, if anything was."""
        path = self.folder / 'training.pt'
        if path.exists():
            kept = torch.load(path, weights_only=True)
            self.model.load_state_dict(kept['model'])
            self.head.load_state_dict(kept['head'])
            self.optimiser.load_state_dict(kept['optimiser'])
            self.average, self.step = kept['average'], kept['step']

    def _rate(self) -> float:
        """Return the learning rate: a short warm-up, then half a cosine."""
        total, warm = self.options.steps, 200
        share = min(max((self.step - warm) / max(total - warm, 1), 0.0), 1.0)
        wave = 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * share))
        rate: float = self.options.rate * wave * min(1.0, (self.step + 1) / warm)
        return rate

    @torch.no_grad()
    def _follow(self) -> None:
        keep = min(0.999, (1.0 + self.step) / (10.0 + self.step))
        for name, parameter in self.model.named_parameters():
            self.average[name].lerp_(parameter, 1.0 - keep)

    @torch.no_grad()
    def _put(self, weights: dict[str, torch.Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])


def relabel(checkpoint: Path, task: str, seeds: Sequence[int], every: int, size: int) -> Examples:
    """Let the policy act, and return what the expert would do in every state it comes to."""
    kinematics = Kinematics()
    samples: list[Sample] = []
    done = 0
    with ServedPolicy(checkpoint) as policy, Environment() as environment:
        for seed in tqdm(seeds, desc=f'{task}: relabel', unit='episode'):
            expert = Expert(task, kinematics)
            seen = 0

            def look(world: Environment, state: State, expert: Expert = expert) -> None:
                nonlocal seen
                if seen % every == 0:
                    samples.append(label(world, expert, views('letterbox'), size, 10))
                else:
                    expert.act(state)
                seen += 1

            episode = run_episode(
                environment,
                policy.begin(seed),
                seed=seed,
                task=task,
                views=views('letterbox'),
                max_steps=STEP_LIMIT,
                on_step=look,
            )
            done += episode.succeeded
    print(f'{task}: {done} of {len(seeds)} episodes of this round succeeded', flush=True)
    return Examples.of(samples)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train; return 0."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for problem in _problems(options):
        parser.error(problem)
    try:
        return _train(options)
    except (PolicyRosError, OSError) as error:
        parser.exit(2, f'{parser.prog}: {error}\n')


def _train(options: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.ERROR)
    torch.set_num_threads(options.threads)
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    _same_settings(folder / 'settings.json', options)
    start = time.monotonic()
    demonstrations = options.demonstrations or folder / 'demonstrations'
    settings = Settings(episodes=options.episodes, size=SIZE, every=EVERY, shard=25)
    write_demonstrations(demonstrations, settings)
    examples = read_demonstrations(demonstrations, settings)
    print({prompt: len(found) for prompt, found in examples.items()}, flush=True)
    training = Training(folder, options, examples)
    training.resume()
    marks = [round(options.steps * share) for share in options.relabel_at]
    for number, mark in enumerate(marks):
        training.train(mark)
        checkpoint: Path | None = None
        for index, task in enumerate(PROMPTED):
            path = folder / f'round-{number}-{task}.npz'
            if not path.exists():
                checkpoint = checkpoint or training.write_checkpoint()
                first = DAGGER_SEED + 10_000 * number + 1_000 * index
                seeds = range(first, first + options.relabel_episodes)
                relabel(checkpoint, task, seeds, options.every, SIZE).save(path)
            prompt = TASKS[task].prompt
            training.examples[prompt] = Examples.joined(
                [training.examples[prompt], Examples.read(path)]
            )
    training.train(options.steps)
    checkpoint = training.write_checkpoint()
    print(f'{checkpoint}: after {(time.monotonic() - start) / 60:.0f} min of this run')
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description='Train the demo checkpoint.')
    parser.add_argument('folder', type=Path)
    parser.add_argument('--demonstrations', type=Path, help='default: FOLDER/demonstrations')
    parser.add_argument('--episodes', type=int, default=300, help='demonstrations per task')
    parser.add_argument('--steps', type=int, default=5000)
    parser.add_argument('--batch', type=int, default=32)
    parser.add_argument('--draws', type=int, default=4, help='noisy actions per sample')
    parser.add_argument('--rate', type=float, default=1e-3)
    parser.add_argument(
        '--helper', type=float, default=0.1, help="weight of the helper head's loss"
    )
    parser.add_argument(
        '--relabel-at', type=float, nargs='*', default=[0.35, 0.6, 0.8], help='share of the steps'
    )
    parser.add_argument('--relabel-episodes', type=int, default=40, help='per task and round')
    parser.add_argument('--every', type=int, default=3, help='relabel every so many-th state')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--threads', type=int, default=1)
    return parser


def _problems(options: argparse.Namespace) -> list[str]:
    """Return what cannot be, of the options."""
    counts = ('episodes', 'steps', 'batch', 'draws', 'relabel_episodes', 'every', 'threads')
    problems = [
        f'--{name.replace("_", "-")}: at least 1' for name in counts if getattr(options, name) < 1
    ]
    if options.batch % len(PROMPTED):
        problems.append(f'--batch: a multiple of {len(PROMPTED)}, the number of prompts')
    if not 0.0 < options.rate < math.inf:
        problems.append('--rate: more than 0')
    if not 0.0 <= options.helper < math.inf:
        problems.append('--helper: at least 0')
    if options.seed < 0:
        problems.append('--seed: at least 0')
    shares = options.relabel_at
    if shares != sorted(shares) or not all(0.0 < share < 1.0 for share in shares):
        problems.append('--relabel-at: shares between 0 and 1 that rise')
    return problems


def _same_settings(path: Path, options: argparse.Namespace) -> None:
    """Refuse to go on with other settings than those the folder was begun with.

    Raises:
        SimulationError: it was begun with others, or holds something else.

    """
    free = ('folder', 'demonstrations', 'threads')
    wanted: dict[str, Any] = {k: v for k, v in vars(options).items() if k not in free}
    if not path.exists():
        if (path.parent / 'checkpoint').exists() or (path.parent / 'training.pt').exists():
            raise SimulationError(
                f'{path.parent} holds a checkpoint, but no {path.name} that says how it is made',
                remedy='name another folder',
            )
        partial = path.with_suffix('.partial')
        partial.write_text(json.dumps(wanted, indent=1) + '\n', encoding='utf-8')
        partial.replace(path)
        return
    try:
        there: dict[str, Any] = json.loads(path.read_text(encoding='utf-8'))
    except ValueError as error:
        raise SimulationError(
            f'{path} is damaged ({error})', remedy='name another folder'
        ) from error
    if there != wanted:
        different = [
            f'{name}: {there.get(name)}, not {wanted.get(name)}'
            for name in sorted({*there, *wanted})
            if there.get(name) != wanted.get(name)
        ]
        raise SimulationError(
            f'{path} has other settings ({"; ".join(different)})',
            remedy='go on with these, or name another folder',
        )


if __name__ == '__main__':
    sys.exit(main())
