# SPDX-FileCopyrightText: 2026 openpi_policy_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Bring files, policy file and robot file together, weights unread; note all that does not fit.

Loading refuses what is noted here, inspecting prints it: one validation for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from openpi_policy_ros.errors import CheckpointError, ConfigurationError
from openpi_policy_ros.policies import layouts
from openpi_policy_ros.policies.base import ACTIONS, PolicySpec
from openpi_policy_ros.policies.checkpoint_view import CheckpointView
from openpi_policy_ros.policies.crop import crop_chunk
from openpi_policy_ros.policies.feature_map import FeatureMap, build_feature_map
from openpi_policy_ros.policies.handshake import HandshakeFacts, build_handshake, derive
from openpi_policy_ros.policies.layouts import WEIGHTS
from openpi_policy_ros.policies.pi0.config import Family, Pi0Config
from openpi_policy_ros.policies.pi0.lerobot_config import read_config
from openpi_policy_ros.policies.pi0.lerobot_pipeline import lerobot_pipeline
from openpi_policy_ros.policies.pi0.matching import match_tensors
from openpi_policy_ros.policies.pi0.openpi_checkpoint import (
    read_openpi_config,
    read_openpi_pipeline,
)
from openpi_policy_ros.policies.pi0.options import Pi0Options, apply_options, read_options
from openpi_policy_ros.policies.pi0.pipeline import Pipeline
from openpi_policy_ros.policies.pi0.processors import Processing, read_processing
from openpi_policy_ros.policies.pi0.tokenizer import PromptTokenizer
from openpi_policy_ros.policies.problems import Problems
from openpi_policy_ros.policies.registry import LoadRequest
from openpi_policy_ros.policies.tokenizer_files import TokenizerElsewhere, load_tokenizer


@dataclass
class Plan:
    """What is settled about a policy; None = it hangs on something that was refused.

    Attributes:
        options: the policy file.
        config: the checkpoint's sizes, with the overrides of the policy file.
        processing: what its processors ask for.
        pipeline: what happens around the network.
        features: which observation key carries which input.
        prompts: encodes instructions.
        tokenizer: where that comes from.
        spec: everything but the digest of the weights.

    """

    options: Pi0Options | None = None
    config: Pi0Config | None = None
    processing: Processing | None = None
    pipeline: Pipeline | None = None
    features: FeatureMap | None = None
    prompts: PromptTokenizer | None = None
    tokenizer: str = ''
    spec: PolicySpec | None = None


def make_plan(
    request: LoadRequest,
    view: CheckpointView,
    problems: Problems,
    family: Family,
    *,
    fetch: bool = True,
) -> Plan:
    """Return what can be settled without a weight being read.

    Args:
        request: model, policy file and robot file.
        view: the checkpoint's files.
        problems: gains everything that would refuse the start.
        family: what the caller serves.
        fetch: whether a tokenizer may be fetched from the hub, where loading would do that.

    """
    plan = Plan()
    source = request.options_source or 'policy options'
    with problems.collecting():
        plan.options = read_options(request.options, source)
    options = plan.options
    layout = None
    with problems.collecting():
        layout = layouts.known_layout(view)
        plan.config = _read_config(view, layout, options, family)
    if plan.config is None or layout is None:
        problems.unchecked += ['weights', 'processors', 'observation', 'handshake', 'tokenizer']
        return plan
    with problems.collecting():
        header = view.header(WEIGHTS)
        where = view.model if view.on_hub else str(view.located.directory / WEIGHTS)
        match_tensors(header, plan.config, where)
    if options is None:
        problems.unchecked += ['processors', 'observation', 'handshake', 'tokenizer']
        return plan
    if layout is not layouts.OPENPI_PYTORCH:
        plan.processing = read_processing(view.located.directory, plan.config, problems)
        # LeRobot pads and cuts to what the processor says, whatever config.json says.
        length = plan.processing.max_length or plan.config.tokenizer_max_length
        plan.config = replace(plan.config, tokenizer_max_length=length)
    with problems.collecting():
        plan.config = apply_options(plan.config, options, source)
    _plan_pipeline(request, view, plan, layout, options, source, problems)
    config = plan.config
    with problems.collecting():
        plan.features = build_feature_map(
            image_features=config.image_features,
            state_dim=config.state_dim,
            state_exact=plan.pipeline is not None and plan.pipeline.state_width is not None,
            least_state=plan.pipeline.least_state if plan.pipeline is not None else 1,
            profile=request.profile,
            renames={
                **(plan.processing.rename_map if plan.processing else {}),
                **options.image_key_map,
            },
            optional_cameras=options.optional_cameras,
            default_prompt=options.default_prompt,
            source=f'{request.model}: observation keys',
        )
    if plan.features is None:
        problems.unchecked.append('handshake')
    else:
        with problems.collecting():
            plan.spec = _spec(request, view, plan, plan.features, config, options, source)
    with problems.collecting():
        _plan_tokenizer(request, view, plan, config, options, problems, fetch)
    return plan


def _read_config(
    view: CheckpointView, layout: layouts.Layout, options: Pi0Options | None, family: Family
) -> Pi0Config:
    if layout is layouts.DREAMZERO:
        raise CheckpointError(
            f'{view.model} is a DreamZero checkpoint, asked for as {family}',
            expected=f'a {family} checkpoint',
            remedy='use policy dreamzero, or leave the policy file out',
        )
    if layout is layouts.OPENPI_PYTORCH:
        config = read_openpi_config(view, options)
    else:
        keys = options.image_feature_keys if options else None
        config = read_config(view.located.directory, keys)
    if config.family != family:
        raise CheckpointError(
            f'{view.model} is a {config.family} checkpoint, asked for as {family}',
            expected=f'a {family} checkpoint',
            remedy=f'use policy {config.family}, or leave the policy file out',
        )
    return config


def _plan_pipeline(
    request: LoadRequest,
    view: CheckpointView,
    plan: Plan,
    layout: layouts.Layout,
    options: Pi0Options,
    source: str,
    problems: Problems,
) -> None:
    config = plan.config
    assert config is not None
    if options.truncate_prompt and config.family == 'pi05':
        problems.add(
            ConfigurationError(
                source,
                [
                    'truncate_prompt is true, but the text of π0.5 ends with the state, which a '
                    'cut would lose; remove the line'
                ],
            )
        )
    if layout is layouts.OPENPI_PYTORCH:
        plan.processing, plan.pipeline = read_openpi_pipeline(
            view, config, options, source, request.profile, problems
        )
        return
    with problems.collecting():
        _refuse_openpi_options(config, options, source)
    assert plan.processing is not None
    plan.pipeline = lerobot_pipeline(
        view.located.directory, plan.processing, config, options, source, problems
    )
    if plan.pipeline is not None:
        # Statistics know the numbers of a state of which config.json only knows the padded width.
        width = plan.pipeline.state_width or config.state_dim
        plan.config = replace(config, state_dim=width)
        with problems.collecting():
            _same_delta_mask(request, plan.pipeline)


def _refuse_openpi_options(config: Pi0Config, options: Pi0Options, source: str) -> None:
    """Refuse what a LeRobot checkpoint has other files for, and would pass over."""
    problems = []
    if options.asset_id is not None:
        problems.append(
            f'asset_id is {options.asset_id!r}, but a LeRobot checkpoint names its statistics '
            'itself; remove the line'
        )
    told = config.family == 'pi05'
    if options.discrete_state_input not in (None, told):
        problems.append(
            f'discrete_state_input is {str(options.discrete_state_input).lower()}, but LeRobot '
            f'{"always" if told else "never"} writes the state into the text of a {config.family}; '
            'remove the line'
        )
    if problems:
        raise ConfigurationError(source, problems)


def _same_delta_mask(request: LoadRequest, pipeline: Pipeline) -> None:
    """Refuse a robot file that says otherwise than a checkpoint which says it itself."""
    profile = request.profile
    if profile is None or not profile.delta_mask:
        return
    columns = profile.crop_columns or pipeline.action_dim
    theirs, ours = (
        [index < len(mask) and mask[index] for index in range(columns)]
        for mask in (pipeline.delta_mask, profile.delta_mask)
    )
    if theirs != ours:
        raise ConfigurationError(
            f'{request.model}: robot file',
            [
                f'profile.delta_mask is {ours}, but the files of this checkpoint say {theirs}; a '
                'LeRobot checkpoint says itself which actions are differences from the state: '
                'remove the line'
            ],
        )


def _spec(
    request: LoadRequest,
    view: CheckpointView,
    plan: Plan,
    features: FeatureMap,
    config: Pi0Config,
    options: Pi0Options,
    source: str,
) -> PolicySpec:
    profile = request.profile
    horizon, action_dim = _crop(config, request)
    facts = HandshakeFacts(
        image_resolution=config.image_resolution,
        cameras=config.image_features,
        camera_slots=config.image_slots,
        horizon=horizon,
        action_dim=action_dim,
        supports_rtc=True,
    )
    action_space = profile.action_space if profile is not None else ''
    declared: dict[str, Any] | None = options.policy_server_config
    if request.options is None:
        declared = derive(facts, action_space)
    elif declared is not None and not action_space:
        action_space = str(declared.get('action_space', ''))
    names = plan.processing.action_names if plan.processing is not None else ()
    return PolicySpec(
        name=config.family,
        model=request.model,
        revision=view.located.revision,
        default_prompt=options.default_prompt or '',
        cameras=features.cameras,
        state=features.state,
        horizon=horizon,
        action_dim=action_dim,
        action_space=action_space,
        action_names=_action_names(config, request, names, action_dim),
        output_shapes={ACTIONS: (horizon, action_dim)},
        handshake=build_handshake(declared, facts, profile, source=source),
        supports_rtc=True,
    )


def _plan_tokenizer(
    request: LoadRequest,
    view: CheckpointView,
    plan: Plan,
    config: Pi0Config,
    options: Pi0Options,
    problems: Problems,
    fetch: bool,
) -> None:
    try:
        tokenizer, plan.tokenizer = load_tokenizer(
            options.tokenizer,
            view.located,
            fallback=plan.processing.tokenizer_name if plan.processing else None,
            policy_file=request.options_source,
            fetch=fetch,
        )
    except TokenizerElsewhere as error:
        plan.tokenizer = f'{error.what} on the hub, fetched when the policy is loaded'
        problems.unchecked.append('tokenizer')
        return
    plan.prompts = PromptTokenizer(
        tokenizer,
        plan.tokenizer,
        max_length=config.tokenizer_max_length,
        vocab_size=config.vocab_size,
        truncate=options.truncate_prompt,
    )


def _crop(config: Pi0Config, request: LoadRequest) -> tuple[int, int]:
    """Return (rows, columns) of a reply: the checkpoint's, cut by the profile."""
    profile = request.profile
    rows, columns = config.chunk_size, config.action_dim
    if profile is None:
        return rows, columns
    rows, columns, problems = crop_chunk(profile, rows, columns)
    if problems:
        raise ConfigurationError(f'{request.model}: robot file', problems)
    return rows, columns


def _action_names(
    config: Pi0Config, request: LoadRequest, processor_names: Sequence[str], columns: int
) -> tuple[str, ...]:
    """Return one label per column: the robot's, else the checkpoint's, else numbers."""
    if request.profile is not None and request.profile.action_names:
        return tuple(request.profile.action_names)
    for names in (processor_names, config.action_names):
        if len(names) >= columns and len(names) == config.action_dim:
            return tuple(names[:columns])
    return tuple(f'action_{index}' for index in range(columns))
