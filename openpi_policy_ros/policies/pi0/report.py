# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tell what a π0 checkpoint is, from the plan that loading makes, without its weights."""

from __future__ import annotations

import math

from openpi_policy_ros.policies.checkpoint_view import CheckpointView
from openpi_policy_ros.policies.pi0.config import Family
from openpi_policy_ros.policies.pi0.layout import tensors
from openpi_policy_ros.policies.pi0.plan import make_plan
from openpi_policy_ros.policies.problems import Problems
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.policies.report import PolicyReport


def inspect(request: LoadRequest, view: CheckpointView, family: Family) -> PolicyReport:
    """Return what ``load`` would make of a checkpoint, and all that it would refuse."""
    report = PolicyReport(Problems())
    plan = make_plan(request, view, report.problems, family, fetch=False)
    report.features, report.spec, report.tokenizer = plan.features, plan.spec, plan.tokenizer
    if plan.processing is not None:
        report.processors = tuple(plan.processing.steps)
    pipeline = plan.pipeline
    if pipeline is not None:
        report.normalisation = {kind: mode for kind, mode, _ in pipeline.units}
        report.statistics = tuple(sorted({file for _, _, file in pipeline.units}))
        report.state_exact = pipeline.state_width is not None
        report.delta_mask = pipeline.delta_mask if pipeline.relative else ()
        report.prompt_text = pipeline.prompt.value
        report.antialias = pipeline.antialias
    config = plan.config
    if config is not None:
        report.image_resolution = config.image_resolution
        report.camera_slots = config.image_slots
        report.max_state_dim = config.max_state_dim
        report.chunk = config.chunk_size, config.action_dim
        report.max_tokens = config.tokenizer_max_length
        report.dtype, report.steps = config.dtype, config.num_inference_steps
        slots = tensors(config).values()
        report.served_parameters = sum(math.prod(s.shape) for s in slots if s.parameter)
    return report
