# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The small files of a LeRobot checkpoint on disk, to be changed and read: no weights needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from openpi_policy_ros.errors import PolicyRosError
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.lerobot_pipeline import lerobot_pipeline
from openpi_policy_ros.policies.pi0.options import read_options
from openpi_policy_ros.policies.pi0.pipeline import Pipeline
from openpi_policy_ros.policies.pi0.processing import Processing
from openpi_policy_ros.policies.pi0.processors import read_processing
from openpi_policy_ros.policies.problems import Problems

PREPROCESSOR, POSTPROCESSOR = 'policy_preprocessor.json', 'policy_postprocessor.json'
NORMALIZER, UNNORMALIZER = 'normalizer_processor', 'unnormalizer_processor'
PREPARE_STATE = 'pi05_prepare_state_tokenizer_processor_step'
STATE, ACTION = 'observation.state', 'action'
CAMERA = 'observation.images.front'

Step = dict[str, Any]


def write_files(
    directory: Path, family: str = 'pi0', mode: str = 'IDENTITY', width: int = 3
) -> None:
    """Write config.json and both processors of a checkpoint, as LeRobot 0.6 does.

    State and action have ``width`` numbers each. No statistics: ``write_statistics``.
    """
    directory.mkdir(parents=True, exist_ok=True)
    inputs = {
        CAMERA: {'type': 'VISUAL', 'shape': [3, 480, 640]},
        STATE: {'type': 'STATE', 'shape': [width]},
    }
    outputs = {ACTION: {'type': 'ACTION', 'shape': [width]}}
    modes = {'VISUAL': 'IDENTITY', 'STATE': mode, 'ACTION': mode}
    config = {
        'type': family,
        'input_features': inputs,
        'output_features': outputs,
        'normalization_mapping': modes,
        'use_relative_actions': False,
        'tokenizer_max_length': 48 if family == 'pi0' else 200,
    }
    (directory / 'config.json').write_text(json.dumps(config))
    tokenizer = step(
        'tokenizer_processor',
        max_length=config['tokenizer_max_length'],
        task_key='task',
        padding_side='right',
        padding='max_length',
        truncation=True,
        tokenizer_name='google/paligemma-3b-pt-224',
    )
    relative = step(
        'relative_actions_processor', enabled=False, exclude_joints=['gripper'], action_names=None
    )
    normalizer = step(NORMALIZER, eps=1e-8, features={**inputs, **outputs}, norm_map=modes)
    device = step('device_processor', device='cpu', float_dtype=None)
    first = [step('rename_observations_processor', rename_map={}), step('to_batch_processor')]
    if family == 'pi0':
        newline = step('pi0_new_line_processor')
        before = [*first, newline, tokenizer, device, relative, normalizer]
    else:
        before = [*first, relative, normalizer, step(PREPARE_STATE), tokenizer, device]
    after = [
        step(UNNORMALIZER, eps=1e-8, features=outputs, norm_map=modes),
        step('absolute_actions_processor', enabled=False),
        device,
    ]
    for name, steps in ((PREPROCESSOR, before), (POSTPROCESSOR, after)):
        (directory / name).write_text(json.dumps({'name': Path(name).stem, 'steps': steps}))


def step(name: str, **config: Any) -> Step:
    return {'registry_name': name, 'config': config}


def change_steps(path: Path, change: Callable[[list[Step]], object]) -> None:
    """Let ``change`` edit the list of steps in place."""
    values = json.loads(path.read_text())
    change(values['steps'])
    path.write_text(json.dumps(values))


def add_step(path: Path, new: Step) -> None:
    change_steps(path, lambda steps: steps.append(new))


def drop_step(path: Path, name: str) -> None:
    change_steps(path, lambda steps: steps.remove(find(steps, name)))


def move_step(path: Path, name: str, to: int) -> None:
    def change(steps: list[Step]) -> None:
        found = find(steps, name)
        steps.remove(found)
        steps.insert(to, found)

    change_steps(path, change)


def set_config(path: Path, name: str, **settings: Any) -> None:
    """Set keys in the config of a step."""
    change_steps(path, lambda steps: find(steps, name)['config'].update(settings))


def set_modes(directory: Path, **modes: str) -> None:
    """Set modes in both files."""
    for file, name in ((PREPROCESSOR, NORMALIZER), (POSTPROCESSOR, UNNORMALIZER)):
        change_steps(
            directory / file,
            lambda steps, n=name: find(steps, n)['config']['norm_map'].update(modes),
        )


def find(steps: Sequence[Step], name: str) -> Step:
    return next(one for one in steps if one.get('registry_name') == name)


def write_statistics(
    directory: Path,
    statistics: Mapping[str, Any],
    *,
    before: str | None = 'policy_preprocessor_step_6_normalizer_processor.safetensors',
    after: str | None = 'policy_postprocessor_step_0_unnormalizer_processor.safetensors',
) -> None:
    """Write statistics beside the processors, and name them there; None = not in that file.

    Args:
        directory: of the checkpoint.
        statistics: key, e.g. ``action.mean`` → numbers or tensor.
        before, after: names of the files of the pre- and the postprocessor.

    """
    tensors = {
        key: value.clone() if isinstance(value, torch.Tensor) else torch.tensor(value)
        for key, value in statistics.items()
    }
    for file, step_name, name in (
        (PREPROCESSOR, NORMALIZER, before),
        (POSTPROCESSOR, UNNORMALIZER, after),
    ):
        if name is not None:
            save_file(tensors, directory / name)
            change_steps(
                directory / file,
                lambda steps, s=step_name, n=name: find(steps, s).update(state_file=n),
            )


def change_statistics(path: Path, **values: Any) -> None:
    """Replace tensors of a file by key; None takes one out."""
    tensors = load_file(path)
    for key, value in values.items():
        if value is None:
            del tensors[key]
        else:
            tensors[key] = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    save_file(tensors, path)


def both(first: str, second: str, low: Any, high: Any) -> dict[str, Any]:
    """Return the same statistics for state and action."""
    return {
        f'{feature}.{name}': value
        for feature in (STATE, ACTION)
        for name, value in ((first, low), (second, high))
    }


def processing(directory: Path) -> Processing:
    """Return what the processors say; raise what refuses."""
    problems = Problems()
    result = read_processing(directory, read_config(directory), problems)
    problems.raise_any()
    return result


def pipeline(directory: Path, **options: Any) -> Pipeline:
    """Return what is done around the network; raise what refuses."""
    problems = Problems()
    config = read_config(directory)
    result = lerobot_pipeline(
        directory,
        read_processing(directory, config, problems),
        config,
        read_options(options, 'policy.yaml'),
        'policy.yaml',
        problems,
    )
    problems.raise_any()
    assert result is not None
    return result


def rejected(directory: Path, **options: Any) -> PolicyRosError:
    """Return the one error that refuses the checkpoint."""
    with pytest.raises(PolicyRosError) as caught:
        pipeline(directory, **options)
    assert not hasattr(caught.value, 'errors'), str(caught.value)
    assert getattr(caught.value, 'problems', ()) or caught.value.remedy, str(caught.value)
    return caught.value
