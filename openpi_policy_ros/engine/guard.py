# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The last look at a policy's answer: what is wrong here never reaches a client or a robot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openpi_policy_ros.errors import InvalidObservation, InvalidOutput
from openpi_policy_ros.policies.base import ActionChunk, InferenceResult

REMEDY = 'the policy is at fault, not the client'


def check_results(results: Any, count: int) -> Sequence[Any]:
    """Return ``results`` if it is one result per request.

    Raises:
        InvalidOutput: it is not a sequence of ``count`` results; none can be told whose it is.

    """
    if not isinstance(results, (list, tuple)):
        raise InvalidOutput(
            f'the policy returned a {type(results).__name__}',
            expected=f'a list of {count} results',
            remedy=REMEDY,
        )
    if len(results) != count:
        raise InvalidOutput(
            f'the policy returned {len(results)} results for {count} requests',
            expected='one per request',
            remedy=REMEDY,
        )
    return results


def check_result(result: Any, shapes: Mapping[str, tuple[int, ...]]) -> InferenceResult:
    """Return ``result`` if it may leave the engine.

    Args:
        result: what the policy returned for one request.
        shapes: ``spec.output_shapes``, every declared output and its exact shape.

    Raises:
        InvalidOutput: neither a chunk nor an ``InvalidObservation``, an output missing or not
            declared, not a float32 array, another shape, empty, NaN or Inf, or a timing that is
            no number. Names the output, what was found, and for values the first bad index.

    """
    if isinstance(result, InvalidObservation):
        return result
    if not isinstance(result, ActionChunk):
        raise InvalidOutput(
            f'the policy returned a {type(result).__name__}',
            expected='an ActionChunk or an InvalidObservation',
            remedy=REMEDY,
        )
    outputs = result.outputs
    if not isinstance(outputs, Mapping) or set(outputs) != set(shapes):
        found = sorted(map(str, outputs)) if isinstance(outputs, Mapping) else type(outputs)
        raise InvalidOutput(
            f'outputs are {found}', expected=f'exactly {sorted(shapes)}', remedy=REMEDY
        )
    for name, shape in shapes.items():
        _check_array(name, outputs[name], tuple(shape))
    _check_timing(result.timing_ms)
    if result.model_actions is not None:
        # It conditions the next chunk, so a NaN hidden behind the crop would come back.
        array = result.model_actions
        rank_ok = isinstance(array, np.ndarray) and array.ndim == 2
        _check_array('model_actions', array, array.shape if rank_ok else ('rows', 'columns'))
    if result.state is not None:
        array = result.state
        rank_ok = isinstance(array, np.ndarray) and array.ndim == 1
        _check_array('state', array, array.shape if rank_ok else ('numbers',))
    return result


def _check_array(name: str, array: Any, shape: tuple[Any, ...]) -> None:
    wanted = f'a float32 array of shape [{", ".join(map(str, shape))}]'
    if not isinstance(array, np.ndarray):
        raise InvalidOutput(f'{name} is a {type(array).__name__}', expected=wanted, remedy=REMEDY)
    if array.dtype != np.float32 or array.shape != shape:
        raise InvalidOutput(
            f'{name} has dtype {array.dtype} and shape {list(array.shape)}',
            expected=wanted,
            remedy=REMEDY,
        )
    if array.size == 0:
        raise InvalidOutput(f'{name} is empty', expected='at least one value', remedy=REMEDY)
    finite = np.isfinite(array)
    if not finite.all():
        index = tuple(int(axis[0]) for axis in np.nonzero(~finite))
        raise InvalidOutput(
            f'{name} holds {int((~finite).sum())} values that are not finite, the first at '
            f'{list(index)}: {array[index]}',
            expected='finite numbers',
            remedy='look for NaN in the weights, the statistics or an overflow in half precision',
        )


def _check_timing(timing_ms: Any) -> None:
    # The doors put these into replies and statistics, where anything but a number breaks a client.
    if not isinstance(timing_ms, Mapping) or not all(
        isinstance(name, str) and isinstance(value, (int, float, np.number)) and np.isfinite(value)
        for name, value in timing_ms.items()
    ):
        raise InvalidOutput(
            f'timing_ms is {timing_ms!r:.200}',
            expected='stage name -> milliseconds',
            remedy=REMEDY,
        )
