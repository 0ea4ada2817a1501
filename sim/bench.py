# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure how many times faster than real time the simulator runs, with and without images."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch

from openpi_policy_ros.policies.pi0.preprocess import preprocess_image
from openpi_policy_ros_sim import constants as c
from openpi_policy_ros_sim.environment import Environment
from openpi_policy_ros_sim.expert import Expert
from openpi_policy_ros_sim.state import Vector

SIZES = ((64, 64), (126, 224), (224, 224), (180, 320), (720, 1280))
# Scaled down to what DROID's client sends: 224x224, letterboxed.
_SENT = (224, 224)
_HORIZON = 8


def recorded(environment: Environment, seed: int) -> list[Vector]:
    """Return the actions of one episode of the bowl task, contacts and all."""
    expert, state = Expert('bowl'), environment.reset(seed)
    actions = []
    for _ in range(75):
        actions.append(expert.act(state))
        state = environment.step(actions[-1])
    return actions


def look(environment: Environment, size: tuple[int, int]) -> None:
    """Draw all three cameras; the large size is scaled as DROID's client does."""
    for camera in c.CAMERAS:
        image = environment.render(camera, *size)
        if size[0] > _SENT[0]:
            preprocess_image(camera, image, _SENT, torch.device('cpu'), antialias=True)


def factor(
    environment: Environment, actions: Sequence[Vector], size: tuple[int, int] | None, every: int
) -> float:
    """Return simulated seconds per second over one episode, from the process's CPU time."""
    environment.reset(0)
    start = time.process_time()
    for step, action in enumerate(actions):
        if size is not None and step % every == 0:
            look(environment, size)
        environment.step(action)
    return len(actions) / c.CONTROL_RATE / (time.process_time() - start)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog='python -m openpi_policy_ros_sim.bench',
        description='Times faster than real time, per second of CPU, three cameras, one thread.',
    )
    parser.add_argument('--repeats', type=int, default=3, help='the best of so many counts')
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error('--repeats: at least 1')
    torch.set_num_threads(1)
    with Environment() as environment:
        actions = recorded(environment, 0)
        look(environment, SIZES[0])

        def best(size: tuple[int, int] | None, every: int) -> float:
            runs = [factor(environment, actions, size, every) for _ in range(options.repeats)]
            return float(np.max(runs))

        print(f'no images: {best(None, 1):.0f} times real time')
        print(f'images          every {_HORIZON} steps   every step')
        for size in SIZES:
            name = f'{size[0]}x{size[1]}'
            print(f'{name:<15}{best(size, _HORIZON):>14.1f}{best(size, 1):>13.1f}')
    return 0


if __name__ == '__main__':
    raise SystemExit(main())
