# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The model card of the demo checkpoint, made of what was measured and of the files beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open

from openpi_policy_ros_sim.dataset import views
from openpi_policy_ros_sim.request import view_of

TEXT = Path(__file__).with_suffix('.txt')
LOOPS = {
    'websocket': 'WebSocket, `openpi-policy-sim ws`',
    'ros': 'ROS, `openpi-policy-sim ros`, gates on',
}
TRAINING = """\
* Demonstrations: {episodes} episodes of each task by the scripted expert (`sim/expert.py`), with
  noise in what is executed and the undisturbed expert's chunk as label; every second state is kept.
  Seeds start at 1,000,000.
* Relabelling (DAgger, Ross et al. 2011): {rounds} rounds, after {shares} of the steps. The policy
  acts for {relabel_episodes} episodes of each task, and the expert says what it would have done.
* Loss: π0's flow matching, {draws} noisy actions per sample; a helper head learns where cube and
  bowl are (weight {helper}) and is thrown away. Brightness and contrast vary.
* AdamW, {steps} steps of {batch} samples, learning rate {rate} with a cosine to 2 % of it; the
  averaged weights are kept. Seed {seed}."""


def card(checkpoint: Path, content: Mapping[str, Any]) -> str:
    """Return the card.

    Args:
        checkpoint: folder, whose files say what the network is.
        content: of its ``evaluation.json``.

    """
    config = json.loads((checkpoint / 'config.json').read_text(encoding='utf-8'))
    sizes = json.loads((checkpoint / 'arch_overrides.json').read_text(encoding='utf-8'))
    with safe_open(checkpoint / 'model.safetensors', 'np') as weights:
        parameters = sum(_count(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    settings, known = content['settings'], dict(content['training'])
    minutes = known.pop('minutes', None)
    names = [name for name in config['input_features'] if 'image' in name]
    return TEXT.read_text(encoding='utf-8').format(
        parameters=parameters / 1e6,
        megabytes=content['bytes'] / 1e6,
        vision=sizes['vision'],
        paligemma=sizes['paligemma'],
        action_expert=sizes['action_expert'],
        resolution='×'.join(map(str, config['image_resolution'])),
        cameras=', '.join(f'`{name}`' for name in names),
        chunk=config['chunk_size'],
        sha=content['weights_sha256'],
        minutes='' if minutes is None else f' in {minutes} minutes',
        training=_training(known),
        episodes=settings['episodes'],
        first=settings['first_seed'],
        last=settings['first_seed'] + settings['episodes'] - 1,
        horizon=settings['horizon'],
        seconds=settings['max_steps'] / 15,
        rows='\n'.join(_row(each) for each in content['summary'].values()),
        wide='{0.height}×{0.width}'.format(views('letterbox')[0]),
        drawn='{0.height}×{0.width}'.format(view_of('wrist', *config['image_resolution'])),
        loops=_loops(content.get('loops', {})),
    )


def _count(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _training(known: Mapping[str, Any]) -> str:
    if not known:
        return 'Its settings were not given to the evaluation (`--training FOLDER`).'
    shares = [f'{100 * share:.0f} %' for share in known['relabel_at']]
    return TRAINING.format(rounds=len(shares), shares=', '.join(shares), **known)


def _loops(found: Mapping[str, Any]) -> str:
    if not found:
        return ''
    rows = ''.join(
        f'\n| {LOOPS[loop]} | *{task}* | {one["successes"]} of {one["episodes"]} | '
        f'{one["first_seed"]} to {one["first_seed"] + one["episodes"] - 1} |'
        for loop, tasks in found.items()
        for task, one in tasks.items()
    )
    head = '| over | told and judged by | done | seeds |\n|---|---|---|---|'
    return f' Measured over both:\n\n{head}{rows}'


def _row(entry: Mapping[str, Any]) -> str:
    low, high = (100 * limit for limit in entry['interval_95'])
    seconds = entry['seconds_p50']
    return (
        f'| "{entry["prompt"]}" | *{entry["judged"]}* | {entry["successes"]} of '
        f'{entry["episodes"]} | {low:.0f}-{high:.0f} % | '
        f'{"-" if seconds is None else f"{seconds:.1f}"} |'
    )
