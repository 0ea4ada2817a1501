# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``openpi-policy check``: one inference offline, compared with an expected chunk."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openpi_policy_ros.cli.common import (
    add_checkpoint_arguments,
    add_command,
    add_log_level,
    choose_device,
    log_to_stderr,
)
from openpi_policy_ros.errors import ConfigurationError

if TYPE_CHECKING:
    from openpi_policy_ros.policies.base import (
        ActionChunk,
        FloatArray,
        InferenceRequest,
        PolicySpec,
    )

SAME, DIFFERENT = 0, 1
DEFAULT_ATOL = 2e-5

DESCRIPTION = """\
Load a policy as serving does, run one observation through it, print the chunk's shape and times.

With --expect the chunk is compared with a saved one, column by column. The observation is an .npz
file with the keys a client would send; --example writes one to start from.

Exit status: 0 done (and within --atol), 1 the chunk differs, 2 refused.
"""
EXAMPLES = """\
examples:
  an observation with the right keys and shapes, then a chunk to compare later ones with:
    openpi-policy check /tmp/pi0_small --example obs.npz
    openpi-policy check /tmp/pi0_small --observation obs.npz --seed 0 --save chunk.npy
  the same on the GPU, or after an upgrade:
    openpi-policy check /tmp/pi0_small --observation obs.npz --seed 0 --expect chunk.npy
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        'check',
        summary='run one inference offline and compare its chunk',
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.set_defaults(run=_check)
    parser.add_argument(
        'model', metavar='MODEL', help='a directory, or a hub id where no such directory exists'
    )
    add_checkpoint_arguments(parser)
    what = parser.add_argument_group('what to run').add_mutually_exclusive_group(required=True)
    what.add_argument(
        '--observation', metavar='NPZ', type=Path, help='observation, keys as a client sends them'
    )
    what.add_argument(
        '--example',
        metavar='NPZ',
        type=Path,
        help='write an observation that fits this model and robot, and run nothing',
    )
    how = parser.add_argument_group('how')
    how.add_argument('--prompt', help='instruction; goes before the one in the observation')
    how.add_argument('--seed', type=int, help="of the noise (default: the observation's, else 0)")
    how.add_argument('--steps', type=int, help="sampler steps (default: the model's)")
    how.add_argument('--expect', metavar='NPY', type=Path, help='chunk to compare with')
    how.add_argument(
        '--atol',
        type=float,
        default=DEFAULT_ATOL,
        help=f'largest difference that still passes (default: {DEFAULT_ATOL:g})',
    )
    how.add_argument('--save', metavar='NPY', type=Path, help='write the chunk')
    how.add_argument('--force', action='store_true', help='let --example and --save overwrite')
    add_log_level(how)


def _check(options: argparse.Namespace) -> int:
    from openpi_policy_ros.cli import check_files
    from openpi_policy_ros.configuration.robot import Profile, load_robot

    log_to_stderr(options.log_level)
    if not options.atol >= 0.0:
        raise ConfigurationError('--atol', [f'is {options.atol}, expected 0 or more'])
    check_files.may_write(options.example, '.npz', force=options.force)
    check_files.may_write(options.save, '.npy', force=options.force)
    if options.example is not None:
        return _write_example(options)
    # What can be refused in no time is, before a model is loaded for minutes.
    profile = load_robot(options.robot).profile if options.robot is not None else Profile()
    prompt = (profile.prompt_key, options.prompt) if options.prompt is not None else None
    request = check_files.read_request(
        options.observation, prompt=prompt, seed=options.seed, steps=options.steps
    )
    expected = check_files.read_chunk(options.expect) if options.expect is not None else None
    spec, chunk = _infer(options, request)
    actions = chunk.actions
    _print('chunk', f'{actions.shape[0]} rows x {actions.shape[1]} columns, float32')
    _print('values', f'{actions.min():.6g} to {actions.max():.6g}, mean {actions.mean():.6g}')
    for stage, milliseconds in chunk.timing_ms.items():
        _print(stage, f'{milliseconds:.1f} ms')
    if options.save is not None:
        import numpy as np

        np.save(options.save, actions, allow_pickle=False)
        _print('saved', str(options.save))
    if expected is None:
        return SAME
    return _compare(actions, expected, spec.action_names, options)


def _print(name: str, text: str) -> None:
    print(f'{name:16} {text}')


def _write_example(options: argparse.Namespace) -> int:
    from openpi_policy_ros.cli import check_files
    from openpi_policy_ros.configuration.robot import load_robot
    from openpi_policy_ros.policies.inspection import inspect_model

    inspection = inspect_model(
        options.model, policy=options.policy, robot=options.robot, revision=options.revision
    )
    widths: Counter[str] = Counter()
    if options.robot is not None:
        joints = load_robot(options.robot).joints
        keys = joints.keys * len(joints.names) if len(joints.keys) == 1 else joints.keys
        widths.update(key for key in keys if key)
    observation, notes = check_files.example(inspection, widths, options.prompt)
    check_files.write_npz(options.example, observation)
    width = max(map(len, observation))
    for key, value in observation.items():
        kind = f'{value.dtype} {list(value.shape)}' if value.ndim else f'text: {value}'
        print(f'{key:{width}}  {kind}')
    for note in notes:
        _print('note', note)
    _print('written', str(options.example))
    return SAME


def _infer(
    options: argparse.Namespace, request: InferenceRequest
) -> tuple[PolicySpec, ActionChunk]:
    """Return the chunk of one request, as the server would have got it."""
    from openpi_policy_ros.configuration.robot import load_robot
    from openpi_policy_ros.engine import Engine, Lane
    from openpi_policy_ros.policies.loading import load_policy

    profile = load_robot(options.robot).profile if options.robot is not None else None
    policy = load_policy(
        options.model,
        policy=options.policy,
        profile=profile,
        device=choose_device(options.device),
        revision=options.revision,
    )
    engine = Engine(policy)
    engine.start()
    try:
        return engine.spec, engine.submit(request, Lane.REMOTE).result()
    finally:
        engine.close()


def _compare(
    actions: FloatArray,
    expected: FloatArray,
    names: Sequence[str],
    options: argparse.Namespace,
) -> int:
    import numpy as np

    if actions.shape != expected.shape:
        raise ConfigurationError(
            str(options.expect),
            [
                f'holds {list(expected.shape)}, but the chunk is {list(actions.shape)}: it was '
                'saved with another model, policy file or robot file'
            ],
        )
    difference = np.abs(actions.astype(np.float64) - expected.astype(np.float64))
    print(f'\nlargest difference from {options.expect}')
    for name, largest in zip(names, difference.max(axis=0), strict=True):
        _print(name, f'{largest:.3g}' + ('' if largest <= options.atol else '  more than --atol'))
    row, column = (int(index) for index in np.unravel_index(difference.argmax(), difference.shape))
    largest = float(difference[row, column])
    same = largest <= options.atol
    _print(
        'all',
        f'{largest:.3g} (row {row}, {names[column]}): '
        f'{"within" if same else "MORE THAN"} --atol {options.atol:g}',
    )
    return SAME if same else DIFFERENT
