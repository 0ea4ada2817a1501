# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tell what a DreamZero checkpoint is, from the plan that loading makes, without its weights."""

from __future__ import annotations

from openpi_policy_ros.policies.checkpoint_view import CheckpointView
from openpi_policy_ros.policies.dreamzero.config import DreamZeroConfig
from openpi_policy_ros.policies.dreamzero.kv import cross_bytes, window_bytes
from openpi_policy_ros.policies.dreamzero.memory import bytes_per_session, size
from openpi_policy_ros.policies.dreamzero.metadata import JOINTS, PARTS
from openpi_policy_ros.policies.dreamzero.options import DreamZeroOptions
from openpi_policy_ros.policies.dreamzero.plan import make_plan
from openpi_policy_ros.policies.problems import Problems
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.policies.report import PolicyReport


def inspect(request: LoadRequest, view: CheckpointView) -> PolicyReport:
    """Return what ``load`` would make of a checkpoint, and all that it would refuse."""
    report = PolicyReport(Problems())
    plan = make_plan(request, view, report.problems, fetch=False)
    report.features, report.spec, report.tokenizer = plan.features, plan.spec, plan.tokenizer
    report.served_parameters = plan.parameters
    metadata = plan.metadata
    if metadata is not None:
        groups = (('state', metadata.state), ('action', metadata.action))
        report.normalisation = {
            f'{group}.{part}': statistics.mode
            for group, parts in groups
            for part, statistics in parts.items()
        }
        report.statistics = metadata.sources
        report.state_exact = True
    if plan.transform is not None:
        report.image_resolution = plan.transform.view_size
        report.antialias = True
        report.camera_slots = 3
        if plan.transform.relative:
            report.delta_mask = tuple(index < PARTS[JOINTS] for index in range(PARTS[JOINTS] + 1))
    if plan.config is not None:
        dit = plan.config.dit
        report.max_state_dim = dit.max_state_dim
        report.chunk = plan.config.action_horizon, sum(PARTS.values())
        report.max_tokens = dit.text_len
        report.dtype = plan.config.dtype
        report.prompt_text = 'the instruction twice, in the description of the three views'
    if plan.sampling is not None:
        report.steps = plan.sampling.num_inference_steps
    if plan.config is not None and plan.options is not None:
        report.facts = _facts(plan.config, plan.options)
    return report


def _facts(config: DreamZeroConfig, options: DreamZeroOptions) -> dict[str, str]:
    dit, itemsize = config.dit, 2 if config.dtype == 'bfloat16' else 4
    attention = window_bytes(dit, 2, itemsize) + cross_bytes(dit, 2, itemsize)
    session = bytes_per_session(config, attention, itemsize, imagined=options.imagined)
    most = dit.max_chunk_size
    steps, cache = options.num_inference_steps, options.chosen_step_cache
    asked = {
        'static8': f'at 8 of {steps} steps, by a fixed mask',
        'dynamic': f'at fewer of {steps} steps while the video hardly turns',
        'off': f'at all {steps} steps',
    }
    return {
        'step cache': f'{cache}: the network is asked {asked[cache]}',
        'session': f'{size(session)} for each (computed); a new window every {most} calls',
    }
