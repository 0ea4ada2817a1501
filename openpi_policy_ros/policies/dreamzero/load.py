# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Load a DreamZero checkpoint: what ``plan`` settled, and the weights."""

from __future__ import annotations

import logging
from dataclasses import replace
from time import perf_counter

import torch

from openpi_policy_ros.errors import ConfigurationError
from openpi_policy_ros.policies.checkpoint_view import tell_commit, view_model
from openpi_policy_ros.policies.devices import find_device
from openpi_policy_ros.policies.dreamzero.checkpoint import load_weights
from openpi_policy_ros.policies.dreamzero.dit import CausalWan
from openpi_policy_ros.policies.dreamzero.guidance import Guidance, OneBatch, TwoPasses
from openpi_policy_ros.policies.dreamzero.guidance_devices import TwoDevices
from openpi_policy_ros.policies.dreamzero.memory import GIB, free_bytes
from openpi_policy_ros.policies.dreamzero.model import DreamZeroModel
from openpi_policy_ros.policies.dreamzero.options import DreamZeroOptions
from openpi_policy_ros.policies.dreamzero.plan import make_plan
from openpi_policy_ros.policies.dreamzero.policy import DreamZeroPolicy
from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.problems import Problems
from openpi_policy_ros.policies.registry import LoadRequest

logger = logging.getLogger('openpi_policy_ros.policies.dreamzero')

_DTYPES = {'float32': torch.float32, 'bfloat16': torch.bfloat16}
_ROOM = 4 * GIB
"""Free memory beside one session from which on both branches of the guidance run as one batch."""


def load(request: LoadRequest) -> DreamZeroPolicy:
    """Return the policy in a DreamZero checkpoint, not yet warmed up.

    Of a hub repository the weights are downloaded only once nothing is left to be refused, and
    nothing but them: the TensorRT engines of the published one are left alone.

    Raises:
        CheckpointError: the checkpoint cannot be served as it is.
        ConfigurationError: policy file, robot file and checkpoint do not fit together, or a library
            is not installed.
        SeveralErrors: more than one of these.

    """
    device = find_device(request.device)
    view = view_model(request.model, request.revision)
    tell_commit(view, request.revision)
    problems = Problems()
    plan = make_plan(request, view, problems)
    second = None
    if plan.options is not None and plan.options.cfg_parallel_size == 2:
        with problems.collecting():
            second = _second_device(device)
    problems.raise_any()
    options, config = plan.options, plan.config
    assert options is not None, plan
    assert config is not None, plan
    assert plan.sampling is not None, plan
    assert plan.spec is not None, plan
    assert plan.transform is not None, plan
    assert plan.prompts is not None, plan
    if device.type == 'cpu' and config.dtype == 'bfloat16':
        logger.warning(
            'bfloat16 on a CPU is several times slower than float32 on most; set dtype: float32 in '
            'the policy file'
        )
    view.fetch(WEIGHTS)
    start = perf_counter()
    dit, encoders, weights_hash = load_weights(
        view.located.directory,
        config,
        device,
        _DTYPES[config.dtype],
        offload_text=options.offload_text,
    )
    logger.info(
        '%s: %d parameters in %s on %s, loaded in %.1f s',
        request.model,
        plan.parameters,
        config.dtype,
        device,
        perf_counter() - start,
    )
    guidance = _guidance(dit, options, device, second)
    model = DreamZeroModel(config, guidance, encoders, plan.sampling, plan.prompts.negative)
    return DreamZeroPolicy(
        replace(plan.spec, weights_hash=weights_hash),
        model,
        plan.transform,
        plan.prompts,
        seed=options.seed,
        noise_device=torch.device('cpu') if options.noise_device == 'cpu' else None,
        session_memory=None
        if options.session_memory is None
        else int(options.session_memory * GIB),
        max_sessions=options.max_sessions,
        imagined=options.imagined,
    )


def _second_device(device: torch.device) -> torch.device:
    """Return where the second branch of the guidance runs: on a CPU there too, else the next GPU.

    Raises:
        ConfigurationError: there is no further GPU.

    """
    if device.type == 'cpu':
        return device
    name = f'{device.type}:{(device.index or 0) + 1}'
    try:
        return find_device(name)
    except ConfigurationError as error:
        raise ConfigurationError(
            'cfg_parallel_size',
            [
                f'is 2: the second branch would run on {name}, which is not usable '
                f'({error.problems[0]}); set it to 1, or choose a device with another one after it'
            ],
        ) from None


def _guidance(
    dit: CausalWan, options: DreamZeroOptions, device: torch.device, second: torch.device | None
) -> Guidance:
    """Return who runs the two branches of the guidance."""
    if second is not None:
        return TwoDevices(dit, options.cfg_scale, second)
    one_batch = OneBatch(dit, options.cfg_scale)
    batched = options.batch_guidance
    if batched == 'auto':
        free = free_bytes(device) if device.type == 'cuda' else None
        batched = free is None or free >= one_batch.bytes_per_session + _ROOM
        if not batched:
            logger.info('little memory is free on %s: the guidance runs in two passes', device)
    return one_batch if batched else TwoPasses(dit, options.cfg_scale)
