# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Real-time chunking: what a caller hands back of the last chunk, as the sampler needs it.

In robot units it is as a robot got it: cropped, and absolute. In model space it is uncropped, and
where the checkpoint answers differences, they are from a state that has passed (pi0.md §6).
"""

from __future__ import annotations

import numpy as np
import torch

from openpi_policy_ros.errors import InvalidObservation
from openpi_policy_ros.policies.base import FloatArray, PolicySpec, RtcPrefix
from openpi_policy_ros.policies.pi0 import sampler
from openpi_policy_ros.policies.pi0.config import Pi0Config
from openpi_policy_ros.policies.pi0.pipeline import Pipeline
from openpi_policy_ros.policies.pi0.sampler import Guidance


def make_guidance(
    rtc: RtcPrefix,
    state: FloatArray,
    pipeline: Pipeline,
    config: Pi0Config,
    spec: PolicySpec,
    device: torch.device,
) -> Guidance | None:
    """Return what pulls a new chunk towards the old one's rest; None where nothing is left of it.

    Args:
        rtc: what the caller hands back.
        state: the raw state the new chunk answers, float32 [S].
        pipeline: between robot units and model space.
        config: sizes and settings of the checkpoint.
        spec: sizes of a reply.
        device: where the sampler computes.

    Raises:
        InvalidObservation: a leftover of the wrong width, length or type, one that is not finite,
            or one in model space without the state it was made from where that is needed.

    """
    horizon = rtc.execution_horizon
    if rtc.inference_delay < 0 or (horizon is not None and horizon < 1):
        raise InvalidObservation(
            'rtc',
            f'inference_delay is {rtc.inference_delay}, execution_horizon is {horizon}',
            expected='a delay of at least 0 and a horizon of at least 1 step',
            remedy='measure the delay in action steps',
        )
    # What overflows is found below, by name.
    with np.errstate(over='ignore', invalid='ignore'):
        if rtc.robot_units:
            leftover = _checked(
                rtc.leftover,
                (spec.action_dim,),
                spec.horizon,
                'pass the rows of the last reply that were not executed, as they came',
            )
            leftover = pipeline.model_actions(leftover, state)
        else:
            leftover = _checked(
                rtc.leftover,
                (config.action_dim, config.max_action_dim),
                config.chunk_size,
                'pass the rows of the last chunk in model space that were not executed',
            )
            if pipeline.relative:
                old = _checked_state(rtc.state, pipeline.least_state)
                leftover = pipeline.re_anchored(leftover, old, state)
    if not np.isfinite(leftover).all():
        raise InvalidObservation(
            'rtc.leftover',
            'is far beyond the statistics of the checkpoint: normalised, it overflows',
            expected='rows of an earlier chunk of this policy',
            remedy='drop the previous chunk and call without real-time chunking',
        )
    return sampler.make_guidance(
        torch.from_numpy(leftover).to(device),
        rtc.inference_delay,
        horizon,
        config.rtc,
        (config.chunk_size, config.max_action_dim),
        # A robot file crops: the columns it cuts off are unknown, not 0.
        unknown=range(leftover.shape[1], config.action_dim if rtc.robot_units else 0),
    )


def _checked(leftover: FloatArray, widths: tuple[int, ...], rows: int, remedy: str) -> FloatArray:
    """Return the leftover as float32 [T, D], D one of ``widths``, T at most ``rows``."""
    array = np.asarray(leftover)
    if (
        array.ndim != 2
        or array.shape[1] not in widths
        or array.shape[0] > rows
        or array.dtype.kind != 'f'
    ):
        wide = ' or '.join(map(str, sorted(set(widths))))
        raise InvalidObservation(
            'rtc.leftover',
            f'has shape {list(array.shape)} and dtype {array.dtype}',
            expected=f'float [T, {wide}] with T at most {rows}',
            remedy=remedy,
        )
    array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise InvalidObservation(
            'rtc.leftover',
            'holds NaN or infinity',
            expected='finite actions',
            remedy='drop the previous chunk and call without real-time chunking',
        )
    return array


def _checked_state(state: FloatArray | None, least: int) -> FloatArray:
    """Return the state that a model-space leftover is relative to, float32 [>= least]."""
    array = np.empty(0, np.float32) if state is None else np.asarray(state)
    fits = array.ndim == 1 and array.size >= least and array.dtype.kind == 'f'
    if not fits or not np.isfinite(array).all():
        what = f'has shape {list(array.shape)} and dtype {array.dtype}'
        if fits:
            what = 'holds NaN or infinity'
        raise InvalidObservation(
            'rtc.state',
            'is missing' if state is None else what,
            expected=f'the state the leftover was made from, at least {least} finite numbers: the '
            'actions of this policy are differences from it',
            remedy='keep ActionChunk.state beside ActionChunk.model_actions, and pass both',
        )
    return array.astype(np.float32)
