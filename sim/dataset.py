# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Demonstrations for behaviour cloning: what the expert would do in the states a noisy one meets.

Noise decides what is executed, so that the states show mistakes; the label of each state is the
chunk of actions that the undisturbed expert would execute from there, run ahead in the physics.
Images go through the steps that a served policy's go through over ROS: drawn as DROID's client
sends them, 126×224 between bars, then scaled as the model's own preprocessing does.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.policies.pi0.preprocess import preprocess_image
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.episodes import EPISODE_STEPS, View
from openpi_policy_ros_sim.errors import SimulationError
from openpi_policy_ros_sim.expert import Expert
from openpi_policy_ros_sim.kinematics import Kinematics
from openpi_policy_ros_sim.noise import Noise
from openpi_policy_ros_sim.state import State
from openpi_policy_ros_sim.tasks import PROMPTED, TASKS, Judge

FIRST_SEED: Final = 1_000_000
"""Training seeds start here; whoever evaluates takes smaller ones."""
CAMERAS: Final = ('exterior_1', 'wrist')
WIRE: Final = 224
_FRAMES: Final[Mapping[str, tuple[int, int]]] = {
    # What DROID's client makes of a 720x1280 camera, and a square cut out of its middle.
    'letterbox': (WIRE * 9 // 16, WIRE),
    'square': (WIRE, WIRE),
}
# The scene after success, so that a policy learns to stay.
_AFTER: Final = 8
_SETTINGS: Final = 'dataset.json'


class Sample(NamedTuple):
    """One labelled state.

    Attributes:
        images: camera → uint8 RGB [size, size, 3].
        state: float32 [8], seven angles and the gripper.
        actions: float32 [rows, 8], absolute joint targets and the gripper.
        cube: its position, float32 [3]; for a head that is trained along, no policy sees it.
        bowl: its position, float32 [3].

    """

    images: Mapping[str, npt.NDArray[np.uint8]]
    state: npt.NDArray[np.float32]
    actions: npt.NDArray[np.float32]
    cube: npt.NDArray[np.float32]
    bowl: npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Settings:
    """What makes two datasets the same.

    Attributes:
        tasks: the tasks, each with the same number of episodes and other seeds.
        episodes: per task.
        seed: of the first episode.
        noise: highest level; each episode draws its own between 0 and this.
        rows: of a chunk.
        size: of the images, in pixels.
        frame: ``letterbox`` or ``square``.
        every: take every so many-th step.
        shard: episodes per file.

    """

    tasks: tuple[str, ...] = PROMPTED
    episodes: int = 200
    seed: int = FIRST_SEED
    noise: float = 1.0
    rows: int = 10
    size: int = 64
    frame: str = 'letterbox'
    every: int = 1
    shard: int = 20


def views(frame: str) -> tuple[View, ...]:
    """Return the two cameras as the wire carries them, 224×224.

    Raises:
        SimulationError: the frame is neither ``letterbox`` nor ``square``.

    """
    if frame not in _FRAMES:
        raise SimulationError(f'frame {frame!r}', expected=' or '.join(_FRAMES))
    height, width = _FRAMES[frame]
    return tuple(View(camera, height, width, (WIRE, WIRE)) for camera in CAMERAS)


def as_the_model_sees(image: npt.NDArray[np.uint8], size: int) -> npt.NDArray[np.uint8]:
    """Return a wire image as ``preprocess_image`` scales it, uint8 [size, size, 3]."""
    planes = preprocess_image('image', image, (size, size), torch.device('cpu'))
    pixels = ((planes + 1.0) * 127.5).round().to(torch.uint8)
    return pixels.permute(1, 2, 0).contiguous().numpy()


def label(
    environment: Environment, expert: Expert, look: Sequence[View], size: int, rows: int
) -> Sample:
    """Return the present state with what the expert would do from it; nothing moves.

    Also for relabelling: the environment may be in a state that a policy brought about.
    """
    state = environment.state()
    images = {view.camera: as_the_model_sees(view.look(environment), size) for view in look}
    return Sample(
        images,
        state.policy_state,
        expert.chunk(environment, rows).astype(np.float32),
        state.cube[:3].astype(np.float32),
        state.bowl[:3].astype(np.float32),
    )


def demonstrate(
    environment: Environment, kinematics: Kinematics, task: str, seed: int, settings: Settings
) -> list[Sample] | None:
    """Return the samples of one episode, or None where even the expert failed."""
    random = np.random.default_rng((seed, 1))
    noise = Noise(random, settings.noise * random.uniform())
    expert, judge = Expert(task, kinematics), Judge(TASKS[task])
    look = views(settings.frame)
    state: State = environment.reset(seed)
    samples, left = [], _AFTER
    for step in range(EPISODE_STEPS):
        if step % settings.every == 0:
            samples.append(label(environment, expert, look, settings.size, settings.rows))
            action = samples[-1].actions[0].astype(np.float64)
        else:
            action = expert.act(state)
        state = environment.step(noise.disturb(action))
        if judge.see(state):
            left -= 1
            if left == 0:
                return samples
    return None


def shards(settings: Settings) -> Iterator[tuple[str, str, range]]:
    """Yield (file name, task, seeds) of every file, in order."""
    for number, task in enumerate(settings.tasks):
        start = settings.seed + number * settings.episodes
        for first in range(start, start + settings.episodes, settings.shard):
            seeds = range(first, min(first + settings.shard, start + settings.episodes))
            yield f'{task}-{first}.npz', task, seeds


def write(folder: Path, settings: Settings, *, part: int = 0, parts: int = 1) -> None:
    """Write the files that are not there yet; several processes may each do a part.

    A file holds ``image_exterior_1``, ``image_wrist`` uint8 [N, size, size, 3], ``state`` float32
    [N, 8], ``actions`` float32 [N, rows, 8], ``cube``, ``bowl`` float32 [N, 3], ``seed`` int64 [N]
    and ``prompt`` (one string).

    Raises:
        SimulationError: the folder holds a dataset with other settings, or files like a dataset's
            that are none.

    """
    folder.mkdir(parents=True, exist_ok=True)
    described: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(settings)))
    about = folder / _SETTINGS
    if not about.exists():
        foreign = [name for name, _, _ in shards(settings) if (folder / name).exists()]
        if foreign:
            raise SimulationError(
                f'{folder} holds {foreign[0]} but no {_SETTINGS} that says what it is',
                remedy='choose another folder',
            )
        _put(about, json.dumps(described, indent=1).encode())
    elif (there := json.loads(about.read_text(encoding='utf-8'))) != described:
        different = sorted(key for key in described if described[key] != there.get(key))
        raise SimulationError(
            f'{folder} holds a dataset with other settings ({", ".join(different)})',
            expected=json.dumps(there),
            remedy='choose another folder, or the same settings to go on',
        )
    mine = [shard for index, shard in enumerate(shards(settings)) if index % parts == part]
    missing = [shard for shard in mine if not (folder / shard[0]).exists()]
    kinematics = Kinematics()
    total = sum(len(seeds) for _, _, seeds in missing)
    with Environment() as environment, tqdm(total=total, unit='episode') as bar:
        for name, task, seeds in missing:
            samples: list[Sample] = []
            whose: list[int] = []
            for seed in seeds:
                made = demonstrate(environment, kinematics, task, seed, settings)
                if made is None:
                    tqdm.write(f'{task}, seed {seed}: the expert failed, left out')
                else:
                    samples += made
                    whose += [seed] * len(made)
                bar.update()
            if samples:
                _save(folder / name, samples, whose, TASKS[task].prompt)


def _save(path: Path, samples: Sequence[Sample], seeds: Sequence[int], prompt: str) -> None:
    arrays: dict[str, Any] = {
        f'image_{camera}': np.stack([sample.images[camera] for sample in samples])
        for camera in samples[0].images
    }
    for field in ('state', 'actions', 'cube', 'bowl'):
        arrays[field] = np.stack([getattr(sample, field) for sample in samples])
    # Whole or not at all: a file that is there is not made again.
    partial = path.with_suffix('.partial')
    with partial.open('wb') as file:
        np.savez_compressed(file, seed=np.array(seeds, np.int64), prompt=np.array(prompt), **arrays)
    os.replace(partial, path)


def _put(path: Path, content: bytes) -> None:
    partial = path.with_suffix(f'.{os.getpid()}')
    partial.write_bytes(content)
    os.replace(partial, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a dataset, or what is missing of it."""
    default = Settings()
    parser = argparse.ArgumentParser(
        prog='python -m openpi_policy_ros_sim.dataset',
        description='Write demonstrations of the scripted expert; started again, it goes on.',
    )
    parser.add_argument('folder', type=Path)
    parser.add_argument('--tasks', nargs='+', choices=PROMPTED, default=list(default.tasks))
    parser.add_argument('--episodes', type=int, default=default.episodes, help='per task')
    parser.add_argument('--seed', type=int, default=default.seed)
    parser.add_argument('--noise', type=float, default=default.noise)
    parser.add_argument('--rows', type=int, default=default.rows)
    parser.add_argument('--size', type=int, default=default.size)
    parser.add_argument('--frame', choices=sorted(_FRAMES), default=default.frame)
    parser.add_argument('--every', type=int, default=default.every)
    parser.add_argument('--shard', type=int, default=default.shard)
    parser.add_argument('--part', type=int, default=0, help='which part this process does, from 0')
    parser.add_argument('--parts', type=int, default=1)
    options = vars(parser.parse_args(arguments))
    for name in ('episodes', 'rows', 'size', 'every', 'shard', 'parts'):
        if options[name] < 1:
            parser.error(f'--{name}: at least 1')
    if not 0 <= options['part'] < options['parts']:
        parser.error(f'--part: 0 to {options["parts"] - 1}')
    logging.basicConfig(level=logging.ERROR)
    torch.set_num_threads(1)
    folder, part, parts = (options.pop(name) for name in ('folder', 'part', 'parts'))
    settings = Settings(**{**options, 'tasks': tuple(options['tasks'])})
    try:
        write(folder, settings, part=part, parts=parts)
    except PolicyRosError as error:
        parser.exit(1, f'{error}\n')
    return 0


if __name__ == '__main__':
    raise SystemExit(main())
