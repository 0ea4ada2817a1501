# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Load a checkpoint of the π0 family: what ``plan`` settled, and the weights."""

from __future__ import annotations

import logging
from dataclasses import replace
from time import perf_counter

from openpi_policy_ros.policies.checkpoint_view import tell_commit, view_model
from openpi_policy_ros.policies.devices import find_device
from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.pi0.checkpoint import load_weights
from openpi_policy_ros.policies.pi0.config import Family
from openpi_policy_ros.policies.pi0.plan import make_plan
from openpi_policy_ros.policies.pi0.policy import Pi0Policy
from openpi_policy_ros.policies.problems import Problems
from openpi_policy_ros.policies.registry import LoadRequest

logger = logging.getLogger('openpi_policy_ros.policies.pi0')


def load(request: LoadRequest, family: Family) -> Pi0Policy:
    """Return the policy in a checkpoint of ``family``, not yet warmed up.

    Of a hub repository the weights are downloaded only once nothing is left to be refused.

    Raises:
        CheckpointError: the checkpoint cannot be served as it is.
        ConfigurationError: policy file, robot file and checkpoint do not fit together.
        SeveralErrors: more than one of these.

    """
    device = find_device(request.device)
    view = view_model(request.model, request.revision)
    tell_commit(view, request.revision)
    problems = Problems()
    plan = make_plan(request, view, problems, family)
    problems.raise_any()
    config = plan.config
    assert config is not None, plan
    assert plan.spec is not None, plan
    assert plan.pipeline is not None, plan
    assert plan.features is not None, plan
    assert plan.prompts is not None, plan
    if device.type == 'cpu' and config.dtype == 'bfloat16':
        logger.warning(
            'bfloat16 on a CPU is several times slower than float32 on most; set dtype: float32 in '
            'the policy file'
        )
    view.fetch(WEIGHTS)
    start = perf_counter()
    model, weights_hash = load_weights(view.located.directory, config, device)
    logger.info(
        '%s: %d parameters in %s on %s, loaded in %.1f s',
        request.model,
        sum(parameter.numel() for parameter in model.parameters()),
        config.dtype,
        device,
        perf_counter() - start,
    )
    return Pi0Policy(
        replace(plan.spec, weights_hash=weights_hash),
        config,
        model,
        plan.prompts,
        plan.features,
        plan.pipeline,
    )
