# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The files of ``openpi-policy check``: observations (.npz) and chunks (.npy), never pickled."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openpi_policy_ros.client.recorded import load_arrays, load_observation
from openpi_policy_ros.errors import CheckpointError, ConfigurationError, SeveralErrors
from openpi_policy_ros.policies.base import FloatArray, InferenceRequest, SessionKey
from openpi_policy_ros.policies.feature_map import FeatureMap
from openpi_policy_ros.policies.inspection import Inspection
from openpi_policy_ros.policies.report import PolicyReport
from openpi_policy_ros.wire import Infer, packb
from openpi_policy_ros.wire.requests import parse

_USUAL = (224, 224)

SESSION = SessionKey('check', 'default')


def read_request(
    path: Path,
    *,
    prompt: tuple[str, str] | None = None,
    seed: int | None = None,
    steps: int | None = None,
) -> InferenceRequest:
    """Return the request that a client with this observation would make.

    The observation goes through the server's own codec, so that what no client can send is refused
    here too, and control keys (seed, sampling_params, …) mean what they mean there.

    Args:
        path: .npz, one array per wire key; text as a 0-d array of text.
        prompt: (key, instruction); like seed and steps, it goes before what the file says.
        seed: of the noise; 0 where nobody says.
        steps: sampler steps; None = the policy's.

    Raises:
        ConfigurationError: no such file, or not one of arrays without pickles.
        InvalidPayload, UnsupportedValue: what no client may send.

    """
    values = load_observation(path)
    if prompt is not None:
        values[prompt[0]] = prompt[1]
    if seed is not None:
        values['seed'] = seed
    if steps is not None:
        values['sampling_params'] = {'num_inference_steps': steps}
    command = parse(packb(values))
    if not isinstance(command, Infer):
        raise ConfigurationError(str(path), ['is a reset (endpoint), not an observation'])
    return InferenceRequest(
        command.observation,
        SESSION,
        reset=True,
        # Two checks of the same thing are to agree.
        seed=0 if command.seed is None else command.seed,
        num_inference_steps=command.num_inference_steps,
    )


def read_chunk(path: Path) -> FloatArray:
    """Return a saved chunk, float [rows, columns], finite.

    Raises:
        ConfigurationError: no such file, or not such an array.

    """
    array = load_arrays(path)
    if not isinstance(array, np.ndarray):
        raise ConfigurationError(str(path), ['is an .npz, expected the .npy of one chunk'])
    if array.ndim != 2 or array.dtype.kind != 'f' or not array.size:
        raise ConfigurationError(
            str(path),
            [f'holds {array.dtype} {list(array.shape)}, expected a chunk, float [rows, columns]'],
        )
    if not np.isfinite(array).all():
        raise ConfigurationError(str(path), ['holds NaN or infinity, which nothing compares with'])
    return array


def may_write(path: Path | None, suffix: str, *, force: bool) -> None:
    """Refuse a file that cannot be written, or that would be overwritten without ``force``."""
    if path is None:
        return
    problem = ''
    if path.suffix != suffix:
        problem = f'does not end in {suffix}'
    elif not path.parent.is_dir():
        problem = f'cannot be written: {path.parent} is no directory'
    elif path.exists() and (path.is_dir() or not force):
        problem = 'exists, and is not overwritten without --force'
    if problem:
        raise ConfigurationError(str(path), [problem])


def example(
    inspection: Inspection, widths: Mapping[str, int], prompt: str | None = None
) -> tuple[dict[str, npt.NDArray[Any]], list[str]]:
    """Return (an observation that fits a model and robot, what of it is a guess).

    Images are noise, so that a chunk made of them shows when cameras are swapped.

    Args:
        inspection: of that model and robot.
        widths: state key → number of values, where the robot file says.
        prompt: instruction; None = the default one, or some text.

    Raises:
        PolicyRosError: the model's inputs are not known, because of what is wrong with it.

    """
    report = inspection.report
    features = report.features if report is not None else None
    if features is None:
        if inspection.errors:
            raise SeveralErrors(inspection.errors)
        raise CheckpointError(
            f'{inspection.view.model}: its inputs are not known before it is loaded',
            remedy='make the observation by hand: one array per key that a client sends',
        )
    height, width = _image_size(report)
    rng = np.random.default_rng(0)
    observation: dict[str, npt.NDArray[Any]] = {}
    for camera in features.cameras:
        if camera.wire_keys:
            pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
            image = pixels if features.layout == 'HWC' else pixels.transpose(2, 0, 1).copy()
            observation[camera.wire_keys[0]] = image
    notes = []
    for key, count, known in _state_widths(features, widths):
        observation[key] = np.zeros(count, np.float32)
        if not known:
            notes.append(f'{key}: nothing says how many values it has, {count} are written')
    observation[features.prompt_key] = np.array(prompt or features.default_prompt or 'do the task')
    return observation, notes


def _image_size(report: PolicyReport | None) -> tuple[int, int]:
    """Return (height, width) that clients are asked for, else what the model sees."""
    if report is None:
        return _USUAL
    handshake = report.spec.handshake if report.spec is not None else None
    asked = (handshake or {}).get('image_resolution')
    if asked is not None:
        height, width = asked
        return int(height), int(width)
    return report.image_resolution or _USUAL


def write_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays under any keys; np.savez takes none that is called ``file``."""
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            with archive.open(f'{key}.npy', 'w') as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _state_widths(features: FeatureMap, widths: Mapping[str, int]) -> list[tuple[str, int, bool]]:
    """Return (key, number of values, whether somebody says so) for each part of the state."""
    parts = []
    dims = features.state_dims or (None,) * len(features.state_parts)
    for keys, dim in zip(features.state_parts, dims, strict=True):
        stated = [key for key in keys if key in widths]
        if dim is not None:
            parts.append((keys[0], dim, True))
        elif stated:
            parts.append((stated[0], widths[stated[0]], True))
        elif len(features.state_parts) == 1:
            parts.append((keys[0], features.state_dim, True))
        else:
            parts.append((keys[0], 1, False))
    return parts
